"""Kernels by proof, non-kernels by witness, and both against eigenvalues of random Gram matrices."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

from theorem.feature_maps import (
    SIMILARITIES,
    TAU,
    X,
    coefficients_agree,
    form,
    nonnegative_series,
    relu_is_a_kernel_on_the_line,
    witness,
)

BY_NAME = {s.name: s for s in SIMILARITIES}


@pytest.mark.parametrize("name", list(BY_NAME))
def test_each_function_is_settled_one_way(name):
    proved = bool(nonnegative_series(BY_NAME[name].expression))
    refuted = witness(BY_NAME[name]) is not None
    assert proved != refuted


@pytest.mark.parametrize("name", ["linear", "exp", "solu", "cubic"])
def test_proved_kernels_have_no_negative_gram_eigenvalue(name):
    g = sympy.lambdify(X, BY_NAME[name].expression.subs(TAU, 2))
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        points = rng.standard_normal((12, d))
        gram = g(points @ points.T)
        assert np.linalg.eigvalsh(gram)[0] > -1e-10 * np.abs(gram).max()


@pytest.mark.parametrize("name", ["relu", "round"])
def test_witnesses_are_negative_by_numpy_too(name):
    found = witness(BY_NAME[name])
    points = np.array([[float(e) for e in p] for p in found.points])
    g = {"relu": lambda x: np.maximum(x, 0), "round": np.round}[name]
    weights = np.array(found.weights)
    assert weights @ g(points @ points.T) @ weights == pytest.approx(float(found.form))
    assert np.linalg.eigvalsh(g(points @ points.T))[0] < 0


def test_no_witness_on_positive_weights():
    # all-positive weights on vectors with nonnegative similarity cannot be negative: the form is not trivially so
    points = ((Fraction(1), Fraction(0)), (Fraction(1), Fraction(1)))
    assert form(BY_NAME["relu"], points, (1, 2)) > 0


def test_relu_on_the_line_and_off_it():
    assert relu_is_a_kernel_on_the_line()
    x = np.random.default_rng(0).standard_normal((20, 1))
    assert np.linalg.eigvalsh(np.maximum(x @ x.T, 0))[0] > -1e-12


@pytest.mark.parametrize(
    "expression", [-X, X - 1, sympy.exp(-X), X**2 - X, sympy.sin(X), sympy.Max(0, X), X**-1, sympy.sqrt(X), -sympy.S(1)]
)
def test_nothing_is_proved_where_nothing_should_be(expression):
    assert nonnegative_series(expression) == []


@pytest.mark.parametrize("expression", [X**2 + 3, sympy.cosh(X), sympy.exp(X**3 + X), X * sympy.sinh(2 * X)])
def test_closure_rules(expression):
    assert nonnegative_series(expression)


def test_taylor_coefficients_are_the_closed_forms():
    assert coefficients_agree(sympy.exp(X / TAU), lambda n: 1 / (sympy.factorial(n) * TAU**n))
    solu = lambda n: 0 if n == 0 else 1 / (sympy.factorial(n - 1) * TAU ** (n - 1))  # noqa: E731
    assert coefficients_agree(X * sympy.exp(X / TAU), solu)
    assert not coefficients_agree(sympy.exp(X / TAU), solu)
