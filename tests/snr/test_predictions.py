"""Closed form, quadrature, high-precision arithmetic and brute force give one answer."""

import math

import mpmath
import numpy as np
import pytest

from snr import closed_forms, expectation
from snr.closed_forms import Form, form
from snr.predictions import predict, value_factor
from snr.similarity import Similarity, similarity

KERNELS = ("linear", "relu", "exp", "solu", "cubic", "relu2", "x**2*exp(x/tau)")


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [3, 8, 64, 16384])
@pytest.mark.parametrize("tau", [0.9, "sqrt"])
def test_quadrature_agrees_with_closed_forms(name, d, tau):
    g, t = similarity(name), math.sqrt(d) if tau == "sqrt" else tau
    found = form(g, t, d)
    for closed, by_quadrature in (
        (closed_forms.fixed_probe, expectation.fixed_probe),
        (closed_forms.sphere_mean, expectation.sphere_mean),
        (closed_forms.gaussian_mean, expectation.gaussian_mean),
    ):
        log, other = closed(found, d), by_quadrature(g, d, t)
        assert other.log == pytest.approx(log, rel=0, abs=1e-10) or log == other.log == math.inf
        assert other.error < 1e-10
        assert bool(other.reason) == (log == math.inf)


@pytest.mark.parametrize("name", ["linear", "relu", "exp", "solu"])
def test_ratio_of_means_agrees_with_quadrature(name):
    g, d, tau = similarity(name), 24, 5.0
    noise, signal = closed_forms.ratio_of_means(form(g, tau, d), d)
    a, b = expectation.ratio_of_means(g, d, tau)
    assert (a.log, b.log) == (pytest.approx(noise, abs=1e-10), pytest.approx(signal, abs=1e-10))


def test_the_closed_forms_are_the_known_ones():
    d, tau = 64.0, 8.0
    a = 2 * (tau - 1) / tau**2
    assert closed_forms.gaussian_mean(Form(1), d) == pytest.approx(math.log(1 / 62))
    assert closed_forms.gaussian_mean(Form(1, half=True), d) == pytest.approx(math.log(1 / 124))
    assert closed_forms.gaussian_mean(Form(0, 1 / tau), d) == pytest.approx(-d / 2 * math.log(1 + 2 * a))
    solu = (1 + 2 * a) ** (-d / 2) * ((1 + 2 * a) / (d - 2) + 4 / tau**2)
    assert closed_forms.gaussian_mean(Form(1, 1 / tau), d) == pytest.approx(math.log(solu))
    assert closed_forms.fixed_probe(Form(1, 1 / tau), d) == pytest.approx(math.log((1 + 4 * d / tau**2) / d) - a * d)
    noise, signal = closed_forms.ratio_of_means(Form(1), d)
    assert noise - signal == pytest.approx(-math.log(d + 2))
    assert closed_forms.gaussian_mean(Form(3), d) == pytest.approx(math.log(15 / (62 * 60 * 58)))


@pytest.mark.parametrize(("d", "tau"), [(3, 0.9), (64, 8.0), (1024, 1.5)])
def test_sphere_against_bessel_functions_in_high_precision(d, tau):
    mpmath.mp.dps = 40
    y = mpmath.mpf(2) * d / mpmath.mpf(tau)
    value = mpmath.hyp0f1(mpmath.mpf(d) / 2, (y / 2) ** 2) * mpmath.exp(-y)
    assert closed_forms.sphere_mean(Form(0, 1 / tau), d) == pytest.approx(float(mpmath.log(value)), abs=1e-11)


def _nested_quadpack(g, d):
    """The two-dimensional integral by adaptive Gauss–Kronrod rules of QUADPACK, inside one another."""
    from scipy.integrate import quad

    def inner(s):
        root = math.sqrt(s)
        density = 1 / math.sqrt(2 * math.pi)
        return sum(
            quad(lambda z: g(root * z) ** 2 * math.exp(-z * z / 2) * density, a, b, epsabs=0, epsrel=1e-12)[0]
            for a, b in ((-12, 0), (0, 12))
        ) / g(s) ** 2  # fmt: skip

    def outer(u):
        s = math.exp(u)
        return inner(s) * math.exp(d / 2 * (u - math.log(2)) - s / 2 - math.lgamma(d / 2))

    return math.log(quad(outer, -8, 2, epsrel=1e-11)[0] + quad(outer, 2, 5, epsrel=1e-11)[0])


