"""When an update has a potential: the exact condition, by formula and by brute force."""

import itertools

import numpy as np
import pytest
import sympy

from theorem import potential
from theorem.rule_expression import SYMBOLIC
from theorem.updates import apply, generic
from theorem.user_rule import examine, user_rule


def matrix(kind, size, seed):
    rng = np.random.default_rng(seed)
    m = sympy.Matrix(size, size, [int(x) for x in rng.integers(-3, 4, size * size)])
    if kind == "zero":
        return sympy.zeros(size)
    symmetric, skew = m + m.T, m - m.T
    return {"symmetric": symmetric, "skew": skew, "neither": symmetric + skew * 2 + sympy.ones(size)}[kind]


KINDS = ("symmetric", "skew", "neither", "zero")


@pytest.mark.parametrize(("a", "b"), list(itertools.product(KINDS, KINDS)))
def test_self_adjoint_exactly_when_both_symmetric_both_skew_or_one_zero(a, b):
    x, y = matrix(a, 3, 1), matrix(b, 2, 5)
    expected = "zero" in (a, b) or (a == b and a != "neither")
    assert (potential.self_adjoint_defect(x, y) == 0) is expected
    assert potential.self_adjoint_defect(x, y) == potential.defect_by_definition(x, y)


def test_a_one_by_one_factor_is_symmetric():
    a, b = sympy.Matrix([[5]]), matrix("skew", 2, 0)
    assert potential.self_adjoint_defect(a, b) != 0
    assert potential.self_adjoint_defect(a, matrix("symmetric", 2, 0)) == 0


def test_the_potential_has_the_gradient_it_should():
    s = sympy.Matrix(1, 2, sympy.symbols("s1:3", real=True))
    update = sympy.Matrix([[s[0] ** 2 + 3 * s[1], 3 * s[0] - s[1] ** 3 + 7]])
    decision = potential.decide(update, s)
    assert decision.exists
    for entry, kept, changed in zip(s, s, update):
        assert sympy.expand(sympy.diff(decision.potential, entry) - (kept - changed)) == 0


def test_no_potential_shows_the_antisymmetric_part():
    s = sympy.Matrix(1, 2, sympy.symbols("s1:3", real=True))
    decision = potential.decide(sympy.Matrix([[s[1], 3 * s[0]]]), s)
    assert not decision.exists
    assert decision.potential is None
    assert decision.obstruction == sympy.Matrix([[0, -1], [1, 0]])


@pytest.mark.parametrize(
    ("rows", "real"),
    [
        ([[2, 1], [1, 3]], True),
        ([[0, -1], [1, 0]], False),
        ([[1, 1], [0, 1]], False),  # a Jordan block has real eigenvalues and too few eigenvectors
        ([[1, 0], [0, 1]], True),
        ([[1, 5], [0, 2]], True),
        ([[0, 0, 1], [1, 0, 0], [0, 1, 0]], False),
    ],
)
def test_real_eigenbasis(rows, real):
    assert potential.has_real_eigenbasis(sympy.Matrix(rows)) is real


def test_kronecker_rank_counts_terms():
    a, b, c, d = (matrix("neither", 2, seed) for seed in (3, 4, 5, 6))
    one = sympy.kronecker_product(a, b.T)
    assert potential.kronecker_rank(one, 2, 2) == 1
    assert potential.kronecker_rank(one + sympy.kronecker_product(c, d.T), 2, 2) == 2


@pytest.mark.parametrize(
    ("a", "b", "c", "exists"),
    [
        ("I", "I - beta*k*k.T", "beta*v*k.T", True),
        ("N + N.T", "M + M.T", "Z", True),
        ("N - N.T", "M - M.T", "v*k.T", True),
        ("N - N.T", "M + M.T", "v*k.T", False),
        ("I", "M", "0*S", False),
        ("0*N", "M", "v*k.T", True),
        ("I", "I", "-beta*(S*k - v)*k.T", True),
        ("I", "I", "-beta*(S*k - v)*k2.T", False),
        ("I", "I", "norm2(S)*S", True),
        ("I", "I", "norm2(S)*Z", False),
    ],
)
def test_user_rules(a, b, c, exists):
    found = examine(user_rule(a, b, c))
    assert found.decision.exists is exists
    assert found.agrees is not False
    # every rule with a potential here is settled for every size, but those in which C holds S
    assert found.every_size is (exists and "S" not in c.replace("0*S", ""))
    assert all(entry == 0 for entry in found.decision.obstruction) is exists


def test_a_users_potential_is_the_one_printed():
    from theorem.rule import shapes
    from theorem.rule_expression import evaluate, parse
    from theorem.updates import gradient, vanishes

    rule = user_rule("N - N.T", "M - M.T", "v*k.T")
    values = generic(rule.kinds, 2, 2)
    printed = evaluate(parse(examine(rule).potential, shapes(rule.kinds)), values, SYMBOLIC)
    assert vanishes(gradient(printed, values["S"]) - (values["S"] - apply(rule, values, SYMBOLIC)))


def test_boundedness_of_a_users_rule_is_judged_at_every_draw():
    assert examine(user_rule("I", "I - beta*k*k.T", "beta*v*k.T")).bounded == 20
    assert examine(user_rule("I", "I", "v*k.T")).bounded == 0
    assert examine(user_rule("I", "I + beta*k*k.T", "0*S")).bounded == 0


def test_a_rule_without_potential_may_have_one_in_another_inner_product():
    assert examine(user_rule("I", "diag(w) - kappa*kappa.T*diag(lam)", "v*k.T")).mended == 20
    # eigenvalues ±i m, real only where the draw has m = 0
    assert examine(user_rule("I", "M - M.T + beta*I", "v*k.T")).mended <= 2
