"""Keys by descent: a smooth maximum of |k_i·k_j| is lowered from a random or a structured start.

The objective is (1/β) log Σ_{i≠j} e^{β |k_i·k_j|}, whose gradient is two matrix products; β grows and the step shrinks
geometrically and linearly over the run, and every step ends with a return to the sphere. The Gram matrix is kept in
float32 (the answer's coherence is measured afterwards in float64).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 6e10  # floating-point operations a second that a schedule counts on; a slower machine takes fewer steps
MOST_STEPS = 20_000  # more changed the fourth digit only
OVERHEAD = 8e6  # what a step costs beside its arithmetic, in the same unit


def steps_in(seconds: float, n: int, d: int) -> int:
    """The number of descent steps a schedule of `seconds` has for n keys in R^d; the same on every machine."""
    return min(MOST_STEPS, int(seconds * RATE / (4 * n * n * d + 120 * n * n + OVERHEAD)))


def progress(planned: float, elapsed: float) -> float:
    """The part of a schedule that counts as done: the planned one, unless the clock is well ahead of it.

    The slack keeps a machine that is fast enough from letting its clock into the answer.
    """
    return planned if elapsed <= planned + 0.05 and elapsed < 1 else max(planned, elapsed)


def descend(
    start: NDArray[Any],
    seconds: float,
    *,
    step: float = 0.004,
    sharpness: tuple[float, float] = (20.0, 2500.0),
) -> NDArray[np.float64]:
    """The best unit rows (n, d) met on the way down from `start` (n, d), in float64.

    The schedule's length depends on `seconds` and the shape alone, so the answer is the same on every machine that
    finishes within `seconds`; a slower one takes fewer steps, over the same range of sharpness.
    """
    x = np.array(start, dtype=np.float32)
    n, d = x.shape
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    steps = steps_in(seconds, n, d)
    began = time.monotonic()
    best, lowest = x.copy(), np.float32(np.inf)
    velocity, typical = np.zeros_like(x), np.float32(0)
    gram, weight = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    for k in range(steps):
        np.matmul(x, x.T, out=gram)
        np.fill_diagonal(gram, 0)
        np.abs(gram, out=weight)
        top = weight.max()
        if top < lowest:
            lowest, best = top, x.copy()
        done = progress(k / steps, (time.monotonic() - began) / seconds)
        if done >= 1:
            break
        beta = sharpness[0] * (sharpness[1] / sharpness[0]) ** done
        weight -= top
        weight *= np.float32(beta)
        np.exp(weight, out=weight)
        np.fill_diagonal(weight, 0)
        total = weight.sum()
        np.copysign(weight, gram, out=weight)
        gradient = weight @ x
        gradient /= total
        gradient -= np.einsum("ij,ij->i", gradient, x)[:, None] * x
        velocity = np.float32(0.9) * velocity + np.float32(0.1) * gradient
        size = np.sqrt((velocity * velocity).sum() / n)
        typical = np.float32(0.99) * typical + np.float32(0.01) * size if k else size
        x -= velocity * np.float32(step * (1 - done) / (float(typical) + 1e-12))
        x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    rows = best.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
