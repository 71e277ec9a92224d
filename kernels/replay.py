"""Theorem 1 replayed by the kernel that is meant to be used, on integers: `python -m kernels.replay KEYS.npz`.

KEYS.npz holds integer keys `z` [n, d] and their `scale` s: slot i's key is z_i/√s. A replay writes n values, ±1 codes,
then swaps random pairs of slots for as long as asked, each swap t₂ < t₁ one written key z_{t₁} − z_{t₂} with value 0
(P App. E). κ = round(x·y/s) on both sides. Two things are compared with the permutation that the swaps make:
every u_t, which must be the difference of the two values that trade places, and at checkpoints the contents of all n
slots, read out by plain float32 products that share no code with the kernel.

Everything is exact or refused: operands are integers that bf16 holds (up to 256), every product of keys is so small
that float32 rounds its κ as exact arithmetic does, every sum that could occur is below 2²⁴, and the kernel certifies
each block of u by a zero residual. With `rewrite` the slots are read out and written afresh after every so many swaps,
which is how a bounded cache runs for ever (P E.3).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from zipfile import BadZipFile

import numpy as np
import torch

from kernels import triton_forward
from kernels.arguments import check_device
from kernels.exactness import EXACT_SUM, INTEGERS, largest_key, largest_product, product_limit
from kernels.provenance import surroundings

EXACT_OPERAND = INTEGERS[torch.bfloat16]
READ_BYTES = 2**28


@dataclass(frozen=True)
class Checkpoint:
    """All n slots read out after `steps` swaps: how many are wrong, and by how much at most."""

    steps: int
    wrong_slots: int
    max_error: float


@dataclass(frozen=True)
class Replay:
    """What a replay found. `exact`: every u_t and every slot read out is the integer it must be."""

    n: int
    d: int
    scale: int
    values: int
    steps: int
    rewrite: int | None
    seed: int
    wrong_writes: int
    uncertified: int
    checkpoints: tuple[Checkpoint, ...]
    write_seconds: float

    @property
    def exact(self) -> bool:
        return not (self.wrong_writes or self.uncertified or any(c.wrong_slots for c in self.checkpoints))


def read_keys(path: str | Path) -> tuple[np.ndarray, int]:
    """Integer keys `z` [n, d] and `scale` of an .npz file; ValueError with one line where it holds no such thing."""
    try:
        with np.load(path) as stored:
            z, scale = stored["z"], stored["scale"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as problem:
        raise ValueError(f"expected an .npz file with arrays z and scale: {problem}") from None
    if z.ndim != 2 or 0 in z.shape or not np.issubdtype(z.dtype, np.integer):
        raise ValueError(f"expected integer keys z [n, d], got {z.dtype} of shape {z.shape}")
    if scale.size != 1 or float(scale) != int(scale) or int(scale) < 1:
        raise ValueError(f"expected one whole number of at least 1 as scale, got {scale!r}")
    return z.astype(np.int64), int(scale)


def random_swaps(n: int, steps: int, seed: int) -> np.ndarray:
    """[steps, 2] slots t₂ < t₁ of each swap, uniform over pairs."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n, steps)
    second = (first + rng.integers(1, n, steps)) % n
    return np.stack([np.minimum(first, second), np.maximum(first, second)], 1)


