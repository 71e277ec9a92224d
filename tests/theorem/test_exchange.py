"""The blocked replay against the recurrence written out token by token, in exact fractions where f is round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from theorem.activations import Activation, activation
from theorem.exchange import FactoredGram, Gram, binary_codes, gram_of, replay, signed_gram, wrong_slots
from theorem.swaps import SEQUENCES, permutation_after, random_swaps


def rng(seed=0):
    return np.random.default_rng(seed)


def token_by_token(keys, scale, swaps, f, values, rewrite=None):
    """Readouts of all slots after 0, 1, … swaps, from the keys themselves; `f` maps one Fraction to a number."""
    n = len(keys)
    product = lambda x, y: Fraction(sum(int(a) * int(b) for a, b in zip(x, y)), scale)  # noqa: E731

    def read(tokens, key):
        return sum((f(product(k, key)) * u for k, u in tokens), np.zeros(values.shape[1], dtype=object))

    def write(contents):
        tokens = []
        for key, value in zip(keys, contents):
            tokens.append((key, value - read(tokens, key)))
        return tokens

    tokens = write(values)
    readouts = [[read(tokens, key) for key in keys]]
    for t, (a, b) in enumerate(swaps, 1):
        key = keys[a] - keys[b]
        tokens.append((key, -read(tokens, key)))
        readouts.append([read(tokens, key) for key in keys])
        if rewrite and t % rewrite == 0:
            tokens = write(readouts[-1])
    return [np.array(r).reshape(n, -1) for r in readouts]


def half_even(x):
    return round(x)  # Fraction's own rounding: ties to even


def half_away(x):
    return int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x))


EXACT = {"round": half_even, "round-half-away": half_away}


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 6),
    d=st.integers(1, 5),
    steps=st.integers(0, 20),
    block=st.integers(1, 9),
    rewrite=st.sampled_from([None, 1, 3, 7]),
    f=st.sampled_from(sorted(EXACT)),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_checkpoint_equals_the_recurrence_in_fractions_also_where_it_fails(n, d, steps, block, rewrite, f, seed):
    random = rng(seed)
    keys = random.integers(-4, 5, size=(n, d))
    keys[~keys.any(axis=1), 0] = 1
    if np.linalg.matrix_rank(keys) < 2:
        keys = np.hstack([keys, np.eye(n, dtype=np.int64)[:, :2]])
    scale = int((keys**2).sum(axis=1).max())
    swaps = random_swaps(n, steps, random)
    values = binary_codes(n)
    expected = token_by_token(keys, scale, swaps, EXACT[f], values.astype(object), rewrite)
    found = replay(
        gram_of(keys, scale), swaps, activation(f), rewrite=rewrite, block=block, checkpoints=range(steps + 1)
    )
    wrong_at, all_equal = [], True
    for c in found.checkpoints:
        truth = values[permutation_after(n, swaps[: c.swap])]
        error = expected[c.swap] - truth
        assert c.max_error == float(abs(error).max())
        nearest = ((expected[c.swap][:, None] - values[None]) ** 2).sum(axis=2)
        own = nearest[np.arange(n), permutation_after(n, swaps[: c.swap])]
        assert c.wrong_slots == n - sum(
            own[i] < min([x for x in nearest[i] if x is not own[i]], default=math.inf) for i in range(n)
        )
        all_equal = all_equal and not error.any()
        if c.wrong_slots:
            wrong_at.append(c.swap)
    assert found.first_wrong == (wrong_at[0] if wrong_at else None)
    assert found.exact == (all_equal and found.steps == steps)
    if found.steps < steps:
        assert found.max_error > 1e50


@pytest.mark.parametrize("name", ["linear", "relu", "exp4", "hermite8", "exp12"])
def test_float_similarities_agree_with_the_recurrence(name):
    n, steps = 7, 40
    keys = np.vstack([8 * np.eye(n - 1, dtype=np.int64), np.ones((1, n - 1), dtype=np.int64)])
    swaps = random_swaps(n, steps, rng(4))
    values = rng(5).normal(size=(n, 3))
    f = activation(name, 0.05)
    expected = token_by_token(keys, 64, swaps, lambda x: f.apply(np.array([float(x)]))[0], values)
    found = replay(gram_of(keys, 64), swaps, f, values, block=6, checkpoints=range(steps + 1))
    for c in found.checkpoints:
        error = np.abs(expected[c.swap] - values[permutation_after(n, swaps[: c.swap])]).max()
        assert c.max_error == pytest.approx(error, rel=1e-6, abs=1e-9)


def hadamard_keys(d):
    return np.vstack([math.isqrt(d) * np.eye(d, dtype=np.int64), hadamard(d, dtype=np.int64)])


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_slot_is_exact_after_every_swap(name):
    gram = gram_of(hadamard_keys(256), 256)
    found = replay(gram, SEQUENCES[name](512, 3001, rng(6)), activation("round"))
    assert found.exact
    assert found.integer
    assert found.first_wrong is None
    assert found.tokens == 512 + 3001
    assert [c.wrong_slots for c in found.checkpoints] == [0] * len(found.checkpoints)


def test_coherence_exactly_one_eighth_holds_under_ties_to_even_only():
    gram, swaps = gram_of(hadamard_keys(64), 64), random_swaps(128, 2000, rng(7))
    assert replay(gram, swaps, activation("round")).exact
    assert replay(gram, swaps, activation("round-half-away"), stop_when_wrong=True).first_wrong is not None


def test_values_of_any_width():
    gram, swaps = gram_of(hadamard_keys(256)[200:300], 256), random_swaps(100, 700, rng(8))
    assert replay(gram, swaps, activation("round"), np.arange(100.0)[:, None]).exact
    one_hot = replay(gram, swaps, activation("round"), np.eye(100))
    assert one_hot.exact
    gaussian = replay(gram, swaps, activation("round"), rng(9).normal(size=(100, 33)))
    assert gaussian.first_wrong is None
    assert not gaussian.exact
    assert gaussian.max_error < 1e-12  # a difference of two values rounds once a swap: at most 700 · 2^-53 · 8


def test_float_keys_are_normalised_and_rounding_still_compares_exactly():
    keys = hadamard_keys(256) * np.arange(1.0, 513.0)[:, None]
    found = replay(gram_of(keys), random_swaps(512, 500, rng(10)), activation("round"))
    assert found.exact
    assert not found.integer


@pytest.mark.parametrize("rewrite", [1, 100, 512, 1000])
def test_rewriting_bounds_the_cache_and_changes_nothing(rewrite):
    gram, swaps = gram_of(hadamard_keys(256), 256), random_swaps(512, 1500 if rewrite > 1 else 40, rng(11))
    found = replay(gram, swaps, activation("round"), rewrite=rewrite)
    assert found.exact
    assert found.tokens == 512 + rewrite


def test_stopping_when_wrong_finds_the_same_first_swap():
    gram, swaps = signed_gram(16, 0.02, rng(1)), random_swaps(16, 900, rng(2))
    whole = replay(gram, swaps, activation("exp16", 0.02))
    short = replay(gram, swaps, activation("exp16", 0.02), stop_when_wrong=True)
    assert whole.first_wrong == short.first_wrong
    assert short.steps < whole.steps == 900
    by_hand = [
        c.swap
        for c in replay(gram, swaps, activation("exp16", 0.02), checkpoints=range(901)).checkpoints
        if c.wrong_slots
    ]
    assert by_hand[0] == whole.first_wrong


def test_a_diverging_replay_stops_instead_of_overflowing():
    keys = rng(3).normal(size=(128, 7))
    z = np.rint(100 * keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(np.int64)
    found = replay(gram_of(z, 10_000), random_swaps(128, 4000, rng(4)), activation("round"))
    assert found.steps < 4000
    assert not found.exact
    assert not found.integer
    assert found.max_error > 1e50


def test_a_wrong_sign_of_the_swap_key_would_be_found():
    # negative control: with f(x) = −round(x) at the pairs' own products nothing can come out right
    broken = Activation("broken", lambda x: np.where(np.rint(x) == 2, 1.0, np.rint(x)), integer=True)
    found = replay(Gram(np.eye(6)), np.array([[3, 1], [3, 1]]), broken)
    assert found.first_wrong == 2


def test_wrong_slots_counts_ties_and_nan_as_wrong():
    values = np.array([[1.0], [-1.0]])
    readout = np.array([[0.0], [np.nan]])
    assert wrong_slots(readout, values, np.array([0, 1])).tolist() == [True, True]
    assert wrong_slots(np.array([[0.1], [-9.0]]), values, np.array([0, 1])).tolist() == [False, False]


@pytest.mark.parametrize(
    ("keys", "scale", "words"),
    [
        (np.ones((1, 3)), None, "at least two keys"),
        (np.ones(3), None, "at least two keys"),
        (np.array([[1.0, np.nan], [0, 1]]), None, "key 0 is not finite"),
        (np.array([[1.0, 0], [0, 0]]), None, "key 1 is zero"),
        (np.array([[1.0, 2], [-2, -4], [3, 6]]), None, "rank 1"),
        (np.array([[1.0, 0], [0, 1]]), 1, "integer keys"),
        (np.array([[1, 0], [0, 1]]), 0, "positive integer"),
        (np.array([[2**25, 0], [0, 1]]), 1, "too large"),
    ],
)
def test_keys_that_are_no_keys(keys, scale, words):
    with pytest.raises(ValueError, match=words):
        gram_of(keys, scale)


def test_values_and_checkpoints_that_are_none():
    gram, swaps = Gram(np.eye(3)), random_swaps(3, 4, rng())
    for values, words in [
        (np.ones((3, 2)), "two values are equal"),
        (np.ones((2, 2)), "expected values"),
        (np.array([[1.0], [np.inf], [0]]), "not finite"),
    ]:
        with pytest.raises(ValueError, match=words):
            replay(gram, swaps, activation("round"), values)
    with pytest.raises(ValueError, match="checkpoint"):
        replay(gram, swaps, activation("round"), checkpoints=[5])


def test_signed_keys_exist_or_are_refused():
    gram = signed_gram(16, 0.1, rng(1))
    assert gram.coherence == 0.1
    assert np.linalg.eigvalsh(gram.products)[0] > 0
    with pytest.raises(ValueError, match="eigenvalue"):
        signed_gram(64, 0.3, rng(1))


@given(st.integers(2, 300))
def test_binary_codes_are_different_signs_of_least_width(n):
    codes = binary_codes(n)
    assert set(np.unique(codes)) == {-1.0, 1.0}
    assert len(np.unique(codes, axis=0)) == n
    assert codes.shape[1] == math.ceil(math.log2(n))


@pytest.mark.parametrize("peak", [3, 3000])
def test_products_from_the_keys_replay_like_their_gram_matrix(peak):
    """In float32 and in float64, for keys that work and for keys that do not."""
    for z in (rng(1).integers(-peak, peak + 1, (40, 9)), peak * np.eye(40, dtype=np.int64)):
        scale = int((z * z).sum(axis=1).max())
        full = gram_of(z, scale)
        factored = FactoredGram(z.astype(np.int16), float(scale), full.coherence)
        plus, minus = np.array([3, 40, 7]), np.array([1, 2, 40])
        assert np.array_equal(factored.differences(plus, minus), full.differences(plus, minus))
        assert factored.largest == full.largest
        swaps = random_swaps(40, 50, rng(2))
        assert replay(factored, swaps, activation("round"), block=16) == replay(
            full, swaps, activation("round"), block=16
        )
