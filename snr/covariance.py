"""Predictions for keys that are not isotropic: N(0, C), a measured covariance, measured norms.

For X = k·q with q ~ N(0, C) and k given, X ~ N(0, kᵀCk). With λ the eigenvalues of C and t = ‖k‖²:

    E_q X²/t² = kᵀCk/(kᵀk)²; at the mean of numerator and denominator tr(C²)/tr(C)² = 1/d_eff,

so that the linear kernel's N/d becomes N/d_eff and ReLU's N/(2d) becomes N/(2 d_eff) (by symmetry of X), with
d_eff = tr(C)²/tr(C²), between 1 and d. As P's formula it holds a probe at the norm it has on average. The exact mean of
ratio follows from 1/t² = ∫ u e^{−ut} du:

    E[kᵀCk/(kᵀk)²] = ∫₀^∞ u Σ_i λ_i²/(1+2uλ_i) ∏_j (1+2uλ_j)^{−1/2} du   (= 1/(d−2) for C = I),

and for exp, E e^{2kᵀCk/τ² − 2kᵀk/τ} = ∏_j (1 + 4λ_j/τ − 4λ_j²/τ²)^{−1/2}, infinite if a factor is not positive.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snr.expectation import log_second_moment
from snr.predictions import Prediction
from snr.quadrature import log_integral
from snr.similarity import Similarity

Array = Any
SPECTRAL = ("linear", "relu", "exp")


def effective_dimension(spectrum: Array) -> float:
    """tr(C)²/tr(C²) from the eigenvalues of C, [d], nonnegative and not all zero. Raises ValueError for others."""
    values = np.asarray(spectrum, dtype=float)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or not (values > 0).any():
        raise ValueError("expected finite nonnegative eigenvalues, not all zero")
    values = values / values.max()
    return float(values.sum() ** 2 / (values**2).sum())


def effective(similarity: Similarity, n: int, d_eff: float) -> Prediction:
    """(n−1)/d_eff for linear, (n−1)/(2 d_eff) for ReLU: the repair of N/d and N/(2d) for correlated keys."""
    halves = {"linear": 0.0, "relu": math.log(0.5)}
    if similarity.name not in halves:
        return Prediction(None, reason="the effective dimension repairs the linear and the ReLU kernel only")
    return Prediction(_pairs(n) + halves[similarity.name] - math.log(d_eff), "closed form")


def gaussian_mean(similarity: Similarity, n: int, spectrum: Array, tau: float) -> Prediction:
    """Exact mean of ratio for all keys N(0, C), C of eigenvalues `spectrum`; linear, ReLU and exp."""
    values = np.asarray(spectrum, dtype=float)
    effective_dimension(values)
    values = values[values > 0]
    if similarity.name == "exp":
        factors = 1 + 4 * values / tau - 4 * values**2 / tau**2
        if (factors <= 0).any():
            return Prediction(math.inf, "closed form", "the mean diverges: a factor 1 + 4λ/τ − 4λ²/τ² is not positive")
        return Prediction(_pairs(n) - float(np.log(factors).sum()) / 2, "closed form")
    if similarity.name not in ("linear", "relu"):
        return Prediction(None, reason=f"no formula for this similarity; expected one of {', '.join(SPECTRAL)}")
    if len(values) <= 2:
        return Prediction(math.inf, "quadrature", "the mean diverges for rank ≤ 2: short probes have too little signal")
    scaled = values / values.mean()

    def log_f(w: Array, row: Array) -> Array:  # u = e^w, weighted u² for du = u dw
        spread = 1 + 2 * np.exp(w)[..., None] * scaled
        return 2 * w + np.log((scaled**2 / spread).sum(axis=-1)) - np.log(spread).sum(axis=-1) / 2

    found = log_integral(log_f, np.linspace(-80.0, 120.0, 101)[None, :], rtol=1e-12)
    half = math.log(0.5) if similarity.name == "relu" else 0.0
    return Prediction(_pairs(n) + float(found.log[0]) + half, "quadrature", error=float(found.error[0]))


def ratio_of_means(similarity: Similarity, n: int, spectrum: Array) -> Prediction:
    """E‖r‖²/E c² for all keys N(0, C), linear and ReLU: tr(C²)/(tr(C)² + 2 tr(C²)) = 1/(d_eff + 2) per other pair."""
    return effective(similarity, n, effective_dimension(spectrum) + 2)


def measured_norms(similarity: Similarity, squared_norms: Array, n: int, d: int, tau: float) -> Prediction:
    """Isotropic Gaussian keys of the measured mean square, probed at the measured norms: mean over probes.

    squared_norms: [probes], ‖k_i‖² > 0. X given k_i is N(0, ‖k_i‖² m/d) with m the mean of the squared norms.
    """
    s = np.asarray(squared_norms, dtype=float)
    if s.ndim != 1 or not len(s) or not np.isfinite(s).all() or (s <= 0).any():
        raise ValueError("expected positive finite squared norms")
    return _over_probes(similarity, s * s.mean() / d, np.zeros_like(s), s, n, d, tau)


def measured_covariance(similarity: Similarity, keys: Array, tau: float, probes: int | None = None) -> Prediction:
    """Gaussian products with each probe's measured mean and variance over the other keys: mean over probes.

    keys: [N, d], N ≥ 3; probes: use only the first so many as k_i. Mean and variance of k_j·k_i over j ≠ i come from
    the keys' mean vector and second-moment matrix with key i taken out, O(N d²). (Left in, it would add ‖k_i‖⁴/N to
    each variance, and so 1 to the linear kernel's inverse SNR.) For the linear kernel the prediction is then the
    measured mean of ratio itself, an identity; for others it tests normality.
    """
    k = np.asarray(keys, dtype=float)
    if k.ndim != 2 or len(k) < 3 or not np.isfinite(k).all():
        raise ValueError("expected at least 3 keys [N, d] of finite numbers")
    n, d = k.shape
    probe = k[:probes]
    s = np.einsum("ij,ij->i", probe, probe)
    if (s == 0).any():
        raise ValueError("a key is zero: it has no signal")
    second = np.einsum("ij,ij->i", probe @ (k.T @ k), probe)
    mean = (probe @ k.sum(axis=0) - s) / (n - 1)
    variance = np.maximum((second - s * s) / (n - 1) - mean**2, 1e-300)
    return _over_probes(similarity, variance, mean, s, n, d, tau)


def _over_probes(
    similarity: Similarity, variance: Array, mean: Array, s: Array, n: int, d: int, tau: float
) -> Prediction:
    sign, log_signal = similarity.sign_and_log(s, tau, d)
    if (sign == 0).any():
        return Prediction(math.inf, reason="a probe has no signal: g(‖k_i‖²) = 0")
    try:
        log, error = _in_blocks(similarity, variance, mean, tau, d)
    except ArithmeticError as failure:
        return Prediction(None, "quadrature", str(failure))
    ratios = log - 2 * log_signal
    if np.isposinf(ratios).any():
        return Prediction(math.inf, reason="E[g(X)^2] diverges for a normal X")
    total = float(np.logaddexp.reduce(ratios)) - math.log(len(ratios))
    return Prediction(_pairs(n) + total, "closed form" if error < 1e-14 else "quadrature", error=error)


def _in_blocks(similarity: Similarity, variance: Array, mean: Array, tau: float, d: int) -> tuple[Array, float]:
    found = [
        log_second_moment(similarity, variance[i : i + 512], tau, d, mean[i : i + 512])
        for i in range(0, len(mean), 512)
    ]
    return np.concatenate([log for log, _ in found]), max(float(error.max()) for _, error in found)


def _pairs(n: int) -> float:
    return math.log(n - 1) if n > 1 else -math.inf
