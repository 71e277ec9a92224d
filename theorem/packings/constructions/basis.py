"""The standard basis: n ≤ d orthonormal keys, and a simplex beyond it: d + 1 keys with all products −1/d."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theorem.packings.keyset import KeySet, Offer, fitted


def orthonormal(n: int, d: int) -> KeySet:
    """The first n ≤ d unit vectors of R^d."""
    return KeySet(np.eye(n, d, dtype=np.int8), "orthonormal basis", 1, np.zeros(n, np.int64))


def offers(n: int, d: int) -> Iterator[Offer]:
    if n <= d:
        yield Offer("orthonormal basis", 0.0, True, fitted(orthonormal, n, d, n, d))
