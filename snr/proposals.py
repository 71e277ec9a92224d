"""Where the mean of the inverse SNR comes from: probe norms and inner products that carry it, found numerically.

For Gaussian keys the inner products of a probe with ‖k_i‖² = s are √s Z with Z ~ N(0, 1) independent, so

    E[‖r‖²/(c² E‖v‖²)] = (N−1) ∫ χ²_d(s) ∫ φ(z) g(√s z)² dz / g(s)² ds.

The integrand is tabulated on grids, only to place proposals where its mass lies: importance sampling is unbiased for
every proposal, and its own self-check says whether this one was good. No closed form is used, so any g will do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr.similarity import Similarity
from snr.zeros import vanishing

Array = NDArray[Any]

WIDEN = 1.3  # proposals are wider than the integrand's mass by this factor in variance: weights stay bounded
DEFENSIVE = 0.1  # share of the probes drawn from the keys' own law, whatever the integrand looks like


class Diverges(ValueError):
    """The mean asked for is infinite; the message, a sentence without its full stop, says why."""

    sample = "No sample can show an infinite mean: the interval of the direct simulation has no upper end."


class NoSignal(Diverges):
    """g vanishes at the product of every probe with itself."""

    sample = "No sample can show that the inverse SNR is infinite: the mean's interval has no upper end."


class NoMean(Diverges):
    """There is no mean: g is no real number somewhere."""

    sample = "No sample can show a mean that does not exist: the interval of the direct simulation has no upper end."


class Pole(Diverges):
    """g is infinite at a product of two keys, where samples do not tell a finite mean from an infinite one."""

    sample = (
        "However long, the direct simulation cannot tell whether the mean is finite: its interval has no upper end."
    )


POLE = "No sample vouches for the mean: g is infinite at a product of two keys"
SUBJECT = {"mean": "The mean", "noise": "The mean noise E‖r‖²", "signal": "The mean signal E c²"}


def log_inner(similarity: Similarity, s: Array, tau: float, d: int, power: int = 2) -> tuple[Array, Array, Array]:
    """ln ∫ φ(z)|g(√s z)|^power dz for each s [S], with the mean and s.d. of z under that integrand.

    The support is found on a coarse grid and refined three times, so peaks at z = 2√s/tau are met wherever they are.
    """
    root = np.sqrt(s)[:, None]
    y = np.linspace(-22, 22, 331)
    z = np.broadcast_to(np.sinh(y) * 1e-2, (len(s), len(y)))  # ±1.8e7, spacing from 1e-3 near 0

    def log_integrand(z: Array) -> Array:
        _, log = similarity.sign_and_log(root * z, tau, d)
        with np.errstate(over="ignore", invalid="ignore"):
            value = power * log - z * z / 2
        return np.where(np.isnan(value), -np.inf, value)

    for points in (201, 201, 401):
        height = log_integrand(z)
        alive = height > height.max(axis=1, keepdims=True) - 45
        first = np.maximum(alive.argmax(axis=1) - 1, 0)
        last = np.minimum(z.shape[1] - 1 - alive[:, ::-1].argmax(axis=1) + 1, z.shape[1] - 1)
        rows = np.arange(len(s))
        low, high = z[rows, first], z[rows, last]
        z = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, points)
    height = log_integrand(z)
    top = height.max(axis=1)
    anchor = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # at a pole of g: an infinite integral without mean and s.d.
        mass = np.exp(height - anchor[:, None])
        total = np.maximum(mass.sum(axis=1), 1e-300)
        mean = (mass * z).sum(axis=1) / total
        spread = np.sqrt((mass * (z - mean[:, None]) ** 2).sum(axis=1) / total)
    step = (z[:, -1] - z[:, 0]) / (z.shape[1] - 1)
    return anchor + np.log(total * step) - 0.5 * math.log(2 * math.pi), mean, spread


@dataclass(frozen=True)
class NormProposal:
    """Draws s = ‖k_i‖² from (1 − DEFENSIVE)·Gamma(shape, scale) + DEFENSIVE·χ²_d.

    carrier: the mean of s under the integrand, the norms that carry the statistic; 99 % of its mass lies in (low, high)
    and 90 % in (edge_low, edge_high).
    """

    d: int
    shape: float
    scale: float
    carrier: float
    low: float
    high: float
    edge_low: float
    edge_high: float

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> tuple[Array, Array]:
        """s and ln(χ²_d(s)/proposal(s)), both of that size."""
        own = rng.random(size) < DEFENSIVE
        s = np.where(own, 2 * rng.standard_gamma(self.d / 2, size), self.scale * rng.standard_gamma(self.shape, size))
        s = np.maximum(s, 1e-300)
        prior = log_gamma_density(s, self.d / 2, 2.0)
        tilted = log_gamma_density(s, self.shape, self.scale)
        mixture = np.logaddexp(math.log(DEFENSIVE) + prior, math.log1p(-DEFENSIVE) + tilted)
        return s, prior - mixture


def log_gamma_density(s: Array, shape: float, scale: float) -> Array:
    return (shape - 1) * np.log(s / scale) - s / scale - (math.lgamma(shape) + math.log(scale))


def norm_proposal(similarity: Similarity, tau: float, d: int, statistic: str) -> NormProposal:
    """The proposal for the probe's ‖k_i‖² that fits the integrand of a statistic.

    statistic: "mean" (of the ratio), "noise" (E‖r‖²) or "signal" (E c²). Raises Diverges where it is infinite.
    """

    def log_density(u: Array) -> Array:  # of u = ln s, up to a constant
        s = np.exp(u)
        value = (d / 2) * u - s / 2
        if statistic != "signal":
            value = value + log_inner(similarity, s, tau, d)[0]
        if statistic != "noise":
            with np.errstate(invalid="ignore"):  # where both are infinite
                value = value + (2 if statistic == "signal" else -2) * similarity.sign_and_log(s, tau, d)[1]
        return np.where(np.isnan(value), -np.inf, value)

    u = _wide(d)
    _check_signal(similarity, tau, d, statistic)
    height = log_density(u)
    _check_ends(u, height, statistic)
    for _ in range(3):
        alive = np.flatnonzero(height > height.max() - 40)
        low, high = u[max(alive[0] - 1, 0)], u[min(alive[-1] + 1, len(u) - 1)]
        u = np.linspace(low, high, 201)
        height = log_density(u)
    mass, s = np.exp(height - height.max()), np.exp(u)
    mass /= mass.sum()
    mean = float(mass @ s)
    variance = float(mass @ (s - mean) ** 2) * WIDEN
    low, edge_low, edge_high, high = (float(s[i]) for i in np.searchsorted(np.cumsum(mass), (0.005, 0.05, 0.95, 0.995)))
    return NormProposal(d, mean**2 / variance, variance / mean, mean, low, high, edge_low, edge_high)


def ratio_variance_is_finite(similarity: Similarity, tau: float, d: int) -> bool:
    """Whether E[g(√s Z)⁴/g(s)⁴] is: the same check of the integrand's ends as for the mean."""
    u = _wide(d)
    s = np.exp(u)
    with np.errstate(invalid="ignore"):
        height = log_inner(similarity, s, tau, d, 4)[0] - 4 * similarity.sign_and_log(s, tau, d)[1]
    height = (d / 2) * u - s / 2 + height
    try:
        _check_ends(u, np.where(np.isnan(height), -np.inf, height), "mean")
    except Diverges:
        return False
    return True


