import math

import numpy as np
import pytest

from snr import covariance
from snr.predictions import predict
from snr.similarity import similarity

SPECTRUM = np.geomspace(1, 1e-2, 12)


@pytest.mark.parametrize("name", ["linear", "relu", "exp"])
def test_isotropic_keys_are_the_special_case(name):
    g, d, tau = similarity(name), 24, 3.0
    found = covariance.gaussian_mean(g, 50, np.ones(d), tau)
    assert found.log == pytest.approx(predict(g, 50, d, tau, typical=False).exact.log, abs=1e-10)
    if name != "exp":
        assert covariance.ratio_of_means(g, 50, np.ones(d)).value == pytest.approx(
            predict(g, 50, d, tau, typical=False).ratio_of_means.value
        )
        assert covariance.effective(g, 50, d).value == pytest.approx(
            predict(g, 50, d, tau, typical=False).fixed_probe.value
        )


@pytest.mark.parametrize("name", ["linear", "relu", "exp"])
def test_anisotropic_keys_against_simulation(name):
    # the mean over probes only: E[X² | k] is known. 5 standard errors
    rng = np.random.default_rng(0)
    k = rng.standard_normal((200_000, 12)) * np.sqrt(SPECTRUM)
    variance, s = (k * k) @ SPECTRUM, (k * k).sum(axis=1)
    ratio = {
        "linear": variance / s**2,
        "relu": variance / s**2 / 2,
        "exp": np.exp(2 * variance / 4 - 2 * s / 2),
    }[name]
    found = covariance.gaussian_mean(similarity(name), 2, SPECTRUM, 2.0).value
    assert abs(ratio.mean() - found) < 5 * ratio.std() / math.sqrt(len(k))


def test_ratio_of_means_and_effective_dimension():
    d_eff = covariance.effective_dimension(SPECTRUM)
    assert d_eff == pytest.approx(SPECTRUM.sum() ** 2 / (SPECTRUM**2).sum())
    assert covariance.effective_dimension([5, 5, 0]) == pytest.approx(2)
    rng = np.random.default_rng(0)
    k = rng.standard_normal((400_000, 12)) * np.sqrt(SPECTRUM)
    signal = ((k * k).sum(axis=1) ** 2).mean()
    assert covariance.ratio_of_means(similarity("linear"), 2, SPECTRUM).value == pytest.approx(
        (SPECTRUM**2).sum() / signal, rel=0.02
    )


def test_divergences():
    assert covariance.gaussian_mean(similarity("linear"), 9, [1, 1], 1.0).diverges
    assert covariance.gaussian_mean(similarity("linear"), 9, [1, 1, 1e-9], 1.0).log < math.inf
    assert covariance.gaussian_mean(similarity("exp"), 9, [1, 9.0], 2.0).diverges
    assert covariance.gaussian_mean(similarity("cubic"), 9, [1, 2], 2.0).log is None
    assert covariance.effective(similarity("exp"), 9, 4.0).log is None


@pytest.mark.parametrize("spectrum", [[], [0, 0], [-1, 2], [math.nan], [[1, 2]]])
def test_bad_spectra_are_refused(spectrum):
    with pytest.raises(ValueError, match="eigenvalues"):
        covariance.effective_dimension(spectrum)
