"""Lifting: a set whose largest products lie between classes trades them for dimensions.

A key v of class c becomes (√(1−s) v, √s u_c), u_c unit vectors of R^k: products across classes become at most
(1−s) μ + s |u_c·u_c'|, those inside a class (1−s) ν + s; one class may stay unlifted, with products √(1−s) μ to the
rest. With orthonormal u_c this makes "exactly 1/8" strict; u_c of coherence just below μ cost fewer dimensions.
Everything stays in integers: both parts are rounded to a common step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from theorem.bounds import welch
from theorem.packings.constructions.gold import gold
from theorem.packings.constructions.kerdock import delsarte_goethals, kerdock
from theorem.packings.descent import descend
from theorem.packings.keyset import KeySet, Offer, fitted
from theorem.packings.random import random_keys

FINE = 2**14  # integer entries of the base where int8 cannot hold both parts well enough
ROUNDING = 2e-3  # relative error of an int8 lift that still counts as well
MOST_LINES = 256  # classes beyond which no descent for their u_c is tried


@dataclass(frozen=True)
class Base:
    """A ±1 set of R^d in classes of `size` keys: coherence `across` classes and `inside` them."""

    name: str
    d: int
    size: int
    across: float
    inside: float
    most: int
    orbit: bool  # is each class a basis and an orbit of a group of sign changes?
    make: Callable[[int], KeySet]


def bases(d: int) -> Iterator[Base]:
    """The sets with classes in fewer than d dimensions; their ±1 rows only, which all have norm √d."""
    for size in (4, 16, 64, 256, 1024):
        if size < d:
            yield Base("Kerdock", size, size, size**-0.5, 0.0, size * size // 2, True, partial(kerdock, d=size))
    for size in (8, 32, 128, 512):
        if size < d:
            across = math.sqrt(2 / size)
            yield Base("Gold and Reed–Muller", size, size, across, 0.0, size * size, True, partial(gold, d=size))
    if d > 256:
        yield Base("Delsarte–Goethals", 256, 32768, 1 / 8, 1 / 16, 2**22, False, delsarte_goethals)


@lru_cache
def lines(count: int, k: int) -> tuple[NDArray[np.float64], float]:
    """Unit vectors u_c (count, k) and their coherence: orthonormal where they fit, else from a second of descent."""
    if count <= k:
        return np.eye(count, k), 0.0
    keys = KeySet(descend(random_keys(count, k).vectors, 1.0), "lines")
    return keys.vectors, keys.coherence


def weights(base: Base, coherence: float, unlifted: bool) -> tuple[float, float]:
    """The s in [0, 1) of least coherence, and that coherence."""

    def worst(s: float) -> float:
        lifted = max(base.inside * (1 - s) + s, (1 - s) * base.across + s * coherence)
        return max(lifted, math.sqrt(1 - s) * base.across) if unlifted else lifted

    low, high = 0.0, 1.0  # `worst` falls while the products across lead, then rises
    for _ in range(60):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if worst(first) <= worst(second) else (first, high)
    return low, worst(low)


def lift(base: Base, n: int, d: int, unlifted: bool) -> KeySet:
    """n integer keys in R^d; with `unlifted`, the last class keeps zeros in the further coordinates."""
    keys = base.make(n)
    classes = np.arange(n) // base.size
    count = int(classes[-1]) + 1
    directions, coherence = lines(count - unlifted, d - base.d)
    s, _ = weights(base, coherence, unlifted)
    ratio = math.sqrt(base.d * s / (1 - s))
    step = _step(ratio) if count - unlifted <= d - base.d else FINE
    radius = step * ratio
    tail = np.zeros((count, d - base.d))
    tail[: count - unlifted] = radius * directions
    rows = np.concatenate([step * keys.vectors.astype(np.int32), np.rint(tail).astype(np.int32)[classes]], axis=1)
    if unlifted:
        last = classes == count - 1
        rows[last, : base.d] = round(math.hypot(step, radius / math.sqrt(base.d))) * keys.vectors[last].astype(np.int32)
    scale = round(step**2 * base.d + radius**2)
    if np.abs(rows).max() <= 127:
        rows = rows.astype(np.int8)
    return KeySet(rows, _name(base, count, unlifted), scale, classes)


def _step(ratio: float) -> int:
    """The least a for which a and the integer nearest to a·ratio fit int8 and are nearly in that ratio, or FINE."""
    for a in range(1, 128):
        if round(a * ratio) <= 127 and abs(round(a * ratio) - a * ratio) <= ROUNDING * a * ratio:
            return a
    return FINE


def _name(base: Base, count: int, unlifted: bool) -> str:
    return f"{base.name} d = {base.d}, {count} classes lifted" + (" but one" if unlifted else "")


def offers(n: int, d: int) -> Iterator[Offer]:
    for base in bases(d):
        count, k = -(-n // base.size), d - base.d
        if n > base.most or count < 2:
            continue
        for unlifted in (False, True):
            need = count - unlifted
            if need > k and (need > MOST_LINES or not 2 <= k <= base.d or welch(need, k) >= base.across):
                continue  # orthonormal u_c do not fit, and by Welch's bound no others would help
            _, reached = weights(base, lines(need, k)[1], unlifted)
            if reached < base.across - 1e-6:
                yield Offer(_name(base, count, unlifted), reached, True, fitted(lift, n, d, base, n, d, unlifted))  # type: ignore[misc]
