"""Swap sequences, and what they do to the slots: the ground truth of every replay.

Slots are numbered 0 … n−1 in the order of their initial writes. A sequence is an integer array [T, 2] whose row is
(later, earlier), later > earlier: P's t₁ and t₂, the order that keeps −2 out of Lemma 1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Swaps = NDArray[np.int64]


def ordered(pairs: NDArray[np.int64], n: int) -> Swaps:
    """`pairs` [T, 2] as swaps of n slots, the later slot first.

    Raises ValueError where a pair names a slot outside 0 … n−1 or one slot twice, with the number of its row (from 1).
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"swaps are pairs of integers, got an array of shape {pairs.shape} and type {pairs.dtype}")
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(axis=1))
    if outside.size:
        row = int(outside[0])
        raise ValueError(f"swap {row + 1} is {_words(pairs[row])}; slots are 0 to {n - 1}")
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if same.size:
        row = int(same[0])
        raise ValueError(f"swap {row + 1} is {_words(pairs[row])}; a swap needs two different slots")
    return np.sort(pairs.astype(np.int64), axis=1)[:, ::-1].copy()


def read_swaps(path: str | Path, n: int) -> Swaps:
    """The swaps of a CSV file: two slot numbers a line; blank lines, # comments and one line of headings are skipped.

    Raises ValueError with the line's number where a line is not a swap of two of the n slots, OSError where the file
    cannot be read.
    """
    pairs: list[tuple[int, int]] = []
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError("is not a text file; expected two slot numbers a line, like 3,0") from error
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        if not text or (not pairs and text.replace(",", "").replace("_", "").replace(" ", "").isalpha()):
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != 2 or not all(cell.isascii() and cell.isdigit() and len(cell) < 19 for cell in cells):
            raise ValueError(f"line {number} is {text[:40]!r}; expected two slot numbers from 0 to {n - 1}, like 3,0")
        a, b = map(int, cells)
        if max(a, b) >= n:
            raise ValueError(f"line {number} names slot {max(a, b)}; slots are 0 to {n - 1}")
        if a == b:
            raise ValueError(f"line {number} names slot {a} twice; a swap needs two different slots")
        pairs.append((a, b))
    if not pairs:
        raise ValueError("holds no swap; expected two slot numbers a line, like 3,0")
    return ordered(np.array(pairs, dtype=np.int64), n)


def random_swaps(n: int, steps: int, rng: np.random.Generator) -> Swaps:
    """`steps` independent swaps, each uniform over the n(n−1)/2 pairs."""
    draws = rng.random((steps, 2))  # row by row, so that a longer sequence begins like a shorter one
    first = (draws[:, 0] * n).astype(np.int64)
    second = (first + 1 + (draws[:, 1] * (n - 1)).astype(np.int64)) % n
    return ordered(np.stack([first, second], axis=1), n)


def repeat_one_pair(n: int, steps: int, rng: np.random.Generator) -> Swaps:
    """The same two slots again and again: the argument of f is always about 2."""
    return np.repeat(random_swaps(n, 1, rng), steps, axis=0)


def through_one_slot(n: int, steps: int, rng: np.random.Generator) -> Swaps:
    """Every swap shares one slot in the middle of the order, so that arguments of both signs pile up on it."""
    hub = n // 2
    others = np.delete(np.arange(n), hub)
    partners = np.concatenate([rng.permutation(others) for _ in range(-(-steps // (n - 1)))])[:steps]
    return ordered(np.stack([np.full(steps, hub), partners], axis=1), n)


def reversals(n: int, steps: int, rng: np.random.Generator) -> Swaps:
    """Full reversals of the n slots, each by ⌊n/2⌋ swaps of mirror images."""
    left = np.arange(n // 2)
    return ordered(np.resize(np.stack([left, n - 1 - left], axis=1), (steps, 2)), n)


def three_cycles(n: int, steps: int, rng: np.random.Generator) -> Swaps:
    """Random 3-cycles (a b c), each as the two swaps (a b), (b c); with n = 2 the one pair there is."""
    if n == 2:
        return repeat_one_pair(n, steps, rng)
    first = rng.integers(n, size=-(-steps // 2))
    second = (first + rng.integers(1, n, size=len(first))) % n
    third = rng.integers(n - 2, size=len(first))  # among the slots that are left, counted past the other two
    third += third >= np.minimum(first, second)
    third += third >= np.maximum(first, second)
    return ordered(np.stack([first, second, second, third], axis=1).reshape(-1, 2)[:steps], n)


SEQUENCES: dict[str, Callable[[int, int, np.random.Generator], Swaps]] = {
    "random": random_swaps,
    "one pair": repeat_one_pair,
    "through one slot": through_one_slot,
    "reversals": reversals,
    "3-cycles": three_cycles,
}


def elements_exchanged(n: int, swaps: Swaps, start: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """What the two slots of each swap held just before it: [T, 2], by moving the elements one swap at a time."""
    holds = list(range(n)) if start is None else start.tolist()
    met = np.empty((len(swaps), 2), dtype=np.int64)
    for t, (a, b) in enumerate(swaps.tolist()):
        met[t] = holds[a], holds[b]
        holds[a], holds[b] = holds[b], holds[a]
    return met


def held_after_each(n: int, swaps: Swaps, slot: int) -> NDArray[np.int64]:
    """The element in `slot` after each swap, [T]: what it held at first, then what the last swap of it brought."""
    met = elements_exchanged(n, swaps)
    brought = np.where(swaps[:, 0] == slot, met[:, 1], met[:, 0])
    touching = np.where((swaps == slot).any(axis=1), np.arange(1, len(swaps) + 1), 0)
    return np.concatenate([[slot], brought])[np.maximum.accumulate(touching)]


def permutation_after(n: int, swaps: Swaps, start: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The element in each slot after the swaps, [n]; `start` says what they held before (default: slot i holds i)."""
    holds = np.arange(n) if start is None else start.copy()
    for a, b in swaps.tolist():
        holds[a], holds[b] = holds[b], holds[a]
    return holds


def _words(pair: NDArray[np.int64]) -> str:
    return f"({int(pair[0])}, {int(pair[1])})"
