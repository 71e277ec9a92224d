"""The Gram condition against Lemma 1 by enumeration, against exact replays, and on hostile keys."""

import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theorem import lemma
from theorem.lemma import gram_condition, gram_condition_of
from theorem.rounding import HALF_AWAY, HALF_EVEN, RULES, round_fraction, round_ratio, rounds_to
from theorem.sharpness import IntegerKeys, every_two_swaps, four_keys, replay, simplex, worst_case


def written_keys(n):
    """Every slot and every swap i > j, as integer coefficients over the slots."""
    one_hot = np.eye(n, dtype=object).astype(int)
    return [*one_hot, *(one_hot[i] - one_hot[j] for i in range(n) for j in range(i))]


def by_enumeration(gram, scale, rule):
    """(does every slot read itself alone?, Lemma 1 as printed for every swap and written key, margin)."""
    n = len(gram)
    keys = written_keys(n)
    products = {(a, b): int(keys[a] @ gram @ keys[b]) for a, b in product(range(len(keys)), repeat=2)}
    f = {pair: round_ratio(x, scale, rule) for pair, x in products.items()}
    reading = all(f[i, j] == (i == j) for i in range(n) for j in range(n))
    swaps = [(i, j) for i in range(n) for j in range(i)]
    printed = all(f[n + s, k] == f[i, k] - f[j, k] for s, (i, j) in enumerate(swaps) for k in range(len(keys)))
    margin = min(Fraction(1, 2) - abs(Fraction(x, scale) - int(keys[a] @ keys[b])) for (a, b), x in products.items())
    return reading, printed, margin


