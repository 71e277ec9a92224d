"""The law of a single recall's inverse SNR, and with it the typical value: its median over draws.

Conditional on s = ‖k_i‖² the noise is a sum S = Σ_{j≠i} W_j of n − 1 independent W = g(X)². W may span hundreds of
orders of magnitude, and its mean may be carried by draws that n keys do not contain (condensation), so no
central limit applies. Its Laplace transform is exact in every regime,

    E e^{−θS} = (1 − E[1 − e^{−θW}])^{n−1},

and is inverted numerically (Euler summation, Abate and Whitt 2006). The law of log W is put on a lattice, so that one
kernel serves all arguments. The median over s and over Gaussian values (‖r‖² = S·χ²_{d_v}/d_v) then comes from the
mixture. Euler summation resolves relative widths of S above about a tenth; a narrower S gets its quantiles from three
moments (Cornish–Fisher), which is good exactly there.

Leading order for ln N = αd at a fixed tau: `typical_exponent` (Gaussian products) and `sphere_capacity_exponent`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from snr.expectation import log_angle_norm
from snr.similarity import Similarity

Array = Any
STEP = 0.01  # nats between lattice points of log W
BELOW, ABOVE = 16.0, 3.0  # nats around the argument where 1 − e^{−θW} is neither θW nor 1
ORDER = 10
NARROW = 0.5  # nats between the extreme quantiles of S below which three moments serve
LEVELS = np.concatenate([[0.001, 0.005], np.linspace(0.02, 0.98, 33), [0.995, 0.999]])
"""Probabilities at which the conditional quantiles are tabulated."""
MAX_LOG_N = 600.0
MIXTURE = 400  # probe norms, at equal probabilities
MANY_SIGNS = 1000  # keys ±1 from which the noise is as good as continuous
FEW = 14  # norms at which the law of the noise is computed


def typical_exponent(alpha: float, tau: float) -> float:
    """lim (1/d) ln of the typical exp-kernel SNR⁻¹ for N = e^{αd} Gaussian keys, probe of norm √d, at a fixed tau.

    Uncondensed, α ≥ 2/tau²: the mean's α − 2(tau−1)/tau². Condensed: the nearest key, at x = d√(2α), carries the noise:
    (2/tau)(√(2α) − 1). The zero of this in α is the typical capacity exponent.
    """
    if alpha >= 2 / tau**2:
        return alpha - 2 * (tau - 1) / tau**2
    return 2 / tau * (math.sqrt(2 * alpha) - 1)


def capacity_exponent(tau: float) -> float:
    """α* with typical_exponent(α*, tau) = 0: 2(tau−1)/tau² for tau ≥ 2, else ½. P has 2(tau−1)/tau² for every tau."""
    return 2 * (tau - 1) / tau**2 if tau >= 2 else 0.5


def sphere_capacity_exponent(tau: float) -> float:
    """The same for keys uniform on ‖k‖ = √d, where mean and typical agree: 2/tau − max_t [½ ln(1−t²) + 2t/tau].

    A cosine near t has probability (1−t²)^{d/2}, not e^{−t²d/2}, and no key can have t > 1: the exponent exceeds P's
    2(tau−1)/tau² for every tau, has no bound as tau → 0, and so no best temperature.
    """
    t = tau * (math.sqrt(1 + 16 / tau**2) - 1) / 4
    return 2 * (1 - t) / tau - math.log1p(-t * t) / 2


@dataclass(frozen=True)
class RecallLaw:
    """The law of log ‖r‖²/(c² E‖v‖²) for one recall, as weighted quantile tables; made by `recall_law`.

    weights: [nodes] of the probe's norm; tables: [nodes, levels] conditional quantiles at `LEVELS`; d_v: width of
    Gaussian values, or None for values averaged out.
    """

    weights: Array
    tables: Array
    d_v: int | None

    def cdf(self, log: float) -> float:
        """P(log SNR⁻¹ ≤ log)."""
        shifts, shift_weights = _value_nodes(self.d_v)
        found = 0.0
        for shift, weight in zip(shifts, shift_weights):
            found += weight * float(self.weights @ _table_cdf(self.tables, log - shift))
        return found

    def quantile(self, p: float) -> float:
        """log of the p-quantile; −inf where P(no noise) ≥ p, inf where P(no signal) > 1 − p.

        Each norm's table ends at 0.001 and 0.999. By false position (Illinois), which halves in each third step lest a
        gap in the law hold it up.
        """
        if not 0 < p < 1:
            raise ValueError(f"p = {p}: expected a probability strictly between 0 and 1")
        finite = self.tables[np.isfinite(self.tables)]
        low, high = (float(finite.min() - 20), float(finite.max() + 20)) if len(finite) else (0.0, 0.0)
        below, above = self.cdf(low) - p, self.cdf(high) - p
        if below >= 0 or above < 0:
            return -math.inf if below >= 0 else math.inf
        width = 1e-9 * max(1.0, abs(low), abs(high))
        moved, step = 0, 0
        while high - low > width:
            step += 1
            middle = low + (high - low) * (below / (below - above) if step % 3 else 0.5)
            middle = min(
                max(middle, low + 0.4 * width), high - 0.4 * width
            )  # an end that has arrived fetches the other
            excess = self.cdf(middle) - p
            if excess < 0:
                above *= 0.5 if moved < 0 else 1.0
                low, below, moved = middle, excess, -1
            else:
                below *= 0.5 if moved > 0 else 1.0
                high, above, moved = middle, excess, 1
        return (low + high) / 2


def recall_law(
    similarity: Similarity, n: float, d: float, tau: float, keys: str = "gaussian", *, d_v: int | None = None
) -> RecallLaw:
    """The law of one recall's inverse SNR in a memory of n ≥ 2 pairs.

    keys: "gaussian" (all N(0, I_d)), "sphere" (all uniform on ‖k‖ = √d), or "fixed-probe" (a probe of norm √d among
    Gaussian keys, P's setting).

    Accuracy: about 1 % in the quantiles, compared with simulation in the tests. Raises ArithmeticError where g is
    not real, ValueError for n < 2 or beyond e^600.
    """
    if not 2 <= n < math.exp(MAX_LOG_N):
        raise ValueError(f"n = {n:g}: expected at least 2 and below e^{MAX_LOG_N:.0f}")
    pairs = float(n - 1)
    if keys == "sphere" or similarity.cosine:
        if d == 1 and pairs < MANY_SIGNS:
            raise ArithmeticError("keys ±1 give the noise a law with atoms, whose median is not resolved")
        norms, weights = np.array([float(d)]), np.ones(1)
        tables = _sum_quantiles(*_sphere_law(similarity, d, tau, pairs), pairs)[None, :]
    elif keys == "fixed-probe":
        norms, weights = np.array([float(d)]), np.ones(1)
        tables = _sum_quantiles(*_normal_law(similarity, float(d), d, tau, pairs), pairs)[None, :]
    else:
        # quantiles of S given s are smooth in log s: a polynomial through few norms serves the many of the mixture
        few = _chebyshev_norms(d)
        few_tables = np.array([_sum_quantiles(*_normal_law(similarity, float(s), d, tau, pairs), pairs) for s in few])
        norms = 2 * gammaincinv(d / 2, (np.arange(MIXTURE) + 0.5) / MIXTURE)
        weights = np.full(MIXTURE, 1 / MIXTURE)
        tables = _interpolate(np.log(few), few_tables, np.log(norms))
    sign, log_signal = similarity.sign_and_log(norms, tau, d)
    log_signal = np.where(sign == 0, -np.inf, log_signal)
    return RecallLaw(weights, np.where(sign == 0, np.inf, tables.T - 2 * log_signal).T, d_v)


# --- the law of log W on a lattice ---


@dataclass(frozen=True)
class _Lattice:
    """mass[k] = (n − 1) P(log W at start + k·STEP), shared between neighbours in proportion."""

    start: float
    mass: Array


def _normal_law(similarity: Similarity, s: float, d: float, tau: float, pairs: float) -> tuple[Array, Array]:
    """Points and masses of log W, W = g(X)² with X ~ N(0, s)."""
    reach = math.sqrt(2 * math.log(pairs) + 60)

    def log_w(z: Array) -> Array:
        return _log_square(similarity, math.sqrt(s) * z, tau, d)

    def log_mass(z: Array) -> Array:
        return math.log(pairs) - z * z / 2 - 0.5 * math.log(2 * math.pi)

    return _fine_enough(log_w, log_mass, reach, pairs)


def _sphere_law(similarity: Similarity, d: float, tau: float, pairs: float) -> tuple[Array, Array]:
    """The same for W = g(dT)², T the cosine of two random directions."""
    if d == 1:
        return _log_square(similarity, np.array([-1.0, 1.0]), tau, d), np.full(2, pairs / 2)
    rare = math.exp(-(math.log(pairs) + 30) / (d - 2)) if d > 2 else 0.0
    reach = math.acos(rare)

    def log_w(angle: Array) -> Array:
        return _log_square(similarity, d * np.sin(angle), tau, d)

    def log_mass(angle: Array) -> Array:
        return math.log(pairs) + (d - 2) * np.log(np.cos(angle)) + log_angle_norm(d)

    return _fine_enough(log_w, log_mass, reach, pairs)


def _log_square(similarity: Similarity, x: Array, tau: float, d: float) -> Array:
    sign, log = similarity.sign_and_log(x, tau, d)
    if np.isnan(sign).any():
        raise ArithmeticError(f"g is not a real number at x = {np.asarray(x)[np.isnan(sign)][0]:.6g}")
    if np.isposinf(log).any():
        raise ArithmeticError("g grows beyond what its logarithm can hold")
    return np.where(sign == 0, -np.inf, 2 * log)


def _fine_enough(log_w: Any, log_mass: Any, reach: float, pairs: float) -> tuple[Array, Array]:
    """(log W, mass) at cell middles over [−reach, reach]; log W moves by less than a lattice step from cell to cell.

    At most 100,000 cells: beyond that the steps are larger, and still smooth on the scale of the inversion's kernel.
    """
    count = 8000
    while True:
        points = (np.arange(count) + 0.5) * (2 * reach / count) - reach
        heights, mass = log_w(points), np.exp(log_mass(points) + math.log(2 * reach / count))
        near = heights[1:] >= _floor(heights, mass, pairs)
        with np.errstate(invalid="ignore"):
            moves = np.abs(np.diff(heights))[near]
        moves = moves[np.isfinite(moves)]
        if count > 8000 or not len(moves):
            return heights, mass
        count = int(np.clip(8000 * np.quantile(moves, 0.9) / (STEP / 2), 8001, 100_000))


def _floor(log_w: Array, mass: Array, pairs: float) -> float:
    """The log W so far below the largest of the draws that all draws together add nothing, in all but e^-7 of cases."""
    order = np.argsort(log_w)
    above = np.cumsum(mass[order][::-1])[::-1]
    sure = log_w[order][above >= 7]
    return float(sure[-1] - math.log(pairs) - 25 if len(sure) else log_w.max() - 9000)


def _lattice(log_w: Array, mass: Array, pairs: float) -> _Lattice:
    live = (log_w > -np.inf) & (mass > 0)
    log_w, mass = log_w[live], mass[live]
    start = max(float(log_w.min()), _floor(log_w, mass, pairs))
    keep = log_w >= start
    position = (log_w[keep] - start) / STEP
    index = position.astype(int)
    share = position - index
    size = int(index.max()) + 2
    if size > 10_000_000:
        raise ArithmeticError(f"log g(X)² ranges over {size * STEP:.3g} nats, more than the lattice holds")
    total = np.bincount(index, mass[keep] * (1 - share), size) + np.bincount(index + 1, mass[keep] * share, size)
    return _Lattice(start, total)


# --- quantiles of the sum by inversion of its Laplace transform ---


@lru_cache(maxsize=1)
def _euler() -> tuple[Array, Array]:
    """Abscissae β and weights η of F(y) = Re Σ η φ(β/y)/β."""
    m = ORDER
    k = np.arange(2 * m + 1)
    weight = np.ones(2 * m + 1)
    weight[0], weight[2 * m] = 0.5, 2.0**-m
    for j in range(1, m):
        weight[2 * m - j] = weight[2 * m - j + 1] + 2.0**-m * math.comb(m, j)
    return m * math.log(10) / 3 + 1j * math.pi * k, 10 ** (m / 3) * (-1.0) ** k * weight


@lru_cache(maxsize=1)
def _kernel() -> tuple[Array, int, int]:
    """1 − e^{−β e^w} for the lattice offsets w in [−BELOW, ABOVE], [offsets, abscissae]; offsets below and above 0."""
    below, above = round(BELOW / STEP), round(ABOVE / STEP)
    w = np.exp(np.arange(-below, above + 1) * STEP)
    return -np.expm1(-w[:, None] * _euler()[0]), below, above


class _Sum:
    """P(S ≤ y) for S the sum of `pairs` draws from a lattice law, at arguments log y on the lattice."""

    def __init__(self, law: _Lattice, pairs: float) -> None:
        _, below, above = _kernel()
        room = above + round((math.log(pairs) + 12) / STEP)  # the sum may exceed the largest term by log(pairs)
        self.pairs, self.start, self.below, self.above = pairs, law.start, below, above
        self.size = len(law.mass) + room
        self.mass = np.concatenate([np.zeros(below), law.mass, np.zeros(room + above)])
        with np.errstate(divide="ignore"):
            logs = np.log(law.mass) + law.start + STEP * np.arange(len(law.mass))
        self.log_prefix = np.concatenate([np.logaddexp.accumulate(logs), np.full(room, np.logaddexp.reduce(logs))])
        self.tail = np.concatenate([np.cumsum(law.mass[::-1])[::-1], np.zeros(room + above + 2)])

    def log_y(self, index: Array) -> Array:
        return self.start + STEP * index

    def cdf(self, index: Array) -> Array:
        kernel, _, _ = _kernel()
        beta, eta = _euler()
        windows = np.lib.stride_tricks.sliding_window_view(self.mass, self.below + self.above + 1)[index]
        rest = index - self.below - 1
        with np.errstate(over="ignore"):
            small = np.where(rest >= 0, np.exp(self.log_prefix[np.maximum(rest, 0)] - self.log_y(index)), 0.0)
        lost = windows @ kernel + np.minimum(small, 1e6)[:, None] * beta + self.tail[index + self.above + 1][:, None]
        power = self.pairs * _log1p(-lost / self.pairs)
        phi = np.exp(np.minimum(power.real, 0.0) + 1j * power.imag)  # |φ| ≤ 1; beyond it W ≪ y was no small part
        return np.clip((phi * eta / beta).real.sum(axis=1), 0.0, 1.0)

    def bracket(self) -> tuple[int, int]:
        """Lattice arguments between which all but a thousandth of the law lies, without inversion.

        Below: the largest of the draws exceeds it. Above: Markov's bound on the part of S from W ≤ y, and the tail.
        """
        sure = np.flatnonzero(self.tail[: self.size] >= 7)
        index = np.arange(self.size)
        with np.errstate(over="ignore"):
            excess = self.tail[: self.size] + np.exp(np.minimum(self.log_prefix - self.log_y(index), 50.0))
        return (int(sure[-1]) if len(sure) else 0), int(np.flatnonzero(excess <= 1e-3)[0]) if excess[-1] <= 1e-3 else (
            self.size - 1
        )


def _log1p(x: Array) -> Array:
    """log(1 + x) for complex x; numpy's own loses the digits of small x."""
    small = np.abs(x) < 1e-3
    series = x * (1 - x * (0.5 - x * (1 / 3 - x * (0.25 - x * 0.2))))
    rest = np.where(small | (np.abs(1 + x) < 1e-300), 1e-300, 1 + x)  # φ = 0: its power is 0 to all digits
    return np.where(small, series, np.log(rest))


def _sum_quantiles(log_w: Array, mass: Array, pairs: float) -> Array:
    """log of S's quantiles at LEVELS; −inf where P(S = 0) reaches the level.

    log_w, mass: the law of log W at points, mass n − 1 in all. Where the largest term itself varies over hundreds of
    nats (tau ≪ 1) the sum is that term: the next one adds less than 1/300 to the logarithm on average.
    """
    largest = _largest_quantiles(log_w, mass, pairs)
    low, high = largest[np.searchsorted(LEVELS, [0.1, 0.9])]
    if pairs == 1 or high == -np.inf or (np.isfinite(low) and high - low > 300):
        return largest
    law = _lattice(log_w, mass, pairs)
    total = _Sum(law, pairs)
    low, high = total.bracket()
    for _ in range(6):
        index = np.unique(np.linspace(low, high, 65).round().astype(int))
        cdf = total.cdf(index)
        under, over = index[cdf < 5e-4], index[cdf > 1 - 5e-4]
        tighter = (int(under[-1]) if len(under) else low), (int(over[0]) if len(over) else high)
        if high - low <= 64 or tighter[1] - tighter[0] > 0.7 * (high - low):
            break
        low, high = tighter
    if high - low < NARROW / STEP:
        return _three_moments(total, law, high)
    cdf = np.maximum.accumulate(np.clip(cdf, 1e-12, 1 - 1e-12))
    rising = np.concatenate([[True], np.diff(cdf) > 0])
    found = np.interp(ndtri(LEVELS), ndtri(cdf[rising]), total.log_y(index[rising]))
    return np.where(cdf[0] >= LEVELS, -np.inf, found) if cdf[0] > 1e-3 else found


def _largest_quantiles(log_w: Array, mass: Array, pairs: float) -> Array:
    """log of the quantiles of the largest of n − 1 draws, P(all ≤ w) = (1 − P(W > w))^{n−1}; −inf where it is 0."""
    live = (log_w > -np.inf) & (mass > 0)
    order = np.argsort(log_w[live])
    points, weights = log_w[live][order], mass[live][order]
    above = np.cumsum(weights[::-1])[::-1] - weights / 2
    with np.errstate(divide="ignore"):
        below = pairs * np.log1p(-np.minimum(above / pairs, 1.0))
    found = np.interp(np.log(LEVELS), below, points) if len(points) else np.full(len(LEVELS), -np.inf)
    silent = pairs * math.log1p(-min(1.0 - 1e-16, float(weights.sum()) / pairs)) if len(points) else 0.0
    return np.where(np.log(LEVELS) <= silent, -np.inf, found)


def _three_moments(total: _Sum, law: _Lattice, limit: int) -> Array:
    """Cornish–Fisher quantiles of a nearly constant sum, from the terms no larger than the sum itself."""
    w = np.exp(STEP * (np.arange(len(law.mass)) - limit))[: limit + 1]
    mass = law.mass[: limit + 1]
    first, second, third = (float(mass @ w**k) for k in (1, 2, 3))
    variance = max(second - first * (first / total.pairs), 0.0)
    spread = math.sqrt(variance)
    central = third - 3 * second * (first / total.pairs) + 2 * first * (first / total.pairs) ** 2
    skew = central / spread**3 if spread > 1e-9 * first else 0.0
    z = ndtri(LEVELS)
    return total.log_y(np.array(limit)) + np.log(first + spread * (z + skew * (z * z - 1) / 6))


# --- the mixture over norms and values ---


def _chebyshev_norms(d: float) -> Array:
    low, high = np.log(2 * gammaincinv(d / 2, np.array([0.4 / MIXTURE, 1 - 0.4 / MIXTURE])))
    return np.exp((low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(FEW) + 0.5) / FEW)[::-1])


