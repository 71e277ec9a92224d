"""The public function: checks its arguments, chooses a form, brings tensors to that form's layout and back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from kernels import chunked, parallel, recurrent
from kernels.similarity import SIMILARITIES, default_scale

Scale = float | tuple[float | None, float | None] | None
TORCH_FORMS: dict[str, Callable[..., tuple[Tensor | None, Tensor]]] = {
    "recurrent": recurrent.forward,
    "parallel": parallel.forward,
    "chunked": chunked.forward,
}
FORMS = ("auto", *TORCH_FORMS, "triton")
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
TRITON_WIDTH = 256


def deltaformer(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    w: Tensor | None = None,
    alpha: Tensor | None = None,
    beta: Tensor | None = None,
    write: str = "softmax",
    read: str = "softmax",
    scale: Scale = None,
    tied: bool | None = None,
    form: str = "auto",
    cu_seqlens: Tensor | None = None,
    return_u: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """DeltaFormer (P eq. 41-42): u_t = α_t v_t − β_t Σ_{i<t} κ₁(k_i, w_t) u_i and o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i.

    Shapes, T ≥ 0: q [B, T, H_q, D]; k [B, T, H, D]; v [B, T, H, Dv]; w [B, T, H, D]; alpha, beta [B, T, H]. H_q is a
    multiple of H, and query head h reads key head h // (H_q / H). Returns o [B, T, H_q, Dv] in v's dtype, and with
    `return_u` also u [B, T, H, Dv].

    w: the write queries; k by default (D App. E). w = q, given as the same tensor or by `tied=True`, is the tied case
      of flash-linear-attention; with softmax twice and one scale its o costs no second pass.
    alpha, beta: gates, 1 by default. beta = 0 with alpha = 1 is causal attention.
    write, read: κ₁, κ₂, each one of softmax, exp, linear, relu, round, solu, taken of scale·(x·y). Softmax is over
      i < t for writing, i ≤ t for reading; an empty row is zero.
    scale: one positive number for both, or a pair (write, read); None means, for each of the two by itself, 1/√D for
      softmax, exp and solu, 1 for linear, relu and round.
    form: recurrent (float64 whatever the inputs, the oracle), parallel, chunked, triton; auto is triton where tensors
      are on a CUDA device, triton supports their dtype and widths, and no gradient is asked for, else chunked. Forms
      other than recurrent compute in float32, or float64 for float64 inputs. Only the torch forms have gradients.
    cu_seqlens: [N + 1] integers from 0 to T that cut the one row of a batch (B = 1) into N sequences. Triton reads
      them on the device, without waiting for them and so without checking their values; the torch forms fetch and
      check them.

    Raises ValueError where shapes, dtypes, devices, names or numbers do not fit, saying what would.
    """
    write_query = _write_query(q, k, w, tied)
    _check(q, k, v, write_query, alpha, beta, cu_seqlens)
    both = scale if isinstance(scale, tuple) else (scale, scale)
    if len(both) != 2:
        raise ValueError(f"scale has {len(both)} entries; expected one number or the pair (write, read)")
    scales = (_scale(both[0], write, "write", k), _scale(both[1], read, "read", k))
    o, u = _run(q, k, v, write_query, alpha, beta, write, read, scales, form, cu_seqlens, return_u)
    assert o is not None
    if not return_u:
        return o
    assert u is not None
    return o, u


def write_values(
    k: Tensor,
    v: Tensor,
    *,
    w: Tensor | None = None,
    alpha: Tensor | None = None,
    beta: Tensor | None = None,
    write: str = "softmax",
    scale: float | None = None,
    form: str = "auto",
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """The first stage alone, u [B, T, H, Dv] (P eq. 41); arguments as for `deltaformer`."""
    write_query = k if w is None else w
    _check(None, k, v, write_query, alpha, beta, cu_seqlens)
    scales = (_scale(scale, write, "write", k), 1.0)
    _, u = _run(None, k, v, write_query, alpha, beta, write, "linear", scales, form, cu_seqlens, True)
    assert u is not None
    return u


def _run(
    q: Tensor | None,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor | None,
    beta: Tensor | None,
    write: str,
    read: str,
    scale: tuple[float, float],
    form: str,
    cu_seqlens: Tensor | None,
    want_u: bool,
) -> tuple[Tensor | None, Tensor | None]:
    tensors = [x for x in (q, k, v, w, alpha, beta) if x is not None]
    form = _choose(form, tensors)
    if not k.shape[0] or not k.shape[1]:
        return (None if q is None else v.new_zeros(*q.shape[:3], v.shape[3])), torch.zeros_like(v)
    tied = w is q
    if form == "triton":
        from kernels import triton_forward

        return triton_forward.forward(
            q, k, v, w, alpha, beta, write, read, scale, tied, cu_seqlens, want_u=want_u, want_o=q is not None
        )
    bounds = [0, k.shape[1]] if cu_seqlens is None else _bounds(cu_seqlens, k.shape[1])
    outputs: list[tuple[Tensor | None, Tensor]] = []
    for start, stop in pairwise(bounds):
        if stop > start:
            part = [None if x is None else x[:, start:stop] for x in (q, k, v, w, alpha, beta)]
            outputs.append(TORCH_FORMS[form](*heads_first(*part), write, read, scale, tied))  # type: ignore[arg-type]
    u = torch.cat([u for _, u in outputs], 2).transpose(1, 2).to(v.dtype)
    if q is None:
        return None, u
    o = torch.cat([o for o, _ in outputs if o is not None], 3)  # [B, H, G, T, Dv]
    return o.flatten(1, 2).transpose(1, 2).to(v.dtype), u


def heads_first(
    q: Tensor | None, k: Tensor, v: Tensor, w: Tensor, alpha: Tensor | None, beta: Tensor | None
) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The torch forms' layout and precision: k, v, w [B, H, T, ·], q [B, H, G, T, D], gates [B, H, T, 1]."""
    dtype = torch.promote_types(v.dtype, torch.float32)
    one = torch.ones((), dtype=dtype, device=v.device).expand(*v.shape[:3])
    a, b = ((one if x is None else x.to(dtype)).transpose(1, 2).unsqueeze(-1) for x in (alpha, beta))
    grouped = None if q is None else q.to(dtype).transpose(1, 2).unflatten(1, (k.shape[2], -1))
    k, v, w = (x.to(dtype).transpose(1, 2) for x in (k, v, w))
    return grouped, k, v, w, a, b


