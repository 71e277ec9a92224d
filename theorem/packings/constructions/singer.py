"""Realified Singer sets: 2(q² + q + 1) keys of R^(2q + 2), of coherence √q/(q + 1), q a prime or a power of 2.

The powers exp(2πi j b/v), b in a Singer difference set of q + 1 residues modulo v = q² + q + 1, are v vectors z_j of
C^(q+1) with |⟨z_j, z_k⟩| = √q; each gives the real keys of z_j and i z_j (Xia, Zhou, Giannakis 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from theorem.packings.fields import field, prime_power
from theorem.packings.keyset import KeySet, Offer, fitted

LARGEST_Q = 128


def realified(vectors: NDArray[np.complex128], construction: str) -> KeySet:
    """z ↦ (Re z, Im z) and (−Im z, Re z): 2n orthogonal pairs of real keys from n complex ones."""
    rows = np.stack([vectors, 1j * vectors], axis=1).reshape(2 * len(vectors), -1)
    real = np.concatenate([rows.real, rows.imag], axis=1)
    return KeySet(real / np.linalg.norm(real, axis=1, keepdims=True), construction)


@lru_cache
def difference_set(q: int) -> tuple[int, ...]:
    """q + 1 residues modulo q² + q + 1 whose differences are every nonzero residue once.

    The zeros of a linear recurrence of order 3 over GF(q): s_{i+3} = s_{i+1} b + s_i c for the first (b, c) that works.
    """
    f = field(q)
    v = q * q + q + 1
    for a, b, c in product(range(min(q, 3)), range(q), range(1, q)):
        state, zeros = (0, 0, 1), []
        for i in range(v):
            if state[0] == 0:
                zeros.append(i)
                if len(zeros) > q + 1:
                    break
            following = f.add[f.add[f.multiply[a, state[2]], f.multiply[b, state[1]]], f.multiply[c, state[0]]]
            state = (state[1], state[2], int(following))
        differences = {(x - y) % v for x in zeros for y in zeros if x != y}
        if len(zeros) == q + 1 and len(differences) == q * (q + 1):
            return tuple(zeros)
    raise AssertionError(f"GF({q}) has a primitive cubic")


def singer(n: int, q: int) -> KeySet:
    """The first n ≤ 2(q² + q + 1) keys of R^(2q + 2)."""
    v = q * q + q + 1
    if prime_power(q) is None or q > LARGEST_Q or not 1 <= n <= 2 * v:
        raise ValueError(f"expected a prime power q ≤ {LARGEST_Q} and n ≤ 2(q² + q + 1), got q = {q}, n = {n}")
    turns = np.outer(np.arange(-(-n // 2)), np.array(difference_set(q))) % v
    return realified(np.exp(2j * np.pi * turns / v), f"Singer q = {q}").head(n)


def offers(n: int, d: int) -> Iterator[Offer]:
    for q in range(min(LARGEST_Q, d // 2 - 1), 1, -1):
        if n > 2 * (q * q + q + 1):
            return
        if prime_power(q):
            name, coherence = f"Singer q = {q}", math.sqrt(q) / (q + 1)
            yield Offer(name, coherence, False, fitted(singer, n, d, n, q))
            return
