"""Theorem 1 for one key set: a condition on the Gram matrix, decided for every pair of swaps in O(n^3) (P App. E).

Let G be the Gram matrix of the slot keys and R = G - I what separates it from that of one-hot keys. A swap of slots i
and j writes k_i - k_j, so the arguments of f that a sequence of swaps can meet are

    (A) k_i . k_l                       = d_il                      + R_il
    (B) (k_i - k_j) . k_l               = d_il - d_jl               + R_il - R_jl
    (C) (k_i - k_j) . (k_l - k_m)       = d_il - d_jl - d_im + d_jm + R_il - R_jl - R_im + R_jm

with d the Kronecker delta. With f = round the induction of Theorem 1 needs each to round to its part in d. Pad R with
one zero row and column, a key that is never written; (A) and (B) become cases of (C), and the condition is

    |R_il - R_jl - R_im + R_jm| < 1/2   for all i, j, l, m.                                     (the Gram condition)

For fixed (i, j) the largest value over l and m is the spread of the row R_i - R_j, hence O(n^3) time and O(n^2) memory
for all n^4 of them. Assumption 1 bounds it by 4 eps (3 or 2 eps where one or two of its entries are diagonal, which
are 0 for unit keys), hence eps < 1/8; the condition itself asks neither for unit keys nor for small inner products.

At equality the rounding rule decides. A second difference of +1/2 about the target t = d_il - d_jl - d_im + d_jm is
harmless under half-even iff t is even, under half-away iff t < 0 (-1/2: iff t > 0); see `theorem.rounding`.

The condition is necessary as well as sufficient: if (A) fails, reading back the initial writes fails; if (B) fails, one
swap fails; if only (C) fails, two swaps fail (`theorem.obligations` states these, `theorem.sharpness` replays them).
So `holds` decides Theorem 1's conclusion for f = round, for every sequence of swaps and all values at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from theorem.rounding import HALF_EVEN, require_rule, round_fraction, rounds_to

BLOCK_BYTES = 1 << 18  # rows of one tile: small enough to stay in a core's second-level cache
UNIT = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class Product:
    """One argument of f: the inner product of two written keys, what it should round to, and what it does round to.

    `first` and `second` name the written keys: (i, j) is the swap that writes k_i - k_j, (i,) is the slot i itself.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    value: Fraction
    expected: int
    rounded: int

    def __str__(self) -> str:
        def name(key: tuple[int, ...]) -> str:
            return f"swap ({key[0]}, {key[1]})" if len(key) == 2 else f"slot {key[0]}"

        return (
            f"{name(self.first)} with {name(self.second)}: {self.value} = {float(self.value):.6f} "
            f"rounds to {self.rounded}, expected {self.expected}"
        )


@dataclass(frozen=True)
class GramCondition:
    """What the check of every pair of swaps found.

    holds    True or False is a proof; None says that float keys come closer to a tie than their rounding error
    margin   1/2 minus the largest second difference: exact for integer keys, within `error` for float keys
    tightest the product that comes closest to a wrong value, or that has one: the witness where `holds` is False
    """

    holds: bool | None
    rule: str
    n: int
    margin: Fraction
    error: Fraction
    tightest: Product

    @property
    def swaps(self) -> int:
        """The number of swaps checked: pairs of slots."""
        return self.n * (self.n - 1) // 2

    @property
    def pairs_checked(self) -> int:
        """The number of unordered pairs of swaps checked, a swap with itself included."""
        return self.swaps * (self.swaps + 1) // 2

    @property
    def witness(self) -> Product | None:
        """The product that rounds to a wrong value, or None where there is none."""
        return self.tightest if self.holds is False else None


def gram_condition(keys: NDArray[np.generic], scale: int = 1, rule: str = HALF_EVEN) -> GramCondition:
    """Decide the Gram condition for keys [n, d], n >= 2.

    Integer keys z stand for z_i / sqrt(scale), inner products (z_i . z_j) / scale, and are decided in integers. Float
    keys (scale 1) that are multiples of one power of two, with a Gram matrix that fits int64, are converted to integers
    exactly; others are decided in float64 with a proven bound on the rounding error.
    Raises ValueError on keys that are not a finite matrix, a scale below 1, or integers whose products leave int64.
    """
    z = np.asarray(keys)
    if z.ndim != 2 or z.shape[0] < 2 or z.shape[1] < 1:
        raise ValueError(f"keys of shape {z.shape}: expected [n, d] with n at least 2 and d at least 1")
    if np.issubdtype(z.dtype, np.integer):
        return gram_condition_of(_integer_gram(z, scale), scale, rule)
    if not np.issubdtype(z.dtype, np.floating):
        raise ValueError(f"keys of type {z.dtype}: expected integers or floats")
    if scale != 1:
        raise ValueError(f"scale {scale}: only integer keys have a scale; expected 1")
    k = z.astype(np.float64)
    if not np.isfinite(k).all():
        raise ValueError("keys with NaN or infinite entries")
    dyadic = _as_integers(k)
    if dyadic is not None:
        return gram_condition_of(_integer_gram(*dyadic), dyadic[1], rule)
    return _float_condition(k, require_rule(rule))


