"""Draws that are logarithms, and the estimates made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr import intervals
from snr.estimate import Estimate
from snr.intervals import Interval, Tail
from snr.measured import Scaled

Array = NDArray[Any]

ENOUGH_FOR_TAIL = 125  # independent draws from which a tail index can be fitted; fewer are judged by their recalls

ASYMPTOTIC = (
    "asymptotic: a confidence sequence, valid at every stopping time, resting on the central limit theorem over {units}"
)
MARKOV = "exact: Markov's inequality for running means, {low:.2g} × the mean as lower end and no upper end"


class Draws:
    """Averages over independent units (memories), each of several nonnegative numbers given by their logarithms.

    alike: whether a unit's numbers have one law, so that single ones may stand in for the units' tail while there are
    few units. (The recalls of stored keys have not: each key has its own.)
    """

    def __init__(self, alike: bool = True) -> None:
        self.alike = alike
        self._means: list[Array] = []
        self._first: list[Array] = []
        self.count = 0

    def add(self, logs: Array) -> None:
        """Add units, [units, recalls]."""
        self._means.append(log_mean(logs))
        if self.count < ENOUGH_FOR_TAIL:
            self._first.append(logs.ravel())
        self.count += len(logs)

    def unit(self) -> tuple[Array, float]:
        """The units' averages, divided by their mean, and its logarithm."""
        return _unit(np.concatenate(self._means))

    def tail(self) -> Tail:
        """The tail of the units' averages; of their single recalls while there are too few units to show one."""
        few = self.alike and self.count < ENOUGH_FOR_TAIL
        return intervals.tail(_unit(np.concatenate(self._first))[0] if few else self.unit()[0])

    def mean(self, confidence: float, target: int, trusted: bool, method: str, units: str) -> Scaled:
        """The mean; Markov's one-sided bound where the draws are not trusted to show what carries it."""
        draws, shift = self.unit()
        value, low, high = intervals.mean_sequence(draws, confidence, target)
        guarantee = ASYMPTOTIC.format(units=units)
        if not trusted or math.isinf(high):
            low, high, guarantee = (1 - confidence) * value, math.inf, MARKOV.format(low=1 - confidence)
        return Scaled(Estimate(value, max(low, 0.0), high, confidence, len(draws), method, guarantee), shift)


def scaled_logs(interval: Interval, confidence: float, n: int, method: str, guarantee: str) -> Scaled:
    """An interval of logarithms as a scaled estimate around its value."""
    value, low, high = interval
    shift = value if math.isfinite(value) else (high if math.isfinite(high) else 0.0)

    def plain(log: float) -> float:
        return math.exp(min(log - shift, 700.0)) if log != math.inf else math.inf

    return Scaled(Estimate(plain(value), plain(low), plain(high), confidence, n, method, guarantee), shift)


def log_mean(logs: Array) -> Array:
    """ln of the mean of e^logs over the last axis."""
    top = logs.max(axis=-1)
    anchor = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(anchor + np.log(np.mean(np.exp(logs - anchor[..., None]), axis=-1)))


def _unit(logs: Array) -> tuple[Array, float]:
    """Draws of mean 1 and the logarithm of what they were divided by; zeros where all draws are zero."""
    shift = float(log_mean(logs))
    if not math.isfinite(shift):
        return np.zeros(len(logs)), 0.0
    return np.exp(logs - shift), shift
