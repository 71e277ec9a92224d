"""Descent among key sets with a symmetry: orbits of a group of sign changes.

Each coordinate of R^d carries a character of Z_2^m, and the group acts by these signs: a key f has the orbit
(χ_g(label_i) f_i)_i, g in Z_2^m. The Gram matrix of r orbits of 2^m keys is r² functions on the group, so a step costs
2^m times less than without the symmetry. Every basis of a Kerdock or Gold set is one orbit (of any of its keys) with
every character once, so those sets and their lifts are starts; the search among their symmetric neighbours found
smaller d than descent over all keys did (docs/key-search.md).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theorem.packings.constructions.lifting import Base
from theorem.packings.descent import MOST_STEPS, OVERHEAD, RATE, progress
from theorem.packings.keyset import KeySet

FINE_PEAK = 2**15 - 1
LENGTHS = (16_000, 19_400)  # of int16 keys as a certificate holds them: squared, they stay under its limit
STARTS = ((0.06, 0.05), (0.03, 0.05))  # weight of the further coordinates, disturbance


def characters(m: int, labels: NDArray[np.int64]) -> NDArray[np.int8]:
    """(d, 2^m): the sign of group element g on a coordinate with that label, (−1)^{|g & label|}."""
    together = np.bitwise_and(labels[:, None], np.arange(2**m)[None, :])
    return (1 - 2 * (np.bitwise_count(together) % 2)).astype(np.int8)


def expand(representatives: NDArray[Any], m: int, labels: NDArray[np.int64]) -> NDArray[Any]:
    """All keys of the orbits, (r 2^m, d), from one key of each (r, d); integer keys stay integers."""
    signs = characters(m, labels).T.astype(representatives.dtype)
    return (representatives[:, None, :] * signs[None]).reshape(-1, len(labels))


def sign_labels(basis: NDArray[np.int8]) -> NDArray[np.int64]:
    """Labels of the d = 2^m coordinates from the d ± 1 rows of one basis that is an orbit.

    Raises ValueError where the rows, divided by the first, are not a group of sign changes.
    """
    ratios = basis * basis[0]
    m = len(basis).bit_length() - 1
    bits = (1 - ratios) // 2
    labels = np.zeros(basis.shape[1], np.int64)
    span = {bytes(np.zeros_like(bits[0]))}
    for row in bits:
        if bytes(row) not in span:
            labels |= row.astype(np.int64) << (len(span).bit_length() - 1)
            span |= {bytes(np.frombuffer(old, bits.dtype) ^ row) for old in span}
    if len(span) != 2**m or len(set(labels.tolist())) != 2**m or {bytes(row) for row in bits} != span:
        raise ValueError("the basis is no orbit of a group of sign changes")
    return labels


def orbit_steps(seconds: float, r: int, m: int, d: int) -> int:
    """The number of descent steps a schedule of `seconds` has for r orbits of 2^m keys in R^d."""
    return min(MOST_STEPS, int(seconds * RATE / (r * r * 2**m * (4 * d + 200) + 8 * r * r * d + OVERHEAD)))


def descend_orbits(
    start: NDArray[Any],
    m: int,
    labels: NDArray[np.int64],
    seconds: float,
    *,
    step: float = 0.003,
    sharpness: tuple[float, float] = (300.0, 20_000.0),
) -> NDArray[np.float64]:
    """One unit key of each orbit (r, d): the best met on the way down from `start` (r, d).

    The same objective, schedule and promise as `descent.descend`, in float64, for the keys of all r 2^m rows.
    """
    x = np.array(start, dtype=np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    r, d = x.shape
    signs = characters(m, labels).astype(np.float64)
    steps = orbit_steps(seconds, r, m, d)
    began = time.monotonic()
    best, lowest = x.copy(), np.inf
    velocity, typical = np.zeros_like(x), 0.0
    diagonal = np.arange(r)
    for k in range(steps):
        products = (x[:, None, :] * x[None, :, :]).reshape(r * r, d)
        gram = (products @ signs).reshape(r, r, -1)
        gram[diagonal, diagonal, 0] = 0
        weight = np.abs(gram)
        top = weight.max()
        if top < lowest:
            lowest, best = top, x.copy()
        done = progress(k / steps, (time.monotonic() - began) / seconds)
        if done >= 1:
            break
        beta = sharpness[0] * (sharpness[1] / sharpness[0]) ** done
        weight -= top
        weight *= beta
        np.exp(weight, out=weight)
        weight[diagonal, diagonal, 0] = 0
        total = weight.sum()
        np.copysign(weight, gram, out=weight)
        pull = (weight.reshape(r * r, -1) @ signs.T).reshape(r, r, d)
        gradient = np.einsum("abi,bi->ai", pull, x) / total
        gradient -= np.einsum("ij,ij->i", gradient, x)[:, None] * x
        velocity = 0.9 * velocity + 0.1 * gradient
        size = float(np.sqrt((velocity * velocity).sum() / r))
        typical = 0.99 * typical + 0.01 * size if k else size
        x -= velocity * (step * (1 - done) / (typical + 1e-15))
        x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    return best


def lowered_orbits(base: Base, n: int, d: int, seconds: float, seed: int) -> KeySet:
    """n keys in R^d by symmetric descent from the bases of `base` in fewer dimensions, the further ones invariant.

    The starts, which share the time, differ in the weight of the further coordinates and in how far the bases are
    disturbed. The keys are rounded to integers, which keeps the symmetry.
    """
    keys = base.make(n)
    m = base.d.bit_length() - 1
    count, k = -(-n // base.size), d - base.d
    labels = np.concatenate([sign_labels(base.make(base.d).vectors), np.zeros(k, np.int64)])
    rng = np.random.default_rng(seed)
    best, lowest = None, np.inf
    for weight in STARTS:
        disturbance = weight[1] * rng.standard_normal((count, d))
        disturbance[:, base.d :] += np.sqrt(weight[0] / k) * rng.standard_normal((count, k)) * np.sqrt(base.d)
        start = np.pad(np.sqrt(1 - weight[0]) * keys.vectors[:: base.size], ((0, 0), (0, k))) + disturbance
        reached = descend_orbits(start, m, labels, seconds / len(STARTS))
        coherence = orbit_coherence(reached, m, labels)
        if coherence < lowest:
            best, lowest = reached, coherence
    assert best is not None
    z = _rounded(best, m, labels, lowest)
    scale = round(float((z.astype(np.int64) ** 2).sum(axis=1).mean()))
    return KeySet(expand(z, m, labels)[:n], f"orbits from {base.name} d = {base.d}", scale)


def _rounded(x: NDArray[np.float64], m: int, labels: NDArray[np.int64], coherence: float) -> NDArray[Any]:
    """Unit keys (r, d) as int8 where that keeps their orbits below 1/8, else as int16, both as certificates hold them,
    else as int32."""
    step = float(np.abs(x).max())
    formats = (
        (np.int8, [peak / step for peak in range(64, 128)]),  # some steps suit the entries better
        (np.int16, [min(length, FINE_PEAK / step) for length in np.linspace(*LENGTHS, 64)]),
    )
    for integers, steps in formats:
        roundings = [np.rint(x * step) for step in steps]
        reached = [orbit_coherence(z / np.linalg.norm(z, axis=1, keepdims=True), m, labels) for z in roundings]
        best = int(np.argmin(reached))
        if reached[best] < 1 / 8 or coherence >= 1 / 8:
            return roundings[best].astype(integers)
    return np.rint(x * (FINE_PEAK / step)).astype(np.int32)


def orbit_coherence(representatives: NDArray[np.float64], m: int, labels: NDArray[np.int64]) -> float:
    """The coherence of all keys of the orbits of unit keys (r, d)."""
    r, d = representatives.shape
    products = (representatives[:, None, :] * representatives[None, :, :]).reshape(r * r, d)
    gram = np.abs(products @ characters(m, labels).astype(np.float64)).reshape(r, r, -1)
    gram[np.arange(r), np.arange(r), 0] = 0
    return float(gram.max())
