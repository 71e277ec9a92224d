"""The law of S = Σ_{j≠i} W_j, the noise of one recall given its probe: n − 1 independent W = g(X)².

W may span hundreds of orders of magnitude, and its mean may be carried by draws that n keys do not contain
(condensation), so no central limit applies. The Laplace transform of S is exact in every regime,

    E e^{−θS} = (1 − E[1 − e^{−θW}])^{n−1},

and is inverted numerically (Euler summation, Abate and Whitt 2006). The law of log W is put on a lattice, so that one
kernel serves all arguments. Where one term is the sum (n = 2, or a log W so broad that no second term comes near), S
has the law of the largest W, which needs no inversion.

Euler summation smooths over steps: two orders of it smooth differently, and where they disagree the law either is
nearly constant, and has its quantiles from three moments (Cornish–Fisher), which is good exactly there, or is refused.

A g that vanishes on a set (max(0, x)) leaves P(S = 0) > 0; S has its quantiles tabulated given S > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from snr.expectation import log_angle_norm
from snr.similarity import Similarity

Array = Any
STEP = 0.01  # nats between lattice points of log W
BELOW, ABOVE = 16.0, 3.0  # nats around the argument where 1 − e^{−θW} is neither θW nor 1
ORDER, CHECK = 14, 10  # of the Euler summation, and of another one whose smoothing of steps differs
UNRESOLVED = 0.01  # difference of the two in probability above which the law is too steep for them
NARROW = 0.1  # relative standard deviation of S up to which three moments serve a law that is too steep
NEAR, ALONE = 5.0, 0.01  # the largest term is the sum where on average fewer than ALONE others are within NEAR nats
LEVELS = np.concatenate([[0.001, 0.005], np.linspace(0.01, 0.99, 99), [0.995, 0.999]])
"""Probabilities at which the quantiles of S given S > 0 are tabulated."""
COARSE = 0.5  # nats between the extreme quantiles below which steps of S are finer than what is stated
FINE = 0.14  # standard deviations, on the normal scale, between neighbours of the table that is inverted
DEEP = 20_000.0  # nats below the largest W at which the lattice ends


@dataclass(frozen=True)
class Points:
    """The law of log W: mass[k] = (n − 1)·P(log W = log[k]), summing to n − 1; log W may be −inf."""

    log: Array
    mass: Array
    pairs: float


@dataclass(frozen=True)
class SumLaw:
    """silent: P(S = 0). log: log of the quantiles of S given S > 0, at LEVELS; dominance: there E[Σ W_j²/S² | S].

    The dominance is 1 where one term is the sum, and least, 1/(n − 1), where all are equal.
    """

    silent: float
    log: Array
    dominance: Array


class Steps(ArithmeticError):
    """The law of the sum is too steep somewhere for the inversion of its transform."""


# --- the law of log W ---


def gaussian_points(similarity: Similarity, s: float, d: float, tau: float, pairs: float) -> Points:
    """W = g(X)² with X ~ N(0, s): a probe with ‖k_i‖² = s among Gaussian keys."""
    reach = math.sqrt(2 * math.log(pairs) + 60)

    def log_w(z: Array) -> Array:
        return _log_square(similarity, math.sqrt(s) * z, tau, d)

    return _fine_enough(log_w, lambda z: -z * z / 2, reach, pairs)


def sphere_points(similarity: Similarity, d: float, tau: float, pairs: float) -> Points:
    """W = g(dT)², T the cosine of two random directions."""
    if d == 1:
        return Points(_log_square(similarity, np.array([-1.0, 1.0]), tau, d), np.full(2, pairs / 2), pairs)
    rare = math.exp(-(math.log(pairs) + 30) / (d - 2)) if d > 2 else 0.0

    def log_w(angle: Array) -> Array:
        return _log_square(similarity, d * np.sin(angle), tau, d)

    return _fine_enough(
        log_w, lambda angle: (d - 2) * np.log(np.cos(angle)) + log_angle_norm(d), math.acos(rare), pairs
    )


def _log_square(similarity: Similarity, x: Array, tau: float, d: float) -> Array:
    sign, log = similarity.sign_and_log(x, tau, d)
    if np.isnan(sign).any():
        raise ArithmeticError(f"g is not a real number at x = {np.asarray(x)[np.isnan(sign)][0]:.6g}")
    if np.isposinf(log).any():
        where = np.asarray(x)[np.isposinf(log)][0]
        raise ArithmeticError(f"g is infinite, or more than its logarithm can hold, at x = {where:.6g}")
    return np.where(sign == 0, -np.inf, 2 * log)


def _fine_enough(log_w: Any, log_density: Any, reach: float, pairs: float) -> Points:
    """Cell middles over [−reach, reach]; log W moves by less than a lattice step from cell to cell.

    At most 100,000 cells: beyond that the steps are larger, and still smooth on the scale of the inversion's kernel.
    """
    log_w(np.zeros(1))  # between two cells: a pole there is to be found
    count = 8000
    while True:
        at = (np.arange(count) + 0.5) * (2 * reach / count) - reach
        heights, mass = log_w(at), np.exp(log_density(at))
        mass *= pairs / mass.sum()  # the halves of a symmetric law are halves to rounding
        near = heights[1:] >= _floor(heights, mass, pairs)
        with np.errstate(invalid="ignore"):
            moves = np.abs(np.diff(heights))[near]
        moves = moves[np.isfinite(moves)]
        if count > 8000 or not len(moves):
            check_not_between(heights)
            return Points(heights, mass, pairs)
        count = 2 * int(np.clip(4000 * np.quantile(moves, 0.9) / (STEP / 2), 4001, 50_000))  # even: 0 is between cells


def check_not_between(log: Array) -> None:
    """Raise ArithmeticError where a function goes up and down again between its points, seen by how often it turns."""
    with np.errstate(invalid="ignore"):
        moves = np.diff(log)
        turns = (moves[1:] * moves[:-1] < 0) & (np.minimum(np.abs(moves[1:]), np.abs(moves[:-1])) > STEP)
    if (
        turns.mean() > 0.2
    ):  # fewer than ten points between two extremes of one kind; drawn at random, two thirds would be
        raise ArithmeticError("g oscillates faster than the points lie at which its law is taken")


def _floor(log_w: Array, mass: Array, pairs: float) -> float:
    """The log W so far below the largest of the draws that all draws together add nothing, in all but e^-7 of cases."""
    order = np.argsort(log_w)
    above = np.cumsum(mass[order][::-1])[::-1]
    sure = log_w[order][above >= 7]
    return float(max(sure[-1] - math.log(pairs) - 25 if len(sure) else -np.inf, log_w.max() - DEEP))


@dataclass(frozen=True)
class _Lattice:
    """mass[k] = (n − 1) P(log W at start + k·STEP), shared between neighbours in proportion."""

    start: float
    mass: Array


def _lattice(law: Points) -> _Lattice:
    start = max(float(law.log.min()), _floor(law.log, law.mass, law.pairs))
    keep = law.log >= start
    position = (law.log[keep] - start) / STEP
    index = position.astype(int)
    share, mass = position - index, law.mass[keep]
    size = int(index.max()) + 2
    total = np.bincount(index, mass * (1 - share), size) + np.bincount(index + 1, mass * share, size)
    return _Lattice(start, total)


# --- the law of the sum ---


def sum_law(law: Points, dominance: bool = False) -> SumLaw:
    """The law of the sum of n − 1 draws from `law`; the dominance is left at 1 unless it is asked for.

    Raises Steps where W takes single values with positive probability (other than 0) and few terms leave S as
    coarse: the inversion smooths over steps.
    """
    live = (law.log > -np.inf) & (law.mass > 0)
    heard = float(law.mass[live].sum()) / law.pairs
    # float: as P(W = 0) is a sum of thousands of cells, what is left of 1 is no probability below 1e-12
    silent = math.exp(law.pairs * math.log1p(-heard)) if heard < 1 - 1e-12 else 0.0
    if not heard:
        return SumLaw(1.0, np.zeros(len(LEVELS)), np.ones(len(LEVELS)))
    law = Points(law.log[live], law.mass[live], law.pairs)
    largest, others = _largest_quantiles(law, silent)
    if law.pairs == 1 or others <= ALONE:
        found = SumLaw(silent, largest, np.ones(len(LEVELS)))
    else:
        found = _inverted(law, silent, largest, dominance)
    if found.log[-1] - found.log[0] > COARSE and _steps(law) > 0.01:
        raise Steps("g takes single values with positive probability, and so few terms give S a law in steps")
    return found


def _steps(law: Points) -> float:
    """The share of the draws W > 0 that fall on values with positive probability."""
    same = np.diff(law.log) == 0
    if len(law.log) <= 2:
        return 1.0
    inner = same[1:] & same[:-1]  # an extremum between two cells is no step
    return float(law.mass[1:-1][inner].sum() / law.mass.sum())


def _largest_quantiles(law: Points, silent: float) -> tuple[Array, float]:
    """log of the quantiles of the largest of n − 1 draws, P(all ≤ w) = (1 − P(W > w))^{n−1}, given that it is not 0.

    And how many other draws are on average within NEAR nats of it.
    """
    order = np.argsort(law.log)
    points, weights = law.log[order], law.mass[order]
    above = np.cumsum(weights[::-1])[::-1] - weights / 2
    with np.errstate(divide="ignore"):
        below = law.pairs * np.log1p(-np.minimum(above / law.pairs, 1.0))
    found = np.interp(np.log(silent + (1 - silent) * LEVELS), below, points)
    top = np.append(np.cumsum(weights[::-1])[::-1], 0.0)  # summed from above, where the few are that matter
    near = top[np.searchsorted(points, found - NEAR)] - top[np.searchsorted(points, found, "right")]
    return found, float(near.mean()) * (1 - 1 / law.pairs)


@lru_cache(maxsize=2)
def _euler(order: int = ORDER) -> tuple[Array, Array]:
    """Abscissae β and weights η of F(y) = Re Σ η φ(β/y)/β, and of its derivative y F'(y) = Re Σ η φ(β/y)."""
    m = order
    k = np.arange(2 * m + 1)
    weight = np.ones(2 * m + 1)
    weight[0], weight[2 * m] = 0.5, 2.0**-m
    for j in range(1, m):
        weight[2 * m - j] = weight[2 * m - j + 1] + 2.0**-m * math.comb(m, j)
    return m * math.log(10) / 3 + 1j * math.pi * k, 10 ** (m / 3) * (-1.0) ** k * weight


