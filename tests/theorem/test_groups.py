import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theorem.groups import (
    fewest_swaps,
    least_faithful_width,
    linear_delta_track,
    padded_word,
    representation_widths,
    simplex,
    simplex_corners,
    swap_matrix,
    symmetric_group,
)
from theorem.swaps import permutation_after, random_swaps


def test_s5_is_the_first_that_is_not_solvable():
    assert [symmetric_group(n).solvable for n in range(2, 7)] == [True, True, True, False, False]
    five = symmetric_group(5)
    assert five.derived_series == (120, 60)
    assert five.perfect
    assert five.generated == five.order == 120
    assert five.by_swaps == (1, 10, 35, 50, 24)
    assert symmetric_group(4).derived_series == (24, 12, 4, 1)
    for n in (1, 8):
        with pytest.raises(ValueError, match="2 to 7"):
            symmetric_group(n)


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 12))
def test_a_word_exists_exactly_for_its_parity(permutation, length):
    permutation = np.array(permutation)
    least = fewest_swaps(permutation)
    if length >= least and (length - least) % 2 == 0:
        word = padded_word(permutation, length)
        assert len(word) == length
        assert (permutation_after(6, word) == permutation).all()
    else:
        with pytest.raises(ValueError, match="as even or odd"):
            padded_word(permutation, length)


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_the_simplex_is_one(n):
    corners = simplex(n)
    assert corners.shape == (n, n - 1)
    assert corners @ corners.T == pytest.approx(np.eye(n) - 1 / n, abs=1e-12)
    assert simplex_corners(n) @ simplex_corners(n).T == pytest.approx(n * n * (np.eye(n) - 1 / n))


@pytest.mark.parametrize("n", [2, 5, 33])
def test_a_linear_delta_rule_tracks_n_elements_in_n_minus_1_dimensions(n):
    swaps, values = random_swaps(n, 500, np.random.default_rng(n)), np.random.default_rng(1).normal(size=(n, 3))
    read = linear_delta_track(n, swaps, values)
    assert read == pytest.approx(values[permutation_after(n, swaps)], abs=1e-11)


def test_the_transition_has_eigenvalue_minus_one_and_is_the_swap():
    matrix = swap_matrix(5, 3, 1)
    assert np.linalg.eigvalsh(matrix.astype(float)) == pytest.approx([-1, 1, 1, 1, 1])
    assert (matrix @ np.arange(5) == [0, 3, 2, 1, 4]).all()


@pytest.mark.parametrize("n", range(2, 12))
def test_squares_of_the_representations_sum_to_the_order(n):
    assert sum(width**2 for width in representation_widths(n).values()) == math.factorial(n)


def test_no_faithful_representation_is_narrower_than_n_minus_1():
    assert [least_faithful_width(n) for n in range(5, 21)] == list(range(4, 20))
    with pytest.raises(ValueError, match="5 to 40"):
        least_faithful_width(4)