def gram_condition_of(gram: NDArray[np.integer], scale: int, rule: str = HALF_EVEN) -> GramCondition:
    """Decide the condition from an integer Gram matrix [n, n], n >= 2: inner products are gram / scale.

    Raises ValueError where it is not symmetric, the scale is below 1, or sums of four entries leave int64.
    """
    require_rule(rule)
    g = np.asarray(gram)
    if g.ndim != 2 or g.shape[0] != g.shape[1] or g.shape[0] < 2 or not np.issubdtype(g.dtype, np.integer):
        raise ValueError(f"Gram matrix of shape {g.shape} and type {g.dtype}: expected integers [n, n], n at least 2")
    if not np.array_equal(g, g.T):
        raise ValueError("the Gram matrix is not symmetric")
    n = len(g)
    largest = max(abs(int(g.max())), abs(int(g.min()))) + _checked_scale(scale)
    deviation = np.zeros((n + 1, n + 1), dtype=_smallest_type(4 * largest))
    deviation[:n, :n] = g
    deviation[np.arange(n), np.arange(n)] -= scale
    spread, i, j = _largest_spread(deviation)
    spread = int(spread)
    holds = 2 * spread < scale
    if 2 * spread == scale:
        tie = _wrong_tie(deviation, spread, rule)
        holds, (i, j) = tie is None, tie or (i, j)
    tightest = _tightest(g, scale, deviation, (i, j), rule)
    assert (tightest.rounded == tightest.expected) is holds
    return GramCondition(holds, rule, n, Fraction(scale - 2 * spread, 2 * scale), Fraction(0), tightest)


def deviations(gram: NDArray[np.integer], scale: int) -> dict[int, NDArray[np.float64]]:
    """How far each swap's products get from their targets 0, 1 and 2 (in magnitude): by target, an entry a swap i > j.

    The largest of a swap's three entries is its second difference; P App. E bounds them by 4, 3 and 2 eps.
    """
    g = np.asarray(gram).astype(np.int64)
    n = len(g)
    found: dict[int, list[NDArray[np.float64]]] = {0: [], 1: [], 2: []}
    for i in range(1, n):
        difference, at = g[i] - g[:i], np.arange(i)
        at_i, at_j = difference[:, i].copy(), -difference[at, at]
        difference[:, i] = difference[at, at] = 0
        high, low = difference.max(axis=1), difference.min(axis=1)
        ones = np.abs(np.stack([at_i - high, at_i - low, at_j + high, at_j + low]) - scale)
        for target, distance in ((0, high - low), (1, ones.max(axis=0)), (2, np.abs(at_i + at_j - 2 * scale))):
            found[target].append(distance / scale)
    return {target: np.concatenate(parts) for target, parts in found.items()}


