"""Replay of state exchange (P App. E, Theorem 1): DeltaFormer's own recurrence, run on swap tokens and read out.

Initial write of slot i: key k_i, value v_i. Swap of slots t₂ < t₁: key k_{t₁} − k_{t₂}, value 0. With κ₁ = κ₂ = f(x·y),
w = k and α = β = 1 (P eq. 41–42),

    u_t = v_t − Σ_{s<t} f(k_s·k_t) u_s,      o_t(k_l) = Σ_{s≤t} f(k_s·k_l) u_s.

Every token is a difference of two rows of the keys (an initial write: of a key and nothing), so a product of two is a
sum of four entries of the slots' Gram matrix, and the keys themselves are never multiplied again, unless there are too
many for n² numbers (`FactoredGram`). Tokens are taken in blocks: everything before the block by matrix products, the
block itself by one triangular solve.

With an integer Gram matrix (k_i·k_j = gram_ij/scale) and f = round every number below is an integer held in float64 and
every operation is exact: sums stay under 2^53 (checked), and rint(x/scale) is the correctly rounded x/scale because a
quotient of integers that is not a half integer is at least 1/(2·scale) away from one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from theorem.activations import Activation
from theorem.swaps import Swaps, elements_exchanged

Array = NDArray[np.float64]

_EXACT = 2.0**53
_TILE = 1024  # cached tokens a tile: tile × block floats stay in the second-level cache
_HOPELESS = 1e60  # a readout this large has left every value behind; going on would only overflow


@dataclass(frozen=True)
class Gram:
    """Inner products of the slots' keys, k_i·k_j = products[i, j]/scale; `integer` where both are integers, exactly."""

    products: Array
    scale: float = 1.0
    integer: bool = False

    def __len__(self) -> int:
        return len(self.products)

    @property
    def coherence(self) -> float:
        """The largest |k_i·k_j|, i ≠ j."""
        off = self.products - np.diag(np.diag(self.products))
        return float(np.abs(off).max() / self.scale)

    @cached_property
    def largest(self) -> float:
        """The largest |products|: one on the diagonal, by Cauchy and Schwarz."""
        return float(np.diag(self.products).max())

    @cached_property
    def _padded(self) -> Array:
        return np.pad(self.products, (0, 1))

    def differences(self, plus: NDArray[np.int64], minus: NDArray[np.int64]) -> Array:
        """The products of slots plus − minus [B] with every slot, [n + 1, B]; slot n is nothing, the zero key."""
        return self._padded[:, plus] - self._padded[:, minus]


@dataclass(frozen=True)
class FactoredGram:
    """The Gram matrix of integer keys z [n, d] of coherence `coherence`, its entries computed when they are asked for.

    For n so large that n² numbers do not fit into memory; the products of a block of tokens cost 2·n·d operations each.
    """

    keys: NDArray[np.integer]
    scale: float
    coherence: float
    integer: bool = True

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def largest(self) -> float:
        """The largest squared length, which no |product| exceeds."""
        return float(np.einsum("ij,ij->i", self.keys, self.keys, dtype=np.int64).max())

    @cached_property
    def _padded(self) -> NDArray[np.floating]:
        exact = (
            np.float32 if 4 * self.keys.shape[1] * int(np.abs(self.keys.astype(np.int64)).max()) ** 2 < 2**24 else float
        )
        return np.pad(self.keys.astype(exact), ((0, 1), (0, 0)))

    def differences(self, plus: NDArray[np.int64], minus: NDArray[np.int64]) -> Array:
        """As `Gram.differences`; exact, since every partial sum is an integer that the format holds."""
        return (self._padded @ (self._padded[plus] - self._padded[minus]).T).astype(np.float64)


def gram_of(keys: NDArray[np.generic], scale: int | None = None) -> Gram:
    """The Gram matrix of keys [n, d]: of unit rows, or of integer rows whose squared length is about `scale`.

    Raises ValueError for fewer than two keys, for values that are not finite, for a zero key, for keys all on one line,
    and for integers too large for exact products.
    """
    if keys.ndim != 2 or len(keys) < 2 or keys.shape[1] < 1:
        raise ValueError(f"expected at least two keys as an array [n, d], got shape {keys.shape}")
    rows = keys.astype(np.float64)
    _check_rows(rows)
    if scale is not None:
        if not np.issubdtype(keys.dtype, np.integer) or scale < 1:
            raise ValueError("a scale belongs to integer keys and is a positive integer")
        if keys.shape[1] * float(np.abs(rows).max()) ** 2 >= 2.0**48:
            raise ValueError(f"entries up to {int(np.abs(rows).max())} are too large for exact products")
    if scale is not None:
        return Gram(rows @ rows.T, float(scale), integer=True)
    rows = unit_rows(rows)
    return Gram(rows @ rows.T)


