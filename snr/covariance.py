"""Predictions for Gaussian keys that are not isotropic, N(0, C).

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


def _pairs(n: int) -> float:
    return math.log(n - 1) if n > 1 else -math.inf