def random_gram(rng, kind):
    n = int(rng.integers(2, 6))
    scale = int(rng.choice([1, 2, 3, 8, 16, 24, 40]))
    if kind == "any":  # near one-hot keys, positive semidefinite or not
        size = int(rng.integers(1, max(2, scale // 3 + 1)))
        noise = rng.integers(-size, size + 1, (n, n))
        return np.tril(noise) + np.tril(noise, -1).T + scale * np.eye(n, dtype=int), scale
    if kind == "tied":  # multiples of scale/8: half of all second differences sit on an edge
        noise = rng.integers(-1, 2, (n, n)) * rng.integers(0, 3, (n, n))
        return np.tril(noise, -1) + np.tril(noise, -1).T + np.diag(rng.integers(7, 10, n)), 8
    if kind == "keys":  # real keys, norms of every size
        z = rng.integers(-3, 4, (n, int(rng.integers(1, 9))))
        return z @ z.T, max(1, int(np.median((z * z).sum(axis=1))))
    keys = worst_case(Fraction(int(rng.integers(11, 15)), 100))  # "adversarial": the worst case on both sides of 1/8
    order = rng.permutation(4)
    return (keys.z @ keys.z.T)[np.ix_(order, order)], keys.scale


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("kind", "cases"), [("any", 1500), ("tied", 800), ("keys", 800), ("adversarial", 60)])
def test_agrees_with_lemma_1_by_enumeration(kind, cases, rule):
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(cases):
        gram, scale = random_gram(rng, kind)
        found = gram_condition_of(gram, scale, rule)
        reading, printed, margin = by_enumeration(gram, scale, rule)
        assert found.holds is (reading and printed), (gram, scale)
        assert found.margin == margin
        seen.add(found.holds)
    assert seen == {True, False}


@pytest.mark.parametrize("rule", RULES)
def test_decides_theorem_1_for_random_keys(rule):
    """Sufficient and necessary: the replays of all sequences of two swaps agree, and long ones where it holds."""
    rng = np.random.default_rng(8)
    outcomes = []
    for _ in range(150):
        n, d = int(rng.integers(2, 5)), 8
        z = 4 * np.eye(n, d, dtype=np.int64) + rng.integers(-1, 2, (n, d)) * (rng.random((n, d)) < 0.4)
        keys = IntegerKeys(z, int(rng.integers(14, 21)))
        found = gram_condition(keys.z, keys.scale, rule)
        assert found.holds is (every_two_swaps(keys, rule) is None), keys
        if found.holds:
            swaps = [tuple(sorted(rng.choice(n, 2, replace=False), reverse=True)) for _ in range(20)]
            assert replay(keys, swaps, rule) is None
        outcomes.append(found.holds)
    assert 20 < sum(outcomes) < 130


def test_radii_of_the_printed_cases():
    """P App. E: unit keys of coherence eps put the products within 4, 3, 2 eps of 0, ±1, 2, and some reach them."""
    rng = np.random.default_rng(9)
    reached = {0: Fraction(0), 1: Fraction(0), 2: Fraction(0)}
    for trial in range(200):
        n, scale = 4, 40
        noise = rng.integers(-4, 5, (n, n)) if trial % 2 else 4 * (2 * rng.integers(0, 2, (n, n)) - 1)
        gram = np.tril(noise, -1) + np.tril(noise, -1).T + scale * np.eye(n, dtype=int)
        epsilon = Fraction(int(np.abs(np.tril(noise, -1)).max()), scale)
        for a, b in product(written_keys(n)[n:], repeat=2):
            target = int(a @ b)
            distance = abs(Fraction(int(a @ gram @ b), scale) - target)
            assert distance <= {0: 4, 1: 3, 2: 2}[abs(target)] * epsilon
            if epsilon == Fraction(1, 10):
                reached[abs(target)] = max(reached[abs(target)], distance / epsilon)
    assert reached == {0: 4, 1: 3, 2: 2}


@pytest.mark.parametrize("rule", RULES)
def test_witness_is_what_it_says(rule):
    rng = np.random.default_rng(10)
    failures = 0
    for _ in range(300):
        gram, scale = random_gram(rng, "any")
        found = gram_condition_of(gram, scale, rule)
        keys = {(i,): row for i, row in enumerate(np.eye(len(gram), dtype=int))}
        keys |= {(i, j): keys[(i,)] - keys[(j,)] for i in range(len(gram)) for j in range(i)}
        first, second = keys[found.tightest.first], keys[found.tightest.second]
        assert found.tightest.value == Fraction(int(first @ gram @ second), scale)
        assert found.tightest.expected == first @ second
        assert found.tightest.rounded == round_fraction(found.tightest.value, rule)
        assert Fraction(1, 2) - abs(found.tightest.value - found.tightest.expected) == found.margin
        assert (found.tightest.rounded == found.tightest.expected) is found.holds
        if not found.holds:
            failures += 1
            assert f"expected {found.witness.expected}" in str(found.witness)
    assert failures > 100


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RULES), st.integers(1, 9))
def test_order_of_slots_and_common_factor_do_not_matter(seed, rule, factor):
    rng = np.random.default_rng(seed)
    z = rng.integers(-2, 3, (5, 12))
    scale = int(rng.integers(8, 40))
    found = gram_condition(z, scale, rule)
    other = gram_condition(factor * z[rng.permutation(5)], factor**2 * scale, rule)
    assert (found.holds, found.margin) == (other.holds, other.margin)


