"""Keys for Theorem 1's own condition instead of Assumption 1's: descend on the largest second difference of G - I.

The Gram condition (`theorem.lemma`) bounds R_il - R_jl - R_im + R_jm over all i, j, l, m by 1/2. Its log-sum-exp over
all n^4 of them factors: with E = exp(b R) and F = exp(-b R), elementwise, and A = E F^T,

    sum over i != j, l, m of exp(b (R_il - R_jl - R_im + R_jm)) = sum over i != j of A_ij A_ji,

one matrix product of size n, and two more for the gradient. (1/b) times its logarithm is an upper bound on the largest
second difference that is tight as b grows. Norms are free: the best keys are a little shorter than 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHARPNESS = (50.0, 100.0, 200.0, 400.0, 1000.0)
Keys = NDArray[np.float64]


def smooth_spread(keys: Keys, sharpness: float) -> tuple[float, Keys]:
    """The smooth upper bound on the largest second difference of keys [n, d], and its gradient [n, d].

    Infinite with a zero gradient where the exponentials leave float64: sharpness times the spread above about 350.
    """
    n = len(keys)
    deviation = np.zeros((n + 1, n + 1))  # one row of zeros: a swap with it is a slot
    deviation[:n, :n] = keys @ keys.T - np.eye(n)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        up = np.exp(sharpness * deviation)
        down = 1 / up
        sums = up @ down.T
        np.fill_diagonal(sums, 0)
        total = float((sums * sums.T).sum())
    if not np.isfinite(total):
        return np.inf, np.zeros_like(keys)
    weights = 2 * sums.T / total
    slope = ((weights @ down) * up - (weights.T @ up) * down)[:n, :n]
    return float(np.log(total)) / sharpness, (slope + slope.T) @ keys


def lower_spread(keys: Keys, iterations: int = 150, sharpness: Sequence[float] = SHARPNESS) -> Keys:
    """Keys [n, d] of lower spread, by `iterations` steps of L-BFGS at each sharpness in turn.

    Nothing is promised of the result; `theorem.lemma.gram_condition` decides it. Raises ValueError on keys that are not
    a finite matrix of at least two rows.
    """
    from scipy.optimize import minimize

    found = np.array(keys, dtype=np.float64)
    if found.ndim != 2 or len(found) < 2 or found.shape[1] < 1 or not np.isfinite(found).all():
        raise ValueError(f"keys of shape {found.shape}: expected finite [n, d], n at least 2, d at least 1")

    def objective(flat: Keys, b: float) -> tuple[float, Keys]:
        value, gradient = smooth_spread(flat.reshape(found.shape), b)
        return min(value, 1e3), gradient.ravel()

    for b in sharpness:
        result = minimize(
            objective,
            found.ravel(),
            args=(b,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxcor": 8},
        )
        found = result.x.reshape(found.shape)
    return found


def without_least_direction(keys: Keys) -> Keys:
    """Keys [n, d - 1]: projected along the direction in which the keys [n, d] are shortest, brought to one norm.

    A start for `lower_spread` one dimension below. Raises ValueError for d below 2.
    """
    if keys.shape[1] < 2:
        raise ValueError("keys in one dimension have no direction to spare")
    _, directions = np.linalg.eigh(keys.T @ keys)
    projected = keys @ directions[:, 1:]
    norms = np.linalg.norm(projected, axis=1, keepdims=True)
    return np.asarray(projected / norms * np.sqrt((norms**2).mean()))


def integer_keys(keys: Keys, peak: int) -> tuple[NDArray[np.int16], int]:
    """Keys [n, d] as int16 z with largest entry `peak`, and the integer scale with z_i . z_j / scale near k_i . k_j.

    Raises ValueError for a peak outside 1..32767 or keys that are zero or not finite.
    """
    largest = float(np.abs(keys).max())
    if not 1 <= peak <= 32767 or not 0 < largest < np.inf:
        raise ValueError(f"peak {peak} for keys up to {largest}: expected 1 to 32767, keys finite and not zero")
    z = np.rint(keys * (peak / largest)).astype(np.int16)
    return z, max(1, round((peak / largest) ** 2))
