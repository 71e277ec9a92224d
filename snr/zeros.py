"""Where a similarity vanishes, and how far down towards x = 0 its floating-point values can be believed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snr.closed_forms import form
from snr.similarity import Similarity
from snr.singular import singular_points

Array = Any


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


def vanishing(similarity: Similarity, d: float, tau: float) -> float | None:
    """A point s > 0 where g(s) = 0, or None: a sign change or a touch of 0 on a scan of (0, 10³ d + 10³).

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
        return float(s[:-1][nothing[1:] & nothing[:-1]][0])
    s, sign, log = s[~nothing], sign[~nothing], log[~nothing]  # single points: a zero shows in what is beside it
    between = np.logical_or.reduce((known > s[:-1, None]) & (known < s[1:, None]), axis=1)
    change = np.flatnonzero((sign[1:] != sign[:-1]) & ~between)
    for at in change:
        if (zero := _crossing(similarity, d, tau, float(s[at]), float(s[at + 1]))) is not None:
            return zero
    dips = np.flatnonzero((log[1:-1] < log[:-2]) & (log[1:-1] < log[2:]) & ~between[1:] & ~between[:-1]) + 1
    if not len(dips):
        return None
    # zoom into every dip; at a zero of even order the logarithm falls without end
    low, high, start = s[dips - 1], s[dips + 1], log[dips]
    for _ in range(12):
        points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 11)
        values = similarity.sign_and_log(points, tau, d)[1]
        best = np.clip(values.argmin(axis=1), 1, 9)
        rows = np.arange(len(dips))
        low, high, depth = points[rows, best - 1], points[rows, best + 1], values.min(axis=1)
    deep = depth < start - 12
    return float(low[deep][0]) if deep.any() else None


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
