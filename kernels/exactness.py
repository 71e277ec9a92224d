"""When 16-bit and float32 arithmetic is integer arithmetic: what a type holds, and how large keys' products may be.

κ = round(x/s) of an integer product x is the integer that exact division gives if x itself is exact, |x| < 2²⁴, and if
x/s as float32 has it cannot cross a half. x/s is at least 1/(2s) from a half that it is not equal to; multiplied by
1/s it is off by at most x/s·2⁻²³, which is less while |x| < 2²². Where s is a power of two nothing is rounded. Ties are
kernels.triton_forward.score_of's affair.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kernels.similarity import whole_divisor

# every integer up to here is held exactly
INTEGERS = {torch.bfloat16: 2**8, torch.float16: 2**11, torch.float32: 2**24, torch.float64: 2**53}
EXACT_SUM = 2**24  # of float32


def product_limit(scale: int) -> int:
    """|x| below which float32 rounds x/scale as exact arithmetic does."""
    return EXACT_SUM if scale & (scale - 1) == 0 else 2**22


def largest_key(z: np.ndarray) -> int:
    """The largest entry, in size, of integer keys z [n, d] and of their differences."""
    return max(max(int(b) - int(a), int(b), -int(a)) for a, b in zip(z.min(0), z.max(0)))


def largest_product(z: np.ndarray) -> int:
    """A bound on |x·y|, and on its partial sums, for x and y among integer keys z [n, d] and their differences."""
    crude = z.shape[1] * largest_key(z) ** 2
    if crude >= 2**63:
        return crude
    wide = z.astype(np.int64)
    return min(crude, 4 * int(np.einsum("ij,ij->i", wide, wide).max()))  # |z_i − z_j|² ≤ 4 max|z|²


def check_exact_score(write: str, scale: float) -> None:
    """Raise ValueError unless κ of integers is an integer."""
    whole = scale >= 1 and scale == round(scale)
    if write not in ("round", "linear", "relu") or not (whole or (write == "round" and whole_divisor(scale))):
        raise ValueError(
            f"write {write!r} with scale {scale} does not keep integers; expected round with a scale of 1/s or s, or "
            "linear or relu with a scale of s, for a whole number s"
        )


def not_certified(
    w: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor | None,
    beta: Tensor | None,
    u: Tensor,
    write: str,
    scale: float,
) -> Tensor:
    """0 where a zero residual of (I + A) u = α v proves u, else 1: one int32 on the device, which is not waited for.

    It is a proof if all inputs and u are integers, κ and β κ are integers that the operands' type holds, κ is the one
    that exact arithmetic gives, and no sum that rows of u are made of or checked by can reach 2²⁴. |κ| is bounded
    by Cauchy-Schwarz, scale·max‖w‖·max‖k‖, a row's sum by max|κ|·Σ|u| over all rows: O(T) work, and never too small.
    """
    gates = [x for x in (alpha, beta) if x is not None]
    whole = torch.stack([(x == x.round()).all() for x in (w, k, v, u, *gates)]).all()
    squares = [x.float().square().sum(-1).amax().double() for x in ((w,) if w is k else (w, k))]
    # float32 sums of up to 256 squares are off by less than 2⁻¹⁵
    product = (squares[0] * squares[-1]).sqrt() * (1 + 2.0**-14)
    kappa = product * scale
    if write == "round":
        kappa = (kappa + 0.5).floor()
    size_a, size_b = (1.0 if x is None else x.abs().amax().double().clamp(min=1) for x in (alpha, beta))
    weight = kappa * size_b
    size_u = u.abs().amax().double()
    # sums of whole numbers below 2²⁴ are exact in float32, and others do not come out below it
    sums = weight * u.float().abs().sum(1).amax().double() + size_a * v.abs().amax().double() + size_u
    sound = (product < product_limit(whole_divisor(scale) or 1)) & (weight <= INTEGERS[u.dtype]) & (sums < EXACT_SUM)
    return (~(whole & sound)).to(torch.int32)  # NaN is not below anything
