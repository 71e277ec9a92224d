import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import special

from snr.similarity import BUILTIN, MILLS, PIVOT, Similarity, similarity, temperature

X = np.array([-16384.0, -900, -50, -10, -1, -1e-9, 0, 1e-9, 0.3, 1, 10, 100, 16384])


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("tau", [0.9, 2.0, 128.0])
def test_numpy_twins_agree_with_the_expression(name, tau):
    fast, derived = BUILTIN[name], Similarity(name, BUILTIN[name].text)
    for a, b in zip(fast.sign_and_log(X, tau, 64.0), derived.sign_and_log(X, tau, 64.0)):
        assert np.array_equal(np.isfinite(a), np.isfinite(b))
        finite = np.isfinite(a)
        assert np.allclose(a[finite], b[finite], rtol=1e-14, atol=1e-14)
    small = X[np.abs(X) < 20]
    # the plain expression log(1 + e^y) loses digits for y < 0, the twin does not
    assert np.allclose(fast.value(small, tau, 64.0), derived.value(small, tau, 64.0), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("name", [*BUILTIN, "x**3 + x", "tanh(x/tau)"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_keeps_precision_and_place(name, dtype):
    g = similarity(name)
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(dtype) * 3
    sign, log = Similarity(name, g.text).sign_and_log(x.astype(float), 2.0, 64.0)
    found = g.value(x, 2.0, 64.0)
    assert found.dtype == dtype
    assert np.allclose(found, sign * np.exp(log), rtol=2e-6 if dtype == np.float32 else 1e-12)
    into = x.copy()
    assert g.value(into, 2.0, 64.0, out=into) is into
    assert np.array_equal(into, found)


@pytest.mark.parametrize("name", BUILTIN)
def test_values_overflow_to_infinity_and_underflow_to_zero_without_a_warning(name):
    """Also the logarithm stays finite where the value does not: what the simulation falls back to."""
    g = BUILTIN[name]
    x = np.array([-1e20, -3e4, 3e4, 1e20])
    for dtype in (np.float32, np.float64):
        found = g.value(x.astype(dtype), 0.9, 16384.0)
        assert not np.isnan(found).any()
        assert (found[2:] > 1e4).all()
    assert np.isfinite(g.sign_and_log(x[2:], 0.9, 16384.0)[1]).all()


def test_gelu_in_single_precision_against_the_normal_distribution():
    """6e-7 + 6e-8 x² in relative error, in both tails to where it underflows."""
    x = np.linspace(-13, 13, 1_000_003).astype(np.float32)
    x = np.concatenate([x, np.geomspace(1e-30, 1, 1000, dtype=np.float32) * np.float32(-1)])
    wide = x[x != 0].astype(float)
    exact = wide * np.exp(special.log_ndtr(wide))
    error = np.abs(similarity("gelu").value(x[x != 0], 1.0, 64.0) / exact - 1)
    assert np.all(error <= 6e-7 + 6e-8 * wide**2)
    a = np.linspace(0, 14.5, 100_001)  # the fit itself, in double precision
    t = PIVOT / (PIVOT + a)
    fit = np.polynomial.polynomial.polyval(t, (0.0, *MILLS))
    assert np.abs(fit / (special.erfcx(a / math.sqrt(2)) / 2) - 1).max() < 1.3e-7


def test_left_tail_of_gelu_and_softplus_keep_their_digits():
    from mpmath import exp, log, mp, ncdf

    mp.dps = 30
    assert similarity("gelu").sign_and_log(-40.0, 1.0, 1.0)[1] == pytest.approx(float(log(40 * ncdf(-40))), rel=1e-13)
    assert similarity("softplus").sign_and_log(-5.0, 1.0, 1.0)[1] == pytest.approx(
        float(log(log(1 + exp(-5)))), rel=1e-13
    )
    assert similarity("softplus").sign_and_log(-1e6, 1.0, 1.0)[1] == -1e6


@pytest.mark.parametrize("text", ["softmax", "", "d", "x - x", "__import__('os')", "log(tau)"])
def test_bad_similarities_are_refused(text):
    with pytest.raises(ValueError, match=r"expected|depend"):
        similarity(text)


@pytest.mark.parametrize(
    ("text", "at_64"),
    [("sqrt", 8.0), ("3sqrt", 24.0), ("0.5*sqrt", 4.0), ("2.5", 2.5), ("d**0.25", 64**0.25), ("sqrt(d)+1", 9)],
)
def test_temperatures(text, at_64):
    assert temperature(text)(64) == pytest.approx(at_64)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "", "x", "sqrt(x)", "-sqrt", "0sqrt", "1..2sqrt"])
def test_bad_temperatures_are_refused(text):
    with pytest.raises(ValueError, match="expected"):
        temperature(text)


def test_a_temperature_may_fail_at_some_width_only():
    sixty = temperature("sqrt(d - 64)")
    assert sixty(68) == 2
    for d in (3, 64):
        with pytest.raises(ValueError, match=f"at d = {d}"):
            sixty(d)


def test_built_in_kernels_need_no_sympy():
    code = (
        "import sys, math\nfrom snr.similarity import similarity, temperature\nfrom snr.predictions import predict\n"
        "predict(similarity('exp'), 1024, 64, temperature('sqrt')(64))\nassert 'sympy' not in sys.modules"
        "\nassert 'scipy.stats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
