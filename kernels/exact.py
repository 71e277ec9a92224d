"""DeltaFormer's linear algebra over any ring: arrays of Python integers, fractions or sympy expressions, no torch.

With them "the forms agree" is an identity, not a comparison up to rounding. A is strictly lower triangular [T, T] with
β in it, `right` is α v [T, Dv]; every function returns U with (I + A) U = right, or (I + A)⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]


def identity(size: int) -> Matrix:
    """The identity with Python integers as entries."""
    return np.array([[int(i == j) for j in range(size)] for i in range(size)], dtype=object).reshape(size, size)


def recurrent(a: Matrix, right: Matrix) -> Matrix:
    """u_t = right_t − Σ_{i<t} A_ti u_i, one row at a time (P eq. 41)."""
    u = right.copy()
    for t in range(1, len(a)):
        u[t] = right[t] - a[t, :t] @ u[:t]
    return u


def chunked(a: Matrix, right: Matrix, chunk: int, inverse: Callable[[Matrix], Matrix]) -> Matrix:
    """`chunk` rows at a time: subtract the past by one product, then apply the inverse of the diagonal block."""
    u = right.copy()
    for start in range(0, len(a), chunk):
        rows = slice(start, start + chunk)
        u[rows] = inverse(a[rows, rows]) @ (right[rows] - a[rows, :start] @ u[:start])
    return u


def product_inverse(a: Matrix) -> Matrix:
    """(I + A)⁻¹ = (I − A)(I + A²)(I + A⁴)…, ⌈log₂ C⌉ factors, because A^C = 0. Also for floating-point A."""
    one = identity(len(a)).astype(a.dtype)
    inverse, power, reached = one - a, a, 2
    while reached < len(a):
        power = power @ power
        inverse, reached = inverse @ (one + power), 2 * reached
    return inverse


def newton_inverse(a: Matrix) -> Matrix:
    """(I + A)⁻¹ by X ← X(2I − (I + A)X) from X = I − A: each step doubles the power of A that the residual holds."""
    one = identity(len(a)).astype(a.dtype)
    inverse, reached = one - a, 2
    while reached < len(a):
        inverse, reached = inverse @ (2 * one - (one + a) @ inverse), 2 * reached
    return inverse


def substitution_inverse(a: Matrix) -> Matrix:
    """(I + A)⁻¹ by the recurrence with the identity on the right. Also for floating-point A."""
    return recurrent(a, identity(len(a)).astype(a.dtype))


def row_sum_norm(matrix: Matrix) -> Any:
    """‖M‖∞, the largest sum of absolute values in a row."""
    return max(sum(map(abs, row)) for row in matrix)


def largest_growth(length: int) -> Fraction:
    """max |u_t| over t < length, row-stochastic A, 0 ≤ β ≤ 1 and |v| ≤ 1, by going through every extreme point.

    u_t is affine in each row of diag(β) A by itself and linear in v, so its maximum is at a vertex: each row of
    diag(β) A zero or one-hot, each v_i the sign of its coefficient, which makes |u_t| the t-th row sum of |(I+A)⁻¹|.
    """
    best = Fraction(0)
    rows: list[list[int]] = []  # of (I + A)⁻¹

    def extend() -> None:
        nonlocal best
        t = len(rows)
        if t == length:
            return
        own = [int(i == t) for i in range(length)]
        for i in [None, *range(t)]:
            row = own if i is None else [x - y for x, y in zip(own, rows[i])]
            best = max(best, Fraction(sum(map(abs, row))))
            rows.append(row)
            extend()
            rows.pop()

    extend()
    return best
