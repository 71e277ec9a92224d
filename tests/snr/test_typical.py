"""The median by Laplace inversion against simulation: of the sum itself, and of recalled vectors.

Seeds are fixed; 5 standard errors of an empirical probability beyond the stated accuracy have a false-alarm rate below
1e-4 for all comparisons together.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2, norm

from snr.similarity import similarity
from snr.sum_law import LEVELS, gaussian_points, sum_law
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


G = {
    "linear": lambda x, tau: x,
    "relu": lambda x, tau: np.maximum(x, 0),
    "relu2": lambda x, tau: np.maximum(x, 0) ** 2,
    "cubic": lambda x, tau: x**3,
    "exp": lambda x, tau: np.exp(x / tau),
    "solu": lambda x, tau: x * np.exp(x / tau),
    "gelu": lambda x, tau: x * ndtr(x),
    "softplus": lambda x, tau: np.logaddexp(0, x / tau),
    "max(0, x - 4)": lambda x, tau: np.maximum(x - 4, 0),
    "sin(x)": lambda x, tau: np.sin(x),
    "sin(5*x) + 1.5": lambda x, tau: np.sin(5 * x) + 1.5,
}


def _recalls(kernel, n, d, tau, keys, values, d_v, count, seed):
    """log ‖r‖²/(c² E‖v‖²) of recalled vectors, one recall a memory; nothing is assumed."""
    rng = np.random.default_rng(seed)
    found = []
    block = max(1, 2_000_000 // (n * (d + d_v)))
    for start in range(0, count, block):
        size = min(block, count - start)
        k = rng.standard_normal((size, n, d))
        if keys == "sphere":
            k *= math.sqrt(d) / np.linalg.norm(k, axis=2, keepdims=True)
        if keys == "fixed-probe":
            k[:, 0] *= math.sqrt(d) / np.linalg.norm(k[:, 0], axis=1, keepdims=True)
        v = rng.standard_normal((size, n, d_v))
        if values == "unit":
            v /= np.linalg.norm(v, axis=2, keepdims=True)
        if values == "signs":
            v = np.sign(v)
        weights = G[kernel](np.matmul(k, k[:, 0, :, None])[:, :, 0], tau)  # [size, n]
        noise = np.matmul(weights[:, None, 1:], v[:, 1:])[:, 0]
        signal = weights[:, 0] ** 2 * (1 if values == "unit" else d_v)
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(np.where(signal > 0, np.log((noise**2).sum(axis=1) / signal), np.inf))
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("kernel", "n", "d", "tau", "keys", "values", "d_v"),
    [
        # half-line kernels among few pairs: most of the law lies far below the part that the median is in
        ("gelu", 3, 64, 1.0, "gaussian", "gaussian", 3),
        ("gelu", 4, 16, 1.0, "sphere", "gaussian", 16),
        ("gelu", 2, 16, 1.0, "fixed-probe", "gaussian", 2),
        ("relu", 3, 8, 1.0, "gaussian", "gaussian", 8),
        ("relu", 8, 16, 1.0, "sphere", "gaussian", 4),
        ("relu2", 5, 3, 1.0, "gaussian", "gaussian", 1),
        ("solu", 2, 3, 1.5, "gaussian", "gaussian", 2),
        ("max(0, x - 4)", 17, 8, 1.0, "gaussian", "gaussian", 4),  # P(no noise) depends on the probe's norm
        # the law of the values: one term, many, and some between
        ("linear", 2, 8, 1.0, "gaussian", "unit", 3),
        ("linear", 1024, 16, 1.0, "gaussian", "unit", 16),
        ("linear", 1024, 16, 1.0, "fixed-probe", "signs", 2),
        ("exp", 17, 16, 4.0, "gaussian", "signs", 8),
        ("solu", 100, 16, 1.5, "gaussian", "unit", 16),
        ("relu2", 4, 8, 1.0, "sphere", "unit", 16),
        ("softplus", 3, 16, 4.0, "fixed-probe", "signs", 16),
        ("cubic", 5, 3, 1.0, "gaussian", "signs", 16),
        # a signal that turns many times among the norms
        ("sin(x)", 17, 16, 1.0, "gaussian", "gaussian", 16),
        ("sin(5*x) + 1.5", 17, 16, 1.0, "gaussian", "gaussian", 4),
    ],
)
def test_the_median_of_recalled_vectors(kernel, n, d, tau, keys, values, d_v):
    count = min(40_000, 20_000_000 // (n * (d + d_v)))
    draws = _recalls(kernel, n, d, tau, keys, values, d_v, count, seed=11)
    log = recall_law(similarity(kernel), n, d, tau, keys, d_v=d_v, values=values).quantile(0.5)
    room = 5 * math.sqrt(0.25 / count)
    assert np.mean(draws <= log - 0.01) <= 0.5 + room
    assert np.mean(draws <= log + 0.01) >= 0.5 - room


def test_values_of_fixed_norm_have_no_typical_value_where_two_moments_do_not_tell():
    """Of (a₁ ± a₂)² the median is no more than half of what a law with its mean and variance says."""
    few = _recalls("exp", 3, 3, 1.7, "gaussian", "unit", 1, 5_000, seed=3)
    gaussian = recall_law(similarity("exp"), 3, 3, 1.7, d_v=1).quantile(0.5)
    assert abs(np.median(few) - gaussian) > 0.3
    for d_v, kernel, n in ((1, "exp", 3), (2, "gelu", 5), (4, "relu", 3), (1, "linear", 100)):
        with pytest.raises(ArithmeticError, match="neither one pair nor many"):
            recall_law(similarity(kernel), n, 8, 2.0, "sphere", d_v=d_v, values="unit")
    with pytest.raises(ValueError, match="expected one of"):
        recall_law(similarity("exp"), 3, 3, 1.7, d_v=4, values="ones")


@pytest.mark.parametrize(("kernel", "pairs"), [("exp", 5), ("relu2", 7), ("gelu", 2)])
def test_the_dominance_of_single_terms_given_the_sum(kernel, pairs):
    """E[Σ W²/S² | S] by inversion against draws, between neighbouring quantiles of S."""
    g, d, tau = similarity(kernel), 16, 4.0
    law = sum_law(gaussian_points(g, float(d), d, tau, float(pairs)), dominance=True)
    w = G[kernel](4 * np.random.default_rng(2).standard_normal((400_000, pairs)), tau) ** 2
    total = w.sum(axis=1)
    w, total = w[total > 0], total[total > 0]
    share = (w**2).sum(axis=1) / total**2
    assert 1 - len(total) / 400_000 == pytest.approx(law.silent, abs=5 * math.sqrt(0.25 / 400_000))
    for p in (0.2, 0.5, 0.8):
        low, at, high = (int(np.argmin(np.abs(LEVELS - q))) for q in (p - 0.02, p, p + 0.02))
        near = share[(np.log(total) > law.log[low]) & (np.log(total) < law.log[high])]
        room = 5 * near.std() / math.sqrt(len(near))
        assert near.mean() == pytest.approx(law.dominance[at], abs=room + 0.005)


@pytest.mark.parametrize(("keys", "d"), [("gaussian", 64), ("sphere", 8), ("fixed-probe", 3), ("sphere", 1)])
@pytest.mark.parametrize("kernel", ["relu", "relu2"])
def test_of_two_keys_one_is_invisible_half_of_the_time(kernel, keys, d):
    """P(no noise) = ½, so that the median inf{x: P(SNR⁻¹ ≤ x) ≥ ½} is 0 exactly."""
    law = recall_law(similarity(kernel), 2, d, 1.0, keys, d_v=d)
    assert law.quantile(0.5) == law.quantile(0.45) == -math.inf
    assert math.isfinite(law.quantile(0.51))
    assert law.cdf(-1e6) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(("kernel", "n"), [("1 + sign(x)", 5), ("round(x/4)", 17), ("1/(1 + exp(-x))", 3)])
def test_a_noise_in_steps_is_refused(kernel, n):
    with pytest.raises(ArithmeticError, match="steps"):
        recall_law(similarity(kernel), n, 64, 1.0, "sphere").quantile(0.5)


@pytest.mark.parametrize("kernel", ["sin(1000*x)", "sin(1e6*x) + 2"])
def test_what_turns_between_the_points_is_refused(kernel):
    with pytest.raises(ArithmeticError, match="oscillates faster"):
        recall_law(similarity(kernel), 64, 16, 1.0)


@pytest.mark.parametrize("n", [2, 3, 8, 1000])
def test_a_noise_that_is_constant_is_exact(n):
    for keys, d in (("fixed-probe", 8), ("gaussian", 3), ("sphere", 1)):
        law = recall_law(similarity("sign(x)"), n, d, 1.0, keys)
        assert law.quantile(0.5) == pytest.approx(math.log(n - 1), abs=1e-6)


@pytest.mark.parametrize(("log_n", "d_v"), [(20.0, 4), (460.0, 4), (460.0, 1)])
def test_of_very_many_pairs_only_the_values_fluctuate(log_n, d_v):
    """Σ (k_j·k_i)² = N d to all digits, so that the median is N/d times that of χ²/d_v."""
    expected = log_n - math.log(64) + math.log(chi2.median(d_v) / d_v)
    for values in ("gaussian", "signs"):
        law = recall_law(similarity("linear"), math.exp(log_n), 64, 1.0, "fixed-probe", d_v=d_v, values=values)
        assert law.quantile(0.5) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("n", [20, 1000, 10**9, 1e50, 1e200])
def test_far_in_condensation_the_largest_term_is_the_sum(n):
    """exp at tau = 10⁻³: log W = 2X/tau with X ~ N(0, d), and nothing is near the largest of n − 1."""
    found = recall_law(similarity("exp"), n, 64, 1e-3, "fixed-probe").quantile(0.5)
    largest = 8 * norm.isf(-math.expm1(math.log(0.5) / (n - 1)))
    assert found == pytest.approx(2 * (largest - 64) / 1e-3, abs=0.05 * 2 * 8 / 1e-3 / 100)


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
