"""Realified chirps: 2(p² + p) keys of R^(2p), of coherence 1/√p, p an odd prime.

exp(2πi (a x² + b x)/p) for a, b in GF(p), with the standard basis, are the p + 1 mutually unbiased bases of C^p
(Alltop 1980; Ivanović 1981); each vector z gives the real keys of z and i z.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theorem.packings.constructions.singer import realified
from theorem.packings.fields import is_prime
from theorem.packings.keyset import KeySet, Offer, fitted


def chirps(n: int, p: int) -> KeySet:
    """The first n ≤ 2(p² + p) keys of R^(2p), basis by basis, the standard basis last."""
    if p < 3 or not is_prime(p) or not 1 <= n <= 2 * (p * p + p):
        raise ValueError(f"expected an odd prime p and n ≤ 2(p² + p), got p = {p}, n = {n}")
    index = np.arange(min(-(-n // 2), p * p))
    x = np.arange(p)
    turns = (np.outer(index // p, x * x) + np.outer(index % p, x)) % p
    vectors = np.exp(2j * np.pi * turns / p) / np.sqrt(p)
    return realified(np.concatenate([vectors, np.eye(p)[: -(-n // 2) - len(index)]]), f"chirps p = {p}").head(n)


def offers(n: int, d: int) -> Iterator[Offer]:
    for p in range(d // 2, 2, -1):
        if n > 2 * (p * p + p):
            return
        if is_prime(p):
            yield Offer(f"chirps p = {p}", p**-0.5, False, fitted(chirps, n, d, n, p))
            return
