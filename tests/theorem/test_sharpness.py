"""Explicit keys on either side of 1/8, the simplex, and the order of a swap's slots, all by exact replay."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from theorem.lemma import gram_condition
from theorem.rounding import HALF_AWAY, HALF_EVEN, RULES
from theorem.sharpness import (
    IntegerKeys,
    WrongReading,
    blind_below,
    every_two_swaps,
    four_keys,
    keys_of,
    replay,
    simplex,
    worst_case,
)


@pytest.mark.parametrize(("a", "b"), [(39, 5), (47, 6), (55, 7), (63, 8), (8, 1), (2, 1)])
def test_four_keys_have_the_stated_gram_matrix(a, b):
    keys = four_keys(a, b)
    c = 2 * a * b
    signs = np.array([[0, 0, 1, -1], [0, 0, -1, 1], [1, -1, 0, 0], [-1, 1, 0, 0]])
    assert np.array_equal(keys.z @ keys.z.T, keys.scale * np.eye(4, dtype=int) + c * signs)
    assert keys.coherence_squared == Fraction(a * b, a * a + b * b) ** 2


@pytest.mark.parametrize("rule", RULES)
def test_an_eighth_divides_the_four_keys(rule):
    """Continued fraction 4 + sqrt(15) = [7; 1, 6, 1, 6, ..]: c - 1/8 alternates in sign, the outcome with it."""
    a, b, previous = 7, 1, (1, 0)
    for step in range(6):
        keys = four_keys(a, b)
        above = keys.coherence_squared > Fraction(1, 64)
        assert above is (step % 2 == 0)
        assert (replay(keys, [(1, 0), (3, 2)], rule) is not None) is above
        assert gram_condition(keys.z, keys.scale, rule).holds is not above
        term = 1 if step % 2 == 0 else 6
        (a, b), previous = (term * a + previous[0], term * b + previous[1]), (a, b)
    assert abs(float(keys.coherence_squared) ** 0.5 - 0.125) < 1e-5


@pytest.mark.parametrize("numerator", [1, 99, 124, 125, 126, 200, 333])
def test_worst_case_has_its_coherence_and_fails_above_an_eighth(numerator):
    keys = worst_case(Fraction(numerator, 1000))
    gram = keys.z @ keys.z.T
    assert set(np.diag(gram)) == {keys.scale}
    assert keys.coherence_squared == Fraction(numerator, 1000) ** 2
    fails = {rule: every_two_swaps(keys, rule) is not None for rule in RULES}
    assert fails == {HALF_EVEN: numerator > 125, HALF_AWAY: numerator >= 125}


def test_keys_of_reproduces_any_dominant_gram_matrix():
    rng = np.random.default_rng(5)
    for _ in range(20):
        entries = {
            (a, b): Fraction(1) if a == b else Fraction(int(rng.integers(-33, 34)), int(rng.integers(100, 160)))
            for i, a in enumerate("ijlm")
            for b in "ijlm"[i:]
        }
        keys = keys_of(entries)
        for (a, b), value in entries.items():
            x, y = (keys.z["ijlm".index(s)] for s in (a, b))
            assert Fraction(int(x @ y), keys.scale) == value
    with pytest.raises(ValueError, match="dominant"):
        worst_case(Fraction(2, 3))


def test_simplex_is_a_simplex():
    for n in range(2, 12):
        for unit in (False, True):
            keys = simplex(n, unit)
            gram = keys.z @ keys.z.T
            assert np.linalg.matrix_rank(keys.z) == n - 1
            assert len({*gram[~np.eye(n, dtype=bool)].tolist()}) == 1
            assert keys.coherence_squared == Fraction(1, (n - 1) ** 2)
            assert not unit or gram[0, 0] == keys.scale


def test_simplex_works_far_outside_assumption_1():
    """Scaled: from n = 3 on (coherence 1/2). Of norm 1: from n = 6 on, and n = 5 under half-even (a tie at 5/2)."""
    for rule in RULES:
        scaled = [gram_condition(simplex(n, False).z, n * n, rule) for n in range(2, 10)]
        assert [c.holds for c in scaled] == [False] + [True] * 7
        assert [c.margin for c in scaled] == [Fraction(1, 2) - Fraction(1, n) for n in range(2, 10)]
        unit = [gram_condition(simplex(n, True).z, n * (n - 1), rule) for n in range(3, 10)]
        assert [c.holds for c in unit] == [False, False, rule == HALF_EVEN, True, True, True, True]
        assert every_two_swaps(simplex(3, False), rule) is None
    swaps = [(i, j) for i in range(7) for j in range(i)] * 3
    assert replay(simplex(7, True), swaps, HALF_AWAY) is None


def test_order_of_a_swap_matters_to_assumption_2_as_printed_only():
    keys = worst_case(Fraction(1, 10))
    printed = blind_below(Fraction(-3, 2), HALF_EVEN)
    assert every_two_swaps(keys, printed) is None  # later slot first: -2 does not occur
    assert replay(keys, [(1, 0), (0, 1)], printed) == WrongReading(2, 0)
    assert replay(keys, [(1, 0), (0, 1)], HALF_EVEN) is None
    exact_at_minus_two = blind_below(Fraction(-2) - 2 * Fraction(1, 10), HALF_EVEN)
    assert replay(keys, [(1, 0), (0, 1), (2, 3), (3, 2)], exact_at_minus_two) is None


def test_replay_reports_the_first_wrong_reading():
    orthonormal = IntegerKeys(np.eye(3, dtype=np.int64), 1)
    assert replay(orthonormal, [(1, 0), (2, 1), (2, 0), (1, 0)], HALF_EVEN) is None
    assert replay(IntegerKeys(np.eye(3, dtype=np.int64), 2), [], HALF_EVEN) == WrongReading(0, 0)  # 1/2 reads as 0
    assert replay(orthonormal, [(1, 0)], lambda x: max(0, int(x))) == WrongReading(1, 0)  # f(-1) = 0


def test_bad_arguments():
    for a, b in ((1, 1), (1, 2), (3, 0), (3, -1)):
        with pytest.raises(ValueError, match="0 < b < a"):
            four_keys(a, b)
    with pytest.raises(ValueError, match="at least 2"):
        simplex(1, True)


def test_half_even_at_an_eighth_for_hundreds_of_keys():
    """Basis and Hadamard rows: coherence 1/sqrt(d) = 1/8 exactly at d = 64."""
    hadamard = np.array([[1]])
    for _ in range(6):
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    z = np.vstack([isqrt(64) * np.eye(64, dtype=np.int64), hadamard])
    assert gram_condition(z, 64, HALF_EVEN).holds is True
    failing = gram_condition(z, 64, HALF_AWAY)
    assert failing.holds is False
    assert failing.witness.value in (Fraction(1, 2), Fraction(-1, 2))
    chosen = sorted({s for key in (failing.witness.first, failing.witness.second) for s in key})
    assert every_two_swaps(IntegerKeys(z[chosen], 64), HALF_AWAY) is not None
    assert every_two_swaps(IntegerKeys(z[chosen], 64), HALF_EVEN) is None
