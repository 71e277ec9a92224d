"""How rounding in the similarities grows through the recurrence (D App. F).

U = (I + A)⁻¹ V with A = diag(β) A₁, O = A₂ U. A change δA gives exactly δU = -(I + A + δA)⁻¹ δA U, so the norm of the
inverse is what a relative error in κ₁ can grow by; a change of A₂ is never multiplied by an inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDING = 2.0**-9  # half a unit in the last place of bfloat16, relative


def _masked(scores: Array, strict: bool) -> Array:
    return np.tril(scores, -1 if strict else 0)


def _softmax(scores: Array, strict: bool) -> Array:
    lower = np.tril(np.ones_like(scores, dtype=bool), -1 if strict else 0)
    kept = np.where(lower, scores, -np.inf)
    top = np.max(kept, axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(kept - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)  # an empty row is zero


# on keys of norm √d, with κ(k, k) = 1 where it is not normalised over its row, so that β = 1 is a full correction
SIMILARITIES: dict[str, Callable[[Array, int, bool], Array]] = {
    "softmax": lambda x, d, strict: _softmax(x / np.sqrt(d), strict),
    "linear": lambda x, d, strict: _masked(x / d, strict),
    "relu": lambda x, d, strict: _masked(np.maximum(x, 0) / d, strict),
    "round": lambda x, d, strict: _masked(np.round(x / d), strict),
    "exp": lambda x, d, strict: _masked(np.exp((x - d) / np.sqrt(d)), strict),
    "solu": lambda x, d, strict: _masked(x / d * np.exp((x - d) / np.sqrt(d)), strict),
}


def keys(count: int, width: int, coherence: float, rng: np.random.Generator) -> Array:
    """Keys of norm √d whose inner products are about `coherence` times d: a shared direction plus Gaussian parts."""
    if not 0 <= coherence < 1:
        raise ValueError(f"expected a coherence in [0, 1), got {coherence}")
    shared = rng.standard_normal(width)
    shared /= np.linalg.norm(shared)
    own = rng.standard_normal((count, width))
    own -= np.outer(own @ shared, shared)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    return np.sqrt(width) * (np.sqrt(coherence) * shared + np.sqrt(1 - coherence) * own)


def lower_inverse(lower: Array) -> Array:
    """(I + A)⁻¹ for strictly lower triangular A."""
    from scipy.linalg import solve_triangular

    size = len(lower)
    return solve_triangular(np.eye(size) + lower, np.eye(size), lower=True, unit_diagonal=True)


def condition(lower: Array) -> float:
    """‖I + A‖ ‖(I + A)⁻¹‖ in the spectral norm."""
    return float(np.linalg.cond(np.eye(len(lower)) + lower))


@dataclass(frozen=True)
class Growth:
    """Relative errors (Frobenius) of u and o when κ₁ alone, then κ₂ alone, is rounded, over the rounding's size."""

    u_from_write: float
    o_from_write: float
    o_from_read: float
    share_of_bound: float  # u_from_write over ‖(I + A)⁻¹‖ (spectral) times ‖A‖ (Frobenius); 0 for A = 0


def growth(name: str, width: int, k: Array, v: Array, rng: np.random.Generator, read: str = "softmax") -> Growth:
    """Round every similarity by an independent relative error uniform in ±ROUNDING and see what becomes of u and o."""
    from scipy.linalg import solve_triangular

    scores = k @ k.T
    a1, a2 = SIMILARITIES[name](scores, width, True), SIMILARITIES[read](scores, width, False)
    inverse = lower_inverse(a1)
    u = inverse @ v
    o = a2 @ u
    bound = float(np.linalg.norm(inverse, 2) * np.linalg.norm(a1))

    def rounded(matrix: Array) -> Array:
        return matrix * (1 + ROUNDING * rng.uniform(-1, 1, matrix.shape))

    u_changed = solve_triangular(np.eye(len(a1)) + rounded(a1), v, lower=True, unit_diagonal=True)
    grown = _relative(u_changed, u) / ROUNDING
    return Growth(
        grown,
        _relative(a2 @ u_changed, o) / ROUNDING,
        _relative(rounded(a2) @ u, o) / ROUNDING,
        grown / bound if bound else 0.0,
    )


def _relative(changed: Array, true: Array) -> float:
    return float(np.linalg.norm(changed - true) / np.linalg.norm(true))
