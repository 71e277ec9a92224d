"""Coverage on laws with known answers. A test here raises a false alarm with probability at most 1e-4 (seeds fixed)."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from snr.intervals import (
    mean_sequence,
    median_by_order,
    median_of_groups,
    pareto_index,
    ratio_sequence,
    spent,
    tail,
)

REPLICATES = 1500
MOST_MISSES = int(binom.isf(1e-4, REPLICATES, 0.01))  # more are a failure of a 99 % interval, but for 1 in 10,000


def misses(law, truth, looks, target=64):
    """How many of the sample paths leave the truth outside at any of the looks."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(REPLICATES):
        path = law(rng, looks[-1])
        sequences = (mean_sequence(path[:n], 0.99, target) for n in looks)
        missed += not all(low <= truth <= high for _, low, high in sequences)
    return missed


LAWS = {
    "normal": (lambda rng, n: rng.standard_normal(n), 0.0),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "exponential": (lambda rng, n: rng.standard_exponential(n), 1.0),
    "coin 0.3": (lambda rng, n: (rng.random(n) < 0.3).astype(float), 0.3),
    "lognormal 0.5": (lambda rng, n: np.exp(0.5 * rng.standard_normal(n)), math.exp(0.125)),
}


@pytest.mark.parametrize("law", LAWS)
def test_mean_sequence_covers_at_all_looks_together(law):
    first = 4 if law == "normal" else 40  # exact for normal draws however few; elsewhere the limit theorem must hold
    assert misses(*LAWS[law], looks=[*range(first, 60, 4), *range(60, 400, 40)]) <= MOST_MISSES


def test_an_interval_for_one_look_does_not():
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(REPLICATES):
        path = rng.standard_normal(400)
        count = np.arange(1, 401)
        mean = np.cumsum(path) / count
        missed += bool(np.any(np.abs(mean[9:]) > 2.576 / np.sqrt(count[9:])))
    assert missed > 3 * MOST_MISSES


def test_the_price_of_looking_is_moderate():
    draws = np.random.default_rng(3).standard_normal(64)
    _, low, high = mean_sequence(draws, 0.99, 64)
    one_look = 2 * 2.66 * draws.std(ddof=1) / 8  # the 99 % t-interval
    assert one_look < high - low < 1.6 * one_look


def test_mean_sequence_says_nothing_from_too_few_draws():
    assert mean_sequence(np.ones(1), 0.99, 64)[1:] == (-math.inf, math.inf)
    assert mean_sequence(np.arange(3.0), 0.99, 1 << 14)[1:] == (-math.inf, math.inf)


def test_ratio_sequence_covers():
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(REPLICATES):
        shared = rng.standard_exponential(300)
        above, below = 3 * shared + rng.random(300), shared + 0.5 + rng.random(300)
        for n in (60, 100, 170, 300):
            _, low, high = ratio_sequence(above[:n], below[:n], 0.99, 64)
            if not low <= 3.5 / 2.0 <= high:
                missed += 1
                break
    assert missed <= MOST_MISSES


def test_ratio_sequence_is_unbounded_where_the_denominator_may_be_zero():
    rng = np.random.default_rng(5)
    value, low, high = ratio_sequence(rng.random(50), rng.standard_normal(50), 0.99, 64)
    assert (low, high) == (-math.inf, math.inf)
    assert math.isfinite(value)


@pytest.mark.parametrize("n", [12, 37, 200])
def test_median_by_order_is_the_narrowest_with_exact_coverage(n):
    draws = np.random.default_rng(6).permutation(n).astype(float)
    _, low, high = median_by_order(draws, 0.98)  # the first look spends half: 99 %
    rank = int(low)  # draws are 0 … n−1, so a value is its rank: the interval is [x_(rank), x_(n−1−rank)]
    assert high == n - 1 - rank
    assert 1 - 2 * binom.cdf(rank, n, 0.5) >= 0.99
    assert 1 - 2 * binom.cdf(rank + 1, n, 0.5) < 0.99


def test_median_by_order_covers_over_all_looks_of_a_law_without_mean():
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(REPLICATES):
        path = rng.standard_cauchy(400)
        for look, n in enumerate((10, 20, 40, 80, 160, 400), 1):
            _, low, high = median_by_order(path[:n], 0.99, look)
            if not low <= 0 <= high:
                missed += 1
                break
    assert missed <= MOST_MISSES


def test_error_shares_add_up():
    assert sum(spent(0.01, look) for look in range(1, 10**5)) == pytest.approx(0.01, rel=2e-5)


def test_median_of_groups_respects_the_groups():
    """Draws of one group share a shift; an interval that took them for independent would miss far too often."""
    rng = np.random.default_rng(8)
    missed = naive = 0
    for _ in range(REPLICATES // 3):
        groups = rng.standard_normal((100, 1)) + 0.5 * rng.standard_normal((100, 20))
        _, low, high = median_of_groups(groups, 0.99, 64)
        missed += not low <= 0 <= high
        _, low, high = median_by_order(groups.ravel(), 0.99)
        naive += not low <= 0 <= high
    assert missed <= int(binom.isf(1e-4, REPLICATES // 3, 0.01))
    assert naive > 50


def test_medians_of_logarithms_of_zero():
    groups = np.where(np.random.default_rng(9).random((200, 4)) < 0.8, -np.inf, 1.0)
    value, low, _ = median_of_groups(groups, 0.99, 64)
    assert value == low == -math.inf


@pytest.mark.parametrize(("sigma", "clt_holds"), [(0.5, True), (3.0, False)])
def test_the_tail_tells_where_the_limit_theorem_fails(sigma, clt_holds):
    """Lognormal draws: at sigma 3 the interval misses far more than 1 % of the time, and the diagnostics say so."""
    draws = np.exp(sigma * np.random.default_rng(10).standard_normal((300, 1000)))
    truth = math.exp(sigma**2 / 2)
    missed = sum(not low <= truth <= high for _, low, high in (mean_sequence(x, 0.99, 256) for x in draws))
    trusted = [tail(x).trusted for x in draws]
    if clt_holds:
        assert missed <= int(binom.isf(1e-4, 300, 0.01))
        assert np.mean(trusted) > 0.9
    else:
        assert missed > 30
        assert np.mean(trusted) < 0.05


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_pareto_index(k):
    rng = np.random.default_rng(11)
    found = np.mean([pareto_index(rng.random(20000) ** -k) for _ in range(40)])
    assert found == pytest.approx(k, abs=0.06)


def test_effective_number_of_draws():
    assert tail(np.ones(50)).effective == pytest.approx(50)
    lone = tail(np.r_[1.0, np.zeros(49)])
    assert lone.effective == pytest.approx(1)
    assert lone.largest == 1
    assert not lone.trusted
    assert not tail(np.zeros(50)).trusted
