"""The median by Laplace inversion against simulation of the sum itself.

Seeds are fixed; 5 standard errors of an empirical probability beyond the stated accuracy have a false-alarm rate below
1e-4 for all comparisons together.
"""

import math

import numpy as np
import pytest

from snr.similarity import similarity
from snr.typical import capacity_exponent, recall_law, sphere_capacity_exponent, typical_exponent


def _draws(g, n, d, tau, keys, count, seed, d_v=None):
    """log Σ_j g(x_j)²/g(s)² for single recalls, drawn directly."""
    rng = np.random.default_rng(seed)
    s = rng.chisquare(d, size=count) if keys == "gaussian" else np.full(count, float(d))
    z = rng.standard_normal((count, n - 1))
    if keys == "sphere":
        x = d * z / np.sqrt(z * z + rng.chisquare(d - 1, size=z.shape))
    else:
        x = np.sqrt(s)[:, None] * z
    sign, log = g.sign_and_log(x, tau, d)
    logs = np.where(sign == 0, -np.inf, 2 * log) - 2 * g.sign_and_log(s, tau, d)[1][:, None]
    total = np.logaddexp.reduce(logs, axis=1)
    return total if d_v is None else total + np.log(rng.chisquare(d_v, size=count) / d_v)


@pytest.mark.parametrize(
    ("kernel", "n", "d", "tau", "keys", "d_v"),
    [
        ("exp", 1024, 64, 8.0, "gaussian", None),
        ("exp", 1024, 64, 0.9, "gaussian", None),  # deep in condensation
        ("exp", 2, 3, 0.9, "sphere", None),
        ("exp", 17, 1024, 32.0, "fixed-probe", None),
        ("exp", 300, 16, 2.0, "gaussian", 4),
        ("solu", 17, 64, 8.0, "sphere", None),
        ("solu", 1024, 3, 1.7, "gaussian", None),
        ("linear", 1024, 64, 1.0, "sphere", None),  # nearly constant: three moments
        ("linear", 2, 8, 1.0, "gaussian", 16),
        ("relu", 17, 3, 1.0, "gaussian", None),
        ("gelu", 2, 64, 1.0, "gaussian", None),
        ("tanh(x/tau)", 100, 16, 2.0, "gaussian", None),
    ],
)
def test_quantiles_against_simulation(kernel, n, d, tau, keys, d_v):
    count = 8000 if n <= 300 else 2500
    g = similarity(kernel)
    draws = _draws(g, n, d, tau, keys, count, seed=7, d_v=d_v)
    law = recall_law(g, n, d, tau, keys, d_v=d_v)
    for p in (0.1, 0.5, 0.9):
        log = law.quantile(p)
        room = 5 * math.sqrt(p * (1 - p) / count)
        # within the sampling error, for a quantile anywhere in the stated 1 %
        assert np.mean(draws <= log - 0.01) <= p + room
        assert np.mean(draws <= log + 0.01) >= p - room
        assert law.cdf(log) == pytest.approx(p, abs=2e-3)


def test_recalls_without_noise():
    # of two keys one is invisible to ReLU half of the time: the noise is 0 with probability 1/2
    law = recall_law(similarity("relu"), 2, 8, 1.0, "sphere")
    assert law.quantile(0.45) == -math.inf
    assert math.isfinite(law.quantile(0.55))


def test_typical_and_mean_part_in_condensation_and_agree_outside():
    from snr.predictions import predict

    condensed = predict(similarity("exp"), 1024, 64, 2.0, "sphere")
    outside = predict(similarity("exp"), 10**6, 64, 8.0, "sphere")
    assert condensed.condensed
    assert condensed.typical.log < condensed.exact.log - 1
    assert not outside.condensed
    assert outside.typical.log == pytest.approx(outside.exact.log, abs=0.01)


def test_the_leading_order_is_approached():
    # finite-d corrections are O((ln d)/d)
    d = 1500
    for alpha, tau in ((0.1, 2.0), (0.3, 4.0), (0.14, 1.0)):
        log = recall_law(similarity("exp"), math.exp(alpha * d), d, tau, "fixed-probe").quantile(0.5)
        assert log / d == pytest.approx(typical_exponent(alpha, tau), abs=2 * math.log(d) / d)


def test_exponents_meet_where_they_should():
    for tau in (0.5, 1.0, 2.0, 3.0, 10.0):
        assert typical_exponent(capacity_exponent(tau), tau) == pytest.approx(0, abs=1e-12)
        line = 2 / tau**2
        assert typical_exponent(line * (1 - 1e-9), tau) == pytest.approx(typical_exponent(line, tau), abs=1e-6)
        assert sphere_capacity_exponent(tau) > 2 * (tau - 1) / tau**2
    assert sphere_capacity_exponent(1e-6) > sphere_capacity_exponent(1e-3) + 3 > 7


@pytest.mark.parametrize("n", [0, 1, math.inf, 1e300])
def test_bad_counts_are_refused(n):
    with pytest.raises(ValueError, match="expected at least 2"):
        recall_law(similarity("exp"), n, 8, 2.0)
