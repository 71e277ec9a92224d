"""A set of keys, its coherence (exact where the entries are integers), and its rounding to int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 2048
MOST_MOVES = 3000  # of int8 entries by one, to win back a coherence that rounding lost


@dataclass(frozen=True, eq=False)
class KeySet:
    """n keys in R^d.

    `vectors` (n, d) holds int8, int16 or int32 entries z, and then `scale` is the integer s for which z_i·z_j / s is
    the inner product of keys i and j; or float64 entries of unit rows, and then `scale` is None. Integer rows need
    not have the same norm. `classes` (n,) labels rows so that rows of one class are orthogonal (None: no such labels
    are known).
    """

    vectors: NDArray[Any]
    construction: str
    scale: int | None = None
    classes: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or 0 in self.vectors.shape:
            raise ValueError(f"expected an n × d array of keys, got shape {self.vectors.shape}")
        integer = np.issubdtype(self.vectors.dtype, np.integer)
        if integer != (self.scale is not None):
            raise ValueError("integer keys need a scale, and float keys have none")

    @property
    def n(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def d(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def exact(self) -> bool:
        """Are the entries integers, so that inner products and coherence are exact?"""
        return self.scale is not None

    def unit(self) -> NDArray[np.float64]:
        """The keys as float64 rows of norm 1."""
        rows = self.vectors.astype(np.float64)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    @cached_property
    def coherence_squared(self) -> Fraction | None:
        """max (z_i·z_j)² / (|z_i|² |z_j|²) over i ≠ j as a fraction, or None where the entries are no integers."""
        return exact_coherence_squared(self.vectors) if self.exact else None

    @cached_property
    def coherence(self) -> float:
        """max |k_i·k_j| over i ≠ j for the normalised keys."""
        if self.coherence_squared is not None:
            return math.sqrt(self.coherence_squared)
        return float_coherence(self.vectors)

    def turned(self, seed: int = 0) -> KeySet:
        """Float keys in a random orthonormal frame, so that rounding treats all coordinates alike; integers as is."""
        if self.exact:
            return self
        frame, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((self.d, self.d)))
        return replace(self, vectors=self.vectors @ frame)

    def head(self, n: int) -> KeySet:
        """The first n keys."""
        if n == self.n:
            return self
        if not 1 <= n <= self.n:
            raise ValueError(f"asked for {n} keys of {self.n}")
        return replace(self, vectors=self.vectors[:n], classes=None if self.classes is None else self.classes[:n])

    def padded(self, d: int) -> KeySet:
        """The same keys in R^d, with zeros in the further coordinates."""
        if d == self.d:
            return self
        if d < self.d:
            raise ValueError(f"keys of R^{self.d} do not fit into R^{d}")
        return replace(self, vectors=np.pad(self.vectors, ((0, 0), (0, d - self.d))))


def float_coherence(vectors: NDArray[Any]) -> float:
    """max |x_i·x_j| / (|x_i| |x_j|) over i ≠ j in float64, by tiles of 2048 rows; 0.0 for a single row."""
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return max(max(float(tile.max()), -float(tile.min())) for _, _, tile in _tiles(rows, []))


def exact_coherence_squared(vectors: NDArray[Any]) -> Fraction:
    """max (z_i·z_j)² / (|z_i|² |z_j|²) over i ≠ j, exactly, for an integer array with nonzero rows.

    Inner products come from BLAS in a float format that holds every partial sum exactly; ratios are compared in
    float64 first, and those within its rounding of the largest again as fractions.
    """
    peak = int(np.abs(vectors.astype(np.int64)).max())
    bound = vectors.shape[1] * peak * peak
    if bound >= 2**53:
        raise ValueError(f"integer keys with entries up to {peak} are too large for exact inner products")
    norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.int64)
    if not norms.all():
        raise ValueError("a key is zero")
    order = np.argsort(norms, kind="stable")
    norms = norms[order]
    rows = vectors[order].astype(np.float32 if bound < 2**24 else np.float64)
    changes = (np.flatnonzero(np.diff(norms)) + 1).tolist()
    best = Fraction(0)
    for row, column, tile in _tiles(rows, changes if len(changes) < 16 else []):
        if norms[row.start] == norms[row.stop - 1] and norms[column.start] == norms[column.stop - 1]:
            product = max(int(tile.max()), -int(tile.min()))
            best = max(best, Fraction(product * product, int(norms[row.start]) * int(norms[column.start])))
            continue
        ratio = tile.astype(np.float64) ** 2 / norms[row, None] / norms[None, column]
        top = ratio.max()
        if top < float(best) * (1 - 1e-12):
            continue
        i, j = np.nonzero(ratio >= top * (1 - 1e-12))
        triples = np.stack([np.abs(tile[i, j]).astype(np.int64), norms[row][i], norms[column][j]], axis=1)
        for product, first, second in np.unique(triples, axis=0).tolist():
            best = max(best, Fraction(product * product, first * second))
    return best


def _tiles(rows: NDArray[Any], cuts: list[int]) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """The Gram matrix's tiles on and above the diagonal, none across a cut, the diagonal itself set to zero."""
    n = len(rows)
    edges = sorted({*range(0, n, TILE), *cuts, n})
    spans = [slice(i, j) for i, j in pairwise(edges)]
    for k, row in enumerate(spans):
        for column in spans[k:]:
            tile = rows[row] @ rows[column].T
            if row == column:
                np.fill_diagonal(tile, 0)
            yield row, column, tile