def _check_rows(rows: Array) -> None:
    if not np.isfinite(rows).all():
        raise ValueError(f"key {int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])} is not finite")
    zero = np.flatnonzero(~rows.any(axis=1))
    if zero.size:
        raise ValueError(f"key {int(zero[0])} is zero")
    unit = unit_rows(rows)
    if (np.abs(unit @ unit[0]) >= 1 - 1e-12).all():
        raise ValueError("all keys lie on one line (rank 1); slots need keys in different directions")


def unit_rows(rows: Array) -> Array:
    """Finite rows [n, d], none zero, at length 1, whatever their length: its square may leave the range of floats."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / largest
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def signed_gram(n: int, coherence: float, rng: np.random.Generator) -> Gram:
    """The Gram matrix of n unit keys in R^n whose products are all +coherence or −coherence, with random signs.

    Raises ValueError where no such keys exist (the matrix has a negative eigenvalue).
    """
    signs = np.triu(rng.choice([-1.0, 1.0], size=(n, n)), 1)
    products = np.eye(n) + coherence * (signs + signs.T)
    least = float(np.linalg.eigvalsh(products)[0])
    if least < -1e-12:
        raise ValueError(f"no {n} keys have products ±{coherence:g} with these signs (eigenvalue {least:.3g})")
    return Gram(products)


@dataclass(frozen=True)
class Checkpoint:
    """All n slots read out after `swap` swaps: how many hold a wrong element, and the largest error of a coordinate."""

    swap: int
    wrong_slots: int
    max_error: float


@dataclass(frozen=True)
class Replay:
    """What a replay found. `first_wrong` is the first swap after which a slot was wrong, 0 before any swap.

    `every_swap` says that the slots were compared after each swap and not only at the checkpoints; `exact` that all of
    these comparisons found equality, digit for digit. `tokens` is the largest number of tokens held at once.
    """

    f: str
    steps: int
    checkpoints: tuple[Checkpoint, ...]
    first_wrong: int | None
    exact: bool
    integer: bool
    tokens: int

    @property
    def wrong_slots(self) -> int:
        return self.checkpoints[-1].wrong_slots

    @property
    def max_error(self) -> float:
        return max(c.max_error for c in self.checkpoints)


def binary_codes(n: int) -> Array:
    """n different ±1 codes of the least width, ⌈log₂ n⌉: two that differ in one sign are the hardest to tell apart."""
    width = max(1, (n - 1).bit_length())
    bits = (np.arange(n)[:, None] >> np.arange(width)) & 1
    return 2 * bits.astype(np.float64) - 1


def wrong_slots(readout: Array, values: Array, holds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which slots' readouts [n, d_v] are not strictly nearest to the value of the element they should hold, [n]."""
    wrong = np.empty(len(holds), dtype=bool)
    half = (values**2).sum(axis=1) / 2
    for start in range(0, len(holds), _TILE):
        tile = slice(start, start + _TILE)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = half - readout[tile] @ values.T
        slots = np.arange(len(distance))
        own = distance[slots, holds[tile]].copy()
        distance[slots, holds[tile]] = np.inf
        wrong[tile] = ~(own < distance.min(axis=1))
    return wrong


