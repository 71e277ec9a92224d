import math

import numpy as np
import pytest

from snr.capacity import best_temperature, fit_line, least_squares_residual, log_pairs, width
from snr.predictions import predict
from snr.similarity import similarity


@pytest.mark.parametrize("statistic", ["exact", "fixed_probe", "ratio_of_means", "paper", "typical"])
@pytest.mark.parametrize(("kernel", "d", "tau"), [("linear", 40, 1.0), ("exp", 24, 5.0)])
def test_the_level_is_reached_there(kernel, d, tau, statistic):
    log_n = log_pairs(similarity(kernel), d, tau, 2.0, statistic)
    n = round(math.exp(log_n))
    value = getattr(predict(similarity(kernel), n, d, tau), statistic).value
    assert value == pytest.approx(2.0, rel=0.02 if statistic == "typical" else 0.6 / n)


@pytest.mark.parametrize(
    ("kernel", "d", "level", "keys"),
    [("linear", 128, 0.01, "gaussian"), ("linear", 64, 0.01, "sphere"), ("sin(x)", 64, 1.3, "sphere")],
)
def test_the_typical_level_between_whole_numbers_of_pairs(kernel, d, level, keys):
    n = math.exp(log_pairs(similarity(kernel), d, math.sqrt(d), level, "typical", keys))
    below, above = (predict(kernel, k, d, math.sqrt(d), keys).typical.value for k in (math.floor(n), math.floor(n) + 1))
    assert below < level < above
    assert n == pytest.approx(math.floor(n) + (level - below) / (above - below), rel=2e-3)


def test_a_median_without_noise_is_an_end_to_interpolate_from():
    three = predict("relu", 3, 32, math.sqrt(32)).typical.value  # of two pairs every other recall has no noise
    n = math.exp(log_pairs(similarity("relu"), 32, math.sqrt(32), three / 4, "typical"))
    assert n == pytest.approx(2.25, rel=2e-3)


def test_known_capacities():
    assert log_pairs(similarity("linear"), 64, 8.0, 1.0, "exact") == pytest.approx(math.log(63))
    assert log_pairs(similarity("linear"), 64, 8.0, 1.0, "paper") == pytest.approx(math.log(64))
    assert log_pairs(similarity("exp"), 64, 8.0, 1.0, "paper") == pytest.approx(14)
    assert log_pairs(similarity("linear"), 2, 1.0, 1.0, "exact") is None
    assert log_pairs(similarity("cubic"), 20, 1.0, 1.0, "paper") is None


@pytest.mark.parametrize("kernel", ["linear", "exp", "relu"])
def test_width_is_the_smallest(kernel):
    g, log_n = similarity(kernel), math.log(1000)
    d = width(g, log_n, math.sqrt, 1.0)
    assert log_pairs(g, d, math.sqrt(d), 1.0) >= log_n > (log_pairs(g, d - 1, math.sqrt(d - 1), 1.0) or 0)
    assert width(g, 1e6, math.sqrt, 1.0) is None


def test_scalings_of_the_formulas_are_exact_lines():
    widths = (64, 256, 1024, 4096)
    linear = [log_pairs(similarity("linear"), d, 1.0, 1.0, "paper") for d in widths]
    exp = [log_pairs(similarity("exp"), d, math.sqrt(d), 1.0, "paper") for d in widths]
    power = fit_line([math.log(d) for d in widths], linear)
    root = fit_line([log / 2 for log in exp], [math.sqrt(d) for d in widths])
    assert power.slope == pytest.approx(1, abs=1e-12)
    assert (root.slope, root.intercept) == (pytest.approx(1, abs=1e-12), pytest.approx(1, abs=1e-10))


def test_fit_intervals_cover():
    # 400 lines with normal noise, nominal 99 %: fewer than 12 misses but for a chance of 1e-3
    rng = np.random.default_rng(0)
    x = np.linspace(0, 3, 7)
    misses = 0
    for _ in range(400):
        fit = fit_line(x, 2 * x + 1 + rng.standard_normal(7))
        misses += not (fit.slope_low <= 2 <= fit.slope_high)
    assert misses < 12


@pytest.mark.parametrize(("x", "y"), [([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 2])])
def test_bad_fits_are_refused(x, y):
    with pytest.raises(ValueError, match="three points"):
        fit_line(x, y)


def test_best_temperature_of_the_formula_is_two():
    best = best_temperature(similarity("exp"), 64, 1.0, "paper")
    assert best.tau == pytest.approx(2, rel=0.01)
    assert best.log_n / 64 == pytest.approx(0.5, rel=0.01)
    cold = best_temperature(similarity("exp"), 64, 1.0, "exact", "sphere")
    assert cold.tau == cold.taus[0]
    assert best_temperature(similarity("cubic"), 64, 1.0, "paper") is None


@pytest.mark.parametrize(("level", "statistic"), [(0.0, "exact"), (math.nan, "exact"), (1.0, "mode")])
def test_bad_levels_are_refused(level, statistic):
    with pytest.raises(ValueError, match="expected"):
        log_pairs(similarity("exp"), 8, 2.0, level, statistic)


def test_least_squares_residual_against_a_solver():
    rng = np.random.default_rng(0)
    for n, d in ((5, 8), (8, 8), (40, 8)):
        k, v = rng.standard_normal((n, d)), rng.standard_normal((n, 4000))
        state = np.linalg.lstsq(k, v, rcond=None)[0]
        left = np.mean((v - k @ state) ** 2)
        assert left == pytest.approx(least_squares_residual(n, d), abs=0.02)