@pytest.mark.parametrize("size", [1, 127, 128, 129, 46340, 2**26])
def test_narrow_and_wide_integers_agree(size):
    """Entries around the limits of int16 and int32: the answer is that of Python's own integers."""
    z = np.array([[size, 1, 0], [0, size, -1], [1, 0, size]], dtype=np.int64)
    gram = [[sum(int(x) * int(y) for x, y in zip(a, b)) for b in z] for a in z]
    for scale in (size * size, size * size + 1, max(1, size * size // 2)):
        found = gram_condition(z, scale)
        reading, printed, margin = by_enumeration(np.array(gram, dtype=object), scale, HALF_EVEN)
        assert (found.holds, found.margin) == (reading and printed, margin)


def test_tiles_do_not_change_the_answer(monkeypatch):
    rng = np.random.default_rng(11)
    z = rng.integers(-3, 4, (37, 50))
    whole = [gram_condition(z, 200, rule) for rule in RULES]
    tied = [gram_condition(worst_case(Fraction(1, 8)).z, 8, rule) for rule in RULES]
    monkeypatch.setattr(lemma, "BLOCK_BYTES", 200)
    assert [gram_condition(z, 200, rule) for rule in RULES] == whole
    assert [gram_condition(worst_case(Fraction(1, 8)).z, 8, rule) for rule in RULES] == tied


def test_float_keys_that_are_dyadic_are_decided_exactly():
    keys = worst_case(Fraction(1, 8)).z / np.sqrt(2.0) ** 3 * np.sqrt(2.0) ** 3 / 4  # quarters: scale 16, products / 16
    found = [gram_condition(keys, rule=rule) for rule in RULES]
    assert [f.error for f in found] == [0, 0]
    assert found[0].margin == gram_condition(worst_case(Fraction(1, 8)).z, 16).margin


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_float_margin_is_within_its_error_bound(dtype):
    rng = np.random.default_rng(12)
    for d in (5, 33, 64):
        k = rng.standard_normal((5, d))
        k = (k / np.linalg.norm(k, axis=1)[:, None]).astype(dtype)
        exact = [[Fraction(float(x)) for x in row] for row in k]
        gram = [[sum(x * y for x, y in zip(a, b)) for b in exact] for a in exact]
        padded = [[gram[i][j] - (i == j) if max(i, j) < 5 else Fraction(0) for j in range(6)] for i in range(6)]
        spread = max(
            padded[i][l] - padded[j][l] - padded[i][m] + padded[j][m] for i, j, l, m in product(range(6), repeat=4)
        )
        found = gram_condition(k)
        assert 0 < found.error < Fraction(1, 10**10)
        assert abs(found.margin - (Fraction(1, 2) - spread)) <= found.error
        assert found.holds is (spread < Fraction(1, 2))


def test_float_keys_too_close_to_a_tie_are_left_undecided():
    angle = np.arccos(0.125)  # two directions 1/8 apart, then turned so that no entry is dyadic
    plane = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])
    keys = worst_case(Fraction(1, 8)).z / np.sqrt(8.0)
    rotation = np.linalg.qr(np.random.default_rng(13).standard_normal((16, 16)))[0]
    assert gram_condition(keys @ rotation).holds is None
    assert gram_condition(plane @ turn).holds is True


def test_margin_of_unit_keys_lies_between_the_two_lines():
    """1/2 - 4 eps <= margin <= 1/2 - 2 eps, both ends attained: by the worst case and by the simplex."""
    rng = np.random.default_rng(16)
    for _ in range(200):
        n, scale = int(rng.integers(2, 7)), 60
        noise = np.tril(rng.integers(-20, 21, (n, n)), -1)
        gram = noise + noise.T + scale * np.eye(n, dtype=int)
        epsilon, margin = Fraction(int(abs(noise).max()), scale), gram_condition_of(gram, scale).margin
        assert Fraction(1, 2) - 4 * epsilon <= margin <= Fraction(1, 2) - 2 * epsilon
    assert gram_condition(worst_case(Fraction(1, 10)).z, 10).margin == Fraction(1, 10)
    assert gram_condition(simplex(11, True).z, 110).margin == Fraction(3, 10)


def test_two_slots_and_known_key_sets():
    assert gram_condition(np.eye(2, dtype=int), 1).margin == Fraction(1, 2)
    assert gram_condition(np.array([[1], [1]]), 1).holds is False  # one direction for two slots
    assert gram_condition(np.zeros((3, 4), dtype=int), 1).holds is False
    assert gram_condition(four_keys(63, 8).z, four_keys(63, 8).scale).holds is True
    assert gram_condition(four_keys(39, 5).z, four_keys(39, 5).scale).holds is False
    assert [gram_condition(simplex(n, True).z, n * (n - 1)).holds for n in range(2, 9)] == [False] * 3 + [True] * 4