def trace(n: int, swaps: np.ndarray, stops: list[int]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Which values the slots of each swap hold before it [steps, 2], and what all slots hold after `stops` swaps."""
    held = list(range(n))
    met = np.empty_like(swaps)
    after = {}
    begin = 0
    for stop in stops:
        for t, (low, high) in enumerate(swaps[begin:stop].tolist(), begin):
            met[t] = held[low], held[high]
            held[low], held[high] = held[high], held[low]
        after[stop] = np.array(held)
        begin = stop
    return met, after


def check_exactness(z: np.ndarray, scale: int, length: int, largest_value: int) -> None:
    """Raise ValueError unless every number of a replay of `length` writes is an integer that is held exactly."""
    widest = largest_key(z)
    if widest > EXACT_OPERAND:
        raise ValueError(
            f"keys and their differences reach {widest}; bf16 holds integers exactly up to {EXACT_OPERAND}"
        )
    products, limit = largest_product(z), product_limit(scale)
    if products >= limit:
        raise ValueError(
            f"products of keys can reach {products}, float32 rounds them over {scale} rightly below {limit}"
        )
    # |κ| ≤ 2 and |u| ≤ 2·|value| where the lemma holds; where it does not, the comparison with the permutation fails
    sums = 4 * largest_value * length
    if sums >= EXACT_SUM:
        raise ValueError(f"sums over {length} writes can reach {sums}, float32 is exact below {EXACT_SUM}: use rewrite")


def replay(
    z: np.ndarray,
    scale: int,
    steps: int,
    seed: int,
    *,
    values: int = 64,
    checkpoints: int = 8,
    rewrite: int | None = None,
    device: str = "cuda",
) -> Replay:
    """Replay `steps` random swaps of the n slots of integer keys z [n, d], z_i·z_j / scale their inner products.

    Slots hold ±1 codes of `values` entries. Slots are read out at `checkpoints` evenly spaced times, or after every
    `rewrite` swaps, when they are also written afresh. Raises ValueError where exactness cannot be promised.
    """
    n, d = z.shape
    if n < 2 or min(steps, values, checkpoints) < 1 or (rewrite is not None and rewrite < 1):
        raise ValueError("a replay needs two keys and at least one step, one entry of a value and one checkpoint")
    segment = min(steps, rewrite or steps)
    check_exactness(z, scale, n + segment, 1)
    swaps = random_swaps(n, steps, seed)
    codes = np.random.default_rng([seed, 1]).integers(0, 2, (n, values)) * 2 - 1
    # Triton's interpreter multiplies bf16 wrongly, float32 is as exact
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    keys = torch.from_numpy(z).to(device, torch.float32)
    codes_there = torch.from_numpy(codes).to(device, torch.float32)
    uncertified = torch.zeros(1, dtype=torch.int32, device=device)
    held = np.arange(n)  # which code each slot holds
    contents = codes_there
    wrong_writes = torch.zeros((), dtype=torch.int64, device=device)
    found: list[Checkpoint] = []
    seconds = 0.0
    for begin in range(0, steps, segment):
        part = swaps[begin : begin + segment]
        pairs = torch.from_numpy(part).to(device)
        every = len(part) if rewrite else -(-len(part) // checkpoints)
        stops = [*range(every, len(part), every), len(part)]
        met, after = trace(n, part, stops)
        written = torch.cat([keys, keys[pairs[:, 1]] - keys[pairs[:, 0]]])
        zero = torch.zeros(len(pairs), values, device=device)
        # contents that bf16 does not hold are wrong already, and so is what is written in their place
        contents = contents.nan_to_num().round().clamp(-EXACT_OPERAND, EXACT_OPERAND)
        started = synchronised(device)
        u = write_exactly(written, torch.cat([contents, zero]), scale, dtype, uncertified)
        seconds += synchronised(device) - started
        now = codes_there[torch.from_numpy(held).to(device)]
        lower, upper = torch.from_numpy(met).to(device).unbind(1)
        expected = torch.cat([now, now[lower] - now[upper]])
        wrong_writes += (u != expected).any(1).sum()
        contents = torch.zeros_like(codes_there)
        read = 0
        for stop in stops:
            contents = contents + read_slots(keys, written[read : n + stop], u[read : n + stop], scale)
            read = n + stop
            error = (contents - now[torch.from_numpy(after[stop]).to(device)]).abs().amax(1)
            found.append(Checkpoint(begin + stop, int((error > 0).sum()), float(error.max())))
        held = held[after[len(part)]]
    wrong, open_ = int(wrong_writes), int(uncertified)
    return Replay(n, d, scale, values, steps, rewrite, seed, wrong, open_, tuple(found), seconds)


def write_exactly(
    keys: torch.Tensor, values: torch.Tensor, scale: int, dtype: torch.dtype, uncertified: torch.Tensor
) -> torch.Tensor:
    """u [T, d_v] as float32 for integer keys [T, d] and values [T, d_v], by the kernel, κ = round(x/scale), w = k.

    `uncertified` is as `inexact` for kernels.triton_forward.forward. Raises ValueError, for which it waits for the
    device, unless `dtype` holds all keys and values and they are integers.
    """
    k, v = keys.to(dtype)[None, :, None], values.to(dtype)[None, :, None]
    for name, given, held in (("keys", keys, k[0, :, 0]), ("values", values, v[0, :, 0])):
        if not bool(((held == given) & (held == held.round()) & held.isfinite()).all()):
            word = str(dtype).removeprefix("torch.")
            raise ValueError(
                f"{name} are not all integers that {word} holds, as it does every one up to {INTEGERS[dtype]}"
            )
    scales = (1 / scale, 1.0)
    _, u = triton_forward.forward(
        None, k, v, k, None, None, "round", "round", scales, False, None, True, False, inexact=uncertified
    )
    assert u is not None
    return u[0, :, 0].float()


def read_slots(slots: torch.Tensor, keys: torch.Tensor, u: torch.Tensor, scale: int) -> torch.Tensor:
    """Σ_i round(k_i·q/scale) u_i for every slot q: what these writes add to the contents [n, d_v] of all slots."""
    total = torch.zeros(len(slots), u.shape[1], device=u.device)
    rows = max(1, READ_BYTES // (4 * len(slots)))
    divisor = torch.full((), scale, dtype=torch.float32, device=u.device)
    for at in range(0, len(keys), rows):
        kappa = torch.round(slots @ keys[at : at + rows].T / divisor)
        total += kappa @ u[at : at + rows]
    return total


def synchronised(device: str) -> float:
    """The clock, once the device is done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return perf_counter()


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 0 if everything was exact, 1 if not, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m kernels.replay", description="Replay Theorem 1 on integers.")
    parser.add_argument("keys", help=".npz file with integer keys z [n, d] and their scale")
    parser.add_argument("--steps", type=int, default=1_000_000, help="swaps (1,000,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--values", type=int, default=64, help="entries of a value (64)")
    parser.add_argument("--checkpoints", type=int, default=8, help="times at which all slots are read out (8)")
    parser.add_argument("--rewrite", type=int, help="read out and write afresh after so many swaps (never)")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu under TRITON_INTERPRET=1 (cuda)")
    parser.add_argument("--json", help="file for the finding, with what it ran on")
    parser.add_argument("--commit", help="commit to name there, for a copy that has no git history")
    options = parser.parse_args(arguments)
    try:
        check_device(options.device)
        z, scale = read_keys(options.keys)
        found = replay(
            z,
            scale,
            options.steps,
            options.seed,
            values=options.values,
            checkpoints=options.checkpoints,
            rewrite=options.rewrite,
            device=options.device,
        )
        if options.json:
            command = f"python -m kernels.replay {Path(options.keys).name} --steps {found.steps} --seed {found.seed}"
            command += f" --rewrite {found.rewrite}" if found.rewrite else f" --checkpoints {options.checkpoints}"
            account = surroundings(command, options.commit)
            digest = hashlib.sha256(Path(options.keys).read_bytes()).hexdigest()
            finding = {**account, "keys_sha256": digest, **asdict(found), "exact": found.exact}
            Path(options.json).write_text(json.dumps(finding, indent=1) + "\n")
    except (ValueError, OSError, MemoryError) as problem:
        print(f"{parser.prog}: {problem}", file=sys.stderr)
        return 2
    last = found.checkpoints[-1]
    print(
        f"n = {found.n}, d = {found.d}, {found.steps} swaps, rewritten every {found.rewrite or '—'}: "
        f"{found.wrong_writes} wrong u, {found.uncertified} uncertified, {last.wrong_slots} wrong slots at the end, "
        f"{max(c.wrong_slots for c in found.checkpoints)} at worst; writes took {found.write_seconds:.3f} s"
    )
    return 0 if found.exact else 1


if __name__ == "__main__":
    sys.exit(main())
