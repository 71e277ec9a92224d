"""Kerdock sets and Delsarte–Goethals sets: signs that are Gray images of words over Z_4.

ε + T((a + 2b) x) for x in the Teichmüller set of GR(4, m), m odd, is a word of length 2^m over Z_4; its Gray image has
length d = 2^(m+1) (Hammons, Kumar, Calderbank, Sloane, Solé 1994). For one a the words with ε in {0, 1} and all b are
an orthogonal basis; the 2^m bases and the standard one are the d/2 + 1 real mutually unbiased bases, all products
between bases ±1/√d (Calderbank, Cameron, Kantor, Seidel 1997). Adding 2T(c x³) gives 2^m cosets of the set without
the standard basis, with products up to 2/√d between cosets where m = 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theorem.packings.fields import galois_ring_trace
from theorem.packings.keyset import KeySet, Offer, fitted


def kerdock(n: int, d: int) -> KeySet:
    """The first n ≤ d(d/2 + 1) keys of R^d, d = 4^t ≥ 4, of coherence 1/√d, basis by basis; the standard basis last."""
    root = math.isqrt(d)
    if d < 4 or root * root != d or root & (root - 1) or not 1 <= n <= d * (d // 2 + 1):
        raise ValueError(f"a Kerdock set needs d = 4^t and n ≤ d(d/2 + 1), got n = {n}, d = {d}")
    bases = [_basis(d, a, None) for a in range(min(-(-n // d), d // 2))]
    if len(bases) * d < n:
        bases.append(root * np.eye(d, dtype=np.int8))
    classes = np.arange(len(bases) * d) // d
    return KeySet(np.concatenate(bases)[:n], "Kerdock", d, classes[:n])


def delsarte_goethals(n: int) -> KeySet:
    """The first n ≤ 2²² keys of R^256 of coherence 1/8 from cosets of the 32,768 Kerdock keys; `classes` are cosets.

    Products within a coset are at most 1/16, so the cosets lift as classes of coherence 1/16.
    """
    if not 1 <= n <= 2**22:
        raise ValueError(f"expected 1 ≤ n ≤ 2²², got {n}")
    count = -(-n // 256)
    rows = np.concatenate([_basis(256, i % 128, i // 128) for i in range(count)])[:n]
    return KeySet(rows, "Delsarte–Goethals", 256, np.arange(n) // 32768)


def _basis(d: int, a: int, coset: int | None) -> NDArray[np.int8]:
    """The d × d signs of one basis: a and the coset number the Teichmüller set as 0, 1, ξ, ξ², …"""
    m = d.bit_length() - 2
    order = 2**m - 1
    trace = galois_ring_trace(m)
    j = np.arange(order)
    products = np.zeros((2**m, 2**m), np.int64)  # T(t x) over the Teichmüller set
    products[1:, 1:] = trace[(j[:, None] + j[None, :]) % order]
    words = products[a] + 2 * products
    if coset:
        cube = np.zeros(2**m, np.int64)
        cube[1:] = trace[(coset - 1 + 3 * j) % order]
        words = words + 2 * cube
    words = np.concatenate([words, words + 1]) % 4
    # Gray: 0, 1, 2, 3 ↦ ++, +−, −−, −+
    return np.concatenate(
        [np.where((words == 0) | (words == 1), 1, -1), np.where((words == 0) | (words == 3), 1, -1)], 1
    ).astype(np.int8)


def offers(n: int, d: int) -> Iterator[Offer]:
    t = (d.bit_length() - 1) // 2
    for size in (4**t, 4 ** (t - 1)):
        if 4 <= size <= d and n <= size * (size // 2 + 1):
            yield Offer("Kerdock", size**-0.5, True, fitted(kerdock, n, d, n, size))
    if d >= 256 and n <= 2**22:
        yield Offer("Delsarte–Goethals", 1 / 8, True, fitted(delsarte_goethals, n, d, n))