def test_user_kernels_against_quadpack():
    softplus = _nested_quadpack(lambda x: math.log1p(math.exp(x / 2)), 9)
    assert expectation.gaussian_mean(similarity("softplus"), 9, 2.0).log == pytest.approx(softplus, abs=1e-9)
    kinked = _nested_quadpack(lambda x: max(x, 0) + 1, 9)
    assert expectation.gaussian_mean(similarity("max(x, 0) + 1"), 9, 2.0).log == pytest.approx(kinked, abs=1e-9)


@pytest.mark.parametrize("name", ["softplus", "gelu"])
def test_fast_and_derived_twins_give_the_same_predictions(name):
    derived = Similarity("user", similarity(name).text)
    for function in (expectation.fixed_probe, expectation.sphere_mean):
        assert function(derived, 16, 3.0).log == pytest.approx(function(similarity(name), 16, 3.0).log, abs=1e-12)


def test_jumps_are_integrated_exactly():
    # round(x) takes the value k with probability Phi(k+1/2) - Phi(k-1/2) in units of √d
    d = 9
    total = sum(
        k * k * (math.erf((k + 0.5) / 3 / math.sqrt(2)) - math.erf((k - 0.5) / 3 / math.sqrt(2))) / 2
        for k in range(-60, 61)
    )
    assert expectation.fixed_probe(similarity("round(x)"), d, 1.0).log == pytest.approx(math.log(total / 81), abs=1e-11)


def test_a_narrow_feature_is_seen_or_refused():
    # a bump of width 0.02 at x = 7, on 1: to first order E g² = 1 + ∫(2b + b²) density
    d, density = 64, math.exp(-49 / 128) / math.sqrt(2 * math.pi * 64)
    bump = 1 + density * (2 * math.sqrt(math.pi / 1000) + math.sqrt(math.pi / 2000))
    found = predict(similarity("1 + exp(-1000*(x-7)**2)"), 2, d, 1.0, typical=False).fixed_probe
    assert found.log is None or found.log == pytest.approx(math.log(bump), abs=1e-6)


@pytest.mark.parametrize(
    ("kernel", "d", "tau", "reason"),
    [
        ("exp", 64, 0.82, "2√2"),
        ("exp", 64, 2 * math.sqrt(2) - 2, "2√2"),
        ("solu", 2, 3.0, "short probes"),
        ("linear", 2, 1.0, "short probes"),
        ("cubic", 6, 1.0, "short probes"),
        ("exp(x/tau) - 1", 2, 3.0, "short keys"),
        ("exp(x/tau) + exp(-x)", 8, 0.8, "long keys"),
        ("exp(x**2/d)", 32, 1.0, "grows too fast"),
        ("exp(exp(x))", 8, 1.0, "grows too fast"),
        ("1/x", 8, 1.0, "pole"),
        ("x - 1000", 32, 1.0, "vanishes"),
        ("(x - 5)**2", 32, 1.0, "vanishes"),
        ("sin(x)", 32, 1.0, "vanishes"),
        ("max(0, x - 3)", 32, 1.0, "vanishes"),
        ("round(x)", 32, 1.0, "vanishes"),
    ],
)
def test_divergences_are_found_and_explained(kernel, d, tau, reason):
    found = predict(similarity(kernel), 100, d, tau, typical=False).exact
    assert found.diverges
    assert reason in found.reason
    assert found.to_json() == "inf"


@pytest.mark.parametrize(
    ("kernel", "d", "tau"), [("exp", 64, 0.83), ("linear", 3, 1.0), ("cubic", 7, 1.0), ("exp(x/tau)-1", 3, 2.0)]
)
def test_just_inside_the_mean_is_finite(kernel, d, tau):
    assert math.isfinite(predict(similarity(kernel), 100, d, tau, typical=False).exact.log)


