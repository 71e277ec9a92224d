"""Sums that lose their digits: rewritten where a form without the difference is known, else looked up in tables.

tanh(x − 20) + 1 is 2/(1 + e^{40 − 2x}): as written it is 0 in floating point for x < 1. `without_cancellation` rewrites
such pairs of terms. Whatever sum still cancels at a point is evaluated by `Table` with as many digits as it takes.
"""

from __future__ import annotations

import itertools
import math
import time
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
SMALL, WIDE = -16, 32  # below 2^SMALL cells span a factor of 2^WIDE
AGREE = 2e-13  # of a table's logarithm with the true one
SECONDS = 6.0  # of processor time for a sum's points altogether
ONE_BY_ONE = 4000  # points a call evaluated outside of tables


class Cancels(ArithmeticError, ValueError):
    """A sum loses its digits too many points, or too deeply, to be evaluated there with more."""


def without_cancellation(expression: sympy.Expr) -> sympy.Expr:
    """The same function with the pairs of terms that are known to cancel written in a form that does not."""
    if not expression.free_symbols or not expression.args:
        return expression
    parts = [without_cancellation(part) for part in expression.args]
    if isinstance(expression, sympy.log) and isinstance(parts[0], sympy.cosh):
        return sympy.log(1 + 2 * sympy.sinh(parts[0].args[0] / 2) ** 2, evaluate=False)
    if isinstance(expression, sympy.erfc):  # its logarithm is known far beyond where it underflows
        return 2 * Phi(-sympy.sqrt(2) * parts[0])
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
    if b.is_number:
        return None
    factor, size = (b / a).as_coeff_Mul()
    u = size.args[0] if size.args else size
    if factor == -1 and isinstance(size, sympy.exp):
        return -a * Expm1(u) if not a.has(sympy.exp) else -2 * a * sympy.exp(u / 2) * sympy.sinh(u / 2)
    if a.has(sympy.exp):
        return _softplus(a, b)
    if factor == -2 and isinstance(size, Phi):
        return -a * sympy.erf(u / sympy.sqrt(2))
    if abs(factor) == 1:
        match size:
            case sympy.tanh():
                return 2 * a / (1 + sympy.exp(-2 * factor * u))
            case sympy.erf():
                return 2 * a * Phi(factor * sympy.sqrt(2) * u)
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

    The polynomials go through log |value| against log |x|, x the one argument that varies, over an eighth of a factor
    of 2 or, near 0, much more, and are checked against further points. Where they do not fit (a zero, a kink) each
    point is evaluated for itself; where these are too many, Cancels is raised.
    """

    def __init__(self, expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> None:
        names = {"Phi": mpmath.ncdf, "Expm1": mpmath.expm1, "Conjugated": lambda a, b, c: a + b}
        self.function: Callable[..., Any] = sympy.lambdify(list(symbols), expression, modules=[names, "mpmath"])
        self.present = [symbol in expression.free_symbols for symbol in symbols]
        self.cells: dict[tuple[Any, ...], tuple[float, Array] | None] = {}
        self.visits: dict[tuple[Any, ...], int] = {}
        self.seconds = 0.0  # spent on single points

    def correct(self, values: tuple[Array, ...], lost: Array, sign: Array, log: Array) -> tuple[Array, Array]:
        """sign and log with the points in `lost` replaced; all arrays of one shape, values broadcast to it."""
        values = tuple(v if here else np.float64(0) for v, here in zip(values, self.present, strict=True))
        points = [np.broadcast_to(v, lost.shape)[lost] for v in values]
        new_sign, new_log, left = sign[lost].copy(), log[lost].copy(), np.ones(len(points[0]), dtype=bool)
        varying = [i for i, v in enumerate(values) if np.ndim(v) and np.size(v) > 1]
        if len(varying) == 1 and len(left) > NODES:
            self._from_cells(points, varying[0], new_sign, new_log, left)
        if left.sum() > ONE_BY_ONE:
            where = float(points[varying[0] if varying else 0][left][0])
            raise Cancels(f"its terms cancel near x = {where:.3g}, and at too many points to use more digits there")
        for i in np.flatnonzero(left):
            new_sign[i], new_log[i] = self.precise([float(p[i]) for p in points]) or (new_sign[i], new_log[i])
        sign, log = np.array(sign, dtype=float), np.array(log, dtype=float)
        sign[lost], log[lost] = new_sign, new_log
        return sign, log

    def _from_cells(self, points: list[Array], axis: int, sign: Array, log: Array, left: Array) -> None:
        x = points[axis]
        fixed = tuple(float(p[0]) for i, p in enumerate(points) if i != axis)
        eager = len(x) > ONE_BY_ONE // 4
        exponent = np.frexp(np.abs(x))[1]
        near_zero = (exponent < SMALL) & (x != 0)
        # near 0 a sum is a power of x, and cells are wide; what does not fit them goes into narrow ones
        for wide, of_cell in ((True, near_zero), (False, x != 0)):
            of_cell = of_cell & left
            code = _codes(x, wide)
            for cell in np.unique(code[of_cell]):
                here = np.flatnonzero((code == cell) & of_cell)
                key = (axis, wide, int(cell), *fixed)
                self.visits[key] = self.visits.get(key, 0) + len(here)
                if key not in self.cells and (eager or self.visits[key] > NODES):
                    self.cells[key] = self._fit(fixed, axis, int(cell), wide)
                found = self.cells.get(key)
                if found is None:
                    continue
                low, high = _span(int(cell), wide)
                sign[here], log[here], left[here] = found[0], -np.inf, False
                if found[0]:
                    log[here] = _barycentric(2 * (np.log(np.abs(x[here])) - low) / (high - low) - 1, found[1])

    def _fit(self, fixed: tuple[float, ...], axis: int, cell: int, wide: bool) -> tuple[float, Array] | None:
        """Sign and logarithms at the nodes of a cell, or None where no polynomial fits."""
        low, high = _span(cell, wide)
        side = 1.0 if cell % 2 else -1.0
        checks = np.array([-0.97, -0.31, 0.42, 0.98])
        at = side * np.exp(low + (high - low) * (np.concatenate([checks, _NODES]) + 1) / 2)
        found = [self.precise([*fixed[:axis], float(x), *fixed[axis:]]) for x in at]
        signs = {f[0] for f in found if f is not None}
        if None in found or len(signs) != 1:
            return None
        if signs == {0.0}:
            return 0.0, np.full(NODES, -np.inf)
        logs = np.array([f[1] for f in found if f is not None])
        known, fitted = logs[len(checks) :], _barycentric(checks, logs[len(checks) :])
        if not (np.abs(fitted - logs[: len(checks)]) <= AGREE * np.maximum(1.0, np.abs(fitted))).all():
            return None
        return signs.pop(), known

    def precise(self, point: list[float]) -> tuple[float, float] | None:
        """(sign, log |value|) at a point, with digits until two evaluations agree; 0 where there is nothing after all
        of them, None where it cannot be had."""
        before, start = None, time.thread_time()
        if self.seconds > SECONDS:
            raise Cancels(f"its terms cancel near {point[0]:.3g}, and more digits there take more than {SECONDS:g} s")
        try:
            for digits in DIGITS:
                with mpmath.workdps(digits):
                    value = mpmath.mpf(self.function(*(mpmath.mpf(p) for p in point)))
                    if value and before is not None and abs(value - before) <= mpmath.mpf(10) ** -17 * abs(value):
                        return float(mpmath.sign(value)), float(mpmath.log(abs(value)))
                    before = value
        except (ValueError, TypeError, ArithmeticError, NameError):
            return None
        finally:
            self.seconds += time.thread_time() - start
        return 0.0, -np.inf


def _codes(x: Array, wide: bool) -> Array:
    """The number of the cell of each x; odd for positive x."""
    mantissa, exponent = np.frexp(np.abs(x))
    if wide:
        return np.floor_divide(exponent, WIDE).astype(np.int64) * 2 + (x > 0)
    eighth = np.minimum(((mantissa - 0.5) * 2 * CELLS).astype(int), CELLS - 1)
    return (exponent.astype(np.int64) * CELLS + eighth) * 2 + (x > 0)


def _span(cell: int, wide: bool) -> tuple[float, float]:
    """log |x| at the two ends of a cell."""
    if wide:
        return (cell // 2 * WIDE - 1) * math.log(2), ((cell // 2 + 1) * WIDE - 1) * math.log(2)
    exponent, eighth = divmod(cell // 2, CELLS)
    base = (exponent - 1) * math.log(2)
    return base + math.log1p(eighth / CELLS), base + math.log1p((eighth + 1) / CELLS)


_NODES = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
_WEIGHTS = (-1.0) ** np.arange(NODES) * np.sin(np.pi * (np.arange(NODES) + 0.5) / NODES)


def _barycentric(t: Array, values: Array) -> Array:
    difference = t[:, None] - _NODES
    difference[difference == 0] = 1e-300
    quotient = _WEIGHTS / difference
    return (quotient @ values) / quotient.sum(axis=1)
