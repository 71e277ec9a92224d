"""512 keys of R^73 with products 9 and −7 of 73: the words of a projective two-weight code [73, 9; 32, 40] over GF(2).

The columns of its generator matrix are 73 points of PG(8, 2), written as 3 × 3 matrices: the orbits of ten of them
under all permutations of rows and cyclic shifts of columns, a group of order 18. They came from an integer programme
over the orbits of that group: every hyperplane has to contain 33 or 41 of the chosen points.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from theorem.packings.keyset import KeySet, Offer, fitted

# rows of a matrix, each an octal digit whose bits are its columns; the orbits have 9, 3, 9, 3, 9, 6, 18, 9, 6, 1 points
REPRESENTATIVES = ("001", "007", "011", "111", "115", "124", "136", "335", "356", "777")


def points() -> NDArray[np.int64]:
    """The 73 points as 9-bit integers, ascending."""
    found = set()
    for digits in REPRESENTATIVES:
        rows = [int(digit) for digit in digits]
        for shift in range(3):
            shifted = [(row << shift | row >> 3 - shift) & 7 for row in rows]
            found |= {a << 6 | b << 3 | c for a, b, c in permutations(shifted)}
    return np.array(sorted(found))


def two_weight() -> KeySet:
    """The 512 integer keys of R^73, squared length 73; row a is (−1)^(a·p) over the points p."""
    together = np.bitwise_count(np.arange(512)[:, None] & points()[None, :])
    return KeySet((1 - 2 * (together % 2).astype(np.int8)), "two-weight code [73, 9; 32, 40]", 73)


def offers(n: int, d: int) -> Iterator[Offer]:
    if n <= 512 and d >= 73:
        yield Offer("two-weight code [73, 9; 32, 40]", 9 / 73, True, fitted(two_weight, n, d))