@lru_cache(maxsize=2)
def _kernels(order: int = ORDER) -> tuple[Array, Array]:
    """1 − e^{−βw} and w² e^{−βw} for log w on the lattice in [−BELOW, ABOVE], [offsets, abscissae]."""
    w = np.exp(np.arange(-round(BELOW / STEP), round(ABOVE / STEP) + 1) * STEP)[:, None]
    beta = _euler(order)[0]
    return -np.expm1(-w * beta), w**2 * np.exp(-w * beta)


class _Sum:
    """The sum of `pairs` draws from a lattice law, at arguments log y on the lattice."""

    def __init__(self, law: _Lattice, pairs: float) -> None:
        self.below, self.above = round(BELOW / STEP), round(ABOVE / STEP)
        room = self.above + round((math.log(pairs) + 12) / STEP)  # the sum may exceed the largest term by log(pairs)
        self.pairs, self.start = pairs, law.start
        self.size = len(law.mass) + room
        self.mass = np.concatenate([np.zeros(self.below), law.mass, np.zeros(room + self.above)])
        with np.errstate(divide="ignore"):
            logs = np.log(law.mass) + law.start + STEP * np.arange(len(law.mass))
        self.log_prefix = np.concatenate([np.logaddexp.accumulate(logs), np.full(room, np.logaddexp.reduce(logs))])
        self.tail = np.concatenate([np.cumsum(law.mass[::-1])[::-1], np.zeros(room + self.above + 2)])

    def log_y(self, index: Array) -> Array:
        return self.start + STEP * index

    def cdf(self, index: Array, order: int = ORDER) -> Array:
        """P(S ≤ y)."""
        beta, eta = _euler(order)
        phi = _exp(self._log_transform(self._windows(index), index, order))
        return np.clip((phi * eta / beta).real.sum(axis=1), 0.0, 1.0)

    def dominance(self, index: Array) -> Array:
        """E[Σ W_j²/y² | S = y], from E[Σ W_j² e^{−θS}] = (n − 1) E[W² e^{−θW}] E[e^{−θS}]^{(n−2)/(n−1)}."""
        windows = self._windows(index)
        log_phi = self._log_transform(windows, index)
        eta = _euler()[1]
        squares = (windows @ _kernels()[1] * _exp(log_phi * (1 - 1 / self.pairs)) * eta).real.sum(axis=1)
        density = (_exp(log_phi) * eta).real.sum(axis=1)
        share = np.where(density > 1e-4, squares / np.maximum(density, 1e-4), 1.0)
        return np.clip(share, 1 / self.pairs, 1.0)

    def _windows(self, index: Array) -> Array:
        return np.lib.stride_tricks.sliding_window_view(self.mass, self.below + self.above + 1)[index]

    def _log_transform(self, windows: Array, index: Array, order: int = ORDER) -> Array:
        """log E e^{−(β/y)S}, [arguments, abscissae]."""
        rest = index - self.below - 1
        with np.errstate(over="ignore"):
            small = np.where(rest >= 0, np.exp(self.log_prefix[np.maximum(rest, 0)] - self.log_y(index)), 0.0)
        lost = windows @ _kernels(order)[0] + np.minimum(small, 1e6)[:, None] * _euler(order)[0]
        lost += self.tail[index + self.above + 1][:, None]
        return self.pairs * _log1p(-lost / self.pairs)

    def bracket(self) -> tuple[int, int]:
        """Lattice arguments between which all but a thousandth of the law lies, without inversion.

        Below: the largest of the draws exceeds it. Above: Markov's bound on the part of S from W ≤ y, and the tail.
        """
        sure = np.flatnonzero(self.tail[: self.size] >= 7)
        index = np.arange(self.size)
        with np.errstate(over="ignore"):
            excess = self.tail[: self.size] + np.exp(np.minimum(self.log_prefix - self.log_y(index), 50.0))
        high = int(np.flatnonzero(excess <= 1e-3)[0]) if excess[-1] <= 1e-3 else self.size - 1
        return (int(sure[-1]) if len(sure) else 0), high

    def table(self) -> tuple[Array, Array]:
        """Lattice arguments and P(S ≤ y) there, no two neighbours further apart than FINE on the normal scale.

        The law may be bimodal with nothing over tens of nats (both signs of x for a gelu), so gaps are halved where the
        law is, down to the lattice.
        """
        low, high = self.bracket()
        index = np.unique(np.linspace(low, high, 33).round().astype(int))
        cdf = self.cdf(index)
        while True:
            wide = np.flatnonzero((np.abs(np.diff(_normal(cdf))) > FINE) & (np.diff(index) > 1))
            if not len(wide):
                return index, np.maximum.accumulate(cdf)
            between = (index[wide] + index[wide + 1]) // 2
            cdf = np.insert(cdf, wide + 1, self.cdf(between))
            index = np.insert(index, wide + 1, between)


