"""What theory predicts for keys that are given: five predictions of the mean inverse SNR, each with its own assumption.

Notation for keys k_1 … k_N of one head: s_i = ‖k_i‖², C_i = Σ_{j≠i} k_j k_jᵀ/(N−1) and m_i = Σ_{j≠i} k_j/(N−1), the
second moment and the mean of the others. Values are random, independent, of mean 0; the keys are fixed.

- paper: P's closed form, isotropic keys of norm √d (eq. 7, 13, 15, 17).
- norms: the others Gaussian and isotropic, with the measured norms: k_j·k_i ~ N(0, s_i·s̄/d).
- covariance: the others Gaussian of mean 0 with the measured second moment: k_j·k_i ~ N(0, k_iᵀ C_i k_i). For g(x) = x
  this is an identity, since only Σ_j (k_j·k_i)² enters.
- mean and covariance: k_j·k_i ~ N(m_i·k_i, k_iᵀ C_i k_i − (m_i·k_i)²). Trained keys lean to one side: their products
  are positive more often than not, which N(0, ·) cannot tell.
- effective dimension: (N−1)/d_eff for linear and half of it for ReLU, d_eff = tr(C)²/tr(C²) (estimated without bias,
  see snr.keys.effective_dimension). Derivation: for
  independent keys of second moment C, E(k_j·k_i)² = tr(C²); where the norms are close to their mean, s_i² = tr(C)²;
  and a product symmetric about 0 keeps half of its second moment under max(0, ·).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr import covariance
from snr.expectation import log_second_moment
from snr.keys import Stored, effective_dimension
from snr.memory import recall_stored, route
from snr.predictions import Prediction, paper_log
from snr.similarity import Similarity, as_similarity

Array = NDArray[Any]


@dataclass(frozen=True)
class StoredPredictions:
    """Logarithms of the predicted mean inverse SNR over all heads; None where there is no such formula."""

    paper: float | None
    norms: float | None
    covariance: float | None
    mean_and_covariance: float | None
    effective_dimension: float | None
    d_eff_heads: tuple[float, ...]

    @property
    def d_eff(self) -> float:
        """Averaged over heads."""
        return float(np.mean(self.d_eff_heads))

    def to_json(self) -> dict[str, float | None]:
        names = ("paper", "norms", "covariance", "mean_and_covariance", "effective_dimension")
        logs = {name: getattr(self, name) for name in names}
        return {name: None if log is None else _exp(log) for name, log in logs.items()} | {"d_eff": self.d_eff}


def predict_stored(similarity: Similarity | str, keys: Stored, tau: float) -> StoredPredictions:
    """The five predictions for stored keys recalled with every stored key. Cosine similarities see ‖k‖ = √d.

    similarity: a Similarity, or its name or expression in x, tau, d.
    """
    g = as_similarity(similarity)
    if g.cosine:
        keys = keys.normalised()
    n, d = keys.n, keys.d
    heads = [head.astype(np.float64) for head in keys.array]
    d_eff = [effective_dimension(head) for head in heads]
    moments = [_moments(head) for head in heads]

    def over_heads(
        variance: Callable[[_Moments], Array], mean: Callable[[_Moments], Array] | None = None
    ) -> float | None:
        logs = (_gaussian(g, tau, d, h.squares, variance(h), 0.0 if mean is None else mean(h)) for h in moments)
        return _mean_of_logs(logs)

    return StoredPredictions(
        paper=paper_log(g, n, d, tau),
        norms=over_heads(lambda h: h.squares * h.isotropic),
        covariance=over_heads(lambda h: h.second),
        mean_and_covariance=over_heads(lambda h: h.second - h.first**2, lambda h: h.first),
        effective_dimension=_mean_of_logs(_effective(g, n, e).log for e in d_eff),
        d_eff_heads=tuple(d_eff),
    )


def over_values(similarity: Similarity, keys: Stored, tau: float) -> Array:
    """ln of each recall's mean inverse SNR over random values, Σ_{j≠i} g(k_j·k_i)²/g(s_i)²: exact, [heads, N]."""
    squares = np.einsum("hnd,hnd->hn", keys.array, keys.array, dtype=np.float64)
    ends = (float(keys.d),) * 2 if similarity.cosine else (float(squares.min()), float(squares.max()))
    way = route(similarity, tau, keys.d, ends, reach=ends[1])
    return recall_stored(similarity, keys.array.astype(way.dtype, copy=False), None, tau, way=way).log_ratio


@dataclass(frozen=True)
class _Moments:
    """Of one head, arrays [N]: s_i, the products' second moment k_iᵀ C_i k_i and mean m_i·k_i, the others' s̄/d.

    Key i is taken out of its own C_i and m_i: left in, it would add s_i²/N to the second moment, and so 1 to the
    inverse SNR of the linear kernel.
    """

    squares: Array
    second: Array
    first: Array
    isotropic: Array


def _moments(keys: Array) -> _Moments:
    n, d = keys.shape
    squares = np.einsum("nd,nd->n", keys, keys)
    whole = np.einsum("nd,nd->n", keys @ (keys.T @ keys), keys)  # Σ_j (k_j·k_i)², with j = i
    total = keys @ keys.sum(axis=0)
    return _Moments(
        squares,
        (whole - squares**2) / (n - 1),
        (total - squares) / (n - 1),
        (squares.sum() - squares) / ((n - 1) * d),
    )


def _gaussian(
    similarity: Similarity, tau: float, d: int, squares: Array, variance: Array, mean: Array | float = 0.0
) -> float | None:
    """ln of the mean over probes of (N−1) E g(N(mean, variance))²/g(s_i)²; None where quadrature gives up."""
    try:
        noise, _ = log_second_moment(similarity, np.maximum(variance, 1e-300), tau, d, mean)
    except ArithmeticError:
        return None
    logs = noise - 2 * similarity.sign_and_log(squares, tau, d)[1]
    n = len(logs)
    return math.log(n - 1) + float(np.logaddexp.reduce(logs)) - math.log(n)


def _effective(similarity: Similarity, n: int, d_eff: float) -> Prediction:
    return covariance.effective(similarity, n, d_eff) if d_eff < math.inf else Prediction(-math.inf)


def _mean_of_logs(logs: Iterable[float | None]) -> float | None:
    """ln of the mean over heads; None where a head has no prediction."""
    values = list(logs)
    known = [log for log in values if log is not None]
    return float(np.logaddexp.reduce(known)) - math.log(len(values)) if len(known) == len(values) else None


def _exp(log: float) -> float:
    return math.exp(log) if log < 709.7 else math.inf
