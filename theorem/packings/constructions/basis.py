"""The standard basis for n ≤ d, and the simplex just beyond it: d + 1 keys of R^d with all products −1/d."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theorem.packings.keyset import KeySet, Offer, fitted


def orthonormal(n: int, d: int) -> KeySet:
    """The first n ≤ d unit vectors of R^d."""
    return KeySet(np.eye(n, d, dtype=np.int8), "orthonormal basis", 1, np.zeros(n, np.int64))


def simplex(n: int) -> KeySet:
    """n ≥ 2 keys of R^(n−1), all products −1/(n − 1): the unit vectors of R^n seen from their centre."""
    from scipy.linalg import helmert

    rows = helmert(n).T
    return KeySet(rows / np.linalg.norm(rows, axis=1, keepdims=True), "simplex")


def offers(n: int, d: int) -> Iterator[Offer]:
    if n <= d:
        yield Offer("orthonormal basis", 0.0, True, fitted(orthonormal, n, d, n, d))
    if n == d + 1:
        yield Offer("simplex", 1 / d, False, fitted(simplex, n, d, n))