def test_the_ratio_of_means_needs_a_finite_signal():
    found = predict(similarity("exp"), 100, 64, 4.0, typical=False).ratio_of_means
    assert found.log is None
    assert "signal" in found.reason
    assert found.to_json() is None
    assert math.isfinite(predict(similarity("exp"), 100, 64, 4.01, typical=False).ratio_of_means.log)


def test_brute_force_on_tiny_memories():
    # 10^6 memories of 3 pairs at d = 8: standard error 0.1-0.3 %, bound at 5 of them
    rng = np.random.default_rng(0)
    k = rng.standard_normal((1_000_000, 3, 8))
    c = np.einsum("mi,mi->m", k[:, 0], k[:, 0])
    x = np.einsum("mji,mi->mj", k[:, 1:], k[:, 0])
    for name, g in (("linear", lambda x: x), ("relu", lambda x: np.maximum(x, 0)), ("exp", lambda x: np.exp(x / 3))):
        ratio = (g(x) ** 2).sum(axis=1) / g(c) ** 2
        expected = predict(similarity(name), 3, 8, 3.0, typical=False).exact.value
        assert abs(ratio.mean() - expected) < 5 * ratio.std() / 1000


def test_values_and_heads_and_cosine():
    g = similarity("exp")
    one = predict(g, 100, 64, 4.0, heads=4, typical=False)
    assert one.exact == predict(g, 100, 16, 4.0, typical=False).exact
    assert one.d == 64
    cosine, sphere = predict(similarity("cosexp"), 100, 64, 4.0), predict(g, 100, 64, 4.0, "sphere")
    assert cosine.exact == sphere.exact == sphere.fixed_probe == sphere.ratio_of_means
    assert cosine.typical == sphere.typical
    assert (value_factor("gaussian", 10), value_factor("signs", 10), value_factor("gaussian", 2)) == (
        1.25,
        1.0,
        math.inf,
    )


def test_one_pair_has_no_noise():
    found = predict(similarity("exp"), 1, 8, 2.0)
    assert found.exact.value == found.typical.value == 0.0


def test_printed_solu_lacks_e_squared():
    found = predict(similarity("solu"), 100, 64, 8.0, typical=False)
    assert found.paper.log - found.printed.log == pytest.approx(2, abs=1e-12)
    assert predict(similarity("solu"), 100, 64, 7.0, typical=False).printed.log is None


def test_everything_is_finite_in_logarithms_at_the_largest_width():
    for name in ("linear", "relu", "exp", "solu", "softplus"):
        found = predict(similarity(name), 10**6, 16384, 0.9, typical=False)
        assert math.isfinite(found.exact.log)
        assert math.isfinite(found.fixed_probe.log)


@pytest.mark.parametrize(
    ("n", "d", "tau", "keys", "heads"),
    [
        (0, 4, 1.0, "gaussian", 1),
        (2, 0, 1.0, "gaussian", 1),
        (2, 4, 0.0, "gaussian", 1),
        (2, 4, math.nan, "gaussian", 1),
        (2, 4, math.inf, "gaussian", 1),
        (2, 4, 1.0, "cube", 1),
        (2, 4, 1.0, "gaussian", 3),
        (2, 4, 1.0, "gaussian", 0),
    ],
)
def test_bad_points_are_refused(n, d, tau, keys, heads):
    with pytest.raises(ValueError, match=r"expected|divide"):
        predict(similarity("exp"), n, d, tau, keys, heads=heads)


def test_a_kernel_that_is_not_real_is_refused():
    with pytest.raises(ValueError, match="not a real number at x = -"):
        predict(similarity("log(x)"), 10, 4, 1.0)


