import math

import numpy as np
import pytest

from snr.softmax import invariance, recall_error, weight_threshold


def test_normalisation_leaves_the_ratio_alone():
    assert invariance()


@pytest.mark.parametrize(
    ("n", "d", "tau", "keys"),
    [
        (2, 3, 0.9, "gaussian"),
        (17, 3, 1.7, "sphere"),
        (300, 16, 3.0, "sphere"),
        (300, 16, 3.0, "gaussian"),
        (40, 2, 1.0, "sphere"),
    ],
)
def test_recall_error_against_simulation(n, d, tau, keys):
    # bounded draws in [0, 2): 5 standard errors
    rng = np.random.default_rng(3)
    count = 20_000
    s = rng.chisquare(d, size=count) if keys == "gaussian" else np.full(count, float(d))
    z = rng.standard_normal((count, n - 1))
    if keys == "sphere":
        x = d * z / np.sqrt(z * z + rng.chisquare(d - 1, size=z.shape))
    else:
        x = np.sqrt(s)[:, None] * z
    w = np.exp((x - s[:, None]) / tau)
    rho = w.sum(axis=1)
    error = (rho**2 + (w * w).sum(axis=1)) / (1 + rho) ** 2
    assert abs(error.mean() - recall_error(n, d, tau, keys)) < 5 * error.std() / math.sqrt(count)


def test_limits():
    assert recall_error(1, 8, 2.0) == 0
    hot = recall_error(1000, 64, 1e6, "sphere")  # all weights equal: (1 − 1/N)² + (N−1)/N² = 1 − 1/N
    assert hot == pytest.approx(1 - 1 / 1000, abs=1e-6)
    assert recall_error(1000, 64, 0.5, "sphere") < 1e-12


def test_two_keys_by_quadrature_over_the_angle():
    d, tau = 3, 2.0  # the cosine is uniform on [-1, 1]
    t = (np.arange(200_000) + 0.5) / 100_000 - 1
    p = 1 / (1 + np.exp(d * (t - 1) / tau))
    assert recall_error(2, d, tau, "sphere") == pytest.approx(np.mean(2 * (1 - p) ** 2), abs=1e-6)


def test_the_weight_threshold_is_continuous_and_below_capacity():
    assert weight_threshold(1.0) == weight_threshold(0.5) == 0.5
    assert weight_threshold(4.0) == pytest.approx(0.25 - 1 / 32)


@pytest.mark.parametrize(
    ("n", "d", "tau", "keys"),
    [(0, 4, 1.0, "sphere"), (2, 1, 1.0, "sphere"), (2, 4, math.nan, "sphere"), (2, 4, 1.0, "x")],
)
def test_bad_points_are_refused(n, d, tau, keys):
    with pytest.raises(ValueError, match="expected"):
        recall_error(n, d, tau, keys)