def _interpolate(x: Array, tables: Array, fine: Array) -> Array:
    """Barycentric interpolation through Chebyshev points; linear for levels that are −inf at some norms."""
    finite = np.isfinite(tables).all(axis=0)
    weights = (-1.0) ** np.arange(len(x)) * np.sin(np.pi * (np.arange(len(x)) + 0.5) / len(x))
    difference = fine[:, None] - x
    difference = np.where(difference == 0, 1e-300, difference)
    quotient = weights / difference
    found = np.full((len(fine), tables.shape[1]), -np.inf)
    found[:, finite] = (quotient @ tables[:, finite]) / quotient.sum(axis=1, keepdims=True)
    for column in np.flatnonzero(~finite & np.isfinite(tables).any(axis=0)):
        known = np.isfinite(tables[:, column])
        inside = (fine >= x[known][0]) & (fine <= x[known][-1])
        found[inside, column] = np.interp(fine[inside], x[known], tables[known, column])
    return found


@lru_cache(maxsize=64)
def _value_nodes(d_v: int | None) -> tuple[Array, Array]:
    """log(χ²_{d_v}/d_v) at equal probabilities, and their weights."""
    if d_v is None:
        return np.zeros(1), np.ones(1)
    p = (np.arange(64) + 0.5) / 64
    return np.log(2 * gammaincinv(d_v / 2, p) / d_v), np.full(64, 1 / 64)


def _table_cdf(tables: Array, log: float) -> Array:
    """P(· ≤ log) for each row of quantiles at LEVELS, linear between them on the normal scale; 0 and 1 beyond."""
    after = (tables <= log).sum(axis=1)
    rows, last = np.arange(len(tables)), len(LEVELS) - 1
    a, b = np.clip(after - 1, 0, last), np.clip(after, 0, last)
    below, above = tables[rows, a], tables[rows, b]
    normal = ndtri(LEVELS)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(below) & (above > below), (log - below) / (above - below), 0.0)
    found = ndtr(normal[a] + share * (normal[b] - normal[a]))
    return np.where(after == 0, 0.0, np.where(after > last, 1.0, found))