@pytest.mark.parametrize(("d", "tau"), [(1, 2.0), (2, 2.0)])
def test_the_sphere_of_one_and_two_dimensions(d, tau):
    found = predict(similarity("exp"), 2, d, tau, "sphere", typical=False).exact
    angles = (np.arange(4000) + 0.5) * np.pi / 2000
    cosines = np.array([1.0, -1.0]) if d == 1 else np.cos(angles)
    assert found.value == pytest.approx(np.mean(np.exp(2 * d * (cosines - 1) / tau)), rel=1e-10)


def test_condensation_lines():
    line = expectation.condensation_line
    assert line(similarity("exp"), 64, 4.0) == pytest.approx(8)
    assert line(similarity("solu"), 64, 8.0) == pytest.approx(2)
    assert line(similarity("linear"), 64, 8.0) == 0
    assert line(similarity("tanh(x/tau)"), 64, 8.0) < 2
    # a sum of exponentials is carried where its largest one is
    assert line(similarity("exp(x/tau) + 1"), 64, 4.0) == pytest.approx(8, rel=0.02)
    # on the sphere: t* = 0.618... at tau = 2, and equal to the Gaussian line as tau grows
    assert line(similarity("exp"), 64, 2.0, "sphere") == pytest.approx(
        -32 * math.log(1 - ((math.sqrt(5) - 1) / 2) ** 2)
    )
    assert line(similarity("exp"), 64, 80.0, "sphere") == pytest.approx(line(similarity("exp"), 64, 80.0), rel=0.01)


def _absolute_moment(a, s):
    """E|X|^a of X ~ N(0, s)."""
    a = mpmath.mpf(a)
    return (2 * mpmath.mpf(s)) ** (a / 2) * mpmath.gamma((a + 1) / 2) / mpmath.sqrt(mpmath.pi)


def _moment_about(p, a, s):
    """E|X − p|^a of X ~ N(0, s), by Kummer's function."""
    return _absolute_moment(a, s) * mpmath.hyp1f1(-mpmath.mpf(a) / 2, 0.5, -(mpmath.mpf(p) ** 2) / (2 * s))


@pytest.mark.parametrize("power", ["-0.49", "-0.3", "0.01"])
def test_poles_of_low_order_against_gamma_functions(power):
    g, d, twice = similarity(f"abs(x)**{power}"), 8, 2 * mpmath.mpf(power)

    def norms(k):  # E s^k over χ²_d
        return 2**k * mpmath.gamma(mpmath.mpf(d) / 2 + k) / mpmath.gamma(mpmath.mpf(d) / 2)

    c = _absolute_moment(twice, 1)
    noise, signal = expectation.ratio_of_means(g, d, 1.0)
    on_sphere = mpmath.beta((twice + 1) / 2, (d - 1) / mpmath.mpf(2)) / mpmath.beta(0.5, (d - 1) / mpmath.mpf(2))
    for found, known in (
        (expectation.gaussian_mean(g, d, 1.0), c * norms(-twice / 2)),
        (expectation.fixed_probe(g, d, 1.0), _absolute_moment(twice, d) / mpmath.mpf(d) ** twice),
        (expectation.sphere_mean(g, d, 1.0), on_sphere),
        (noise, c * norms(twice / 2)),
        (signal, norms(twice)),
    ):
        assert found.log == pytest.approx(float(mpmath.log(known)), abs=1e-11)
        assert found.error < 1e-10


@pytest.mark.parametrize(
    ("kernel", "p", "power"),
    [("abs(2*x - 6)**-0.45", 3, "-0.9"), ("((x - tau)**2)**-0.2", 1.5, "-0.8")],
)
def test_poles_away_from_zero_against_kummers_function(kernel, p, power):
    g, d, tau = similarity(kernel), 9, 1.5
    scale = 2 ** mpmath.mpf(power) if "2*x" in kernel else 1
    logs, errors = expectation.log_second_moment(g, np.array([0.01, 1.0, 9.0, 1e4]), tau, d)
    for s, log in zip((mpmath.mpf(1) / 100, 1, 9, 10000), logs):
        assert log == pytest.approx(float(mpmath.log(scale * _moment_about(p, power, s))), abs=1e-11)
    assert errors.max() < 1e-10
    # E|s − p|^a over s ~ χ²_d, each side with |s − p| = t^m
    a, m, p = mpmath.mpf(power), 20, mpmath.mpf(p)
    h = mpmath.mpf(d) / 2

    def density(s):
        return abs(s) ** (h - 1) * mpmath.exp(-s / 2) / (2**h * mpmath.gamma(h))

    below = mpmath.quad(lambda t: m * t ** (m * (a + 1) - 1) * density(p - t**m), [0, p ** (mpmath.mpf(1) / m)])
    above = mpmath.quad(
        lambda t: m * t ** (m * (a + 1) - 1) * density(p + t**m), [0, 1, 1.1, 1.2, 200 ** (mpmath.mpf(1) / m)]
    )
    signal = expectation.ratio_of_means(g, d, tau)[1]
    assert signal.log == pytest.approx(float(mpmath.log(scale * (below + above))), abs=1e-10)


