"""Predictions for stored keys against sums over the keys, and against drawn keys that meet their assumptions."""

import math

import numpy as np
import pytest

from snr.keys import Stored, effective_dimension
from snr.similarity import similarity
from snr.stored import over_values, predict_stored
from snr.trained import feed_forward_keys


def drawn(n=900, d=24, mean=0.0, seed=0):
    """Gaussian keys with an uneven spectrum around a mean."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((1, n, d)) * np.sqrt(np.linspace(0.2, 2, d)) + mean
    return Stored(keys, "drawn")


def mean_over(logs):
    return float(np.logaddexp.reduce(logs.ravel())) - math.log(logs.size)


@pytest.mark.parametrize("kernel", ["linear", "relu", "exp", "softplus"])
def test_exact_over_values_is_the_sum_over_the_keys(kernel):
    g, tau = similarity(kernel), 4.0
    keys = Stored(np.random.default_rng(1).standard_normal((2, 20, 6)), "test")
    found = over_values(g, keys, tau)
    for h in range(2):
        for i in range(20):
            k = keys.array[h]
            others = sum(float(g.value(k[j] @ k[i], tau, 6)) ** 2 for j in range(20) if j != i)
            own = float(g.value(k[i] @ k[i], tau, 6)) ** 2
            expected = math.log(others / own) if others else -math.inf
            assert found[h, i] == pytest.approx(expected, abs=1e-5)  # float32 products


def test_the_covariance_prediction_is_an_identity_for_linear():
    keys = feed_forward_keys()
    measured = mean_over(over_values(similarity("linear"), keys, 1.0))
    predicted = predict_stored(similarity("linear"), keys, 1.0)
    assert predicted.covariance == pytest.approx(measured, abs=1e-5)
    assert predicted.mean_and_covariance == pytest.approx(measured, abs=1e-5)


@pytest.mark.parametrize("kernel", ["relu", "exp", "solu"])
@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_gaussian_keys_with_a_mean_are_predicted_and_without_it_only_if_centred(kernel, mean):
    keys = drawn(mean=mean)
    g, tau = similarity(kernel), 12.0
    measured = mean_over(over_values(g, keys, tau))
    predicted = predict_stored(g, keys, tau)
    assert predicted.mean_and_covariance == pytest.approx(measured, abs=0.03)
    if mean and kernel == "relu":
        assert abs(predicted.covariance - measured) > 0.2
    if not mean:
        assert predicted.covariance == pytest.approx(measured, abs=0.03)


def test_effective_dimension_repairs_linear_and_relu_for_centred_keys():
    keys = Stored(
        np.random.default_rng(2).standard_normal((1, 3000, 300)) * np.sqrt(np.linspace(0.01, 2, 300)), "drawn"
    )
    for kernel, half in (("linear", 1.0), ("relu", 0.5)):
        g = similarity(kernel)
        predicted = predict_stored(g, keys, 1.0)
        measured = mean_over(over_values(g, keys, 1.0))
        assert predicted.effective_dimension == pytest.approx(measured, abs=0.03)
        assert math.exp(predicted.effective_dimension) == pytest.approx(half * 2999 / predicted.d_eff)
        assert abs(predicted.paper - measured) > 0.25
    assert predict_stored(similarity("exp"), keys, 20.0).effective_dimension is None
    assert predicted.d_eff == pytest.approx(effective_dimension(keys.array[0]))


def test_cosine_similarities_see_normalised_keys():
    keys = drawn(n=50)
    scaled = predict_stored(similarity("exp"), keys.normalised(), 6.0)
    assert predict_stored(similarity("cosexp"), keys, 6.0).covariance == pytest.approx(scaled.covariance)


def test_a_similarity_without_a_formula_in_the_paper():
    found = predict_stored(similarity("log(1 + x**2)"), drawn(n=40), 1.0)
    assert found.paper is None
    assert found.to_json()["paper"] is None
    assert math.isfinite(found.norms)
