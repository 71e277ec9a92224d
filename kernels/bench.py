"""The price of DeltaFormer beside attention: `python -m kernels.bench` on a CUDA device.

Every shape is checked against float64 before it is timed, and every time stands beside FlashAttention-2's and cuDNN's
(torch's backends) and flash-linear-attention's, where that is installed, in the same run: medians of
triton.testing.do_bench, which empties the L2 cache between calls, over rotating inputs. The record says what ran on
what, the floors (operations, bytes, dependency chain) and how each goal came out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from kernels.attention import deltaformer, write_values
from kernels.provenance import surroundings
from kernels.replay import write_exactly

RECORD = Path(__file__).parents[1] / "reports" / "recorded" / "kernels.json"
PUBLISHED_CHUNKWISE_MS = 12.7  # D Table 6: u at [2, 32, 8192, 128], H100


@dataclass(frozen=True)
class Case:
    """A shape [B, T, H, D], and the share of FlashAttention-2's and of cuDNN's time that it may take."""

    case: str
    shape: tuple[int, int, int, int]
    goal: float
    beyond: float


LONG = ((2, 8192, 32, 128), (4, 8192, 16, 64), (1, 32768, 16, 128), (1, 65536, 8, 128))
FEW_HEADS, SHORT = (1, 8192, 16, 128), (4, 2048, 16, 64)
CASES = (
    *(Case("tied", shape, 0.90, 1.25) for shape in LONG),
    Case("tied", FEW_HEADS, 1.0, 1.5),
    Case("tied", SHORT, 1.1, 1.5),
    *(Case("untied", shape, 1.8, 2.3) for shape in (*LONG, FEW_HEADS, SHORT)),
)


def median_ms(call: Callable[[], Any], milliseconds: int = 150) -> float:
    """Median device time of a call."""
    return float(triton.testing.do_bench(call, warmup=25, rep=milliseconds, return_mode="median"))


def rotating(function: Callable[..., Any], inputs: list[tuple[Tensor, ...]]) -> Callable[[], Any]:
    """A call of `function` on each of the inputs in turn."""
    turn = itertools.cycle(inputs)
    return lambda: function(*next(turn))


def ceilings() -> dict[str, float]:
    """What the machine can do: a large bf16 matrix product in TFLOP/s, a large copy in TB/s (read and written)."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * size**3 / median_ms(lambda: a @ b) / 1e9
    source = torch.randn(2**30, device="cuda")
    there = torch.empty_like(source)
    copy = 2 * source.nbytes / median_ms(lambda: there.copy_(source)) / 1e9
    return {"matrix_product_tflops": product, "copy_tb_per_s": copy}