def replay(
    gram: Gram | FactoredGram,
    swaps: Swaps,
    f: Activation,
    values: Array | None = None,
    *,
    rewrite: int | None = None,
    checkpoints: Sequence[int] | None = None,
    stop_when_wrong: bool = False,
    block: int = 256,
    progress: Callable[[int], None] = lambda swap: None,
) -> Replay:
    """Run the swaps [T, 2] through the recurrence and compare all slots with the permutation.

    `values` [n, d_v] are the elements (default `binary_codes`); `rewrite` reads all slots out and writes them anew
    into an empty cache every so many swaps (P App. E.3); `checkpoints` are counts of swaps after which the state is
    reported (0 and T always are; by default also about eight in between). A float f is stopped once it is hopeless.

    Raises ValueError for values that are not finite or not all different, and for a checkpoint outside 0 … T.
    """
    n, steps = len(gram), len(swaps)
    values = binary_codes(n) if values is None else np.asarray(values, dtype=np.float64)
    _check_values(values, n)
    marks = sorted({0, steps, *(np.linspace(0, steps, 9).astype(int).tolist() if checkpoints is None else checkpoints)})
    if marks[0] < 0 or marks[-1] > steps:
        raise ValueError(f"a checkpoint lies outside 0 to {steps}")
    truth = _Truth(values, elements_exchanged(n, swaps))
    exact = f.integer and bool((values == np.rint(values)).all())
    cache = _Cache(gram, f, values.shape[1], block, gram.integer and exact)
    cache.write(values)
    found = [truth.compare(0, cache.readout)]
    first_wrong = 0 if found[0].wrong_slots else None
    equal, done = found[0].max_error == 0, 0
    for end in _block_ends(steps, block, marks, rewrite):
        if (stop_when_wrong and first_wrong is not None) or not _bounded(cache.readout):
            break
        before = cache.readout.copy()
        pattern, u = cache.swap(swaps[done:end])
        right = equal and exact and truth.steps_are_exact(swaps[done:end], done, pattern, u)
        if not right and first_wrong is None:
            first_wrong, same = truth.first_wrong(swaps[done:end], done, before, pattern, u)
            equal = equal and same
        truth.advance(swaps[done:end])
        done = end
        if done in marks or (first_wrong is not None and stop_when_wrong):
            found.append(truth.compare(done, cache.readout))
            equal = equal and found[-1].max_error == 0
        if rewrite and done % rewrite == 0 and done < steps:
            cache.write(cache.readout)
        progress(done)
    if found[-1].swap != done:
        found.append(truth.compare(done, cache.readout))
    exact_everywhere = equal and first_wrong is None and done == steps
    return Replay(f.name, done, tuple(found), first_wrong, exact_everywhere, cache.integer, cache.most_tokens)