def _normal(p: Array) -> Array:
    return ndtri(np.clip(p, 5e-4, 1 - 5e-4))


def _exp(power: Array) -> Array:
    return np.exp(np.minimum(power.real, 0.0) + 1j * power.imag)  # |φ| ≤ 1; beyond it W ≪ y was no small part


def _log1p(x: Array) -> Array:
    """log(1 + x) for complex x; numpy's own loses the digits of small x."""
    small = np.abs(x) < 1e-3
    series = x * (1 - x * (0.5 - x * (1 / 3 - x * (0.25 - x * 0.2))))
    rest = np.where(small | (np.abs(1 + x) < 1e-300), 1e-300, 1 + x)  # φ = 0: its power is 0 to all digits
    return np.where(small, series, np.log(rest))


def _inverted(law: Points, silent: float, largest: Array, dominance: bool) -> SumLaw:
    lattice = _lattice(law)
    total = _Sum(lattice, law.pairs)
    index, cdf = total.table()
    if np.abs(total.cdf(index[::2], CHECK) - cdf[::2]).max() > UNRESOLVED:
        return _three_moments(total, lattice, round(np.interp(0.5, cdf, index) + 0.5 / STEP))
    given = np.maximum((cdf - silent) / (1 - silent), 0.0)
    start = int(np.argmax(given > 5e-4)) - 1 if given[0] <= 5e-4 else 0
    if given[0] > 0.3:
        raise ArithmeticError(f"the noise varies over more than {DEEP:g} nats, and is no single term for all that")
    score, first = np.unique(_normal(given[start:]), return_index=True)
    found = PchipInterpolator(score, total.log_y(index[start + first]))(np.clip(_normal(LEVELS), score[0], score[-1]))
    # below the lattice, DEEP nats down, log S varies by so much that the largest term is the sum
    found = np.where(given[0] > LEVELS, np.minimum(largest, found), found) if given[0] > 0.001 else found
    if not dominance:
        return SumLaw(silent, found, np.ones(len(LEVELS)))
    at = np.clip(((found - total.start) / STEP).round().astype(int), 0, total.size - 1)
    return SumLaw(silent, found, total.dominance(at))


def _three_moments(total: _Sum, law: _Lattice, limit: int) -> SumLaw:
    """Cornish–Fisher quantiles of a nearly constant sum, from the terms that are not larger than it.

    Raises Steps where the sum is not nearly constant, so that its steep law has steps.
    """
    w = np.exp(STEP * (np.arange(len(law.mass)) - limit))[: limit + 1]
    mass = law.mass[: limit + 1]
    first, second, third = (float(mass @ w**k) for k in (1, 2, 3))
    variance = max(second - first * (first / total.pairs), 0.0)
    spread = math.sqrt(variance)
    if spread > NARROW * first:
        raise Steps("the law of the noise has steps that the inversion of its transform does not resolve")
    central = third - 3 * second * (first / total.pairs) + 2 * first * (first / total.pairs) ** 2
    skew = central / spread**3 if spread > 1e-4 * first else 0.0  # below it, rounding is all there is
    z = ndtri(LEVELS)
    found = total.log_y(np.array(limit)) + np.log(first + spread * (z + skew * (z * z - 1) / 6))
    return SumLaw(0.0, found, np.full(len(LEVELS), second / first**2))
