"""Differences that are lost in floating point, against 60 to 800 digits."""

import mpmath
import numpy as np
import pytest

from snr import expectation
from snr.predictions import predict
from snr.similarity import similarity

X = np.array([-60.0, -37.3, -5.0, -1.0, -1e-2, -1e-5, 1e-9, 1e-4, 0.3, 3.7, 12.0, 50.0, 123.4])
MP = {
    "tanh(x - 20) + 1": lambda x: mpmath.tanh(x - 20) + 1,
    "1 - tanh(x)": lambda x: 1 - mpmath.tanh(x),
    "erf(x) + 1": lambda x: mpmath.erfc(-x),
    "3 - 3*erf(x/tau)": lambda x: 3 * mpmath.erfc(x / 2),
    "erfc(-x)": lambda x: mpmath.erfc(-x),
    "1 - Phi(x)": lambda x: mpmath.ncdf(-x),
    "2*exp(x) - 2": lambda x: 2 * mpmath.expm1(x),
    "sqrt(x**2 + 1) - x": lambda x: mpmath.sqrt(x * x + 1) - x,
    "sqrt(x**2 + 1) - 1": lambda x: mpmath.sqrt(x * x + 1) - 1,
    "sqrt(x**2 + 1) - abs(x)": lambda x: mpmath.sqrt(x * x + 1) - abs(x),
    "1 + x/sqrt(1 + x**2)": lambda x: 1 + x / mpmath.sqrt(1 + x * x),
    "log(1 + exp(x))": lambda x: mpmath.log1p(mpmath.exp(x)),
    "log(1 + exp(x)) - x": lambda x: mpmath.log1p(mpmath.exp(-x)),
    "log(cosh(x))": lambda x: mpmath.log(mpmath.cosh(x)),
    "cos(x) - 1": lambda x: mpmath.cos(x) - 1,
    "cosh(x) - 1": lambda x: mpmath.cosh(x) - 1,
    "1 - sigmoid(x)": lambda x: 1 / (1 + mpmath.exp(x)),
    "(exp(x) + 1)/exp(x) - 1": lambda x: mpmath.exp(-x),
    # these have no other form and go through tables
    "exp(x) - x - 1": lambda x: mpmath.exp(x) - x - 1,
    "x - sin(x)": lambda x: x - mpmath.sin(x),
    "log(x**2 + 1) - 2*log(abs(x))": lambda x: mpmath.log(x * x + 1) - 2 * mpmath.log(abs(x)),
    "(1 + exp(-x))**0.3 - 1": lambda x: (1 + mpmath.exp(-x)) ** (mpmath.mpf(3) / 10) - 1,
}


@pytest.mark.parametrize("text", MP)
def test_no_digit_is_lost(text):
    g = similarity(text)
    many = np.random.default_rng(0).standard_normal(20_000) * 20
    few = np.concatenate([X, many[:40]])
    with mpmath.workdps(400):
        known = [MP[text](mpmath.mpf(float(x))) for x in few]
        signs = [float(mpmath.sign(v)) for v in known]
        logs = np.array([float(mpmath.log(abs(v))) for v in known])
    sign, log = g.sign_and_log(few, 2.0, 8.0)
    assert list(sign) == signs
    assert np.abs(log - logs).max() < 2e-12 * np.abs(logs).max()
    again = g.sign_and_log(many, 2.0, 8.0)[1][:40]  # so many that tables are made
    assert (np.abs(again - logs[-40:]) <= 1e-12 * np.maximum(1, np.abs(logs[-40:]))).all()


def test_a_sum_that_is_zero_is_zero():
    sign, log = similarity("(x - 1)**2 - x**2 + 2*x - 1 + max(0, x)").sign_and_log(np.array([-3.3, 2.0]), 1.0, 1.0)
    assert list(sign) == [0, 1]
    assert log[0] == -np.inf


def test_a_double_zero_at_zero_leaves_a_finite_mean():
    """g ~ x²/2 near 0: the ratio is about 3/s² for short keys, and 10^-300 is where its end is looked at."""
    g = similarity("exp(x) - x - 1")
    with mpmath.workdps(20):

        def inner(s):
            moment = mpmath.exp(2 * s) - 2 * s * mpmath.exp(s / 2) - 2 * mpmath.exp(s / 2) + s + 1  # E (e^X − X − 1)²
            return moment / (mpmath.exp(s) - s - 1) ** 2

        def density(s):
            return s**3 * mpmath.exp(-s / 2) / 96

        mean = mpmath.quad(lambda s: inner(s) * density(s), [mpmath.mpf("1e-8"), 0.1, 1, 4, 10, 30, 80, 200])
        mean += mpmath.mpf("1e-8") ** 2 * 3 / 192  # what is below: 3/s² times s³/96
    assert expectation.gaussian_mean(g, 8, 1.0).log == pytest.approx(float(mpmath.log(mean)), abs=1e-9)


def test_a_shifted_tanh_has_its_mean():
    """2/(1 + e^{2(20 − x)}): at d = 8 signal and noise are far below the rounding of 1 + tanh(x − 20)."""
    shifted = predict("tanh(x - 20) + 1", 16, 8, 1.0, typical=False)
    known = predict("1/(1 + exp(40 - 2*x))", 16, 8, 1.0, typical=False)
    for name in ("exact", "fixed_probe", "ratio_of_means"):
        assert getattr(shifted, name).log == pytest.approx(getattr(known, name).log, abs=1e-10)
