"""A set of keys and its coherence: the n × d array, exact where its entries are integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 2048


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
    largest = [0.0]

    def look(tile: NDArray[Any], _rows: slice, _columns: slice) -> None:
        largest[0] = max(largest[0], float(tile.max()), -float(tile.min()))

    _each_tile(rows, look)
    return largest[0]


def exact_coherence_squared(vectors: NDArray[Any]) -> Fraction:
    """max (z_i·z_j)² / (|z_i|² |z_j|²) over i ≠ j, exactly, for an integer array with nonzero rows.

    Inner products come from BLAS in a float format that holds every partial sum exactly; ratios are compared in
    float64 first, and those within its rounding of the largest again as fractions.
    """
    peak = int(np.abs(vectors.astype(np.int64)).max())
    bound = vectors.shape[1] * peak * peak
    if bound >= 2**53:
        raise ValueError(f"integer keys with entries up to {peak} are too large for exact inner products")
    rows = vectors.astype(np.float32 if bound < 2**24 else np.float64)
    norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.int64)
    if not norms.all():
        raise ValueError("a key is zero")
    best = [Fraction(0)]
    if norms.min() == norms.max():

        def look(tile: NDArray[Any], _rows: slice, _columns: slice) -> None:
            product = max(int(tile.max()), -int(tile.min()))
            best[0] = max(best[0], Fraction(product * product, int(norms[0]) ** 2))

    else:

        def look(tile: NDArray[Any], row: slice, column: slice) -> None:
            ratio = tile.astype(np.float64) ** 2 / norms[row, None] / norms[None, column]
            top = ratio.max()
            if top < float(best[0]) * (1 - 1e-12):
                return
            i, j = np.nonzero(ratio >= top * (1 - 1e-12))
            triples = np.stack([np.abs(tile[i, j]).astype(np.int64), norms[row][i], norms[column][j]], axis=1)
            for product, first, second in np.unique(triples, axis=0).tolist():
                best[0] = max(best[0], Fraction(product * product, first * second))

    _each_tile(rows, look)
    return best[0]


def _each_tile(rows: NDArray[Any], look: Callable[[NDArray[Any], slice, slice], None]) -> None:
    """Show `look` each tile of the Gram matrix on and above the diagonal, the diagonal itself set to zero."""
    n = len(rows)
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            row, column = slice(i, min(i + TILE, n)), slice(j, min(j + TILE, n))
            tile = rows[row] @ rows[column].T
            if i == j:
                np.fill_diagonal(tile, 0)
            look(tile, row, column)


def quantise(vectors: NDArray[Any], peak: int = 127) -> tuple[NDArray[np.int8], int]:
    """Unit rows (n, d) rounded to int8 with one common step, and the integer scale s with z_i·z_j / s ≈ k_i·k_j.

    The step makes the largest entry `peak` (at most 127); s is the mean of |z_i|², rounded. Raises ValueError where a
    row rounds to zero.
    """
    if not 1 <= peak <= 127:
        raise ValueError(f"peak must lie in 1..127, got {peak}")
    largest = float(np.abs(vectors).max())
    if not (largest > 0 and math.isfinite(largest)):
        raise ValueError("keys must be finite and not all zero")
    z = np.rint(vectors * (peak / largest)).astype(np.int8)
    norms = np.einsum("ij,ij->i", z, z, dtype=np.int64)
    if not norms.all():
        raise ValueError("a key rounds to zero")
    return z, round(float(norms.mean()))


@dataclass(frozen=True)
class Offer:
    """What a construction promises for n keys in R^d before anything is built: its name, coherence and exactness."""

    construction: str
    coherence: float
    exact: bool
    make: Callable[[], KeySet]
