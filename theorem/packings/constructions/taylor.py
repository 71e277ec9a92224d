"""Taylor's unitary two-graphs: q³ + 1 equiangular lines in R^(q² − q + 1) at 1/q, q an odd prime power (Taylor 1977).

The lines are the isotropic points of a Hermitian form H on GF(q²)³, and the sign between two is the quadratic character
of H(x, y). The Gram matrix I ± S/q has the integer Seidel matrix S; its rows in R^d come from an eigenvalue problem.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theorem.packings.fields import field, prime_power
from theorem.packings.keyset import KeySet, Offer, fitted

LARGEST_Q = 13


def seidel(q: int) -> NDArray[np.int8]:
    """The (q³ + 1)² Seidel matrix: zero diagonal, ±1 elsewhere, least eigenvalue −q with multiplicity n − d."""
    f = field(q * q)
    elements = np.arange(q * q)
    first = np.zeros(1, np.int64)
    plane = np.stack(np.meshgrid(elements, elements, indexing="ij"), axis=-1).reshape(-1, 2)
    points = np.concatenate([  # (1, a, b), (0, 1, b), (0, 0, 1): every point of the plane once
        np.insert(plane, 0, 1, axis=1),
        np.stack([0 * elements, 0 * elements + 1, elements], axis=1),
        np.stack([first, first, first + 1], axis=1),
    ])  # fmt: skip
    conjugate = f.power[f.log * q % (q * q - 1)]
    conjugate[0] = 0

    def form(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
        total = f.multiply[x[..., 0], conjugate[y[..., 0]]]
        for i in (1, 2):
            total = f.add[total, f.multiply[x[..., i], conjugate[y[..., i]]]]
        return total

    isotropic = points[form(points, points) == 0]
    values = form(isotropic[:, None, :], isotropic[None, :, :])
    signs = np.where(values == 0, 0, np.where(f.log[values] % 2 == 0, 1, -1)).astype(np.int8)
    # the two-graph or its complement has least eigenvalue −q; their traces of S³ tell them apart
    cube = np.einsum("ij,ji->", signs.astype(np.float64) @ signs, signs.astype(np.float64))
    return signs if cube > 0 else -signs


def taylor(q: int) -> KeySet:
    """q³ + 1 keys of R^(q² − q + 1), all products ±1/q."""
    found = prime_power(q)
    if found is None or q % 2 == 0 or q > LARGEST_Q:
        raise ValueError(f"expected an odd prime power up to {LARGEST_Q}, got {q}")
    d = q * q - q + 1
    values, vectors = np.linalg.eigh(np.eye(q**3 + 1) + seidel(q) / q)
    rows = vectors[:, -d:] * np.sqrt(values[-d:])
    return KeySet(rows / np.linalg.norm(rows, axis=1, keepdims=True), f"Taylor two-graph q = {q}")


def offers(n: int, d: int) -> Iterator[Offer]:
    for q in range(LARGEST_Q, 2, -1):
        if q % 2 and prime_power(q) and q * q - q + 1 <= d and n <= q**3 + 1:
            yield Offer(f"Taylor two-graph q = {q}", 1 / q, False, fitted(taylor, n, d, q))
            return
