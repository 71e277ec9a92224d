"""What `deltaformer` accepts: shapes, dtypes, devices, names, scales, and the layout its torch forms compute in."""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Real

import torch
from torch import Tensor

from kernels.similarity import SIMILARITIES, default_scale

Number = float | Real | Tensor  # a tensor of one number, without gradient
Scale = Number | tuple[Number | None, Number | None] | None
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def choose_write_query(q: Tensor, k: Tensor, w: Tensor | None, tied: bool | None) -> Tensor:
    """The tensor of write queries, which is q itself in the tied case."""
    if tied:
        if w is not None and w is not q:
            raise ValueError("tied=True means w = q; expected w to be left out or to be q itself")
        return q
    if w is q and tied is not None:
        raise ValueError("tied=False with w = q; leave tied out, or pass another tensor as w")
    return k if w is None else w


def check(
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
            other = "" if k.dtype == torch.float32 else ", or float32"
            raise ValueError(f"{name} has dtype {_word(gate.dtype)}; expected k's, {_word(k.dtype)}{other}")
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


def both_scales(scale: Scale, write: str, read: str, k: Tensor) -> tuple[float, float]:
    """The pair (write, read) that `scale` means for keys k."""
    pair = scale if isinstance(scale, tuple) else (scale, scale)
    if len(pair) != 2:
        raise ValueError(f"scale has {len(pair)} entries; expected one number or the pair (write, read)")
    return one_scale(pair[0], write, "write", k), one_scale(pair[1], read, "read", k)


def one_scale(value: Number | None, similarity: str, stage: str, k: Tensor) -> float:
    """The scale that `value` means for one stage of keys k; any real number, of Python, numpy or a tensor."""
    if not isinstance(similarity, str) or similarity not in SIMILARITIES:
        raise ValueError(f"{stage} {similarity!r} is unknown; expected one of {', '.join(SIMILARITIES)}")
    if value is None:
        return default_scale(similarity, k.shape[3])
    number = _real(value)
    if not (math.isfinite(number) and number > 0):
        word = value if isinstance(value, Real) else f"a {type(value).__name__}"
        raise ValueError(f"scale of {stage} is {word}; expected a positive finite number")
    # scores are products of keys times the scale, and both must find room in the range of the precision
    dtype = torch.promote_types(k.dtype, torch.float32)
    room = 1000 if dtype == torch.float64 else 100
    if not 2.0**-room <= number <= 2.0**room:
        low, high = f"{2.0**-room:.3g}", f"{2.0**room:.3g}"
        raise ValueError(f"scale of {stage} is {number}; expected a number from {low} to {high} in {_word(dtype)}")
    return number


def _real(value: object) -> float:
    """A real number as a float, NaN for anything that is none."""
    if isinstance(value, Tensor):
        if value.ndim or value.requires_grad or value.is_meta or value.dtype == torch.bool or value.is_complex():
            return math.nan
        return float(value)
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_device(name: str) -> None:
    """Raise ValueError unless `name` is cpu, or cuda or cuda:N and torch sees that device."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is unknown; expected cpu or cuda") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} has no kernels; expected cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"torch sees no CUDA device {name!r} here; expected cpu")


def cuts(cu_seqlens: Tensor, length: int) -> list[int]:
    if cu_seqlens.is_meta:
        raise ValueError("cu_seqlens is on meta; expected a device that holds its values")
    bounds: list[int] = cu_seqlens.tolist()
    if bounds[0] != 0 or bounds[-1] != length or any(b < a for a, b in pairwise(bounds)):
        raise ValueError(f"cu_seqlens {bounds} does not rise from 0 to the length {length}")
    return bounds


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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
