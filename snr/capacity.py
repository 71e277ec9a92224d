"""Capacity: how many pairs N a key width d holds at a given inverse SNR, how that scales, and the best temperature.

A statistic that is a mean is linear in N − 1 (P's formula in N), so N follows from one prediction; the typical value is
not, and N is found by bisection on its median. Everything is in ln N: exp kernels hold e^{d/2} pairs.

N is a real number. Between whole numbers of few pairs, where a sum of N − 1 terms would have no law, the median is
taken to be linear, as the means are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from snr.predictions import Prediction, predict
from snr.similarity import Similarity
from snr.typical import MAX_LOG_N, recall_law

STATISTICS = ("paper", "exact", "fixed_probe", "ratio_of_means", "typical")
Tau = Callable[[float], float]
FEW = 16  # pairs up to which the median is computed at whole N only
LARGEST = MAX_LOG_N - 1  # ln N up to which the typical value is followed


def log_pairs(
    similarity: Similarity, d: int, tau: float, level: float, statistic: str = "exact", keys: str = "gaussian"
) -> float | None:
    """ln of the N (a real number) at which SNR⁻¹ reaches `level`; None where the statistic does not exist or diverges.

    statistic: one of STATISTICS; at least ln 1 = 0. "typical": to 1 % in the SNR⁻¹, from ln 2 up to LARGEST (inf
    beyond), and `keys` may also be "fixed-probe" (see `snr.typical.recall_law`).
    """
    return capacity(similarity, d, tau, level, statistic, keys).log


def capacity(
    similarity: Similarity, d: int, tau: float, level: float, statistic: str = "exact", keys: str = "gaussian"
) -> Prediction:
    """`log_pairs` with the reason where there is no such N."""
    if statistic not in STATISTICS:
        raise ValueError(f"statistic {statistic!r}: expected one of {', '.join(STATISTICS)}")
    if not (level > 0 and math.isfinite(level)):
        raise ValueError(f"level {level}: expected a positive finite inverse SNR")
    if statistic == "typical":
        try:
            return Prediction(_typical_log_pairs(similarity, d, tau, math.log(level), keys), "Laplace inversion")
        except ArithmeticError as error:
            return Prediction(None, "Laplace inversion", str(error))
    found = getattr(predict(similarity, 2, d, tau, keys, typical=False), statistic)
    if found.log is None or found.diverges:
        return Prediction(None, found.method, found.reason)
    if statistic == "paper":  # N times, with N = 2
        return Prediction(max(math.log(level) - found.log + math.log(2), 0.0), found.method)
    return Prediction(float(np.logaddexp(0.0, math.log(level) - found.log)), found.method)


def _typical_log_pairs(similarity: Similarity, d: int, tau: float, log_level: float, keys: str) -> float:
    """ln N by secant steps within a bracket: the median grows with N.

    The median over Gaussian keys costs ten times that of a fixed probe, which is near it: that one is solved first.
    """

    @lru_cache
    def median(n: float) -> float:
        return recall_law(similarity, n, d, tau, keys).quantile(0.5)

    def excess(log_n: float) -> float:
        n = math.exp(log_n)
        if n >= FEW:
            return median(n) - log_level
        n = max(n, 2.0)
        below, above = median(float(math.floor(n))), median(float(math.floor(n) + 1))
        return _log_between(below, above, n - math.floor(n)) - log_level

    low, high = math.log(2), math.log(FEW)
    if keys == "gaussian":
        try:
            near = _typical_log_pairs(similarity, d, tau, log_level, "fixed-probe")
        except ArithmeticError:  # at ‖k‖² = d alone
            near = math.inf
        if near < LARGEST - 1:
            low, high = max(low, near - 0.2), max(low, near) + 0.2
    at_low = excess(low)
    if at_low >= 0 and low > math.log(2):
        low, high = math.log(2), low
        at_low = excess(low)
    if at_low >= 0:
        return low
    while (at_high := excess(high)) < 0:
        if high >= LARGEST:
            return math.inf
        low, at_low, high = high, at_high, min(2 * high, LARGEST)
    for _ in range(40):
        secant = low - at_low * (high - low) / (at_high - at_low) if math.isfinite(at_low) else math.nan
        middle = secant if low < secant < high else (low + high) / 2
        value = excess(middle)
        if abs(value) < 2e-3 or high - low < 1e-4:
            return middle
        if value < 0:
            low, at_low = middle, value
            at_high *= 0.5  # Illinois: keeps the secant from sticking to one side
        else:
            high, at_high = middle, value
            at_low *= 0.5
    return (low + high) / 2


def _log_between(below: float, above: float, share: float) -> float:
    """ln of e^below + share·(e^above − e^below); infinite ends are a median without noise or without signal."""
    if share == 0 or below == above:
        return below
    if math.inf in (below, above):
        return math.inf
    return float(np.logaddexp(math.log1p(-share) + below, math.log(share) + above))


def width(
    similarity: Similarity, log_n: float, tau: Tau, level: float, statistic: str = "exact", keys: str = "gaussian"
) -> int | None:
    """The smallest d up to 16384 that holds e^{log_n} pairs at `level`; None if none does.

    Assumes that capacity grows with d beyond the widths where the statistic diverges.
    """

    def holds(d: int) -> bool:
        found = log_pairs(similarity, d, tau(d), level, statistic, keys)
        return found is not None and found >= log_n - 1e-12 * max(1.0, log_n)  # ties are rounded up

    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
        if high > 16384:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Fit:
    """y = slope·x + intercept by least squares, with intervals at `confidence` from the residuals (Student's t).

    For exact predictions the residuals are curvature, not noise: the interval says how far the points are from a line.
    """

    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float
    confidence: float
    points: int


def fit_line(x: Sequence[float], y: Sequence[float], confidence: float = 0.99) -> Fit:
    """Raises ValueError for fewer than three points or equal abscissae."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or len(a) != len(b) or np.ptp(a) <= 1e-12 * np.max(np.abs(a)):
        raise ValueError("expected at least three points at different abscissae")
    centred = a - a.mean()
    spread = float(centred @ centred)
    slope = float(centred @ b) / spread
    intercept = float(b.mean() - slope * a.mean())
    residual = b - slope * a - intercept
    sigma = math.sqrt(float(residual @ residual) / (len(a) - 2))
    t = float(stdtrit(len(a) - 2, (1 + confidence) / 2))
    half = t * sigma / math.sqrt(spread)
    intercept_half = t * sigma * math.sqrt(1 / len(a) + a.mean() ** 2 / spread)
    return Fit(
        slope,
        slope - half,
        slope + half,
        intercept,
        intercept - intercept_half,
        intercept + intercept_half,
        confidence,
        len(a),
    )


@dataclass(frozen=True)
class BestTemperature:
    """Where capacity at one d and level is largest: tau, ln N there, and the scanned curve (taus, ln N)."""

    tau: float
    log_n: float
    taus: tuple[float, ...]
    log_ns: tuple[float | None, ...]


def best_temperature(
    similarity: Similarity,
    d: int,
    level: float,
    statistic: str,
    keys: str = "gaussian",
    taus: Sequence[float] = (),
) -> BestTemperature | None:
    """The temperature of largest capacity on a geometric grid (0.5 to 2√d by default), refined by a parabola in ln tau.

    A best value at the grid's end means that the optimum lies outside. None where the statistic exists nowhere on it.
    """
    grid = list(taus) or [float(t) for t in np.geomspace(0.5, 2 * math.sqrt(d), 33)]
    curve = [log_pairs(similarity, d, tau, level, statistic, keys) for tau in grid]
    values = [-math.inf if v is None else v for v in curve]
    best = int(np.argmax(values))
    if values[best] == -math.inf:
        return None
    tau, log_n = grid[best], values[best]
    if 0 < best < len(grid) - 1 and math.isfinite(values[best - 1]) and math.isfinite(values[best + 1]):
        u = np.log(grid[best - 1 : best + 2])
        c = np.polyfit(u - u[1], values[best - 1 : best + 2], 2)
        if c[0] < 0:
            tau = float(np.exp(u[1] - c[1] / (2 * c[0])))
            log_n = float(c[2] - c[1] ** 2 / (4 * c[0]))
    return BestTemperature(tau, log_n, tuple(grid), tuple(curve))


def least_squares_residual(n: int, d: int) -> float:
    """E‖V − S K‖²/E‖V‖² of the least-squares linear state for n Gaussian pairs: 0 for n ≤ d, else exactly 1 − d/n.

    The residual is V times the projector on the null space of the d × n key matrix K, whose rank is d almost surely,
    and E v vᵀ is a multiple of the identity: the trace of the projector over n.
    """
    return max(0.0, 1 - d / n)
