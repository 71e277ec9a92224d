"""The memory itself: write N pairs, recall with every stored key, split the answer into signal and noise.

    o(k_i) = Σ_j g(k_j·k_i) v_j = c v_i + r,   c = g(k_i·k_i),   r = Σ_{j≠i} g(k_j·k_i) v_j      (P §2.1 eq. 5–6)

What is measured is the recalled vector: r is accumulated over actual values, with pair i left out of the sum. That is
o − c v_i in exact arithmetic, and unlike the difference it keeps its digits where c is far larger than r. Nothing is
assumed about the law of keys or values.

Everything is relative to a scale e^m per recall, so that neither c nor r needs to be a floating-point number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr.similarity import Similarity

Array = NDArray[Any]

BLOCK = 1 << 20  # scores held at a time: 4 MB in float32, which stays in a shared cache
PIECE = 1 << 15  # scores whose similarity is computed at a time
MIN_ROWS = 32  # probes per block at least, so that the products stay products of matrices


@dataclass(frozen=True)
class Recalled:
    """Recalls of stored keys, arrays [M, P]: M memories, P probes each.

    log_signal: ln c²; log_noise: ln(‖r‖²/E‖v‖²), −inf where nothing interferes; log_error, where it was asked for:
    ln(‖o/Z − v_i‖²/E‖v‖²) of the softmax-normalised recall, Z = Σ_j g(k_j·k_i).
    """

    log_signal: Array
    log_noise: Array
    log_error: Array | None = None

    @property
    def log_ratio(self) -> Array:
        """ln(‖r‖²/(c² E‖v‖²)), the inverse SNR of each recall. Normalising divides r and c by the same Z: no change."""
        return self.log_noise - self.log_signal


@dataclass(frozen=True)
class Route:
    """How the similarities are computed: the type of the products, and whether c itself serves as the scale e^m."""

    dtype: type
    anchored: bool


def route(
    similarity: Similarity, tau: float, d: int, squares: tuple[float, float], reach: float | None = None
) -> Route:
    """The fastest way to compute similarities that keeps every digit that matters.

    squares: the range of ‖k_i‖²; reach: the largest |k_j·k_i| to expect, by default that of Gaussian keys.
    float32 products have relative errors near 1e-7·√d ‖k_j‖‖k_i‖/|x|; the similarity multiplies them by its condition
    |x g'(x)/g(x)|. float32 is taken while the result is good to 4e-4 an entry (the entries' errors are independent and
    average out: the tests find 1e-5 and less in the inverse SNR) and all ratios g(x)/c lie well inside its range.
    """
    low, high = squares
    root = math.sqrt(high)
    reach = 7 * root if reach is None else reach
    x = np.concatenate([np.linspace(-reach, reach, 201), [low, high]])
    _, log = similarity.sign_and_log(x, tau, d)
    _, nudged = similarity.sign_and_log(x * 1.001, tau, d)
    with np.errstate(invalid="ignore"):
        change = np.abs(nudged - log)
    condition = float(np.max(change[np.isfinite(change)], initial=0.0)) / 1e-3
    signal = [s for s in log[-2:] if np.isfinite(s)] or [0.0]
    typical = similarity.sign_and_log(np.array([-root, root]), tau, d)[1]
    above = float(np.max(log[:-2])) - min(signal)
    below = max(signal) - float(np.max(typical[np.isfinite(typical)], initial=-math.inf))
    span = max(above, below if math.isfinite(below) else 0.0)
    if condition < 3000 and span < 60:
        return Route(np.float32, anchored=True)
    return Route(np.float64, anchored=span < 300)


def recall_stored(
    similarity: Similarity,
    keys: Array,
    values: Array | None,
    tau: float,
    *,
    power: float = 1.0,
    way: Route,
    squares: Array | None = None,
    probes: Array | None = None,
    errors: bool = False,
) -> Recalled:
    """Write memories and recall each with its own stored keys.

    keys [M, N, d] and values [M, N, d_v] are written; power is E‖v‖². The keys with index `probes` [P] (default all)
    are recalled. Keys of a cosine similarity are scaled to norm √d first.

    squares [M, P]: the probed key is stretched to that ‖k_i‖² before it is written and recalled (one memory for each
    probe, which differs from the others in that one key). errors: also the softmax-normalised recall error.
    Without values, ‖r‖² is replaced by its mean over independent values of mean 0, Σ_{j≠i} g(k_j·k_i)²: a cross-check
    of the simulation, never part of it.

    Raises ValueError where a probe has no signal, g(‖k_i‖²) = 0, and where `errors` is asked of a similarity that takes
    negative values.
    """
    m, n, d = keys.shape
    if similarity.cosine:
        keys = keys * np.sqrt(d / _squares(keys))[..., None].astype(keys.dtype)
    index = np.arange(n) if probes is None else np.asarray(probes)
    own = _squares(keys)[:, index]  # [M, P], float64
    if squares is None:
        squares = own
        stretch = None
    else:
        stretch = np.sqrt(squares / own)
    log_signal = np.empty((m, len(index)))
    log_noise = np.empty((m, len(index)))
    log_error = np.empty((m, len(index))) if errors else None
    rows = max(MIN_ROWS, BLOCK // max(1, m * n))
    transposed = keys.transpose(0, 2, 1)
    buffer = np.empty((m, min(rows, len(index)), n), dtype=way.dtype)
    for start in range(0, len(index), rows):
        part = slice(start, start + rows)
        at = index[part]
        asked = keys[:, at] if stretch is None else keys[:, at] * stretch[:, part, None].astype(keys.dtype)
        scores = np.matmul(asked, transposed, out=buffer[:, : len(at)])  # [M, B, N]
        _, log_c = similarity.sign_and_log(squares[:, part], tau, d)
        if not np.isfinite(log_c).all():
            raise ValueError("the similarity vanishes at a probe's own product: there is no signal")
        if way.anchored:
            anchor: Array = squares[:, part, None].astype(way.dtype)
            weights, scale = _relative(similarity, scores, anchor, tau, d), log_c
            weights[:, np.arange(len(at)), at] = 0
        else:
            weights, scale = _scaled_weights(similarity, scores, at, tau, d)
        # r e^{-m}, [M, B, d_v]; without values the weights themselves, whose squares add up to its mean square
        with np.errstate(all="ignore"):
            noise = weights if values is None else np.matmul(weights, values).astype(np.float64)
            square = np.einsum("mbv,mbv->mb", noise, noise, dtype=np.float64) / (1.0 if values is None else power)
            log_noise[:, part] = np.log(square) + 2 * scale
        log_signal[:, part] = 2 * log_c
        if log_error is not None and values is not None:
            log_error[:, part] = _log_error(noise, weights, values[:, at], scale, log_c, power)
    return Recalled(log_signal, log_noise, log_error)


def _squares(keys: Array) -> Array:
    """‖k‖² in float64, [..., N]."""
    return np.einsum("...d,...d->...", keys, keys, dtype=np.float64)


def _relative(similarity: Similarity, scores: Array, anchor: Array, tau: float, d: int) -> Array:
    """g(scores)/g(anchor) in place, in pieces whose temporaries stay in the core's own cache."""
    m, b, n = scores.shape
    memories, rows = max(1, PIECE // (b * n)), max(1, min(b, PIECE // n))
    for i in range(0, m, memories):
        for j in range(0, b, rows):
            part = scores[i : i + memories, j : j + rows]
            similarity.relative(part, anchor[i : i + memories, j : j + rows], tau, d, out=part)
    return scores


def _scaled_weights(similarity: Similarity, scores: Array, at: Array, tau: float, d: int) -> tuple[Array, Array]:
    """g(scores) e^{-m} with pair i at 0, and m [M, B]: the largest ln |g| of each row."""
    sign, log = similarity.sign_and_log(scores, tau, d)
    log = np.array(log)
    log[:, np.arange(len(at)), at] = -np.inf
    m = log.max(axis=2)
    m = np.where(np.isfinite(m), m, 0.0)
    log -= m[:, :, None]
    np.exp(log, out=log)
    log *= sign
    return log, m


def _log_error(noise: Array, weights: Array, own: Array, scale: Array, log_c: Array, power: float) -> Array:
    """ln(‖o/Z − v_i‖²/E‖v‖²), from o − Z v_i = r − (Z − c) v_i."""
    if weights.min() < 0:
        raise ValueError("softmax normalisation needs a similarity that is nowhere negative")
    others = weights.sum(axis=2, dtype=np.float64)  # (Z − c) e^{-m}
    wrong = noise - others[:, :, None] * own
    with np.errstate(divide="ignore"):
        log_z = np.logaddexp(log_c, scale + np.log(others))
        return np.log(np.einsum("mbv,mbv->mb", wrong, wrong) / power) + 2 * (scale - log_z)


def recall(similarity: Similarity, keys: Array, values: Array, queries: Array, tau: float) -> Array:
    """The recalled vectors o(q) = Σ_j g(k_j·q) v_j of one memory, plainly: [B, d_v] for queries [B, d], in float64.

    inf where g overflows; `recall_stored` has no such limit.
    """
    d = keys.shape[1]
    if similarity.cosine:
        keys, queries = (x * np.sqrt(d / _squares(x))[:, None] for x in (keys, queries))
    return np.asarray(similarity.value(queries.astype(float) @ keys.astype(float).T, tau, d) @ values.astype(float))
