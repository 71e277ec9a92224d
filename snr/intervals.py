"""Intervals that stay valid when the sampling stops because they became narrow.

Looking at an interval after every batch and stopping at the first narrow one breaks the guarantee of an interval made
for one look. Three remedies are used here, each where it fits:

- means: a confidence *sequence*, valid at all sample sizes at once (`mean_sequence`). It inverts the Bayes factor of
  the t-test with a normal prior on the effect size, a test martingale under the group of scale changes (Lai 1976;
  Hendriksen, de Heide and Grünwald 2021; Wang and Ramdas 2024). Exact for Gaussian draws of unknown variance, however
  few; asymptotic for others, resting on the central limit theorem for their mean.
- medians of independent draws: order statistics, whose coverage is a binomial sum, exact for every law; each further
  look spends its share of the error probability (`spent`).
- medians of draws that come in groups (the recalls of one memory): the share of a group's draws below t is one bounded
  number per group; t is kept as long as the confidence sequence of the mean share holds ½.

All intervals are two-sided with error probability alpha = 1 − confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float, float]  # value, low, high


def _boundary(n: int, alpha: float, target: int) -> float:
    """The largest n(mean − μ)² / Σ(x − mean)² that the sequence keeps; inf while n is too small to say anything.

    The prior's variance g makes the sequence narrowest near n = `target`; elsewhere it is a little wider, never wrong.
    """
    if n < 2:
        return math.inf
    g = _best_product(alpha) / max(target, 2)
    spread = 1 + n * g
    growth = math.exp((2 / n) * (0.5 * math.log(spread) - math.log(alpha)))
    return (growth - 1) / (1 - growth / spread) if growth < spread else math.inf


def _best_product(alpha: float) -> float:
    """The n·g that minimises the limiting squared width (1 + 1/u)(ln(1 + u) − 2 ln alpha), by its fixed point."""
    u = 1.0
    for _ in range(60):
        u = math.log1p(u) - 2 * math.log(alpha)
    return u


def mean_sequence(draws: Array, confidence: float, target: int) -> Interval:
    """The mean of `draws` [n] with an interval valid at every n at once; (mean, −inf, inf) while n is too small."""
    n = len(draws)
    mean = float(np.mean(draws)) if n else math.nan
    bound = _boundary(n, 1 - confidence, target)
    if not math.isfinite(bound):
        return mean, -math.inf, math.inf
    half = math.sqrt(bound * float(np.sum((draws - mean) ** 2)) / n)
    return mean, mean - half, mean + half


def ratio_sequence(numerators: Array, denominators: Array, confidence: float, target: int) -> Interval:
    """mean(numerators)/mean(denominators) of paired draws [n], valid at every n at once (Fieller's construction).

    θ is kept while the confidence sequence of mean(numerators − θ·denominators) holds 0. Unbounded on both sides while
    the denominators' mean is not told apart from 0.
    """
    n = len(numerators)
    a, b = (float(np.mean(x)) if n else math.nan for x in (numerators, denominators))
    value = a / b
    bound = _boundary(n, 1 - confidence, target)
    if not math.isfinite(bound):
        return value, -math.inf, math.inf
    da, db = numerators - a, denominators - b
    c = bound / n
    saa, sab, sbb = (c * float(np.dot(x, y)) for x, y in ((da, da), (da, db), (db, db)))
    # (a − θb)² ≤ saa − 2θ·sab + θ²·sbb
    lead, half, last = b * b - sbb, a * b - sab, a * a - saa
    if lead <= 0:
        return value, -math.inf, math.inf
    root = math.sqrt(max(half * half - lead * last, 0.0))
    return value, min((half - root) / lead, value), max((half + root) / lead, value)


def spent(alpha: float, look: int) -> float:
    """The error probability that look 1, 2, … may use; the shares of all looks add up to alpha."""
    return alpha / (look * (look + 1))


def median_by_order(draws: Array, confidence: float, look: int = 1) -> Interval:
    """The median of independent draws [n] between two order statistics: exact for every law, at the given look.

    The interval of look k misses with probability at most `spent(alpha, k)`, so all looks together with at most alpha.
    """
    from scipy.special import bdtr

    x = np.sort(draws)
    n = len(x)
    value = float(np.median(x))
    tail = spent(1 - confidence, look) / 2
    counts = np.arange(n // 2 + 1)
    # [x_(r+1), x_(n−r)] misses when at most r draws fall on one side: twice P(Binomial(n, ½) ≤ r)
    allowed = np.flatnonzero(bdtr(counts, n, 0.5) <= tail)
    if n == 0 or len(allowed) == 0:
        return value, -math.inf, math.inf
    r = int(allowed[-1])
    return value, float(x[r]), float(x[n - 1 - r])


def median_of_groups(groups: Array, confidence: float, target: int) -> Interval:
    """The median of all draws [n, m], independent from row to row and not within a row, valid at every n at once."""
    pool = np.sort(groups, axis=None)
    value = float(_middle(pool))

    def share_sequence(t: float, strict: bool) -> Interval:
        below = groups < t if strict else groups <= t
        return mean_sequence(below.mean(axis=1), confidence, target)

    low = _first(len(pool), lambda i: share_sequence(float(pool[i]), strict=False)[2] >= 0.5)
    high = _first(len(pool), lambda i: share_sequence(float(pool[i]), strict=True)[1] > 0.5)
    # below every draw the share is 0 in all groups and its spread is not seen: such an end is open
    bottom = -math.inf if low == 0 else float(pool[low])
    top = math.inf if high == len(pool) else float(pool[high])
    return value, min(bottom, value), max(top, value)


def _middle(ordered: Array) -> float:
    """The median of sorted draws; the lower of the two middle ones where their average is undefined (−inf, inf)."""
    n = len(ordered)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return float(low if low == high or not np.isfinite(low) else (low + high) / 2)


def _first(n: int, holds: Callable[[int], bool]) -> int:
    """The first i < n at which the monotone predicate holds, else n."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True)
class Tail:
    """What a sample of nonnegative draws says about its own mean.

    effective: (Σx)²/Σx², the number of equal draws that would carry the mean as evenly; largest: the share of the
    largest draw in the sum; index: Pareto k of the upper tail (the variance is infinite from ½ on, the mean from 1).
    """

    effective: float
    largest: float
    index: float

    @property
    def trusted(self) -> bool:
        """Whether the central limit theorem may be leaned on for the mean."""
        return self.index < 0.5 and self.effective >= 30 and self.largest < 0.1


def tail(draws: Array) -> Tail:
    """The tail of nonnegative draws [n] that are not all zero; index is nan below 25 draws in the tail."""
    total = float(np.sum(draws))
    if total == 0:
        return Tail(0.0, 0.0, math.nan)
    return Tail(total**2 / float(np.sum(draws**2)), float(np.max(draws)) / total, pareto_index(draws))


def pareto_index(draws: Array) -> float:
    """k of a generalised Pareto law fitted to the excesses of the largest draws, min(n/5, 3√n) of them.

    The fit is the posterior mean of Zhang and Stephens (2009) with the weak prior of Vehtari et al. (2024) towards ½.
    """
    n = len(draws)
    count = int(min(n / 5, 3 * math.sqrt(n)))
    if count < 25:
        return math.nan
    top = np.sort(np.partition(draws, n - count - 1)[n - count - 1 :])
    x = top[1:] - top[0]
    quarter = x[int(count / 4 + 0.5) - 1]
    if x[-1] <= 0 or quarter < 1e-290:  # draws that span the range of floats have no lighter a tail than any other
        return -math.inf if x[-1] <= 0 else math.inf
    m = 30 + int(math.sqrt(count))
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quarter)
    k = np.mean(np.log1p(-b[:, None] * x), axis=1)
    log_likelihood = count * (np.log(-b / k) - k - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    best = float(np.sum(b * weights) / np.sum(weights))
    index = float(np.mean(np.log1p(-best * x)))
    return (count * index + 5) / (count + 10)
