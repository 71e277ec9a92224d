"""How far rounding can move u and o: a bound for every row, and the measured error beside it.

Writing stage. A form that rounds solves, instead of (I + A) u = α v with A = β κ₁, the system (I + A + ΔA) û = α v + r,
where |ΔA| and |r| are a few units of roundoff of |A| and |α v|, plus what the error of the scores does to κ₁. Then
e = |û − u| satisfies e ≤ |(I+A)⁻¹| (|ΔA| (|u| + e) + r). |(I+A)⁻¹| |ΔA| is strictly lower triangular, so this solves
exactly for e and holds for errors of any size, not only to first order (Higham, Accuracy and Stability of Numerical
Algorithms, ch. 7-8). Reading stage. |ô − o| ≤ |ΔA₂| (|u| + e) + |A₂| e.

So u's error carries the factor |(I+A)⁻¹|, and o only averages it where κ₂ is a softmax: max |δo| ≤ max |δu| plus the
reading's own rounding (D App. F: u is less stable than o). It can be as large: a row reading u_t alone has o_t = u_t.

A row's error is its worst component. Bounds are computed in float64 and include the oracle's own rounding. Where a
number may leave the range of the form's precision, every bound of that head is infinite: masked matrix products
multiply the infinity by zero, so that not even the rows before it are safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from kernels.arguments import Scale, both_scales, check, choose_write_query, cuts, heads_first
from kernels.attention import deltaformer
from kernels.similarity import scaled, weights

TILE = 128  # no tile of the Triton kernels has more rows
SUBBLOCK = 16  # rows of a tile that they solve by substitution in float32
LEFT_OUT = 2.0**-16  # share of a tile's largest u that factors left out of the inverse may make (hopper_inverse)


@dataclass(frozen=True)
class Arithmetic:
    """Unit roundoffs of a form: of sums and functions, of κ and u as operands of a product, and of what it returns.

    `limit` is the largest number it can hold, `output_limit` the largest it can return, `tiny` the largest error of an
    operand that underflows. `tiled`: diagonal blocks are solved as the Triton kernels do, with rounded operands.
    """

    accumulate: float
    operand: float = 0.0
    output: float = 0.0
    tiny: float = 0.0
    tiled: bool = False
    limit: float = math.inf
    output_limit: float = math.inf


@dataclass(frozen=True)
class RowErrors:
    """Worst component of each row: error of o [B, T, H_q] and u [B, T, H], its bound, and the oracle's size there."""

    o: Tensor
    u: Tensor
    o_bound: Tensor
    u_bound: Tensor
    o_size: Tensor
    u_size: Tensor

    def worst_ratio(self) -> float:
        """The largest error over its bound: above 1, or NaN, the form is wrong or the model is. See `unbounded`."""
        pairs = ((self.o, self.o_bound), (self.u, self.u_bound))
        ratios = torch.cat([torch.where((e == 0) | b.isinf(), 0.0, e / b).flatten() for e, b in pairs])
        return float(ratios.max()) if ratios.numel() else 0.0

    @property
    def unbounded(self) -> int:
        """How many rows nothing is said about, because a number of their head may overflow."""
        return int(self.o_bound.isinf().sum() + self.u_bound.isinf().sum())


def arithmetic(form: str, dtype: torch.dtype) -> Arithmetic:
    """The arithmetic of one of the forms on inputs of `dtype`."""
    own = torch.finfo(dtype)
    output = own.eps / 2
    if form == "recurrent":
        return Arithmetic(2.0**-53, output=output, output_limit=own.max)
    compute = torch.finfo(torch.promote_types(dtype, torch.float32))
    if form != "triton":
        return Arithmetic(compute.eps / 2, output=output, limit=compute.max, output_limit=own.max)
    tiny = own.smallest_normal * output
    return Arithmetic(compute.eps / 2, output, output, tiny, True, limit=own.max, output_limit=own.max)


def measure(
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
    form: str = "chunked",
    cu_seqlens: Tensor | None = None,
) -> RowErrors:
    """The error of `form` against the float64 oracle on the same numbers, and its bound, row by row."""
    w = choose_write_query(q, k, w, tied)
    names: dict[str, Any] = {"write": write, "read": read, "scale": scale}
    packed: dict[str, Any] = {"cu_seqlens": cu_seqlens}
    o, u = deltaformer(q, k, v, w=w, alpha=alpha, beta=beta, form=form, return_u=True, **names, **packed)
    q_, k_, v_, w_ = q.double(), k.double(), v.double(), w.double()
    wide: dict[str, Any] = {"q": q_, "k": k_, "v": v_, "w": q_ if w is q else w_}
    wide |= {name: None if x is None else x.double() for name, x in (("alpha", alpha), ("beta", beta))}
    o_true, u_true = deltaformer(**wide, form="recurrent", return_u=True, **names, **packed)
    own = arithmetic(form, v.dtype)
    bounds = [bound(**part, arithmetic=own, **names) for part in sequences(wide, cu_seqlens)]
    o_bound, u_bound = (torch.cat(x, 1) for x in zip(*bounds))
    return RowErrors(
        o=(o.double() - o_true).abs().amax(-1),
        u=(u.double() - u_true).abs().amax(-1),
        o_bound=o_bound,
        u_bound=u_bound,
        o_size=o_true.abs().amax(-1),
        u_size=u_true.abs().amax(-1),
    )


