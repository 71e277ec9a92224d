"""Where a similarity vanishes, and how far down towards x = 0 its floating-point values can be believed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from snr.closed_forms import form
from snr.similarity import Similarity
from snr.singular import singular_points

Array = Any
_TINY, _BEYOND = np.geomspace(1e-300, 1e-5, 600)[:-1], np.geomspace(1, 1e100, 400)[1:]


@dataclass(frozen=True)
class Zero:
    """Where g vanishes: at one point of s > 0 (low = high), or on an interval; high is inf where it has no end.

    low is 0 where g vanishes on all s that were looked at below `high`.
    """

    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"at ‖k‖² = {self.low:.6g}"
        if self.high == math.inf:
            return f"from ‖k‖² = {self.low:.6g} on" if self.low else "for every ‖k‖²"
        return f"for ‖k‖² from {self.low:.6g} to {self.high:.6g}" if self.low else f"for ‖k‖² up to {self.high:.6g}"


@lru_cache(maxsize=256)
def signal(similarity: Similarity, d: float, tau: float) -> tuple[float, float]:
    """(sign, log |g(d)|): the signal of a probe of norm √d, 0 where g vanishes there to all digits that are looked at.

    In floating point sin(pi*x/d) is 1e-16 at x = d. A tau that is the square root of a rational, √d above all, is taken
    for that root, so that sin(pi*x/tau**2) vanishes too.
    """
    sign, log = (float(v) for v in similarity.sign_and_log(float(d), tau, d))
    if similarity.twin is not None or not sign or not math.isfinite(log):
        return sign, log
    import sympy

    from snr.cancellation import Cancels, Table
    from snr.expression import symbol

    expression, names = similarity.expression, [symbol(name) for name in ("x", "tau", "d")]
    square = Fraction(tau * tau).limit_denominator(1000)
    if square and math.sqrt(square) == tau:
        expression = expression.xreplace({names[1]: sympy.sqrt(sympy.Rational(square.numerator, square.denominator))})
    try:
        return Table(expression, names).precise([float(d), tau, float(d)]) or (sign, log)
    except Cancels:
        return sign, log


def smallest_reliable(similarity: Similarity, d: float, tau: float) -> float:
    """log of the smallest s at which g(s) is evaluated well: −690, or more where g(s) → 0 by cancellation as s → 0.

    exp(x) − 1 is 0 in floating point below 1e-16; a million times larger it is good to six digits, and a power of s.
    """
    x = 10.0 ** np.arange(-299, -2)
    sign, log = similarity.sign_and_log(x, tau, d)
    dead = np.flatnonzero((sign == 0) | ~np.isfinite(log))
    if not len(dead):
        return -690.0
    if not np.isfinite(log[-2:]).all():
        return -60.0  # g is 0 near 0: nothing is lost below
    order = max(float(log[-1] - log[-2]) / math.log(10), 0.1)
    return float(np.log(x[dead[-1]])) + 6 * math.log(10) / order


def vanishing(similarity: Similarity, d: float, tau: float) -> Zero | None:
    """Where g(s) = 0 at some s > 0, or None: a sign change or a touch of 0 on a scan of (0, 10³ d + 10³).

    Powers of the distance to a point, |s − p|^a, are left to the integrals: a mean may survive a zero of theirs.
    """
    if form(similarity, tau, d) is not None or similarity.twin is not None:
        return None
    s = np.unique(np.concatenate([np.geomspace(1e-5, 1e3 * (d + 1), 4001), np.linspace(0, 4 * d + 40, 4002)[1:]]))
    sign, log = similarity.sign_and_log(s, tau, d)
    if np.isnan(sign).any():
        raise ArithmeticError(f"g is not a real number at x = {s[np.isnan(sign)][0]:.6g}")
    known = np.array([p.point for p in singular_points(similarity, tau, d)])
    if len(known):
        near = (np.abs(s[:, None] - known) <= 1e-12 * np.abs(known)).any(axis=1)
        s, sign, log = s[~near], sign[~near], log[~near]
    nothing = sign == 0
    if (nothing[1:] & nothing[:-1]).any():
        return _interval(similarity, d, tau, s, nothing)
    s, sign, log = s[~nothing], sign[~nothing], log[~nothing]  # single points: a zero shows in what is beside it
    between = np.logical_or.reduce((known > s[:-1, None]) & (known < s[1:, None]), axis=1)
    change = np.flatnonzero((sign[1:] != sign[:-1]) & ~between)
    for at in change:
        if (zero := _crossing(similarity, d, tau, float(s[at]), float(s[at + 1]))) is not None:
            return Zero(zero, zero)
    dips = np.flatnonzero((log[1:-1] < log[:-2]) & (log[1:-1] < log[2:]) & ~between[1:] & ~between[:-1]) + 1
    if not len(dips):
        return None
    bottom = _bottomless(lambda x: similarity.sign_and_log(x, tau, d)[1], s[dips - 1], s[dips + 1], log[dips])
    return Zero(bottom, bottom) if bottom is not None else None


def pole(similarity: Similarity, d: float, tau: float, reach: float) -> float | None:
    """A point |x| < reach where g grows without end, or None."""
    x = np.linspace(-reach, reach, 4001)

    def depth(x: Array) -> Array:
        log = similarity.sign_and_log(x, tau, d)[1]
        return -np.where(np.isnan(log), -np.inf, log)

    y = depth(x)
    if (y == -np.inf).any():
        return float(x[y == -np.inf][0])
    dips = np.flatnonzero((y[1:-1] <= y[:-2]) & (y[1:-1] <= y[2:]) & (y[1:-1] < np.inf)) + 1
    return _bottomless(depth, x[dips - 1], x[dips + 1], y[dips], by=2.0) if len(dips) else None


def _bottomless(f: Callable[[Array], Array], low: Array, high: Array, start: Array, by: float = 12.0) -> float | None:
    """The first of the dips of f in [low, high], of depth start on the scan, that falls further and further; by zooming
    in by 5 twelve times. A power of the distance of order a falls by 19 a; a smooth dip has its depth after few."""
    before = start
    for k in range(12):
        points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 11)
        values = f(points)
        best = np.clip(values.argmin(axis=1), 1, 9)
        rows = np.arange(len(low))
        low, high, depth = points[rows, best - 1], points[rows, best + 1], values.min(axis=1)
        before = depth if k == 7 else before
    deep = (depth < start - by) & (depth < before - 0.5)
    return float((low[deep][0] + high[deep][0]) / 2) if deep.any() else None


def _interval(similarity: Similarity, d: float, tau: float, s: Array, nothing: Array) -> Zero:
    """The first interval on which g is 0, its ends between points of the scan found by bisection."""
    first = int(np.flatnonzero(nothing[1:] & nothing[:-1])[0])
    alive = np.flatnonzero(~nothing[first:])
    last = first + int(alive[0]) - 1 if len(alive) else len(s) - 1
    below = above = None  # points beside the interval where g is not 0, also beyond the scan
    if first:
        below = float(s[first - 1])
    elif len(found := np.flatnonzero(similarity.sign_and_log(_TINY, tau, d)[0] != 0)):
        below = float(_TINY[found[-1]])
    if last + 1 < len(s):
        above = float(s[last + 1])
    else:
        beyond = float(s[-1]) * _BEYOND
        sign = similarity.sign_and_log(beyond, tau, d)[0]
        if len(found := np.flatnonzero((sign != 0) & ~np.isnan(sign))):
            above = float(beyond[found[0]])

    def end(inside: float, outside: float) -> float:
        for _ in range(80):
            middle = (inside + outside) / 2
            if similarity.sign_and_log(middle, tau, d)[0] == 0:
                inside = middle
            else:
                outside = middle
        return (inside + outside) / 2

    return Zero(
        0.0 if below is None else end(float(s[first]), below),
        math.inf if above is None else end(float(s[last]), above),
    )


def _crossing(similarity: Similarity, d: float, tau: float, a: float, b: float) -> float | None:
    """The point between a and b where g changes its sign, if it vanishes there; None at a jump or a pole."""
    sign, log = similarity.sign_and_log(np.array([a, b]), tau, d)
    for _ in range(45):
        middle = (a + b) / 2
        if similarity.sign_and_log(middle, tau, d)[0] == sign[0]:
            a = middle
        else:
            b = middle
    beside, near = similarity.sign_and_log(np.array([a, b]), tau, d)
    return a if near[beside != 0].min(initial=math.inf) < log.min() - 5 else None
