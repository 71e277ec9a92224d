"""The language of update rules: what it reads, what it refuses, and that both algebras agree."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theorem.rule import shapes
from theorem.rule_expression import NUMERIC, SCALAR, STATE, SYMBOLIC, evaluate, parse
from theorem.updates import draw, generic
from theorem.user_rule import VOCABULARY

KINDS = {"S": "state", "k": "key", "v": "value", **VOCABULARY}
NAMES = shapes(KINDS, "d")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing"),
        ("   ", "nothing"),
        ("I - beta*k*", "expression"),
        ("__import__('os').system('true')", "only names"),
        ("k.__class__", "only names"),
        ("(lambda: 0)()", "only names"),
        ("[k for k in v]", "only names"),
        ("beta if beta else k", "only names"),
        ("diag(k, axis=0)", "only names"),
        ("open('x')", "only names"),
        ("'text'", "only names"),
        ("True*k", "True or False"),
        ("nan*k", "unknown name nan"),
        ("1e400*k", "at most 1e12"),
        ("10**30", "power of 0 to 8"),
        ("beta**k", "exponent"),
        ("beta**-1", "power of 0 to 8"),
        ("beta**0.5", "power of 0 to 8"),
        ("99999999999999*k", "at most 1e12"),
        ("1j*k", "only names"),
        ("k*k", "cannot multiply d×1 by d×1"),
        ("k + v", "cannot add d×1 and d_v×1"),
        ("1 + I", "cannot add scalar and d×d"),
        ("k/v", "only by a scalar"),
        ("k/norm2(S)", "S may not occur"),
        ("inv(S.T*S)", "S may not occur"),
        ("diag(I)", "expects a column"),
        ("tr(k)", "square"),
        ("dot(k)", "two arguments"),
        ("dot(k, v)", "one shape"),
        ("sqrt(k)", "scalar"),
        ("k" * 500, "at most 400"),
        ("-" * 60 + "k", "too deeply"),
        ("(" * 150 + "k" + ")" * 150, None),  # either deep or fine, never a crash
    ],
)
def test_refuses_in_one_line(text, words):
    if words is None:
        parse(text, NAMES)
        return
    with pytest.raises(ValueError, match=words) as caught:
        parse(text, NAMES)
    assert "\n" not in str(caught.value)


def test_wrong_shape_of_the_whole_is_named():
    with pytest.raises(ValueError, match=r"expected shape d_v×d, got d×d"):
        parse("k*k.T", NAMES, STATE)


@pytest.mark.parametrize("size", [(1, 1), (1, 3), (3, 1), (2, 3)])
@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("k.T*k", lambda x: (x["k"] * x["k"]).sum()),
        ("norm2(S*k - v)", lambda x: ((x["S"] @ x["k"] - x["v"]) ** 2).sum()),
        ("v.T*S*k", lambda x: (x["v"].T @ x["S"] @ x["k"])[0, 0]),
        ("tr(S*diag(lam)*S.T)", lambda x: np.trace(x["S"] @ np.diag(x["lam"][:, 0]) @ x["S"].T)),
        ("beta**3/(1 + beta)", lambda x: x["beta"] ** 3 / (1 + x["beta"])),
        ("dot(inv(R)*k, k)", lambda x: (x["k"].T @ np.linalg.inv(x["R"]) @ x["k"])[0, 0]),
        ("sqrt(2)*beta - -0.1", lambda x: 2**0.5 * x["beta"] + 0.1),
    ],
)
def test_numeric_value_is_numpys(text, true, size):
    values = draw(KINDS, *size, np.random.default_rng(1))
    assert evaluate(parse(text, NAMES, SCALAR), values, NUMERIC) == pytest.approx(true(values), rel=1e-12)


TEXTS = (
    "I - beta*k*k.T",
    "diag(lam)*(I - beta*k*k2.T)",
    "(a*R + M)*M.T/3",
    "hadamard(k*k.T, R) - 2.5*I",
    "norm2(k)*M - tr(M)*I",
)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(1, 2), st.integers(1, 3), st.integers(0, 10**6))
def test_both_algebras_agree(text, d_v, d, seed):
    node = parse(text, NAMES)
    numbers = draw(KINDS, d_v, d, np.random.default_rng(seed))
    symbols = generic(KINDS, d_v, d)
    point = {}
    for name, symbol in symbols.items():
        if name in KINDS:
            pairs = [(symbol, numbers[name])] if node and KINDS[name] in ("real", "positive", "rate") else None
            pairs = pairs or zip(symbol, np.ravel(numbers[name]))
            point |= dict(pairs)
    exact = evaluate(node, symbols | {"I": sympy.eye(d)}, SYMBOLIC).subs(point)
    floats = evaluate(node, numbers | {"I": np.eye(d)}, NUMERIC)
    assert np.allclose(np.array(exact.tolist(), dtype=float), floats, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "degree"),
    [("beta*k", 0), ("S*k", 1), ("S + norm2(S)*S", 3), ("norm2(S)**3", 6), ("dot(S, S)*tr(S.T*S) - 1", 4), ("-S.T", 1)],
)
def test_degree_in_the_state(text, degree):
    assert parse(text, NAMES).degree() == degree