def floors(case: Case, limits: dict[str, float], link_us: float) -> dict[str, float]:
    """Times in ms under which the case cannot fall: its products, its bytes, its chain of 128-row tiles."""
    batch, time, heads, width = case.shape
    passes = 1 if case.case == "tied" else 2
    operations = passes * batch * heads * time * time * 2 * width
    tensors = 5 if case.case == "tied" else 7  # q, k, v, u, o, and for a second pass k and u again
    moved = tensors * batch * time * heads * width * 2
    return {
        "operations_ms": operations / limits["matrix_product_tflops"] / 1e9,
        "bytes_ms": moved / limits["copy_tb_per_s"] / 1e9,
        "chain_ms": -(-time // 128) * link_us / 1e3,
    }


def errors(case: Case, q: Tensor, k: Tensor, v: Tensor) -> dict[str, float]:
    """Relative errors of o and u against float64 on the last head: of all rows, and of the worst row.

    Raises AssertionError where an output is not finite or is further off than bf16 operands explain.
    """
    tied = case.case == "tied"
    o, u = deltaformer(q, k, v, tied=tied or None, return_u=True)
    one = [x[-1:, :, -1:].double() for x in (q, k, v)]
    o_true, u_true = deltaformer(*one, tied=tied or None, form="chunked", return_u=True)
    found = {}
    for name, ours, true in (("o", o, o_true), ("u", u, u_true)):
        assert ours.isfinite().all(), f"{name} is not finite at {case}"
        off = (ours[-1:, :, -1:].double() - true).norm(dim=-1)
        found[name] = float(off.norm() / true.norm())
        found[f"{name}_worst_row"] = float((off / true.norm(dim=-1)).max())
    assert found["o"] < 1e-2, f"{case} is off by {found}"
    assert found["u"] < 1e-2, f"{case} is off by {found}"
    return found


def attention_peer(backend: SDPBackend) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Causal attention of [B, H, T, D] by one of torch's backends."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=True)

    return run


def fla_peer() -> Callable[..., Tensor] | None:
    """flash-linear-attention's DeltaFormer, its readout done by torch's attention; None where it is not installed."""
    try:
        from fla.ops.deltaformer import parallel
    except ImportError:
        return None

    def readout(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
        first, second, third = (x.transpose(1, 2) for x in (q, k, v))
        return scaled_dot_product_attention(first, second, third, is_causal=True).transpose(1, 2)

    parallel.flash_attn_func = readout
    return parallel.deltaformer_attn


def run_case(case: Case, limits: dict[str, float], link_us: float, fla: Callable[..., Tensor] | None) -> dict[str, Any]:
    """One row of the record."""
    batch, time, heads, width = case.shape
    inputs = [tuple(torch.randn(case.shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)) for _ in range(3)]
    found = errors(case, *inputs[0])
    tied = case.case == "tied" or None
    ours = rotating(lambda q, k, v: deltaformer(q, k, v, tied=tied, return_u=True), inputs)
    ms = {"ours": median_ms(ours)}
    heads_first = [tuple(x.transpose(1, 2).contiguous() for x in each) for each in inputs]
    ms["fa2"] = median_ms(rotating(attention_peer(SDPBackend.FLASH_ATTENTION), heads_first))
    ms["cudnn"] = median_ms(rotating(attention_peer(SDPBackend.CUDNN_ATTENTION), heads_first))
    del heads_first
    if fla is not None and tied:
        ms["fla"] = median_ms(rotating(lambda q, k, v: fla(q, k, v), inputs), 250)
    again = median_ms(ours)
    operations = (1 if tied else 2) * batch * heads * time * time * 2 * width
    row: dict[str, Any] = {
        "case": case.case,
        "shape": list(case.shape),
        "ms": ms,
        "ours_again_ms": again,
        "tflops": operations / ms["ours"] / 1e9,
        "errors": found,
        "floors": floors(case, limits, link_us),
        "of_fa2": ms["ours"] / ms["fa2"],
        "of_cudnn": ms["ours"] / ms["cudnn"],
        "goal": {"of_fa2": case.goal, "met": ms["ours"] <= case.goal * ms["fa2"]},
        "beyond": {"of_cudnn": case.beyond, "met": ms["ours"] <= case.beyond * ms["cudnn"]},
    }
    if "fla" in ms:
        least = 10 if time <= 8192 else 5
        times = ms["fla"] / ms["ours"]
        row["fla_speedup"] = {"times": times, "goal": least, "met": times >= least}
    return row


def host_microseconds() -> dict[str, float]:
    """What a call costs the host, with too little to do for the device; short shapes cannot take less than that."""
    q, k, v = (torch.randn(4, 128, 16, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    times = {}
    for case, tied in (("tied", True), ("untied", None)):
        for calls in (20, 200):  # the first ones find the compiled kernels; more of them would fill the launch queue
            start = perf_counter()
            for _ in range(calls):
                deltaformer(q, k, v, tied=tied, return_u=True)
            times[case] = (perf_counter() - start) / calls * 1e6
            torch.cuda.synchronize()
    return times


def link_microseconds() -> float:
    """The dependency chain's price for 128 rows: the slope of a lone head's time, where little else is in the way."""
    times = []
    for length in (8192, 16384):
        inputs = [tuple(torch.randn(1, length, 1, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))]
        times.append(median_ms(rotating(lambda q, k, v: deltaformer(q, k, v, tied=True, return_u=True), inputs), 50))
    return (times[1] - times[0]) * 1e3 / (8192 / 128)


def exact_mode(limits: dict[str, float]) -> dict[str, Any]:
    """round on integers, one head: T = 1,000,000 ±1 keys of width 128, values of width 64, against a product's rate."""
    time, width, value_width = 1_000_000, 128, 64
    keys, values = (torch.randint(0, 2, (time, n), device="cuda").mul_(2).sub_(1).float() for n in (width, value_width))
    uncertified = torch.zeros(1, dtype=torch.int32, device="cuda")
    ms = median_ms(lambda: write_exactly(keys, values, width, torch.bfloat16, uncertified), 2000)
    rate = time * time * (width + value_width) / ms / 1e9
    share = rate / limits["matrix_product_tflops"]
    return {
        "T": time,
        "d": width,
        "d_v": value_width,
        "ms": ms,
        "tflops": rate,
        "of_matrix_product": share,
        "uncertified": int(uncertified),
        "goal": {"of_matrix_product": 0.4, "met": share >= 0.4},
        "beyond": {"of_matrix_product": 0.6, "met": share >= 0.6},
    }


def memory() -> dict[str, Any]:
    """Bytes that a call takes beyond its inputs, u and o, at the longest shape: O(T) and no more."""
    shape = (1, 65536, 8, 128)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    deltaformer(q, k, v, tied=True, return_u=True)
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before - 2 * q.nbytes
    return {"shape": list(shape), "bytes_beyond_inputs_u_and_o": extra, "bytes_of_one_row_block": 65536 * 128 * 2}


def u_alone() -> dict[str, float]:
    """u alone at D Table 6's shape, tied and untied, beside the published chunk-wise form's time for u."""
    q, k, v = (torch.randn(2, 8192, 32, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return {
        "w_equals_q_ms": median_ms(lambda: write_values(k, v, w=q)),
        "w_equals_k_ms": median_ms(lambda: write_values(k, v)),
        "published_chunkwise_ms": PUBLISHED_CHUNKWISE_MS,
    }


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 0, or 2 where there is nothing to measure on."""
    parser = argparse.ArgumentParser(prog="python -m kernels.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD, help="file to write (reports/recorded/kernels.json)")
    parser.add_argument("--commit", help="commit to name in the record, for a copy that has no git history")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(f"{parser.prog}: torch sees no CUDA device; expected one to measure on", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    record = surroundings("python -m kernels.bench", options.commit)
    record["ceilings"] = limits = ceilings()
    record["chain_link_us"] = link = link_microseconds()
    product, copy = limits.values()
    print(f"{record['device']}: {product:.0f} TFLOP/s, {copy:.2f} TB/s, {link:.1f} µs a link of the chain")
    fla = fla_peer()
    record["rows"] = []
    for case in CASES:
        row = run_case(case, limits, link, fla)
        record["rows"].append(row)
        times = ", ".join(f"{who} {ms:.3f}" for who, ms in row["ms"].items())
        print(
            f"{case.case:7}{case.shape!s:22}{times} ms: {row['of_fa2']:.2f} of FA2 (goal {case.goal}), "
            f"{row['of_cudnn']:.2f} of cuDNN (beyond {case.beyond}), {row['tflops']:.0f} TFLOP/s",
            flush=True,
        )
    record["u_alone"] = u_alone()
    record["memory"] = memory()
    record["exact"] = exact_mode(limits)
    record["host_us"] = host_microseconds()
    for name in ("u_alone", "memory", "exact", "host_us"):
        print(name, record[name], flush=True)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    written = options.record.with_suffix(".partial")
    written.write_text(json.dumps(record, indent=1) + "\n")
    written.replace(options.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
