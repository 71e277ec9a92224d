"""Proofs for every size: the words mean the matrices they stand for, and a wrong identity is not proved."""

import dataclasses

import numpy as np
import pytest
import sympy

from theorem.rule import shapes
from theorem.rule_expression import NUMERIC, SCALAR, evaluate, parse
from theorem.rules import catalogue
from theorem.updates import draw, gradient_identity, holds_for_every_size
from theorem.user_rule import VOCABULARY
from theorem.words import Letter, Polynomial, Words, values

KINDS = {"S": "state", "k": "key", "v": "value", **VOCABULARY}
RULES = catalogue()


class Meaning:
    """The matrices and numbers that letters and traces stand for at one random instance."""

    def __init__(self, algebra, numbers):
        self.algebra, self.numbers = algebra, numbers

    def letter(self, letter):
        if letter.name.startswith("diag("):
            return np.diag(self.numbers[letter.name[5:-1]][:, 0])
        if letter.name in self.algebra.inverses:
            return np.linalg.inv(self.matrix(self.algebra.inverses[letter.name]))
        matrix = self.numbers[letter.name]
        return matrix.T if letter.turned else matrix

    def word(self, word, rows):
        product = np.eye(rows)
        for letter in word:
            product = product @ self.letter(letter)
        return product

    def scalar(self, expression):
        expression = sympy.sympify(expression)
        point = {}
        for symbol in expression.free_symbols:
            word = self.algebra.traces.get(symbol)
            if word is None:
                sizes = {"d": self.numbers["k"].shape[0], "d_v": self.numbers["v"].shape[0]}
                point[symbol] = self.numbers.get(symbol.name, sizes.get(symbol.name))
            else:
                point[symbol] = np.trace(self.word(word, self.letter(word[0]).shape[0]))
        return float(expression.subs(point))

    def matrix(self, polynomial):
        size = {"d": self.numbers["k"].shape[0], "v": self.numbers["v"].shape[0], "1": 1}
        rows, columns = (size[n] for n in polynomial.shape)
        total = np.zeros((rows, columns))
        for word, coefficient in polynomial.terms.items():
            total = total + self.scalar(coefficient) * self.word(word, rows)
        return total


TEXTS = (
    "S*(Id - beta*k*k.T) + beta*v*k.T",
    "k.T*k*v*k2.T*S.T*v*q.T",
    "norm2(S*k - v)",
    "tr(S*diag(lam)*diag(w)*S.T)/2 - v.T*S*k",
    "diag(w)*inv(diag(lam))*diag(w)*diag(lam)*ones",
    "diag(hadamard(k, w) - 2*ones)*inv(R + k*k.T)*R*q",
    "R*inv(R + k*k.T) + k*k.T*inv(R + k*k.T)",
    "dot(diag(delta)*(S*k - v), S*k2 - v)",
    "tr(Id) + tr(Iv) + tr(M) - tr(M.T)",
    "(k.T*M*k2)**2*N*v*ones.T/(1 + norm2(k))",
    "inv(c*Id + t*k*k.T)*k",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [(2, 3), (3, 2), (1, 4)])
def test_words_mean_what_numpy_computes(text, size):
    node = parse(text, shapes(KINDS))
    numbers = draw(KINDS, *size, np.random.default_rng(0))
    algebra = Words()
    found = evaluate(node, values(algebra, KINDS), algebra)
    meaning = Meaning(algebra, numbers)
    read = meaning.scalar(found) if node.shape == SCALAR else meaning.matrix(found)
    assert np.allclose(read, evaluate(node, numbers, NUMERIC), rtol=1e-9, atol=1e-9)


def test_normal_forms_make_equal_matrices_equal():
    algebra = Words()
    named = values(algebra, KINDS)

    def read(text):
        return evaluate(parse(text, shapes(KINDS)), named, algebra)

    assert (read("R*inv(R + k*k.T) + k*k.T*inv(R + k*k.T)") - read("Id")).is_zero
    assert (read("diag(w)*inv(diag(lam))*diag(lam)") - read("diag(w)")).is_zero
    assert (read("diag(ones)") - read("Id")).is_zero
    assert read("tr(M*S.T*N*S)") - read("tr(S.T*N.T*S*M.T)") == 0  # the transpose
    assert read("tr(M*S.T*N*S)") - read("tr(S.T*N*S*M)") == 0  # a rotation
    assert read("tr(M*S.T*N*S)") - read("tr(S.T*N.T*S*M)") != 0  # neither
    assert read("dot(k, R*q)") - read("q.T*R*k") == 0
    assert not (read("M") - read("M.T")).is_zero


@pytest.mark.parametrize("text", ["norm2(S*k - v)/2", "tr(S*M*S.T*N)*(v.T*S*k)", "norm2(S)**2 - tr(S.T*Z)"])
def test_gradient_is_the_slope(text):
    node = parse(text, shapes(KINDS))
    numbers = draw(KINDS, 2, 3, np.random.default_rng(1))
    algebra = Words()
    found = algebra.gradient(evaluate(node, values(algebra, KINDS), algebra), Letter("S", ("v", "d")))
    slope = Meaning(algebra, numbers).matrix(found)
    step, direction = 1e-5, np.random.default_rng(2).standard_normal((2, 3))
    ends = [evaluate(node, {**numbers, "S": numbers["S"] + s * step * direction}, NUMERIC) for s in (1, -1)]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((slope * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("name", [n for n, r in RULES.items() if r.objective])
def test_every_objective_of_the_catalogue_holds_at_every_size(name):
    assert holds_for_every_size(RULES[name]) is True


def test_a_wrong_objective_is_not_proved():
    spoiled = dataclasses.replace(RULES["titans"], objective=RULES["titans"].objective + " + tr(S.T*v*k.T)/1000")
    assert holds_for_every_size(spoiled) is None
    assert not gradient_identity(spoiled, 1, 1)


@pytest.mark.parametrize("text", ["inv(M)", "diag(S*k)", "hadamard(S, S)"])
def test_what_is_no_word_says_so(text):
    algebra = Words()
    with pytest.raises(ValueError, match="not a word"):
        evaluate(parse(text, shapes(KINDS)), values(algebra, KINDS), algebra)


def test_sum_of_opposites_is_zero():
    algebra = Words()
    s = algebra.letter("S", ("v", "d"))
    assert (s - s).is_zero
    assert isinstance(s + s, Polynomial)