@pytest.mark.parametrize(
    ("keys", "scale", "words"),
    [
        (np.ones((1, 3), dtype=int), 1, "n at least 2"),
        (np.ones(3, dtype=int), 1, "expected \\[n, d\\]"),
        (np.ones((3, 0), dtype=int), 1, "d at least 1"),
        (np.ones((3, 3), dtype=int), 0, "scale 0"),
        (np.ones((3, 3), dtype=int), 1.5, "scale 1.5"),
        (np.ones((3, 3), dtype=int), True, "scale True"),
        (np.full((3, 3), 2**31), 1, "int64"),
        (np.full((3, 3), 2**62), 1, "int64"),
        (np.full((3, 3), np.nan), 1, "NaN"),
        (np.full((3, 3), 1e200), 1, "overflow"),
        (np.ones((3, 3)), 2, "only integer keys"),
        (np.ones((3, 3), dtype=complex), 1, "complex"),
        (np.ones((3, 3), dtype=bool), 1, "bool"),
    ],
)
def test_bad_keys_get_a_clear_error(keys, scale, words):
    with pytest.raises(ValueError, match=words), np.errstate(over="ignore"):
        gram_condition(keys, scale)


def test_bad_rule_and_bad_gram():
    with pytest.raises(ValueError, match="half-even"):
        gram_condition(np.eye(3, dtype=int), 1, "half-up")
    with pytest.raises(ValueError, match="half-even"):
        gram_condition(np.eye(3) / 3, 1, "half-up")
    with pytest.raises(ValueError, match="symmetric"):
        gram_condition_of(np.arange(9).reshape(3, 3), 1)


def test_rounding_is_the_rule_it_names():
    ties = [Fraction(k, 2) for k in range(-9, 10)] + [Fraction(k, 7) for k in range(-30, 31)]
    assert [round_fraction(x, HALF_EVEN) for x in ties] == [round(x) for x in ties]
    assert [round_fraction(x, HALF_EVEN) for x in ties] == [int(np.round(float(x))) for x in ties]
    away = [int(np.sign(float(x)) * np.floor(abs(float(x)) + 0.5)) for x in ties]
    assert [round_fraction(x, HALF_AWAY) for x in ties] == away
    assert [rounds_to(t, True, HALF_EVEN) for t in range(-2, 3)] == [True, False, True, False, True]
    assert [rounds_to(t, True, HALF_AWAY) for t in range(-2, 3)] == [True, True, False, False, False]
    assert [rounds_to(t, False, HALF_AWAY) for t in range(-2, 3)] == [False, False, False, True, True]


def test_deviations_are_the_second_differences_by_target():
    rng = np.random.default_rng(15)
    for _ in range(50):
        gram, scale = random_gram(rng, "any")
        n = len(gram)
        swaps = np.array(written_keys(n)[n:])
        others = np.array([*written_keys(n), *(-swaps)])
        products, targets = swaps @ gram @ others.T / scale, swaps @ others.T
        found = lemma.deviations(gram, scale)
        for target in (0, 1, 2):
            distances = np.where(abs(targets) == target, abs(products - targets), 0).max(axis=1)
            assert np.allclose(found[target], distances, rtol=0, atol=1e-12)
        reading = abs(gram / scale - np.eye(n)).max()
        worst = max(*(d.max() for d in found.values()), reading)
        assert gram_condition_of(gram, scale).margin == pytest.approx(0.5 - worst)


def test_512_slots_take_less_than_two_seconds():
    z = np.random.default_rng(14).integers(-20, 21, (512, 128))
    start = time.process_time()
    gram_condition(z, int((z * z).sum(axis=1).mean()))
    assert time.process_time() - start < 2