def _choose(form: str, tensors: Sequence[Tensor]) -> str:
    """The form to run; raises ValueError where it is unknown or cannot take these tensors."""
    if form not in FORMS:
        raise ValueError(f"form {form!r} is unknown; expected one of {', '.join(FORMS)}")
    if form == "auto":
        return "triton" if tensors[0].is_cuda and _obstacle(tensors) is None else "chunked"
    obstacle = _obstacle(tensors) if form == "triton" else None
    if obstacle is not None:
        raise ValueError(f"form 'triton' {obstacle}; use form='chunked'")
    return form


def _obstacle(tensors: Sequence[Tensor]) -> str | None:
    """Why the Triton kernel cannot take these tensors, or None."""
    first = tensors[0]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return "has no gradient"
    if first.dtype == torch.float64:
        return "does not compute in float64"
    widest = max(x.shape[3] for x in tensors if x.ndim == 4)
    if widest > TRITON_WIDTH:
        return f"takes widths up to {TRITON_WIDTH}, not {widest}"
    if first.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return "needs a CUDA device, or TRITON_INTERPRET=1 in the environment to interpret it on a CPU"
    if first.device.type == "cpu" and first.dtype == torch.bfloat16:
        return "cannot be interpreted in bfloat16, whose products Triton's interpreter computes wrongly"
    if first.device.type not in ("cpu", "cuda"):
        return f"does not run on {first.device.type}"
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        return "needs triton, which is not installed"
    return None


