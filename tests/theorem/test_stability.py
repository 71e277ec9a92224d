"""Similarities, keys and error growth through the recurrence."""

import numpy as np
import pytest

from theorem import stability


@pytest.mark.parametrize("name", list(stability.SIMILARITIES))
@pytest.mark.parametrize("length", [1, 2, 9])
def test_write_similarities_are_strictly_lower_and_softmax_rows_sum_to_one(name, length):
    k = stability.keys(length, 8, 0.2, np.random.default_rng(0))
    strict = stability.SIMILARITIES[name](k @ k.T, 8, True)
    assert np.all(np.triu(strict) == 0)
    full = stability.SIMILARITIES[name](k @ k.T, 8, False)
    if name == "softmax":
        assert np.allclose(full.sum(axis=1), 1)
        assert np.allclose(strict.sum(axis=1), [0.0] + [1.0] * (length - 1))
    else:
        assert np.allclose(np.diag(full), 1)  # κ(k, k) = 1


@pytest.mark.parametrize("coherence", [0.0, 0.3, 0.9])
def test_keys_have_norm_and_coherence(coherence):
    k = stability.keys(400, 64, coherence, np.random.default_rng(1))
    gram = k @ k.T / 64
    assert np.allclose(np.diag(gram), 1)
    off = gram[np.triu_indices(400, 1)]
    assert off.mean() == pytest.approx(coherence, abs=0.01)


def test_keys_refuse_a_coherence_outside_its_range():
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="coherence"):
            stability.keys(4, 4, wrong, np.random.default_rng(0))


def test_errors_grow_no_further_than_the_inverse_allows():
    rng = np.random.default_rng(0)
    k = stability.keys(96, 32, 0.3, rng)
    for name in stability.SIMILARITIES:
        found = stability.growth(name, 32, k, rng.standard_normal((96, 8)), rng)
        lower = stability.SIMILARITIES[name](k @ k.T, 32, True)
        # ‖δU‖ ≤ ‖(I+A+δA)⁻¹‖ ‖δA‖ ‖U‖ with ‖δA‖ at most the rounding times ‖A‖ in the Frobenius norm
        bound = np.linalg.norm(np.linalg.inv(np.eye(96) + lower), 2) * np.linalg.norm(lower)
        assert found.share_of_bound == pytest.approx(found.u_from_write / bound, rel=1e-6)
        assert found.share_of_bound <= 1.1


def test_similarities_with_nothing_to_round_share_nothing_of_the_bound():
    k = stability.keys(1, 4, 0.0, np.random.default_rng(0))
    found = stability.growth("linear", 4, k, np.ones((1, 2)), np.random.default_rng(0))
    assert (found.u_from_write, found.share_of_bound) == (0.0, 0.0)
