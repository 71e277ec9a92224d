"""The memory itself: write N pairs, recall with every stored key, split the answer into signal and noise.

    o(k_i) = Σ_j g(k_j·k_i) v_j = c v_i + r,   c = g(k_i·k_i),   r = Σ_{j≠i} g(k_j·k_i) v_j      (P §2.1 eq. 5–6)

What is measured is the recalled vector: r is accumulated over actual values, with pair i left out of the sum. That is
o − c v_i in exact arithmetic, and unlike the difference it keeps its digits where c is far larger than r. Nothing is
assumed about the law of keys or values.

Where the similarities of different keys have the range of a float they are taken as they are, and c, which may not have
it, stays a logarithm; elsewhere they are relative to a scale e^m per recall.

When all stored keys are recalled, g(k_j·k_i) serves both recalls: blocks of rows start at their own diagonal, and what
lies right of the diagonal block also adds, transposed, to the recalls below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr.similarity import Similarity

Array = NDArray[Any]

BLOCK = 1 << 20  # scores held at a time: 4 MB in float32, which stays in a shared cache
PIECE = 1 << 15  # scores whose similarity is computed at a time
MIN_ROWS = 32  # probes per block at least, so that the products stay products of matrices
UNDERFLOW = -87.0  # ln of the smallest normal float32
ROWS = 256  # probes per block at most: half of the square on the diagonal is computed in vain


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
    """How the similarities are computed: the type of the products, and whether g as it is or through its logarithm."""

    dtype: type
    plain: bool


def route(
    similarity: Similarity, tau: float, d: int, squares: tuple[float, float], reach: float | None = None
) -> Route:
    """The fastest way to compute similarities that keeps every digit that matters.

    squares: the range of ‖k_i‖²; reach: the largest |k_j·k_i| to expect, by default that of Gaussian keys.
    float32 products have relative errors near 1e-7·√d ‖k_j‖‖k_i‖/|x|; the similarity multiplies them by its condition
    |x g'(x)/g(x)|. float32 is taken while the result is good to 4e-4 an entry (the entries' errors are independent and
    average out: the tests find 1e-5 and less in the inverse SNR) and g stays well inside its range, from what is
    typical for two keys to the largest.
    """
    root = math.sqrt(squares[1])
    reach = 7 * root if reach is None else reach
    x = np.concatenate([np.linspace(-reach, reach, 201), [-root, root]])
    sign, log = similarity.sign_and_log(x, tau, d)
    _, nudged = similarity.sign_and_log(x * 1.001, tau, d)
    with np.errstate(all="ignore"):
        change = np.abs(nudged - log)[log > UNDERFLOW]
        typical = float(np.max(log[-2:][np.isfinite(log[-2:])], initial=-math.inf))
        lost = np.abs(similarity.value(x, tau, d) - sign * np.exp(log))
        # a user's formula may cancel where its logarithm does not, as log(1 + exp(x − 50)) does
        faithful = bool(np.all(lost <= 1e-9 * np.maximum(np.exp(log), math.exp(min(typical, 700)))))
    condition = float(np.max(change[np.isfinite(change)], initial=0.0)) / 1e-3
    span = max(float(np.max(log)), -typical if math.isfinite(typical) else 0.0)
    if faithful and condition < 3000 and span < 70:
        return Route(np.float32, plain=True)
    return Route(np.float64, plain=faithful and span < 300)


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
    groups: int = 1,
) -> Recalled:
    """Write memories and recall each with its own stored keys.

    keys [M, N, d] and values [M, N, d_v] are written; power is E‖v‖². The keys with index `probes` [P] (default all)
    are recalled. Keys of a cosine similarity are scaled to norm √d first.

    squares [M, P]: the probed key is stretched to that ‖k_i‖² before it is written and recalled (one memory for each
    probe, which differs from the others in that one key). errors: also the softmax-normalised recall error.
    groups: ‖r‖² is the average over 2^groups memories, those with the signs of any groups of values flipped. It is
    Σ_g ‖r_g‖², r_g the noise from group g of the other pairs.
    Without values, ‖r‖² is replaced by its mean over independent values of mean 0, Σ_{j≠i} g(k_j·k_i)²: a cross-check
    of the simulation, never part of it.

    Raises ValueError where a probe has no signal, g(‖k_i‖²) = 0, where `errors` is asked of a similarity that takes
    negative values, and where both `errors` and `groups` are asked for.
    """
    m, n, d = keys.shape
    if errors and groups > 1:
        raise ValueError("groups: the recall error is no sum over groups")
    if similarity.cosine:
        keys = keys * np.sqrt(d / _squares(keys))[..., None].astype(keys.dtype)
    index = np.arange(n) if probes is None else np.asarray(probes)
    every = _squares(keys)  # [M, N], float64
    own = every[:, index]
    asked = keys if probes is None else keys[:, index]
    if squares is not None:
        asked = asked * np.sqrt(squares / own)[..., None].astype(keys.dtype)
    _, log_c = similarity.sign_and_log(own if squares is None else squares, tau, d)
    if not np.isfinite(log_c).all():
        raise ValueError("the similarity vanishes at a probe's own product: there is no signal")
    log_noise = np.empty((m, len(index)))
    log_error = np.empty((m, len(index))) if errors and values is not None else None
    written = values
    if values is None:
        power = 1.0
    elif log_error is not None:  # one more column, whose noise is Σ_{j≠i} g(k_j·k_i)
        written = np.concatenate([values, np.ones_like(values[..., :1])], axis=2)

    ordinary = written is not None and groups == 1 and way.plain
    as_matrix = ordinary and similarity.linear and not errors and n >= 2 * d and len(index) >= d
    if as_matrix and written is not None and np.all(d * own <= 16 * (every.sum(axis=1)[:, None] - own)):
        recalls = _from_state(keys, index, asked, written)
    else:
        symmetric = ordinary and probes is None and squares is None
        recalls = _from_weights(similarity, keys, index, asked, written, tau, way, symmetric, groups, positive=errors)
    with np.errstate(all="ignore"):
        for part, noise, scale in recalls:
            wide = noise.astype(np.float64, copy=False)
            if log_error is not None and values is not None:
                others, wide = wide[..., -1], wide[..., :-1]
                error = _log_error(wide, others, values[:, index[part]], scale, log_c[:, part])
                log_error[:, part] = error - math.log(power)
            log_noise[:, part] = np.log(np.einsum("mbv,mbv->mb", wide, wide) / power) + 2 * scale
    return Recalled(2 * log_c, log_noise, log_error)


Noise = Iterator[tuple[slice, Array, Array]]  # a block of probes, r e^{-m} [M, B, d_v] and m [M, B]


def _from_state(keys: Array, index: Array, asked: Array, values: Array) -> Noise:
    """The noise of a linear memory, as o − c v_i with o(k_i) = Sᵀ k_i and S = Σ_j k_j v_jᵀ, [d, d_v].

    The difference loses no digits where r is about as large as c v_i. Of keys of one norm, N ≥ 2d is enough for that:
    Welch's bound Σ_{ij} (k_i·k_j)² ≥ (Σ_i ‖k_i‖²)²/d makes the mean of ‖r‖²/(c² E‖v‖²) at least N/d − 1. In general
    (c/r)² is about d ‖k_i‖²/Σ_{j≠i} ‖k_j‖²; with a key so long that this exceeds 16, all is left to the sum over pairs.
    """
    m, rows = len(keys), max(MIN_ROWS, PIECE // (len(keys) * values.shape[2]))
    state = np.matmul(keys.transpose(0, 2, 1), values)
    for start in range(0, len(index), rows):
        part = slice(start, min(start + rows, len(index)))
        at, probes = index[part], asked[:, part]
        noise = np.matmul(probes, state)
        noise -= np.einsum("mbd,mbd->mb", probes, keys[:, at])[..., None] * values[:, at]
        yield part, noise, np.zeros((m, len(at)))


def _from_weights(
    similarity: Similarity,
    keys: Array,
    index: Array,
    asked: Array,
    values: Array | None,
    tau: float,
    way: Route,
    symmetric: bool,
    groups: int,
    positive: bool,
) -> Noise:
    """The noise as a sum over the other pairs' weighted values, [M, B, groups·d_v]; without values, their weights.

    symmetric: the probes are the keys, in their order. Raises ValueError for a negative weight if they must be
    `positive`.
    """
    m, n, d = keys.shape
    rows = max(MIN_ROWS, min(ROWS, BLOCK // (m * n)))
    transposed = keys.transpose(0, 2, 1)
    buffer = np.empty(m * min(rows, len(index)) * n, dtype=way.dtype)
    above = np.zeros_like(values) if symmetric and values is not None else None  # what earlier blocks add
    for start in range(0, len(index), rows):
        part = slice(start, min(start + rows, len(index)))
        at, first = index[part], start if symmetric else 0
        scores = buffer[: m * len(at) * (n - first)].reshape(m, len(at), n - first)
        np.matmul(asked[:, part], transposed[:, :, first:], out=scores)
        if way.plain:
            weights, scale = _similarities(similarity, scores, tau, d), np.zeros((m, len(at)))
            weights[:, np.arange(len(at)), at - first] = 0
        else:
            weights, scale = _scaled_weights(similarity, scores, at, tau, d)
        if positive and weights.min() < 0:
            raise ValueError("softmax normalisation needs a similarity that is nowhere negative")
        noise = weights if values is None else _grouped(weights, values[:, first:], groups)
        if above is not None and values is not None:
            noise += above[:, part]
            right = weights[:, :, len(at) :].transpose(0, 2, 1)
            above[:, part.stop :] += np.matmul(right, values[:, part])
        yield part, noise, scale


def _squares(keys: Array) -> Array:
    """‖k‖² in float64, [..., N]."""
    return np.einsum("...d,...d->...", keys, keys, dtype=np.float64)


def _grouped(weights: Array, values: Array, groups: int) -> Array:
    """weights [M, B, N] times values [M, N, d_v] for each of the groups of pairs, side by side: [M, B, groups·d_v]."""
    ends = [k * weights.shape[2] // groups for k in range(groups + 1)]
    parts = [np.matmul(weights[:, :, a:b], values[:, a:b]) for a, b in pairwise(ends)]
    return parts[0] if groups == 1 else np.concatenate(parts, axis=2)


def _similarities(similarity: Similarity, scores: Array, tau: float, d: int) -> Array:
    """g(scores) in place, in pieces whose temporaries stay in the core's own cache."""
    flat = scores.reshape(-1)
    for start in range(0, len(flat), PIECE):
        part = flat[start : start + PIECE]
        similarity.value(part, tau, d, out=part)
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


def _log_error(noise: Array, others: Array, own: Array, scale: Array, log_c: Array) -> Array:
    """ln ‖o/Z − v_i‖², from o − Z v_i = r − (Z − c) v_i; `others` is (Z − c) e^{-m}."""
    wrong = noise - others[:, :, None] * own
    log_z = np.logaddexp(log_c, scale + np.log(others))
    return np.log(np.einsum("mbv,mbv->mb", wrong, wrong)) + 2 * (scale - log_z)


def recall(similarity: Similarity, keys: Array, values: Array, queries: Array, tau: float) -> Array:
    """The recalled vectors o(q) = Σ_j g(k_j·q) v_j of one memory, plainly: [B, d_v] for queries [B, d], in float64.

    inf where g overflows; `recall_stored` has no such limit.
    """
    d = keys.shape[1]
    if similarity.cosine:
        keys, queries = (x * np.sqrt(d / _squares(x))[:, None] for x in (keys, queries))
    return np.asarray(similarity.value(queries.astype(float) @ keys.astype(float).T, tau, d) @ values.astype(float))