def test_logarithms_and_zeros_of_low_order():
    d = 8
    log_moment = ((mpmath.log(d) - mpmath.log(2) - mpmath.euler) / 2) ** 2 + mpmath.pi**2 / 8  # E ln²|X|
    found = expectation.log_second_moment(similarity("log(abs(x))"), float(d), 1.0, d)[0][0]
    assert found == pytest.approx(float(mpmath.log(log_moment)), abs=1e-11)
    # the signal vanishes at ‖k‖² = 3: 1/g² is integrable there for |s − 3|^0.3 and not for |s − 3|^0.5
    assert math.isfinite(expectation.gaussian_mean(similarity("abs(x - 3)**0.3"), d, 1.0).log)
    lost = expectation.gaussian_mean(similarity("abs(x - 3)**0.5"), d, 1.0)
    assert lost.log == math.inf
    assert "vanishes" in lost.reason


def test_what_is_no_number_far_out_has_predictions_all_the_same():
    found = predict("cos(cosh(x))", 16, 2, 1.0, typical=False)
    assert found.condensation == math.log(16)
    assert found.exact.log is None or found.exact.diverges


def test_a_jump_over_zero_is_no_zero():
    for kernel in ("2*sign(x - 3)", "sign(x - 3)*(1 + exp(x/tau))**0"):
        assert expectation.gaussian_mean(similarity(kernel), 8, 1.0).log == pytest.approx(0, abs=1e-10)
    assert expectation.gaussian_mean(similarity("x - 3"), 8, 1.0).log == math.inf
    assert expectation.gaussian_mean(similarity("max(0, x - 3)"), 8, 1.0).log == math.inf


def test_what_singularities_are_not_resolved_is_said():
    for kernel in ("abs(sin(x))**-0.3", "abs(x)**-0.5/log(abs(x)/1000)"):
        with pytest.raises(ArithmeticError, match="a relative error of"):
            expectation.fixed_probe(similarity(kernel), 8, 1.0)
    for kernel in ("1/x", "abs(x)**-0.5", "1/(x - 3)", "abs(x - 3)**-0.5"):
        assert expectation.fixed_probe(similarity(kernel), 8, 1.0).log == math.inf


@pytest.mark.parametrize("shift", [10, 15])
def test_a_kernel_that_vanishes_near_zero_has_its_ratio_of_means(shift):
    """Short keys see nothing of max(0, x − shift): a negligible mass, which once passed for a divergence."""
    from scipy import integrate, stats

    d, n = 64, 17
    found = predict(similarity(f"max(0, x - {shift})"), n, d, 8.0, typical=False).ratio_of_means.value

    def noise(s):
        z = shift / math.sqrt(s)
        return s * ((1 + z * z) * stats.norm.sf(z) - z * stats.norm.pdf(z))

    law = stats.chi2(d)
    above = integrate.quad(lambda s: law.pdf(s) * noise(s), 1, 250, limit=200, epsabs=0, epsrel=1e-11)[0]
    below = integrate.quad(lambda s: law.pdf(s) * (s - shift) ** 2, shift, 250, limit=200, epsabs=0, epsrel=1e-11)[0]
    assert found == pytest.approx((n - 1) * above / below, rel=1e-8)
