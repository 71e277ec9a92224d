"""The catalogue of rules: each proof can fail, and does where a rule is spoiled."""

import dataclasses

import numpy as np
import pytest
import sympy

from theorem.rule import Equivalence, Rule
from theorem.rule_expression import NUMERIC
from theorem.rule_proofs import prove
from theorem.rules import catalogue
from theorem.updates import (
    apply,
    boundedness,
    draw,
    equivalence_is_proved,
    gradient_identity,
    gradient_residual,
    spectrum_is_proved,
)

RULES = catalogue()
CHEAP = ("deltanet", "linear", "gated_linear", "mamba2", "longhorn_channels", "softmax_normalised", "deltanet_momentum")


@pytest.mark.parametrize("name", CHEAP)
def test_every_proof_of_a_rule_holds(name):
    proofs = prove(RULES[name])
    assert proofs.identities_hold
    assert proofs.plain
    assert proofs.bounded.proved


@pytest.mark.parametrize("name", [n for n, r in RULES.items() if r.objective])
def test_gradient_identity_at_a_large_random_instance(name):
    assert gradient_residual(RULES[name], seed=7, d_v=6, d=9) < 1e-12


@pytest.mark.parametrize("name", list(RULES))
def test_update_equals_the_text_book_loop(name):
    """One step with numpy alone, written out a second time."""
    x = draw(RULES[name].kinds, 3, 5, np.random.default_rng(2))
    s, k, v = x["S"], x["k"], x["v"]
    write = v @ k.T

    def gate(name):
        return np.diag(x[name][:, 0])

    expected = {
        "linear": lambda: s + write,
        "gated_linear": lambda: s @ gate("lam") + write,
        "mamba2": lambda: x["a"] * s + x["delta"] * write,
        "deltanet": lambda: s - x["beta"] * (s @ k - v) @ k.T,
        "gated_deltanet": lambda: x["a"] * s - x["b"] * (x["a"] * s @ k - v) @ k.T,
        "kda": lambda: s @ gate("lam") - x["beta"] * (s @ gate("lam") @ k - v) @ k.T,
        "deltaproduct": lambda: _two_steps(x),
        "softmax": lambda: s + v @ x["phi"].T,
        "softmax_normalised": lambda: s + (v @ x["phi"].T / x["c"] - s) / x["t"],
        "gated_softmax": lambda: s @ gate("lam") + v @ x["phi"].T,
        "momentum": lambda: s @ gate("lam") + write + x["eta"] * x["Z"],
        "deltanet_momentum": lambda: s - x["beta"] * (s @ k - v) @ k.T + x["eta"] * x["Z"],
        "titans": lambda: (1 - x["alpha"]) * s + x["eta"] * x["Z"] - x["theta"] * (s @ k - v) @ k.T,
        "longhorn": lambda: s - x["beta"] / (1 + x["beta"] * float((k * k).sum())) * (s @ k - v) @ k.T,
        "longhorn_channels": lambda: s - x["delta"] * (s @ k - v) @ k.T,
        "longhorn_diagonal": lambda: s - x["delta"] * (s * k.T - v) * k.T,
        "rwkv7": lambda: s @ gate("w") - (s @ x["kappa"]) @ (x["a"] * x["kappa"]).T + write,
        "mesa": lambda: s - (s @ k - v) @ k.T @ np.linalg.inv(x["R"] + k @ k.T),
    }[name]()
    assert np.allclose(apply(RULES[name], x, NUMERIC), expected, rtol=1e-10, atol=1e-12)


def _two_steps(x):
    s = x["S"]
    for k, v, beta in ((x["k"], x["v"], x["beta"]), (x["k2"], x["v2"], x["beta2"])):
        s = s - beta * (s @ k - v) @ k.T
    return s


def test_a_wrong_objective_is_refused():
    spoiled = dataclasses.replace(RULES["gated_deltanet"], objective="(1 - a)*norm2(S)/2 + a*b*norm2(S*k - v)/2")
    assert not gradient_identity(spoiled, 2, 2)
    assert gradient_residual(spoiled, seed=0) > 1e-3


def test_a_wrong_spectrum_is_refused():
    spoiled = dataclasses.replace(RULES["deltanet"], spectrum=(("1", "d_v*d"),))
    assert not spectrum_is_proved(spoiled)


def test_a_wrong_minimiser_and_a_concave_objective_are_not_proved():
    assert not boundedness(dataclasses.replace(RULES["deltanet"], witness="v*k.T")).proved
    concave = Rule("x", "x", "x", (("I", "I"),), "0*S", objective="-norm2(S)/2", bounded=True, witness="0*S")
    assert not boundedness(concave).proved


def test_a_direction_in_which_nothing_falls_is_not_proved():
    assert not boundedness(dataclasses.replace(RULES["linear"], witness="0*S")).proved
    assert not boundedness(dataclasses.replace(RULES["deltanet"], bounded=False, witness="v*k.T")).proved


def test_a_false_equivalence_is_refused():
    claim = Equivalence("wrong", "deltanet", here={"a": "1"}, there={"beta": "2*b"})
    assert not equivalence_is_proved(RULES["gated_deltanet"], RULES["deltanet"], claim)


def test_preconditioned_rules_have_no_plain_potential():
    from theorem.updates import decide_rule

    for name, rule in RULES.items():
        plain = rule.preconditioner == "Id" and bool(rule.objective)
        assert decide_rule(rule).exists is plain, name


def test_a_rule_without_objective_stands_by_its_equivalences():
    from verify.claims.p2_2_update import rule_ruling

    rule = RULES["deltaproduct"]
    assert rule_ruling(rule, prove(rule)).verdict == "confirmed"
    spoiled = dataclasses.replace(rule, c=f"2*({rule.c})")
    assert rule_ruling(spoiled, prove(spoiled)).verdict == "refuted"


def test_convexity_is_decided_block_by_block():
    from theorem.updates import _is_positive_semidefinite

    a, b = sympy.symbols("a b", positive=True)
    good, bad = sympy.Matrix([[a + b, a], [a, a]]), sympy.Matrix([[a, a + b], [a + b, a]])
    assert _is_positive_semidefinite(sympy.diag(good, good, a))
    assert not _is_positive_semidefinite(sympy.diag(good, bad))
    assert not _is_positive_semidefinite(sympy.diag(good, -a))
