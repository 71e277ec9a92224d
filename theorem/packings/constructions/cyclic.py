"""Irreducible cyclic codes: n = 2^k sign vectors (−1)^{Tr(a ζ^i)}, i < d, a in GF(2^k), ζ of order d dividing 2^k − 1.

Their products are Gaussian periods of index (2^k − 1)/d. The irreducible code [73, 9] has coherence 17/73; the
two-weight code of that length and dimension is another (`two_weight`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from theorem.packings.fields import field
from theorem.packings.keyset import KeySet, Offer, fitted

LARGEST_K = 14


def irreducible_cyclic(k: int, d: int) -> KeySet:
    """The 2^k keys of R^d of the irreducible cyclic code of length d | 2^k − 1 over GF(2)."""
    order = 2**k - 1
    if k < 1 or order % d:
        raise ValueError(f"the length {d} does not divide 2^{k} − 1")
    f = field(2**k)
    bits = f.trace[f.power]
    rows = np.ones((2**k, d), np.int8)
    rows[1:] = 1 - 2 * bits[(np.arange(order)[:, None] + order // d * np.arange(d)) % order]
    return KeySet(rows, f"irreducible cyclic code [{d}, {k}]", d)


@lru_cache
def period_coherence(k: int, d: int) -> float:
    """The largest |Σ_i (−1)^{Tr(a ζ^i)}| / d over a ≠ 0: one sum for each coset of the group of order d."""
    order = 2**k - 1
    f = field(2**k)
    signs = (1 - 2 * f.trace[f.power]).reshape(d, order // d)
    return float(np.abs(signs.sum(axis=0)).max()) / d


def offers(n: int, d: int) -> Iterator[Offer]:
    for k in range(max(4, (n - 1).bit_length()), LARGEST_K + 1):
        order = 2**k - 1
        for length in range(min(d, order), k, -1):
            if order % length == 0 and period_coherence(k, length) < 0.5:
                coherence = period_coherence(k, length)
                name = f"irreducible cyclic code [{length}, {k}]"
                yield Offer(name, coherence, True, fitted(irreducible_cyclic, n, d, k, length))
                break
        if n > 2 ** (k - 1) and d < 2**k:
            break
