"""What state exchange has to do with groups: permutations, their words, and how wide a linear state must be.

Swaps generate the symmetric group S_n, and saying where every element is after T swaps is evaluating a word in it. For
n ≥ 5 that word problem is complete for NC¹ (Barrington 1989) because S_n is not solvable: its derived series stops at
the alternating group, which is perfect. That DeltaFormer "surpasses TC⁰" therefore rests on TC⁰ ≠ NC¹, which is open.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theorem.swaps import Swaps

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SymmetricGroup:
    """Facts about S_n, computed by sympy.combinatorics.

    derived_series  orders of S_n, its commutator subgroup, … until it repeats
    perfect         whether A_n equals its own commutator subgroup (so nothing below it is reached)
    generated       order of the group that all transpositions generate
    by_swaps        how many permutations need 0, 1, 2, … swaps and no fewer
    """

    n: int
    order: int
    derived_series: tuple[int, ...]
    solvable: bool
    perfect: bool
    generated: int
    by_swaps: tuple[int, ...]


def symmetric_group(n: int) -> SymmetricGroup:
    """Facts about S_n, 2 ≤ n ≤ 7 (all n! permutations are listed for `by_swaps`). Raises ValueError beyond."""
    from sympy.combinatorics import AlternatingGroup, Permutation, PermutationGroup
    from sympy.combinatorics import SymmetricGroup as Symmetric

    if not 2 <= n <= 7:
        raise ValueError(f"expected n from 2 to 7, got {n}")
    group, even = Symmetric(n), AlternatingGroup(n)
    swaps = [Permutation(n - 1)(a, b) for a in range(n) for b in range(a)]
    counts = Counter(p.size - p.cycles for p in group.elements)
    return SymmetricGroup(
        n,
        int(group.order()),
        tuple(int(g.order()) for g in group.derived_series()),
        bool(group.is_solvable),
        bool(even.derived_subgroup().order() == even.order()),
        int(PermutationGroup(swaps).order()),
        tuple(counts[k] for k in range(max(counts) + 1)),
    )


def fewest_swaps(permutation: NDArray[np.int64]) -> int:
    """The least number of swaps whose product is the permutation: n minus its number of cycles."""
    from sympy.combinatorics import Permutation

    p = Permutation([int(x) for x in permutation])
    return int(p.size - p.cycles)


def padded_word(permutation: NDArray[np.int64], length: int) -> Swaps:
    """A word of exactly `length` swaps that brings element permutation[i] into slot i, from element i in slot i.

    A shortest word is padded by one swap done twice, which changes nothing, so a word exists exactly if its length
    has the permutation's parity and is long enough. Raises ValueError otherwise.
    """
    n, least = len(permutation), fewest_swaps(permutation)
    if length < least or (length - least) % 2:
        raise ValueError(f"{length} swaps cannot make it: expected {least} or more, and as even or odd as {least}")
    holds, word = list(range(n)), []
    for slot in range(n):
        found = holds.index(int(permutation[slot]))
        if found != slot:
            word.append((found, slot))
            holds[found], holds[slot] = holds[slot], holds[found]
    word += [(1, 0)] * (length - least)
    return np.array(word, dtype=np.int64).reshape(-1, 2)


def simplex(n: int) -> Array:
    """n vectors of R^{n−1} with s_i·s_j = [i = j] − 1/n: the corners of a simplex, whose differences have length √2.

    They are e_i − 1/n in Helmert's orthonormal basis of the vectors that sum to zero.
    """
    basis = np.zeros((n - 1, n))
    for k in range(1, n):
        basis[k - 1, :k] = 1 / math.sqrt(k * (k + 1))
        basis[k - 1, k] = -k / math.sqrt(k * (k + 1))
    return basis.T.copy()


def simplex_corners(n: int) -> NDArray[np.int64]:
    """n times the corners e_i − 1/n of the simplex, in integers [n, n]; they span the hyperplane of sum zero."""
    return n * np.eye(n, dtype=np.int64) - 1


def linear_delta_track(n: int, swaps: Swaps, values: Array) -> Array:
    """Readouts [n, d_v] of a linear delta rule with d = n − 1 after the swaps (Grazzi et al. 2025).

    The state S ∈ R^{d_v×d} starts as Σ v_i s_iᵀ, so that S s_l = v_l − v̄, and a swap is S ← S (I − k kᵀ) with
    k = s_a − s_b: a reflection, since ‖k‖² = 2, with eigenvalue −1. v̄ never moves and is added back by the readout.
    """
    corners = simplex(n)
    state = values.T @ corners
    for a, b in swaps.tolist():
        k = corners[a] - corners[b]
        state -= np.outer(state @ k, k)
    return (state @ corners.T).T + values.mean(axis=0)


def swap_matrix(n: int, a: int, b: int) -> NDArray[np.int64]:
    """I − k kᵀ with k = e_a − e_b, in integers: the swap as a transition of a linear state with one-hot keys, d = n."""
    k = np.zeros(n, dtype=np.int64)
    k[a], k[b] = 1, -1
    return np.eye(n, dtype=np.int64) - np.outer(k, k)


def representation_widths(n: int) -> dict[tuple[int, ...], int]:
    """The dimension of every irreducible representation of S_n, by partition of n (hook length formula)."""
    return {shape: _dimension(shape) for shape in _partitions(n, n)}


def least_faithful_width(n: int) -> int:
    """The least dimension of a representation of S_n that tells all permutations apart, n ≥ 5: n − 1.

    A linear state whose transitions depend on the swap alone, and whose linear readouts follow every permutation of n
    different values, carries such a representation: the rows it can reach, modulo those no readout sees, form a space
    on which each word of swaps acts as its permutation does. For n ≥ 5 the kernel of any representation is 1, A_n or
    S_n, so a faithful one contains an irreducible of dimension above 1, and the least of these is returned.

    Raises ValueError for n < 5, where S_n has other normal subgroups, and n > 40 (37,338 partitions).
    """
    if not 5 <= n <= 40:
        raise ValueError(f"expected n from 5 to 40, got {n}")
    return min(width for width in representation_widths(n).values() if width > 1)


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def _dimension(shape: tuple[int, ...]) -> int:
    columns = [sum(row > c for row in shape) for c in range(shape[0])]
    hooks = math.prod(shape[r] - c + columns[c] - r - 1 for r in range(len(shape)) for c in range(shape[r]))
    return math.factorial(sum(shape)) // hooks
