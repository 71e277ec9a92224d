"""Where Theorem 1 stops being true: explicit integer keys on either side of 1/8, and an exact replay (P App. E).

Everything here is small and in integers: keys z_i / sqrt(scale), unit vectors for values, the memory of P eq. 41.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from theorem.rounding import round_fraction


@dataclass(frozen=True)
class IntegerKeys:
    """Keys z [n, d] with inner products z_i . z_j / scale."""

    z: NDArray[np.int64]
    scale: int

    @property
    def coherence_squared(self) -> Fraction:
        """The largest squared cosine of two keys."""
        gram = self.z @ self.z.T
        pairs = ((i, j) for i in range(len(gram)) for j in range(i))
        return max(Fraction(int(gram[i, j]) ** 2, int(gram[i, i] * gram[j, j])) for i, j in pairs)


@dataclass(frozen=True)
class WrongReading:
    """The first reading that is not the slot's item: after `step` swaps (0: after the initial writes), at `slot`."""

    step: int
    slot: int


def four_keys(a: int, b: int) -> IntegerKeys:
    """Four unit keys in R^4: k_0.k_2 = k_1.k_3 = c, k_0.k_3 = k_1.k_2 = -c, the others orthogonal; c = ab/(a^2 + b^2).

    The worst case of Lemma 1: (k_0 - k_1).(k_2 - k_3) = 4c where one-hot keys have 0. With a/b just below 4 + sqrt(15),
    c is just above 1/8: 39/5 gives 0.1261, 55/7 gives 0.1252. Raises ValueError unless 0 < b < a.
    """
    if not 0 < b < a:
        raise ValueError(f"a = {a}, b = {b}: expected 0 < b < a")
    z = np.array([[a, b, a, b], [-a, -b, a, b], [b, a, b, -a], [-b, -a, b, -a]])
    return IntegerKeys(z, 2 * (a * a + b * b))


def keys_of(gram: Mapping[tuple[str, str], Fraction], slots: str = "ijlm") -> IntegerKeys:
    """Integer keys with exactly this Gram matrix of rational entries, given for each pair of slots (a <= b).

    An entry w between two keys becomes coordinates x and sign(w) x with sum of x^2 = |w| (Lagrange's four squares), and
    what is left of a key's norm becomes coordinates of its own. Raises ValueError unless each diagonal entry is at
    least the sum of its row's other magnitudes, as for four unit keys with inner products up to 1/3.
    """
    from sympy.solvers.diophantine.diophantine import sum_of_four_squares

    scale = lcm(*(entry.denominator for entry in gram.values()))
    whole = {pair: int(entry * scale) for pair, entry in gram.items()}
    rest = {slot: whole[slot, slot] - sum(abs(w) for pair, w in whole.items() if slot in pair and pair[0] != pair[1])
            for slot in slots}  # fmt: skip
    if min(rest.values()) < 0:
        raise ValueError("the Gram matrix is not diagonally dominant")
    columns = []
    for (a, b), entry in {
        **{(s, s): r for s, r in rest.items()},
        **{p: w for p, w in whole.items() if p[0] != p[1]},
    }.items():
        for root in sum_of_four_squares(abs(entry)):
            column = dict.fromkeys(slots, 0)
            column[a] = int(root)
            column[b] = int(root) if entry >= 0 else -int(root)
            columns.append([column[s] for s in slots])
    z = np.array([c for c in columns if any(c)]).T
    return IntegerKeys(z, scale)


def worst_case(coherence: Fraction) -> IntegerKeys:
    """Four unit keys of this coherence c in (0, 1/3]: products c, c, -c, -c as in `four_keys`, the other two 0."""
    signs = {("i", "l"): 1, ("j", "m"): 1, ("i", "m"): -1, ("j", "l"): -1}
    gram = {(a, b): Fraction(int(a == b)) for i, a in enumerate("ijlm") for b in "ijlm"[i:]}
    return keys_of({pair: coherence * signs[pair] if pair in signs else entry for pair, entry in gram.items()})


def simplex(n: int, unit: bool) -> IntegerKeys:
    """n keys e_i - 1/n in the n - 1 dimensions orthogonal to (1, .., 1): every cosine is -1/(n - 1).

    Unscaled, k_i - k_j = e_i - e_j exactly, as for one-hot keys; with `unit` they are brought to norm 1. n >= 2.
    """
    if n < 2:
        raise ValueError(f"n = {n}: expected at least 2")
    return IntegerKeys(n * np.eye(n, dtype=np.int64) - 1, n * (n - 1) if unit else n * n)


def replay(
    keys: IntegerKeys, swaps: Iterable[tuple[int, int]], f: str | Callable[[Fraction], int]
) -> WrongReading | None:
    """Write n slots, swap, and read every slot after every step; None where all readings are right.

    `f` is a rounding rule or any integer function. u_t = v_t - sum over i < t of f(k_i . k_t) u_i (P eq. 41 with w = k,
    alpha = beta = 1), readings sum f(k_i . k_l) u_i; the values are the n unit vectors, so every item is told apart.
    """
    rounding = (lambda x: round_fraction(x, f)) if isinstance(f, str) else f
    n = len(keys.z)
    written: list[NDArray[np.int64]] = []
    entries: list[NDArray[np.int64]] = []

    def read(key: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(n, dtype=np.int64)
        for other, u in zip(written, entries, strict=True):
            total += rounding(Fraction(int(other @ key), keys.scale)) * u
        return total

    def write(key: NDArray[np.int64], value: NDArray[np.int64]) -> None:
        entries.append(value - read(key))
        written.append(key)

    items = np.eye(n, dtype=np.int64)
    for slot in range(n):
        write(keys.z[slot], items[slot])
    for step, (a, b) in enumerate([(0, 0), *swaps]):
        if step:
            write(keys.z[a] - keys.z[b], np.zeros(n, dtype=np.int64))
            items[[a, b]] = items[[b, a]]
        for slot in range(n):
            if not np.array_equal(read(keys.z[slot]), items[slot]):
                return WrongReading(step, slot)
    return None


def every_two_swaps(keys: IntegerKeys, f: str | Callable[[Fraction], int]) -> WrongReading | None:
    """The first wrong reading over every sequence of at most two swaps (later slot first); None where there is none.

    For f = round this decides Theorem 1 for these keys: where longer sequences fail, so does one of at most two.
    """
    pairs = [(i, j) for i in range(len(keys.z)) for j in range(i)]
    sequences: Sequence[Sequence[tuple[int, int]]] = [[p, q] for p in pairs for q in pairs]
    return next((wrong for s in sequences if (wrong := replay(keys, s, f)) is not None), None)


def blind_below(bound: Fraction, rule: str) -> Callable[[Fraction], int]:
    """Round, but 0 for arguments below `bound`: an f that meets Assumption 2 as printed and knows nothing of -2."""
    return lambda x: 0 if x < bound else round_fraction(x, rule)
