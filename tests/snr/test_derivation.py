import math

import pytest
import sympy

from snr import closed_forms
from snr.closed_forms import form
from snr.derivation import (
    TAU,
    D,
    S,
    derive,
    fixed_probe_ratio,
    limit_at_infinity,
    mean_over_fixed_probe,
    printed_solu_error,
)
from snr.similarity import similarity

CLOSED = ("linear", "relu", "exp", "solu", "cubic", "relu2", "x**2*exp(x/tau)")


@pytest.mark.parametrize("name", CLOSED)
def test_derived_formulas_are_the_numeric_ones(name):
    g, d, tau = similarity(name), 64, 5.0
    found, derived = form(g, tau, d), derive(g)
    at = {D: d, TAU: tau}
    for numeric, symbolic in (
        (closed_forms.fixed_probe, derived.fixed_probe),
        (closed_forms.gaussian_mean, derived.mean),
        (closed_forms.sphere_mean, derived.sphere),
    ):
        assert float(sympy.log(symbolic.subs(at)).evalf(25)) == pytest.approx(numeric(found, d), abs=1e-11)


@pytest.mark.parametrize("name", ["linear", "relu", "exp", "solu", "cubic"])
def test_the_second_moment_against_sympys_own_integral(name):
    z = sympy.Symbol("z", real=True)
    x = sympy.sqrt(S) * z
    g = similarity(name).expression.subs(sympy.Symbol("x", real=True), x).subs(TAU, 3)
    lower = 0 if name == "relu" else -sympy.oo
    integrand = g.replace(sympy.Max, lambda *a: x) ** 2 * sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    own = sympy.integrate(sympy.expand(integrand), (z, lower, sympy.oo))
    assert sympy.simplify(own - derive(similarity(name)).second_moment.subs(TAU, 3)) == 0


def test_the_chi_square_moment_against_sympys_own_integral():
    k, a = sympy.Rational(1), sympy.Rational(1, 3)
    d = 7
    density = (
        S ** (sympy.Rational(d, 2) - 1)
        * sympy.exp(-S / 2)
        / (2 ** sympy.Rational(d, 2) * sympy.gamma(sympy.Rational(d, 2)))
    )
    own = sympy.integrate(density * S**-k * sympy.exp(-a * S), (S, 0, sympy.oo))
    rule = (
        2**-k
        * sympy.gamma(sympy.Rational(d, 2) - k)
        / sympy.gamma(sympy.Rational(d, 2))
        * (1 + 2 * a) ** (k - sympy.Rational(d, 2))
    )
    assert sympy.simplify(own - rule) == 0


def test_conditions_are_those_of_the_mean():
    assert derive(similarity("cubic")).condition == (D > 6)
    solu = derive(similarity("solu")).condition
    assert solu.subs({D: 3, TAU: 1}) == sympy.true
    assert solu.subs({D: 2, TAU: 1}) == sympy.false
    assert solu.subs({D: 3, TAU: sympy.Rational(4, 5)}) == sympy.false
    assert derive(similarity("exp(-x)")).condition == sympy.false


def test_relations_between_the_formulas():
    assert fixed_probe_ratio(similarity("solu"), similarity("exp")) == 5 / D
    assert printed_solu_error() == sympy.exp(2)
    assert limit_at_infinity(mean_over_fixed_probe(similarity("exp"))) == sympy.exp(4)
    assert limit_at_infinity(mean_over_fixed_probe(similarity("solu"))) == sympy.exp(4)
    assert limit_at_infinity(mean_over_fixed_probe(similarity("relu"))) == 1


@pytest.mark.parametrize("name", ["softplus", "gelu", "sin(x)", "x + x**3", "cosh(x/tau)", "max(0, x) + 1"])
def test_what_has_no_closed_mean_says_so(name):
    found = derive(similarity(name))
    assert found.mean is None
    assert any("quadrature" in step.text for step in found.steps)


def test_sums_still_have_a_fixed_probe_value():
    from snr.expectation import fixed_probe

    for name in ("x + x**3", "cosh(x/tau)"):
        value = derive(similarity(name)).fixed_probe.subs({D: 9, TAU: 2})
        assert math.log(float(value.evalf(20))) == pytest.approx(fixed_probe(similarity(name), 9, 2.0).log, abs=1e-11)


def test_steps_are_text_and_mathml():
    steps = derive(similarity("exp")).steps
    assert all(step.text for step in steps)
    assert any(step.mathml.startswith("<m") for step in steps)
    cosine = derive(similarity("cosexp"))
    assert cosine.sphere is not None
    assert cosine.mean is None