def _tiles(deviation: NDArray[np.generic]) -> Iterator[tuple[int, int, NDArray[np.generic]]]:
    """(i, j, D): the rows deviation[i] - deviation[j + r] for r < len(D), a few at a time, for all j + r < i."""
    size = max(1, BLOCK_BYTES // deviation[0].nbytes)
    for i in range(1, len(deviation)):
        for j in range(0, i, size):
            yield i, j, deviation[i] - deviation[j : min(i, j + size)]


def _largest_spread(deviation: NDArray[np.generic]) -> tuple[float, int, int]:
    """The largest second difference of the padded deviation, and the rows i > j where it is."""
    best, where = -1, (1, 0)
    for i, j, difference in _tiles(deviation):
        spread = difference.max(axis=1) - difference.min(axis=1)
        r = int(spread.argmax())
        if spread[r] > best:
            best, where = spread[r].item(), (i, j + r)
    return best, *where


def _wrong_tie(deviation: NDArray[np.integer], spread: int, rule: str) -> tuple[int, int] | None:
    """Rows i > j where a second difference equal to `spread`, a half, is rounded to the wrong side; None without any.

    Slots where the row difference is largest (l) and least (m) meet in a tie about the target e_l - e_m, with e = 1 at
    slot i, -1 at slot j, 0 elsewhere and at the padding.
    """
    padding = len(deviation) - 1
    for i, j, difference in _tiles(deviation):
        rows = np.flatnonzero(difference.max(axis=1) - difference.min(axis=1) == spread)
        if not len(rows):
            continue
        difference = difference[rows]
        at = np.arange(len(rows))
        ends = []  # for the largest and the least entries: is slot i, slot j, any other slot among them?
        for extreme in (difference.max(axis=1), difference.min(axis=1)):
            hit = difference == extreme[:, None]
            at_i = hit[:, i] if i != padding else np.zeros(len(rows), dtype=bool)
            at_j = hit[at, j + rows]
            ends.append({1: at_i, -1: at_j, 0: hit.sum(axis=1) > at_i.astype(int) + at_j})
        wrong = np.zeros(len(rows), dtype=bool)
        for e_l, is_l in ends[0].items():
            for e_m, is_m in ends[1].items():
                if not rounds_to(e_l - e_m, above=True, rule=rule):
                    wrong |= is_l & is_m
        if wrong.any():
            return i, j + int(rows[wrong.argmax()])
    return None


def _tightest(
    gram: NDArray[np.generic], scale: int, deviation: NDArray[np.generic], pair: tuple[int, int], rule: str
) -> Product:
    """The product of the swap `pair` whose second difference is largest; one that rounds wrongly if there is one."""
    row = deviation[pair[0]].astype(deviation.dtype if scale == 1 and gram.dtype.kind == "f" else np.int64)
    row = row - deviation[pair[1]]
    ends = []
    for extreme in (row.max(), row.min()):
        hits = np.flatnonzero(row == extreme)
        others = hits[~np.isin(hits, pair)]
        ends.append([*hits[np.isin(hits, pair)].tolist(), *others[:2].tolist()])
    products = [_product(gram, scale, pair, (l, m), rule) for l in ends[0] for m in ends[1] if l != m]
    return min(products, key=lambda p: p.rounded == p.expected)


def _product(
    gram: NDArray[np.generic], scale: int, first: tuple[int, int], second: tuple[int, int], rule: str
) -> Product:
    """The product of two pairs of rows; a pair with the padding is a slot. f is odd, so the order in a pair is free."""
    keys = [tuple(sorted((s for s in pair if s < len(gram)), reverse=True)) for pair in (first, second)]
    signed = [(a, b, (1 if p == q else -1)) for p, a in enumerate(keys[0]) for q, b in enumerate(keys[1])]
    value = sum((sign * Fraction(gram[a, b].item()) for a, b, sign in signed), Fraction(0)) / scale
    expected = sum(sign for a, b, sign in signed if a == b)
    return Product(keys[0], keys[1], value, expected, round_fraction(value, rule))


def _checked_scale(scale: int) -> int:
    if isinstance(scale, bool) or not isinstance(scale, (int, np.integer)) or scale < 1:
        raise ValueError(f"scale {scale}: expected an integer of at least 1")
    return int(scale)


def _smallest_type(bound: int) -> type[np.signedinteger]:
    """The narrowest integer type that holds every |x| <= bound: half the bytes is twice the speed."""
    for candidate in (np.int16, np.int32, np.int64):
        if bound <= np.iinfo(candidate).max:
            return candidate
    raise ValueError(f"inner products up to {bound // 4}: four of them do not fit int64")


def _integer_gram(z: NDArray[np.integer], scale: int) -> NDArray[np.int64]:
    largest = max(abs(int(z.max())), abs(int(z.min())))
    _smallest_type(4 * (z.shape[1] * largest**2 + _checked_scale(scale)))
    wide = z.astype(np.int64)
    return wide @ wide.T


def _as_integers(k: NDArray[np.float64]) -> tuple[NDArray[np.int64], int] | None:
    """k as z / 2^p with integers z and the common scale 4^p, exactly; None where their Gram matrix leaves int64."""
    for power in range(31):
        z = np.ldexp(k, power)
        if np.abs(z).max() >= 2.0**30 or 4 * (k.shape[1] * int(np.abs(z).max() + 1) ** 2 + 4**power) >= 2**63:
            return None
        if (z == np.rint(z)).all():
            return z.astype(np.int64), 4**power
    return None


def _float_condition(k: NDArray[np.float64], rule: str) -> GramCondition:
    """The condition in float64 with a bound on all rounding errors.

    However an inner product of length d is summed, it is off by at most gamma_d |k_a| |k_b|, gamma_d = d u / (1 - d u)
    (Higham, Accuracy and Stability, 3.1). The deviation and its two differences add at most u times their size, which
    8 further units of gamma, four times over, cover; 1% covers the rounding of this bound itself.
    """
    n, d = k.shape
    gram = k @ k.T
    if not np.isfinite(gram).all():
        raise ValueError("keys so long that their inner products overflow")
    deviation = np.zeros((n + 1, n + 1))
    deviation[:n, :n] = gram - np.eye(n)
    gamma = (d + 8) * UNIT / (1 - (d + 8) * UNIT)
    error = Fraction(4 * gamma * max(1.0, float(gram.diagonal().max())) * 1.01 + 1e-300)
    spread, i, j = _largest_spread(deviation)
    margin = Fraction(1, 2) - Fraction(spread)
    holds = True if margin > error else False if margin < -error else None
    return GramCondition(holds, rule, n, margin, error, _tightest(gram, 1, deviation, (i, j), rule))
