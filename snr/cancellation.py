"""Sums that lose their digits: rewritten where a form without the difference is known, else looked up in tables.

tanh(x − 20) + 1 is 2/(1 + e^{40 − 2x}): as written it is 0 in floating point for x < 1. `without_cancellation` rewrites
such pairs of terms. Whatever sum still cancels at a point is evaluated by `Table` with as many digits as it takes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy

from snr.special import Conjugated, Expm1, Phi

Array = Any
MOST_TERMS = 12  # of a sum whose pairs are looked at
MOST_OPERATIONS = 60  # of a pair that is multiplied out
DIGITS = (40, 90, 250, 700, 2000)
NODES = 16  # of the polynomials through log |sum|
CELLS = 8  # to a factor of 2 in x
AGREE = 2e-13  # of a table's logarithm with the true one
ONE_BY_ONE = 2000  # points a call evaluated outside of tables


def without_cancellation(expression: sympy.Expr) -> sympy.Expr:
    """The same function with the pairs of terms that are known to cancel written in a form that does not."""
    if not expression.args:
        return expression
    parts = [without_cancellation(part) for part in expression.args]
    if isinstance(expression, sympy.log) and isinstance(parts[0], sympy.cosh):
        return sympy.log(1 + 2 * sympy.sinh(parts[0].args[0] / 2) ** 2, evaluate=False)
    if not isinstance(expression, sympy.Add):
        return expression if list(expression.args) == parts else expression.func(*parts)
    if len(parts) > MOST_TERMS:
        return sympy.Add(*parts)
    whole = sympy.Add(*parts)
    if most_terms(whole) <= MOST_TERMS:
        expanded = sympy.expand(whole)
        if expanded.count_ops() < whole.count_ops() and len(sympy.Add.make_args(expanded)) < len(parts):
            return without_cancellation(expanded)
    for first, second in itertools.permutations(parts, 2):
        joined = _joined(first, second)
        if joined is not None:
            rest = [p for p in parts if p is not first and p is not second]
            return sympy.Add(joined, *rest)
    return sympy.Add(*parts)


def most_terms(expression: sympy.Expr) -> int:
    """An upper bound on the number of terms when the expression is multiplied out."""
    if isinstance(expression, sympy.Add):
        return sum(most_terms(part) for part in expression.args)
    if isinstance(expression, sympy.Mul):
        return math.prod(most_terms(part) for part in expression.args)
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        n, k = int(expression.exp), most_terms(expression.base)
        return math.comb(n + k - 1, n)
    return 1


def _joined(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """a + b without the difference, or None where there is none or no form is known."""
    if b.is_number or a.has(sympy.exp):
        return _softplus(a, b)
    factor, size = (b / a).as_coeff_Mul()
    u = size.args[0] if size.args else size
    if factor == -sympy.S.Half and isinstance(size, sympy.erfc):  # 2 − erfc(u), which sympy makes of erfc(−u)
        return a * Phi(sympy.sqrt(2) * u)
    if abs(factor) == 1:
        match size:
            case sympy.exp() if factor < 0:
                return -a * Expm1(u)
            case sympy.tanh():
                return 2 * a / (1 + sympy.exp(-2 * factor * u))
            case sympy.erf():
                return 2 * a * Phi(factor * sympy.sqrt(2) * u)
            case sympy.erfc() if factor < 0:
                return a * sympy.erf(u)
            case Phi() if factor < 0:
                return a * Phi(-u)
            case sympy.cos():
                return 2 * a * (sympy.sin(u / 2) if factor < 0 else sympy.cos(u / 2)) ** 2
            case sympy.cosh() if factor < 0:
                return -2 * a * sympy.sinh(u / 2) ** 2
            case sympy.Pow() if factor < 0 and size.exp == -1 and isinstance(size.base - 1, sympy.exp):
                return a / (1 + sympy.exp(-(size.base - 1).args[0]))  # 1 − 1/(1 + e^u)
    return _roots(a, b) if _is_root(a) or _is_root(b) else _softplus(a, b)


def _is_root(term: sympy.Expr) -> bool:
    return any(f.is_Pow and abs(f.exp) == sympy.S.Half and f.free_symbols for f in sympy.Mul.make_args(term))


def _roots(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """a + b = (a² − b²)/(a − b) for where the signs of a and b differ."""
    if a.count_ops() + b.count_ops() > MOST_OPERATIONS:
        return None
    difference = sympy.factor(sympy.cancel(sympy.together(sympy.expand(a**2) - sympy.expand(b**2))))
    return Conjugated(a, b, difference) if difference.count_ops() < a.count_ops() + b.count_ops() else None


def _softplus(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """c·log(1 + e^u) − c·u = c·log(1 + e^{−u})."""
    for factor in sympy.Mul.make_args(a):
        if isinstance(factor, sympy.log) and factor.args[0].is_Add:
            u = [t.args[0] for t in factor.args[0].args if isinstance(t, sympy.exp)]
            if len(u) == 1 and factor.args[0] == 1 + sympy.exp(u[0]) and b == -(a / factor) * u[0]:
                return a / factor * sympy.log(1 + sympy.exp(-u[0]))
    return None


class Table:
    """An expression evaluated with as many digits as it takes, at a few points; at many, from piecewise polynomials.

    The polynomials go through log |value| over an eighth of a factor of 2 in the one argument that varies, and are
    checked against further points. Where they do not fit (a zero, a kink) each point is evaluated for itself, or left
    as it is where there are too many.
    """

    def __init__(self, expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> None:
        names = {"Phi": mpmath.ncdf, "Expm1": mpmath.expm1, "Conjugated": lambda a, b, c: a + b}
        self.function: Callable[..., Any] = sympy.lambdify(list(symbols), expression, modules=[names, "mpmath"])
        self.cells: dict[tuple[Any, ...], tuple[float, Array] | None] = {}

    def correct(self, values: tuple[Array, ...], lost: Array, sign: Array, log: Array) -> tuple[Array, Array]:
        """sign and log with the points in `lost` replaced; all arrays of one shape, values broadcast to it."""
        points = [np.broadcast_to(v, lost.shape)[lost] for v in values]
        new_sign, new_log, left = sign[lost].copy(), log[lost].copy(), np.ones(len(points[0]), dtype=bool)
        varying = [i for i, v in enumerate(values) if np.ndim(v) and np.size(v) > 1]
        if len(varying) == 1 and len(left) > NODES:
            self._from_cells(points, varying[0], new_sign, new_log, left)
        if left.sum() <= ONE_BY_ONE:
            for i in np.flatnonzero(left):
                new_sign[i], new_log[i] = self._precise([float(p[i]) for p in points]) or (new_sign[i], new_log[i])
        sign, log = np.array(sign, dtype=float), np.array(log, dtype=float)
        sign[lost], log[lost] = new_sign, new_log
        return sign, log

    def _from_cells(self, points: list[Array], axis: int, sign: Array, log: Array, left: Array) -> None:
        x = points[axis]
        mantissa, exponent = np.frexp(np.abs(x))
        eighth = np.minimum(((mantissa - 0.5) * 2 * CELLS).astype(int), CELLS - 1)
        code = (exponent.astype(np.int64) * CELLS + eighth) * 2 + (x > 0)
        fixed = tuple(float(p[0]) for i, p in enumerate(points) if i != axis)
        nodes = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
        weights = (-1.0) ** np.arange(NODES) * np.sin(np.pi * (np.arange(NODES) + 0.5) / NODES)
        for cell in np.unique(code[x != 0]):
            here = np.flatnonzero((code == cell) & (x != 0))
            middle, half = _span(int(cell))
            key = (axis, int(cell), *fixed)
            if key not in self.cells and len(here) > 3:
                self.cells[key] = self._fit(fixed, axis, middle, half, nodes, weights)
            found = self.cells.get(key)
            if found is not None:
                sign[here], log[here] = found[0], -np.inf
                if found[0]:
                    log[here] = _barycentric((x[here] - middle) / half, nodes, weights, found[1])
                left[here] = False

    def _fit(
        self, fixed: tuple[float, ...], axis: int, middle: float, half: float, nodes: Array, weights: Array
    ) -> tuple[float, Array] | None:
        checks = (-0.97, -0.31, 0.42, 0.98)
        found = [self._precise([*fixed[:axis], middle + half * t, *fixed[axis:]]) for t in (*checks, *nodes)]
        signs = {f[0] for f in found if f is not None}
        if None in found or len(signs) != 1:
            return None
        if signs == {0.0}:
            return 0.0, np.full(NODES, -np.inf)
        logs = np.array([f[1] for f in found if f is not None])
        known, fitted = logs[len(checks) :], _barycentric(np.array(checks), nodes, weights, logs[len(checks) :])
        if not (np.abs(fitted - logs[: len(checks)]) <= AGREE * np.maximum(1.0, np.abs(fitted))).all():
            return None
        return signs.pop(), known

    def _precise(self, point: list[float]) -> tuple[float, float] | None:
        """(sign, log |value|) at a point, with digits until two evaluations agree; 0 where there is nothing after all
        of them, None where it cannot be had."""
        before = None
        try:
            for digits in DIGITS:
                with mpmath.workdps(digits):
                    value = mpmath.mpf(self.function(*(mpmath.mpf(p) for p in point)))
                    if value and before is not None and abs(value - before) <= mpmath.mpf(10) ** -17 * abs(value):
                        return float(mpmath.sign(value)), float(mpmath.log(abs(value)))
                    before = value
        except (ValueError, TypeError, ArithmeticError, NameError):
            return None
        return 0.0, -np.inf


def _span(cell: int) -> tuple[float, float]:
    """Middle and half the width of a cell; the sign of x is that of the middle."""
    rest, positive = divmod(cell, 2)
    exponent, eighth = divmod(rest, CELLS)
    width = np.ldexp(0.5 / CELLS, exponent)
    middle = np.ldexp(0.5, exponent) + (eighth + 0.5) * width
    return float(middle if positive else -middle), float(width / 2)


def _barycentric(t: Array, nodes: Array, weights: Array, values: Array) -> Array:
    difference = t[:, None] - nodes
    difference[difference == 0] = 1e-300
    quotient = weights / difference
    return (quotient @ values) / quotient.sum(axis=1)
