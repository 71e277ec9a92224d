"""A basis beside a Hadamard basis: 2d keys of coherence 1/√d, for d = 2^k or 2^k (q + 1) with a prime q = 3 mod 4."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theorem.packings.keyset import KeySet, Offer, fitted


def hadamard_matrix(order: int) -> NDArray[np.int8] | None:
    """A Hadamard matrix of that order by Sylvester's and Paley's constructions, or None where they give none."""
    if order in (1, 2):
        return np.array([[1]] if order == 1 else [[1, 1], [1, -1]], np.int8)
    if order < 4 or order % 4:
        return None
    q = order - 1
    if all(q % p for p in range(2, math.isqrt(q) + 1)):
        squares = {x * x % q for x in range(1, q)}
        jacobsthal = np.array(
            [[0 if i == j else 1 if (i - j) % q in squares else -1 for j in range(q)] for i in range(q)]
        )
        matrix = np.ones((order, order), np.int8)
        matrix[1:, 1:] = jacobsthal - np.eye(q, dtype=np.int64)
        return matrix
    half = hadamard_matrix(order // 2)
    return None if half is None else np.kron(np.array([[1, 1], [1, -1]], np.int8), half)


def basis_and_hadamard(d: int) -> KeySet:
    """2d keys: the basis times √d where √d is an integer, else in floats, and the rows of a Hadamard matrix."""
    matrix = hadamard_matrix(d)
    if matrix is None:
        raise ValueError(f"no Hadamard matrix of order {d} by Sylvester's or Paley's construction")
    classes = np.repeat([0, 1], d)
    # any common factor of the basis rows gives the same unit keys; near √d the Gram diagonal is near 1 for s = d
    rows = np.concatenate([matrix, np.eye(d, dtype=np.int8) * round(math.sqrt(d))])
    return KeySet(rows, "basis and Hadamard", d, classes)


def offers(n: int, d: int) -> Iterator[Offer]:
    for order in range(d, max(1, n // 2) - 1, -1):
        if n <= 2 * order and hadamard_matrix(order) is not None:
            yield Offer("basis and Hadamard", order**-0.5, True, fitted(basis_and_hadamard, n, d, order))
            return
