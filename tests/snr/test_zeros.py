"""Zeros, poles and borders: found where they are, and named by the right numbers."""

import math

import mpmath
import numpy as np
import pytest

from snr.expectation import fixed_probe, sphere_mean
from snr.predictions import predict
from snr.similarity import similarity
from snr.zeros import signal, vanishing

D = 64
AT_THE_SIGNAL = [
    "cos(pi*x/d/2)",
    "cos(pi*x/(2*d))",
    "sin(pi*x/d)",
    "sin(x*pi/8)",
    "tan(pi*x/d)",
    "tanh(sin(pi*x/d))",
    "x*cos(pi*x/d/2)**2",
    "1 + cos(pi*x/d)",
    "sin(pi*x/d) + 0.5*sin(3*pi*x/d)",
    "sin(1e6*pi*x)",
]


@pytest.mark.parametrize("text", AT_THE_SIGNAL)
def test_a_trigonometric_zero_at_the_signal_leaves_no_finite_value(text):
    for mean in (fixed_probe, sphere_mean):
        found = mean(similarity(text), D, 8.0)
        assert found.log == math.inf
        assert found.reason == "no signal: g(64) = 0"


def test_every_prediction_knows_that_there_is_no_signal():
    found = predict("tan(pi*x/d)", 16, D, 8.0, "sphere")
    for prediction in (found.exact, found.fixed_probe, found.ratio_of_means, found.typical):
        assert prediction.diverges


@pytest.mark.parametrize(
    ("text", "d", "tau"),
    [
        ("sin(pi*x/tau**2)", 50, math.sqrt(50)),
        ("sin(9*pi*x/tau**2)", 10, 3 * math.sqrt(10)),
        ("sin(pi*x/(10*tau))", 10, 0.1),
    ],
)
def test_a_temperature_stands_for_the_root_it_is_rounded_from(text, d, tau):
    assert signal(similarity(text), d, tau) == (0.0, -math.inf)


@pytest.mark.parametrize(
    ("text", "value"), [("sin(x)", math.sin(64)), ("cos(pi*x/d/3)", 0.5), ("2 + sin(pi*x/d)", 2.0)]
)
def test_other_signals_keep_their_values(text, value):
    sign, log = signal(similarity(text), D, 8.0)
    assert sign * math.exp(log) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_sines_close_to_their_zeros_keep_their_digits(name):
    x = np.array([3.0, 40.0, 2.5, 1000.5]) * (1 + 2.0**-48)
    sign, log = similarity(f"{name}(pi*x)").sign_and_log(x, 1.0, 8.0)
    with mpmath.workdps(60):
        known = [getattr(mpmath, name)(mpmath.pi * mpmath.mpf(float(v))) for v in x]
        assert list(sign) == [float(mpmath.sign(v)) for v in known]
        assert log == pytest.approx([float(mpmath.log(abs(v))) for v in known], rel=1e-13)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("max(0, x - 20)", "for ‖k‖² up to 20"),
        ("floor(x)", "for ‖k‖² up to 1"),
        ("max(0, 10 - x)", "from ‖k‖² = 10 on"),
        ("max(0, abs(x - 20) - 3)", "for ‖k‖² from 17 to 23"),
        ("max(0, x - 1e9)", "for ‖k‖² up to 1e+09"),
        ("relu(-x)", "for every ‖k‖²"),
        ("x - 20", "at ‖k‖² = 20"),
        ("(x - 20)**2*exp(x/9)", "at ‖k‖² = 20"),
        ("cos(pi*x/d/2)", "at ‖k‖² = 8"),
    ],
)
def test_the_place_where_the_signal_vanishes_is_the_right_one(text, where):
    assert str(vanishing(similarity(text), 8, 2.0)) == where


@pytest.mark.parametrize(("scale", "border"), [(10, 160), (3, 48), (77, 1232)])
def test_the_norm_from_which_the_noise_is_infinite(scale, border):
    """E e^{2X²/(c d²)} is infinite for X ~ N(0, s) from 2s/(c d²) = 1/2 on."""
    found = predict(f"exp(x**2/({scale}*d**2))", 16, 8, 2.0, typical=False).exact
    assert found.diverges
    assert f"from ‖k‖² = {border} on" in found.reason


def test_a_border_that_depends_on_how_far_one_looks_is_not_named():
    found = predict("exp(x**2/(10*d**2) + 10*abs(x))", 16, 8, 2.0, typical=False).exact
    assert found.diverges
    assert "‖k‖² =" not in found.reason


@pytest.mark.parametrize(("text", "at", "law"), [("1/(x - 3)", 3, "sphere"), ("abs(x - 2.7)**-0.5", 2.7, "gaussian")])
def test_a_pole_is_called_a_pole(text, at, law):
    reason = predict(text, 1024, 8, 2.0, law).typical.reason
    assert f"pole near x = {at}," in reason
    assert "steps" not in reason


def test_steps_are_still_called_steps():
    assert "steps" in predict("floor(x)", 5, 8, 2.0, "sphere").typical.reason
