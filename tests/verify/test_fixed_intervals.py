"""Intervals for a fixed number of draws: coverage on laws whose answer is known.

With 400 intervals at 90 % a right coverage falls below 85 % with probability under 2e-3; seeds are fixed.
"""

import numpy as np
import pytest

from verify import stats


def coverage(interval, law, truth, draws, repeats=400):
    rng = np.random.default_rng(0)
    return np.mean([interval(law(rng, draws)).contains(truth) for _ in range(repeats)])


def test_mean_covers():
    found = coverage(lambda x: stats.mean(x, "m", 0.9), lambda r, n: r.normal(2, 3, n), 2, 8)
    assert 0.85 < found < 0.95


@pytest.mark.parametrize("chance", [0.02, 0.5])
def test_bounded_mean_never_covers_too_little(chance):
    found = coverage(lambda x: stats.bounded_mean(x, 0, 1, "b", 0.9), lambda r, n: r.random(n) < chance, chance, 30)
    assert found > 0.87


@pytest.mark.parametrize("draws", [6, 25])
def test_median_covers_heavy_tails(draws):
    found = coverage(lambda x: stats.median(x, "m", 0.9), lambda r, n: r.standard_cauchy(n), 0, draws)
    assert found > 0.87


def test_slope_covers():
    x = np.arange(5.0)
    law = lambda r, n: 3 * x + r.normal(0, 1, (n, 5))  # noqa: E731
    found = coverage(lambda y: stats.slope(x, y, "s", 0.9), law, 3, 6)
    assert 0.85 < found < 0.95


def test_refusals():
    with pytest.raises(ValueError, match="at least two"):
        stats.mean(np.ones(1), "m")
    with pytest.raises(ValueError, match="too few"):
        stats.median(np.ones(5), "m", 0.999)
    for wrong in ([], [2.0], [-1.0]):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            stats.bounded_mean(np.array(wrong), 0, 1, "b")
