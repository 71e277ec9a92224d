import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import exact


@st.composite
def systems(draw):
    size = draw(st.integers(1, 9))
    entry = st.one_of(st.integers(-5, 5), st.fractions(-3, 3, max_denominator=7))
    a = [[draw(entry) if i < t else 0 for i in range(size)] for t in range(size)]
    right = [[draw(entry)] for _ in range(size)]
    return np.array(a, dtype=object), np.array(right, dtype=object)


@settings(max_examples=60, deadline=None)
@given(systems(), st.integers(1, 10))
def test_every_route_solves_the_system_exactly(system, chunk):
    a, right = system
    u = exact.recurrent(a, right)
    assert ((a + exact.identity(len(a))) @ u == right).all()
    for inverse in (exact.product_inverse, exact.newton_inverse, exact.substitution_inverse):
        assert (exact.chunked(a, right, chunk, inverse) == u).all()
        assert (inverse(a) @ (a + exact.identity(len(a))) == exact.identity(len(a))).all()


def test_the_largest_growth_is_not_exceeded_by_mixtures():
    """Random row-stochastic matrices, which are mixtures of the vertices that `largest_growth` goes through."""
    draw = np.random.default_rng(0)
    for size in (2, 3, 5, 6):
        limit = exact.largest_growth(size)
        assert limit == Fraction(size)
        for sharpness in (0.1, 1, 10):
            weights = np.tril(draw.random((size, size)) ** sharpness, -1)
            weights[1:] /= weights[1:].sum(1, keepdims=True)
            assert np.abs(exact.substitution_inverse(weights)).sum(1).max() <= float(limit)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_the_smallest_sizes(size):
    a = np.tril(np.full((size, size), 2), -1).astype(object)
    for inverse in (exact.product_inverse, exact.newton_inverse, exact.substitution_inverse):
        assert (inverse(a) == np.linalg.inv(np.eye(size) + a.astype(float))).all()


def test_integer_entries_stay_integers():
    a = np.tril(np.full((5, 5), 10**30), -1).astype(object)
    entries = itertools.chain.from_iterable(exact.newton_inverse(a).tolist())
    assert all(isinstance(x, int) for x in entries)
