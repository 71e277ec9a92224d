"""Gold codes with the first-order Reed–Muller code: d² + d keys of R^d, d = 2^m, m odd, of coherence √(2/d).

Signs (−1)^{Tr(a x³) + Tr(b x)} for a, b in GF(2^m): one basis for each a; for a ≠ a' the form Tr((a − a') x³) has rank
m − 1, so products between bases are 0 or ±√(2/d) (Gold 1968). The standard basis is at 1/√d from all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from theorem.packings.fields import field
from theorem.packings.keyset import KeySet, Offer, fitted


def gold(n: int, d: int) -> KeySet:
    """The first n ≤ d² + d keys of R^d, d = 2^m with m odd and ≥ 3, basis by basis; the standard basis last."""
    m = d.bit_length() - 1
    if d != 2**m or m < 3 or m % 2 == 0 or not 1 <= n <= d * d + d:
        raise ValueError(f"a Gold set needs d = 2^m with m odd ≥ 3 and n ≤ d² + d, got n = {n}, d = {d}")
    f = field(d)
    cube = f.multiply[np.arange(d), f.multiply.diagonal()]
    linear = f.trace[f.multiply]  # [b, x]
    bases = [(1 - 2 * ((f.trace[f.multiply[a, cube]] + linear) % 2)).astype(np.int8) for a in range(min(-(-n // d), d))]
    if len(bases) * d < n:
        bases.append(round(math.sqrt(d)) * np.eye(d, dtype=np.int8))
    return KeySet(np.concatenate(bases)[:n], "Gold and Reed–Muller", d, (np.arange(len(bases) * d) // d)[:n])


def offers(n: int, d: int) -> Iterator[Offer]:
    m = d.bit_length() - 1
    size = 2 ** (m if m % 2 else m - 1)
    if size >= 8 and n <= size * size + size and size < 2**12:
        yield Offer("Gold and Reed–Muller", math.sqrt(2 / size), True, fitted(gold, n, d, n, size))