def _write_query(q: Tensor, k: Tensor, w: Tensor | None, tied: bool | None) -> Tensor:
    """The tensor of write queries, which is q itself in the tied case."""
    if tied:
        if w is not None and w is not q:
            raise ValueError("tied=True means w = q; expected w to be left out or to be q itself")
        return q
    if w is q and tied is not None:
        raise ValueError("tied=False with w = q; leave tied out, or pass another tensor as w")
    return k if w is None else w


def _check(
    q: Tensor | None,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor | None,
    beta: Tensor | None,
    cu_seqlens: Tensor | None,
) -> None:
    named = {"q": q, "k": k, "v": v, "w": w, "alpha": alpha, "beta": beta, "cu_seqlens": cu_seqlens}
    for name, x in named.items():
        if x is not None and not isinstance(x, Tensor):
            raise ValueError(f"{name} is a {type(x).__name__}; expected a torch tensor")
    if k.ndim != 4 or not k.shape[2] or not k.shape[3]:
        raise ValueError(f"k has shape {list(k.shape)}; expected [B, T, H, D] with H and D at least 1")
    batch, length, heads, width = k.shape
    if v.ndim != 4 or v.shape[:3] != k.shape[:3] or not v.shape[3]:
        raise ValueError(f"v has shape {list(v.shape)}; expected {[batch, length, heads]} and a width of at least 1")
    if q is not None and (
        q.ndim != 4 or q.shape[:2] != k.shape[:2] or q.shape[3] != width or not q.shape[2] or q.shape[2] % heads
    ):
        raise ValueError(
            f"q has shape {list(q.shape)}; expected [{batch}, {length}, a multiple of {heads}, {width}] for k's shape"
        )
    if w.shape != k.shape:
        hint = "; the tied case needs as many query heads as key heads" if w is q else ""
        raise ValueError(f"w has shape {list(w.shape)}; expected k's {list(k.shape)}{hint}")
    for name, gate in (("alpha", alpha), ("beta", beta)):
        if gate is not None and gate.shape != k.shape[:3]:
            raise ValueError(f"{name} has shape {list(gate.shape)}; expected {[batch, length, heads]}")
    if k.dtype not in DTYPES:
        raise ValueError(f"k has dtype {_word(k.dtype)}; expected one of {', '.join(map(_word, DTYPES))}")
    for name, x in (("q", q), ("v", v), ("w", w)):
        if x is not None and x.dtype != k.dtype:
            raise ValueError(f"{name} has dtype {_word(x.dtype)}; expected k's, {_word(k.dtype)}")
    for name, gate in (("alpha", alpha), ("beta", beta)):
        if gate is not None and gate.dtype not in (k.dtype, torch.float32):
            raise ValueError(f"{name} has dtype {_word(gate.dtype)}; expected k's, {_word(k.dtype)}, or float32")
    for name, x in named.items():
        if x is not None and x.device != k.device:
            raise ValueError(f"{name} is on {x.device}; expected k's device, {k.device}")
    if cu_seqlens is not None:
        if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2 or cu_seqlens.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"cu_seqlens is {_word(cu_seqlens.dtype)} of shape {list(cu_seqlens.shape)}; "
                "expected int32 or int64 of shape [N + 1] with N at least 1"
            )
        if batch != 1:
            raise ValueError(f"cu_seqlens with a batch of {batch}; expected the sequences in one row, B = 1")


def _scale(value: float | None, similarity: str, stage: str, k: Tensor) -> float:
    if similarity not in SIMILARITIES:
        raise ValueError(f"{stage} {similarity!r} is unknown; expected one of {', '.join(SIMILARITIES)}")
    if value is None:
        return default_scale(similarity, k.shape[3])
    if not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"scale of {stage} is {value}; expected a positive finite number")
    return float(value)


def _bounds(cu_seqlens: Tensor, length: int) -> list[int]:
    bounds: list[int] = cu_seqlens.tolist()
    if bounds[0] != 0 or bounds[-1] != length or any(b < a for a, b in pairwise(bounds)):
        raise ValueError(f"cu_seqlens {bounds} does not rise from 0 to the length {length}")
    return bounds


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