def _check_values(values: Array, n: int) -> None:
    if values.ndim != 2 or len(values) != n or values.shape[1] < 1:
        raise ValueError(f"expected values [n, d_v] for {n} slots, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("a value is not finite")
    if len(np.unique(values, axis=0)) < n:
        raise ValueError("two values are equal; elements must be told apart")


def _block_ends(steps: int, block: int, marks: Sequence[int], rewrite: int | None) -> Iterator[int]:
    """Where blocks of swaps end: at most `block` apart, at every checkpoint and at every rewriting."""
    stops = sorted({*marks, steps, *(range(rewrite, steps, rewrite) if rewrite else ())} - {0})
    done = 0
    for stop in stops:
        while done < stop:
            done = min(done + block, stop)
            yield done


def _bounded(readout: Array) -> bool:
    return bool(np.isfinite(readout).all()) and float(np.abs(readout).max()) < _HOPELESS


class _Cache:
    """Tokens (as differences of slots), their u, and every slot's readout, kept up to date block by block."""

    def __init__(self, gram: Gram | FactoredGram, f: Activation, width: int, block: int, integer: bool) -> None:
        n = len(gram)
        self.gram, self.n, self.f, self.scale, self.block = gram, n, f, gram.scale, block
        self.integer = integer  # every number so far is an integer that float64 holds exactly
        self.plus = np.empty(0, dtype=np.int64)
        self.minus = np.empty(0, dtype=np.int64)
        self.u = np.empty((0, width))
        self.size = 0.0  # Σ over tokens of max |u|: bounds every partial sum together with max |f|
        self.most_tokens = 0
        self.readout = np.zeros((n, width))

    def write(self, values: Array) -> None:
        """Empty the cache and write all slots anew."""
        values = values.copy()
        self.plus, self.minus, self.u = self.plus[:0], self.minus[:0], self.u[:0]
        self.size = 0.0
        self.readout = np.zeros_like(values)
        for start in range(0, self.n, self.block):
            slots = np.arange(start, min(start + self.block, self.n))
            self._append(slots, np.full(len(slots), self.n), values[slots])

    def swap(self, swaps: Swaps) -> tuple[Array, Array]:
        """Append swap tokens; what each writes into each slot, f(k_t·k_l) as [n, B], and their u [B, d_v]."""
        return self._append(swaps[:, 0], swaps[:, 1], np.zeros((len(swaps), self.u.shape[1])))

    def _append(self, plus: NDArray[np.int64], minus: NDArray[np.int64], values: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = self.gram.differences(plus, minus)  # [n + 1, B]
            right = values
            for start in range(0, len(self.plus), _TILE):
                tile = slice(start, start + _TILE)
                right = right - self._similarity(difference, self.plus[tile], self.minus[tile]).T @ self.u[tile]
            inside = np.tril(self._similarity(difference, plus, minus).T, -1)
            u = solve_triangular(inside, right, lower=True, unit_diagonal=True, check_finite=False)
            pattern = self._f(difference[: self.n].copy())
            self.readout += pattern @ u
        if self.integer:
            self._check_exact(inside, right, u)
        self.plus, self.minus = np.concatenate([self.plus, plus]), np.concatenate([self.minus, minus])
        self.u = np.concatenate([self.u, u])
        self.most_tokens = max(self.most_tokens, len(self.plus))
        return pattern, u

    def _similarity(self, difference: Array, plus: NDArray[np.int64], minus: NDArray[np.int64]) -> Array:
        """f of the products of the tokens (plus − minus) with the block's tokens, [tokens, B]."""
        rows = difference[plus]
        rows -= difference[minus]
        return self._f(rows)

    def _f(self, rows: Array) -> Array:
        if self.scale != 1:
            rows /= self.scale
        return self.f.apply(rows)

    def _check_exact(self, inside: Array, right: Array, u: Array) -> None:
        """Make sure that float64 rounded nothing: no partial sum reached 2^53, and u solves its system exactly."""
        largest = 4 * self.gram.largest / self.scale + 1
        self.size += float(np.abs(u).max(axis=1).sum())
        self.integer = self.size * largest < _EXACT
        if self.integer and not (u + inside @ u == right).all():
            raise ArithmeticError("the triangular solve rounded an integer")


class _Truth:
    """The permutation, and comparisons with it."""

    def __init__(self, values: Array, met: NDArray[np.int64]) -> None:
        self.values, self.met = values, met
        self.holds = np.arange(len(values))

    @cached_property
    def safe(self) -> float:
        """A readout nearer to its value than this cannot be mistaken."""
        return _least_distance(self.values) / 2

    def wrong(self, readout: Array, holds: NDArray[np.int64]) -> int:
        """How many slots hold a wrong element; only those whose readout is far from its value are looked at."""
        error = readout - self.values[holds]
        if not error.any():
            return 0
        far = ~((error**2).sum(axis=1) < self.safe**2)
        return int(wrong_slots(readout[far], self.values, holds[far]).sum())

    def advance(self, swaps: Swaps) -> None:
        for a, b in swaps.tolist():
            self.holds[a], self.holds[b] = self.holds[b], self.holds[a]

    def compare(self, swap: int, readout: Array) -> Checkpoint:
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.abs(readout - self.values[self.holds]).max()
            wrong = self.wrong(readout, self.holds)
        return Checkpoint(swap, wrong, float(error) if np.isfinite(error) else math.inf)

    def steps_are_exact(self, swaps: Swaps, done: int, pattern: Array, u: Array) -> bool:
        """Whether each swap wrote exactly the difference of two elements: +1, −1 into its slots and 0 into all others.

        Where all slots were right before, this is the same as all slots being right after each of these swaps.
        """
        met = self.met[done : done + len(swaps)]
        if not (u == self.values[met[:, 1]] - self.values[met[:, 0]]).all():
            return False
        columns = np.arange(len(swaps))
        return bool(
            (pattern[swaps[:, 0], columns] == 1).all()
            and (pattern[swaps[:, 1], columns] == -1).all()
            and np.count_nonzero(pattern) == 2 * len(swaps)
        )

    def first_wrong(self, swaps: Swaps, done: int, before: Array, pattern: Array, u: Array) -> tuple[int | None, bool]:
        """The first of these swaps after which a slot is wrong, if any, and whether all before were exactly equal."""
        holds, readout, equal = self.holds.copy(), before.copy(), True
        for t, (a, b) in enumerate(swaps.tolist()):
            holds[a], holds[b] = holds[b], holds[a]
            with np.errstate(over="ignore", invalid="ignore"):
                readout += pattern[:, t, None] * u[t]
                equal = equal and bool((readout == self.values[holds]).all())
                if self.wrong(readout, holds):
                    return done + t + 1, False
        return None, equal


def _least_distance(values: Array) -> float:
    """The least distance between two values."""
    squares, least = (values**2).sum(axis=1), math.inf
    for start in range(0, len(values), _TILE):
        rows = slice(start, start + _TILE)
        distance = squares[rows, None] + squares - 2 * values[rows] @ values.T
        own = np.arange(len(distance))
        distance[own, start + own] = np.inf
        least = min(least, float(distance.min()))
    return math.sqrt(max(least, 0.0))
