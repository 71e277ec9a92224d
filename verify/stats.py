"""Intervals for a number of draws that was fixed beforehand (for stopping rules that peek see `snr.intervals`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from snr.estimate import Estimate

Array = NDArray[np.float64]
CONFIDENCE = 0.999  # of each interval of the ledger: with some dozens of them a false alarm is still unlikely


def mean(draws: Array, method: str, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of independent draws with Student's interval. Raises ValueError for fewer than two draws."""
    from scipy.special import stdtrit

    draws = np.asarray(draws, dtype=float).ravel()
    if len(draws) < 2:
        raise ValueError(f"expected at least two draws, got {len(draws)}")
    value = float(draws.mean())
    half = float(stdtrit(len(draws) - 1, (1 + confidence) / 2) * draws.std(ddof=1) / math.sqrt(len(draws)))
    words = "asymptotic: central limit theorem over independent runs"
    return Estimate(value, value - half, value + half, confidence, len(draws), method, words)


def bounded_mean(draws: Array, low: float, high: float, method: str, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of independent draws that lie in [low, high], by Hoeffding's inequality: exact for every such law.

    Raises ValueError where a draw lies outside.
    """
    draws = np.asarray(draws, dtype=float).ravel()
    if not len(draws) or draws.min() < low or draws.max() > high:
        raise ValueError(f"expected draws in [{low}, {high}]")
    half = (high - low) * math.sqrt(math.log(2 / (1 - confidence)) / (2 * len(draws)))
    value = float(draws.mean())
    return Estimate(value, value - half, value + half, confidence, len(draws), method, "exact: Hoeffding's inequality")


def median(draws: Array, method: str, confidence: float = CONFIDENCE) -> Estimate:
    """The median of independent draws between two order statistics: exact for every law.

    Raises ValueError where there are too few draws for the confidence.
    """
    from scipy.special import bdtr

    x = np.sort(np.asarray(draws, dtype=float).ravel())
    n = len(x)
    allowed = [r for r in range(n // 2) if bdtr(r, n, 0.5) <= (1 - confidence) / 2]
    if not allowed:
        raise ValueError(f"{n} draws are too few for a median at confidence {confidence}")
    r = allowed[-1]
    words = "exact: order statistics"
    return Estimate(float(np.median(x)), float(x[r]), float(x[n - 1 - r]), confidence, n, method, words)


def slope(x: Array, lines: Array, method: str, confidence: float = CONFIDENCE) -> Estimate:
    """The mean slope over x of independent lines [runs, len(x)] by least squares, with Student's interval."""
    x = np.asarray(x, dtype=float)
    centred = x - x.mean()
    return mean(np.asarray(lines) @ centred / (centred @ centred), method, confidence)