def sequences(tensors: dict[str, Any], cu_seqlens: Tensor | None) -> list[dict[str, Any]]:
    """The parts of named tensors [B, T, …], or None, that belong to one sequence each."""
    length = tensors["k"].shape[1]
    if cu_seqlens is None or not length:
        return [tensors]
    ends = [(a, b) for a, b in pairwise(cuts(cu_seqlens, length)) if b > a]
    return [{name: None if x is None else x[:, a:b] for name, x in tensors.items()} for a, b in ends]


def bound(
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
    arithmetic: Arithmetic,
) -> tuple[Tensor, Tensor]:
    """Bounds on the error of each row of o [B, T, H_q] and u [B, T, H], for float64 copies of a form's inputs."""
    w = choose_write_query(q, k, w, None)
    check(q, k, v, w, alpha, beta, None)
    scales = both_scales(scale, write, read, k)
    q_, k_, v_, w_, a, b = heads_first(q.double(), k.double(), v.double(), w.double(), alpha, beta)
    assert q_ is not None
    if not k.numel():
        return q.new_zeros(q.shape[:3]), k.new_zeros(k.shape[:3])
    total_o = total_u = torch.zeros((), dtype=torch.float64)
    for one in (arithmetic, Arithmetic(2.0**-53)):  # the form's rounding and the oracle's
        o, u = _bound(q_, k_, v_, w_, a, b, write, read, scales, one)
        total_o, total_u = total_o + o, total_u + u
    return total_o.flatten(1, 2).transpose(1, 2), total_u.transpose(1, 2)


def _bound(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor,
    beta: Tensor,
    write: str,
    read: str,
    scale: tuple[float, float],
    arithmetic: Arithmetic,
) -> tuple[Tensor, Tensor]:
    length = k.shape[2]
    unit = arithmetic.accumulate
    terms = torch.arange(1, length + 1, dtype=k.dtype, device=k.device)[:, None]  # in each row's sum
    causal = torch.ones(length, length, dtype=torch.bool, device=k.device).tril()
    identity = torch.eye(length, dtype=k.dtype, device=k.device)
    kappa, kappa_error = _similarity_error(write, w, k, scale[0], causal.tril(-1), arithmetic)
    a = beta * kappa
    inverse = torch.linalg.solve_triangular(a, identity.expand_as(a), upper=False, unitriangular=True)
    u = inverse @ (alpha * v)
    # κ and u as rounded operands, the products by α and β, and the sum of up to T + 1 terms in whatever order
    perturbation = beta.abs() * kappa_error + (_gamma(terms + 4, unit) + 2 * arithmetic.operand) * a.abs()
    residual = _gamma(terms + 4, unit) * (alpha * v).abs()
    if arithmetic.tiled:
        residual = residual + _tile_residual(write, a, inverse, u, arithmetic)
    amplified = inverse.abs() @ perturbation
    start = inverse.abs() @ (perturbation @ u.abs() + residual)
    error = torch.linalg.solve_triangular(-amplified, start, upper=False, unitriangular=True)
    own = arithmetic.output * (u.abs() + error) + arithmetic.tiny
    largest = [kappa.abs(), u.abs() + error, a.abs() @ (u.abs() + error)]
    kappa, kappa_error = _similarity_error(read, q, k.unsqueeze(2), scale[1], causal, arithmetic)
    kappa_error = kappa_error + (_gamma(terms + 4, unit) + 2 * arithmetic.operand) * kappa.abs()
    sized, error_ = (u.abs() + error).unsqueeze(2), error.unsqueeze(2)
    o_error = kappa_error @ sized + kappa.abs() @ error_
    o_size = kappa.abs() @ sized
    o_own = arithmetic.output * (o_size + o_error) + arithmetic.tiny
    largest += [kappa.abs().flatten(2, 3), o_size.flatten(2, 3)]
    overflow = ~(torch.stack([x.amax((-1, -2)) for x in largest]).amax(0) <= arithmetic.limit)  # [B, H], NaN too
    return (
        _bounded((o_error + o_own).amax(-1), o_size.amax(-1), overflow[:, :, None, None], arithmetic),
        _bounded((error + own).amax(-1), (u.abs() + error).amax(-1), overflow[:, :, None], arithmetic),
    )


def _bounded(error: Tensor, size: Tensor, overflow: Tensor, arithmetic: Arithmetic) -> Tensor:
    """The bound, infinite where numbers may have left the range."""
    return error.masked_fill(overflow | ~(size + error <= arithmetic.output_limit), math.inf)