def _wide(d: int) -> Array:
    """u = ln s from where χ²_d has a power law to far beyond its tail."""
    return np.linspace(math.log(d) - 60, math.log(d) + 14, 501)


def _check_ends(u: Array, height: Array, statistic: str) -> None:
    """Raise Diverges unless e^height du decays at both ends."""
    with np.errstate(invalid="ignore"):  # between two infinite ends
        rise, fall = np.diff(height)[[0, -1]] / (u[1] - u[0])
    if np.isposinf(height).any():
        raise Pole(POLE)
    if rise < 1e-3 or fall > -1e-3:
        size = "small" if rise < 1e-3 else "large"
        what = "signal" if statistic == "signal" else "noise"
        raise Diverges(
            f"{SUBJECT[statistic]} is infinite: probes of {size} norm carry it, and their {what} outgrows their rarity"
        )


def _check_signal(similarity: Similarity, tau: float, d: int, statistic: str) -> None:
    """Where g vanishes at some ‖k‖² > 0, 1/g² has no mean: a probe there has noise and no signal."""
    if statistic != "mean":
        return
    try:
        zero = vanishing(similarity, d, tau)
    except ArithmeticError as error:
        raise NoMean(f"There is no mean: {error}") from error
    if zero is not None:
        raise Diverges(f"The mean is infinite: the signal g(‖k‖²) vanishes {zero}")