def quantise(vectors: NDArray[np.float64], peak: int = 127, below: float = 1 / 8) -> tuple[NDArray[np.int8], int]:
    """Unit rows (n, d) rounded to int8 with one common step, and the integer scale s with z_i·z_j / s ≈ k_i·k_j.

    The step makes the largest entry `peak` (at most 127); s is the mean of |z_i|², rounded. Where the rows' coherence
    is less than `below` and rounding raised it to that or more, entries are moved by one until it is below again or
    nothing helps. Raises ValueError where a row rounds to zero.
    """
    if not 1 <= peak <= 127:
        raise ValueError(f"peak must lie in 1..127, got {peak}")
    largest = float(np.abs(vectors).max())
    if not (largest > 0 and math.isfinite(largest)):
        raise ValueError("keys must be finite and not all zero")
    z = np.rint(vectors * (peak / largest)).astype(np.int8)
    if not (z != 0).any(axis=1).all():
        raise ValueError("a key rounds to zero")
    if float_coherence(z) >= below > float_coherence(vectors):
        z = _mended(z, peak, below)
    return z, round(float(np.einsum("ij,ij->i", z, z, dtype=np.int64).mean()))


def _mended(z: NDArray[np.int8], peak: int, below: float) -> NDArray[np.int8]:
    """The int8 rows after moves of single entries by ±1, each the best for a row of the worst pair."""
    x = z.astype(np.float64)
    norms = np.einsum("ij,ij->i", x, x)
    gram = x @ x.T
    np.fill_diagonal(gram, 0)
    goal = below * (1 - 1e-9)
    for move in range(MOST_MOVES):
        ratio = np.abs(gram) / np.sqrt(norms[:, None] * norms[None, :])
        pair = np.unravel_index(ratio.argmax(), ratio.shape)
        if ratio[pair] < goal:
            break
        i = pair[move % 2]
        # every move of row i: its products with the others and its own norm afterwards, [2d, n] and [2d]
        signs = np.repeat([1.0, -1.0], x.shape[1])
        after = np.abs(gram[i][None, :] + signs[:, None] * np.concatenate([x.T, x.T]))
        norm = norms[i] + 2 * signs * np.concatenate([x[i], x[i]]) + 1
        after /= np.sqrt(norm[:, None] * norms[None, :])
        after[:, i] = 0
        cost = np.exp(2000 * (after - goal)).sum(axis=1)
        cost[np.abs(np.concatenate([x[i] + 1, x[i] - 1])) > peak] = np.inf
        best = int(cost.argmin())
        x[i, best % x.shape[1]] += signs[best]
        norms[i] = norm[best]
        gram[i] = gram[:, i] = x @ x[i]
        gram[i, i] = 0
    return x.astype(np.int8)


@dataclass(frozen=True)
class Offer:
    """What a construction promises for n keys in R^d before anything is built: its name, coherence and exactness."""

    construction: str
    coherence: float
    exact: bool
    make: Callable[[], KeySet]


def fitted(construct: Callable[..., KeySet], n: int, d: int, *arguments: object) -> Callable[[], KeySet]:
    """What makes the first n keys of construct(*arguments) in R^d, when called."""
    return lambda: construct(*arguments).head(n).padded(d)