def _gamma(terms: Any, unit: float) -> Any:
    """γ_n = nε/(1 − nε), the relative error of n roundings."""
    return terms * unit / (1 - terms * unit)


def _similarity_error(
    name: str, x: Tensor, k: Tensor, scale: float, visible: Tensor, arithmetic: Arithmetic
) -> tuple[Tensor, Tensor]:
    """κ of all pairs, and how far it may be off before it meets u: by the scores' sums and by the function itself."""
    unit = arithmetic.accumulate
    scores = scaled(x @ k.mT, scale)
    slack = _gamma(k.shape[-1] + 2, unit) * scale * (x.abs() @ k.abs().mT) + 2 * unit * scores.abs()
    kappa = weights(name, scores, visible)
    if name == "softmax":
        # the largest score is subtracted, so every exponent's rounding is measured by the largest one in the row
        terms = visible.sum(-1, keepdim=True)
        slack = slack + 2 * unit * (scores.abs() * visible).amax(-1, keepdim=True) + unit * torch.log(terms + 1.0)
        total = slack + (slack * visible).amax(-1, keepdim=True)
        error = kappa * (torch.expm1(total) + _gamma(terms + 8, unit))
    elif name == "exp":
        error = kappa * (torch.expm1(slack) + 4 * unit)
    elif name == "solu":
        error = (1 + scores).abs().add(slack) * torch.exp(scores + slack) * slack + 6 * unit * kappa.abs()
    elif name == "round":
        highest, lowest = torch.floor(scores + slack + 0.5), torch.ceil(scores - slack - 0.5)
        error = torch.maximum(highest - kappa, kappa - lowest)
    elif name in ("linear", "relu"):  # neither grows by more than its argument
        error = slack
    else:
        raise ValueError(f"no error bound is known for similarity {name!r}")
    return kappa, (error + arithmetic.tiny).masked_fill(~visible, 0.0)


def _tile_residual(write: str, a: Tensor, inverse: Tensor, u: Tensor, arithmetic: Arithmetic) -> Tensor:
    """What the solution of the tiles on the diagonal leaves behind in (I + A) u = right side, r.

    Substitution by subblocks X = (I + A₁₆)⁻¹: each row of û is off by a few operand roundings of |X| (|r| + |A| |u|).
    Softmax's product form: the term A^j of the inverse is a product of j factors, each rounded a few times on its way
    through the squarings, so ΔX is that many roundings of Σ j |A|^j = |A| (I − |A|)⁻². And factors may be left out.
    """
    operand, accumulate = arithmetic.operand, _gamma(TILE, arithmetic.accumulate)
    pieces = []
    for start in range(0, a.shape[-1], TILE):
        rows = slice(start, start + TILE)
        own, within = u[..., rows, :].abs(), a[..., rows, rows].abs()
        right = own + within @ own
        if write == "softmax":
            twice = right
            for _ in range(2):
                twice = torch.linalg.solve_triangular(-within, twice, upper=False, unitriangular=True)
            off = (9 * operand + 3 * accumulate) * (within @ twice) + LEFT_OUT * own.amax(-2, keepdim=True)
        else:
            place = torch.arange(own.shape[-2], device=a.device) // SUBBLOCK
            same = place[:, None] == place
            off = (6 * operand + 3 * accumulate) * ((inverse[..., rows, rows].abs() * same) @ right)
            within = within * same
        pieces.append(off + within @ off)
    return torch.cat(pieces, -2)


def amplification(
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
) -> tuple[float, float]:
    """‖(I+A)⁻¹ diag(α)‖∞ and ‖A₂ (I+A)⁻¹ diag(α)‖∞, of the worst head: how far a change of v can move u, and o.

    The largest sum of |∂u_t/∂v_i| over i, and of |∂o_t/∂v_i|; 0 for an empty sequence.
    """
    w = choose_write_query(q, k, w, None)
    check(q, k, v, w, alpha, beta, None)
    scales = both_scales(scale, write, read, k)
    q_, k_, _, w_, a, b = (x.double() for x in heads_first(q, k, v, w, alpha, beta) if x is not None)
    length = k_.shape[2]
    if not k_.numel():
        return 0.0, 0.0
    causal = torch.ones(length, length, dtype=torch.bool, device=k.device).tril()
    strict = b * weights(write, scaled(w_ @ k_.mT, scales[0]), causal.tril(-1))
    diagonal = torch.diag_embed(a.squeeze(-1))
    du = torch.linalg.solve_triangular(strict, diagonal, upper=False, unitriangular=True)
    do = weights(read, scaled(q_ @ k_.unsqueeze(2).mT, scales[1]), causal) @ du.unsqueeze(2)
    return float(du.abs().sum(-1).max()), float(do.abs().sum(-1).max())