@dataclass(frozen=True)
class PairProposal:
    """Draws one other key's z given the probe's s from ½N(0, 1) + ½N(mean(s), sd(s)²), tabulated over √s."""

    roots: Array
    means: Array
    spreads: Array

    def draw(self, rng: np.random.Generator, s: Array) -> tuple[Array, Array]:
        """z [n] and ln(φ(z)/proposal(z)) ≤ ln 2."""
        root = np.sqrt(s)
        mean, spread = np.interp(root, self.roots, self.means), np.interp(root, self.roots, self.spreads)
        z = rng.standard_normal(len(s))
        tilted = rng.random(len(s)) < 0.5
        z = np.where(tilted, mean + spread * z, z)
        ratio = z * z / 2 - ((z - mean) / spread) ** 2 / 2 - np.log(spread)  # ln of tilted over φ
        return z, math.log(2) - np.logaddexp(0, ratio)


def pair_proposal(similarity: Similarity, tau: float, d: int, low: float, high: float) -> PairProposal:
    """The proposal for z over probes with s in [low, high]. Raises Diverges at a pole of g."""
    s = np.geomspace(low / 2, high * 2, 65)
    heights, means, spreads = log_inner(similarity, s, tau, d)
    if np.isposinf(heights).any():
        raise Pole(POLE)
    return PairProposal(np.sqrt(s), means, np.maximum(spreads, 0.05) * math.sqrt(WIDEN))


@dataclass(frozen=True)
class SphereProposal:
    """Draws y = √d cos(k_i, k_j) of keys uniform on the sphere from half its own law, half N(mean, sd²)."""

    d: int
    mean: float
    spread: float

    def draw(self, rng: np.random.Generator, s: Array) -> tuple[Array, Array]:
        """y [n] and ln(law(y)/proposal(y)) ≤ ln 2; −inf for draws beyond the sphere."""
        d, n = self.d, len(s)
        z, rest = rng.standard_normal(n), 2 * rng.standard_gamma((d - 1) / 2, n) if d > 1 else np.zeros(n)
        own = math.sqrt(d) * z / np.sqrt(z * z + rest)
        if d == 1:
            return own, np.zeros(n)
        y = np.where(rng.random(n) < 0.5, own, self.mean + self.spread * rng.standard_normal(n))
        law = log_cosine_density(y, d)
        tilted = -(((y - self.mean) / self.spread) ** 2) / 2 - math.log(self.spread) - 0.5 * math.log(2 * math.pi)
        return y, math.log(2) + law - np.logaddexp(law, tilted)


def log_cosine_density(y: Array, d: int) -> Array:
    """ln of the density of √d cos between two uniform directions, d ≥ 2; −inf beyond ±√d. N(0, 1) for large d."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = (d - 3) / 2 * np.log1p(-y * y / d)
    constant = math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - 0.5 * math.log(math.pi * d)
    return np.where(y * y < d, shape + constant, -np.inf)


def sphere_proposal(similarity: Similarity, tau: float, d: int) -> SphereProposal:
    """The proposal for keys on the sphere: mean and s.d. of y under law(y) g(√d y)². Raises Diverges at a pole of g."""
    y = math.sqrt(d) * np.linspace(-1, 1, 20001)[1:-1]
    _, log = similarity.sign_and_log(math.sqrt(d) * y, tau, d)
    with np.errstate(over="ignore"):
        height = 2 * np.where(np.isnan(log), -np.inf, log) + (log_cosine_density(y, d) if d > 1 else 0)
    if np.isposinf(height).any():
        raise Pole(POLE)
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    mean = float(mass @ y)
    return SphereProposal(d, mean, math.sqrt(WIDEN * max(float(mass @ (y - mean) ** 2), 1e-6 * d)))


def log_kurtosis(similarity: Similarity, s: float, tau: float, d: int) -> float:
    """ln(E g⁴/(E g²)²) at norm² s: how many other keys it takes for their sum to be near its mean."""
    at = np.array([s])
    return float(log_inner(similarity, at, tau, d, 4)[0][0] - 2 * log_inner(similarity, at, tau, d, 2)[0][0])
