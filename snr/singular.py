"""Points where a similarity has an algebraic pole or zero, |x − p|^a, and integrals up to such points.

Near p an integrand is a power of the distance. In the distance's logarithm w it is an exponential, smooth down to
distances of 10^−260, and what is left below is known from its slope there. That needs g at p + y as a function of y,
with all digits of y however small: `singular_points` shifts the expression itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from snr.quadrature import LogFunction, LogIntegral, log_integral
from snr.similarity import Similarity

Array = Any
Local = Callable[[int, Array, Array], Array]  # (index of the centre, offset, row) -> log of the integrand there
WIDEST = 0.5  # around a singular point, in the variable of the integral
LOWEST = -600.0  # log of the least distance
FLAT = 1e-12  # a slope in w below which the integral over all w < 0 is infinite
NOTHING = -1e9  # a log-integrand below which a pole would not matter
_FIRST = np.array(
    [-1.0, -0.6, -0.3, -0.15, -0.07, -0.03, -0.015, -0.007, -0.003, 0.0]
)  # first panels, shares of LOWEST


@dataclass(frozen=True)
class Singular:
    """A point p and (y, tau, d) -> sign and log of |g(p + y)|."""

    point: float
    sign_and_log: Callable[[Array, float, float], tuple[Array, Array]]


def singular_points(similarity: Similarity, tau: float, d: float) -> list[Singular]:
    """The points where a power's base vanishes, ascending; only those whose base is a polynomial in x, and of a degree
    above 2 only without tau and d in it."""
    found: dict[float, Singular] = {}
    for root, function in _candidates(similarity):
        point = complex(root(tau, d))
        if np.isfinite(point.real) and point.imag == 0:
            found.setdefault(point.real, Singular(point.real, function))
    return [found[p] for p in sorted(found)]


@lru_cache(maxsize=64)
def _candidates(similarity: Similarity) -> list[tuple[Any, Any]]:
    """(root as a function of tau, d; g at root + y as a function of y, tau, d)."""
    if similarity.twin is not None:
        return []
    import sympy

    from snr.expression import symbol
    from snr.signed_log import compile_signed_log

    x, tau, d = (symbol(name) for name in ("x", "tau", "d"))
    y = sympy.Symbol("y", real=True)
    bases: dict[Any, None] = {}
    for node in sympy.preorder_traversal(similarity.expression):
        if node.is_Pow and node.base.has(x) and not (node.exp.is_Integer and node.exp > 0):
            bases[node.base.args[0] if isinstance(node.base, sympy.Abs) else node.base] = None
    made = []
    for base in bases:
        if not base.is_polynomial(x):
            continue
        for factor, _ in sympy.factor_list(sympy.expand(base), x)[1]:
            for root in _roots(sympy.Poly(factor, x)):
                if root.is_real is False:
                    continue
                shifted = _shifted(base, x, root, y)
                # bases first, each on its own: they hold x in the very form that is to be replaced
                local = similarity.expression.xreplace({base: shifted, -base: -shifted}).subs(x, root + y)
                value = sympy.lambdify([tau, d], root, modules="numpy")
                made.append((value, compile_signed_log(local, [y, tau, d])))
    return made


def _roots(polynomial: Any) -> list[Any]:
    """Exactly up to degree 2; of a higher degree the real ones to 30 digits, if tau and d are not in it."""
    import sympy

    if polynomial.degree() <= 2:
        return list(sympy.roots(polynomial))
    if polynomial.free_symbols_in_domain:
        return []
    return [root for root in polynomial.nroots(n=30, maxsteps=200) if root.is_real]


def _shifted(polynomial: Any, x: Any, root: Any, y: Any) -> Any:
    """p(root + y) for a root of p, without its constant term."""
    import sympy

    coefficients = sympy.Poly(sympy.expand(polynomial.subs(x, root + y)), y).all_coeffs()[::-1]
    terms = [sympy.simplify(c) * y**k for k, c in enumerate(coefficients) if k > 0]
    return sympy.Add(*terms)


def integral_with_centres(
    log_f: LogFunction, local: Local, grid: Array, breaks: Array, centres: Array, lowest: Array | float = LOWEST
) -> LogIntegral:
    """As `log_integral`, with singular points `centres`, [rows, k]: log_f serves at a distance from them, `local` near.

    local(j, offset, row): the log-integrand at centres[:, j] + offset. lowest: log of the least offset at which it is
    good, [rows, 1] or a number. The log is inf where a singularity is not integrable.
    """
    rows, count = centres.shape
    radius = _radii(centres, breaks)
    low, high = centres - radius, centres + radius

    def outside(points: Array, row: Array) -> Array:
        heights = np.array(log_f(points, row))
        at = np.broadcast_to(row, points.shape)
        for j in range(count):
            heights[(points > low[at, j]) & (points < high[at, j])] = -np.inf
        return heights

    found = log_integral(outside, grid, np.concatenate([breaks, low, high], axis=1))
    logs, errors = [found.log], [found.error]
    for j in range(count):
        inside = (centres[:, j] >= grid[:, 0]) & (centres[:, j] <= grid[:, -1])
        for side in (-1.0, 1.0):
            end = centres[:, j] + side * radius[:, j]
            here = inside & (end >= grid[:, 0]) & (end <= grid[:, -1])
            log, error = np.full(rows, -np.inf), np.zeros(rows)
            if here.any():
                log[here], error[here] = _one_side(local, j, side, radius[:, j], lowest, np.flatnonzero(here))
            logs.append(log)
            errors.append(error)
    total = np.logaddexp.reduce(logs, axis=0)
    with np.errstate(invalid="ignore"):
        shares = np.where(np.isfinite(total), np.exp(np.stack(logs) - total), 0.0)
    return LogIntegral(total, np.sum(np.stack(errors) * shares, axis=0), found.open_left, found.open_right)


def _radii(centres: Array, breaks: Array) -> Array:
    """How far around each centre nothing else happens, at most WIDEST: [rows, k]."""
    others = np.concatenate([centres, breaks], axis=1)
    gap = np.abs(centres[:, :, None] - others[:, None, :])
    same = gap <= 1e-9 * np.maximum(np.abs(centres), 1e-9)[:, :, None]  # the kink of |x − p| found by bisection
    return np.minimum(np.where(same, np.inf, gap).min(axis=2) / 2, WIDEST)


def _one_side(
    local: Local, j: int, side: float, radius: Array, lowest: Array | float, rows: Array
) -> tuple[Array, Array]:
    top = np.log(radius[rows])[:, None]
    bottom = np.broadcast_to(np.asarray(lowest, dtype=float), (len(radius), 1))[rows]
    bottom = np.minimum(bottom, top - 60.0)

    def log_f(w: Array, row: Array) -> Array:
        return local(j, side * np.exp(w), rows[row]) + w

    grid = top + (bottom - top) * -_FIRST
    found = log_integral(log_f, grid)
    index = np.arange(len(rows))[:, None]
    with np.errstate(all="ignore"):
        h = log_f(bottom + (top - bottom) * np.array([0.0, 0.2, 0.4]), index)
    step = 0.2 * (top - bottom)[:, 0]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rounding = 4e-16 * np.abs(h[:, 0]) / step
        near, far = (h[:, 1] - h[:, 0]) / step, (h[:, 2] - h[:, 1]) / step
        log_tail = h[:, 0] - np.log(near)
        grows = (np.maximum(near, far) <= FLAT + rounding) | (h == np.inf).any(axis=1)
        log = np.where(grows, np.inf, np.logaddexp(found.log, log_tail))
        unsure = (np.abs(near - far) + rounding) / near
        error = np.where(grows, 0.0, found.error + np.exp(log_tail - log) * unsure)
    # towards a slope of 0 the tail may be anything; where the integrand is nothing at all it has no tail
    open_question = ~grows & ~(np.minimum(near, far) > FLAT)
    nothing = h[:, 0] < NOTHING
    error = np.where(nothing, found.error, np.where(open_question, np.inf, error))
    return np.where(nothing, found.log, np.where(open_question, found.log, log)), error
