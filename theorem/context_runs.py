"""Memories run over long contexts, many independent runs at once (P §2.2.2, App. F)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theorem.context import optimum

Array = NDArray[np.float64]


def delta_memory(
    keys: Array, values: Array, rates: Array | float, checkpoints: Sequence[int], *, normalised: bool = False
) -> Array:
    """DeltaNet's states after `checkpoints` steps, from S = 0: [len(checkpoints), runs, d_v, d].

    keys [runs, T, d], values [runs, T, d_v], `rates` a number or one a step [T]; `normalised` divides it by ‖k‖².
    """
    runs, length, d = keys.shape
    steps = np.broadcast_to(np.asarray(rates, dtype=float), (length,))
    state = np.zeros((runs, values.shape[2], d))
    kept = []
    for t in range(length):
        k, v = keys[:, t], values[:, t]
        rate = steps[t] / np.einsum("rd,rd->r", k, k) if normalised else np.full(runs, steps[t])
        error = v - np.einsum("rvd,rd->rv", state, k)
        state = state + (rate[:, None] * error)[:, :, None] * k[:, None, :]
        if t + 1 in checkpoints:
            kept.append(state)
    return np.stack(kept)


def distances(
    w_k: Array, w_v: Array, root: Array, beta: float, step: str, checkpoints: Sequence[int], runs: int, seed: int
) -> Array:
    """‖S - S*‖/‖S*‖ of DeltaNet on tokens x = root z, z ~ N(0, I), after each of `checkpoints` steps: [len, runs].

    `step` is "raw" (β), "normalised" (β/‖k‖²) or "key" (the key alone divided by its norm, step β): see
    `theorem.context`. Raises ValueError for another name.
    """
    if step not in ("raw", "normalised", "key"):
        raise ValueError(f"expected raw, normalised or key, got {step}")
    target = optimum(w_k, w_v, root @ root.T)
    tokens = np.random.default_rng(seed).standard_normal((runs, max(checkpoints), root.shape[1])) @ root.T
    keys, values = tokens @ w_k.T, tokens @ w_v.T
    if step == "key":
        keys = keys / np.linalg.norm(keys, axis=2, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run ends at infinity, and is reported so
        states = delta_memory(keys, values, beta, checkpoints, normalised=step == "normalised")
        found = np.sqrt(squared_distance(states, target)) / np.linalg.norm(target)
    return np.where(np.isnan(found), np.inf, found)


def least_squares(w_k: Array, w_v: Array, root: Array, length: int, seed: int) -> Array:
    """The least-squares memory of `length` pairs, by the singular value decomposition of the keys: [d_v, d]."""
    tokens = np.random.default_rng(seed).standard_normal((length, root.shape[1])) @ root.T
    return np.asarray(np.linalg.lstsq(tokens @ w_k.T, tokens @ w_v.T, rcond=None)[0].T)


def squared_distance(states: Array, target: Array) -> Array:
    """‖S - target‖² for each state [..., d_v, d]."""
    return np.asarray(((states - target) ** 2).sum(axis=(-2, -1)))


def contraction(d: int, beta: float, steps: int, runs: int, seed: int, *, normalised: bool) -> Array:
    """‖E_T‖²/‖E_0‖² of a single row of E, for keys N(0, I_d) and no residual: [runs]."""
    rng = np.random.default_rng(seed)
    error = np.zeros((runs, d))
    error[:, 0] = 1.0
    for _ in range(steps):
        k = rng.standard_normal((runs, d))
        rate = beta / np.einsum("rd,rd->r", k, k) if normalised else beta
        error = error - (rate * np.einsum("rd,rd->r", error, k))[:, None] * k
    return np.asarray(np.einsum("rd,rd->r", error, error))


def log_growth(d: int, beta: float, steps: int, runs: int, seed: int) -> Array:
    """ln‖E_T‖ / T of a row of E for raw keys N(0, I_d), renormalised at each step: [runs]."""
    rng = np.random.default_rng(seed)
    error = np.zeros((runs, d))
    error[:, 0] = 1.0
    total = np.zeros(runs)
    for _ in range(steps):
        k = rng.standard_normal((runs, d))
        error = error - (beta * np.einsum("rd,rd->r", error, k))[:, None] * k
        norm = np.sqrt(np.einsum("rd,rd->r", error, error))
        total += np.log(norm)
        error /= norm[:, None]
    return total / steps


def softmax_steps(d: int, lengths: Sequence[int], runs: int, seed: int) -> Array:
    """‖o_t - o_{t-1}‖ of softmax attention (τ = √d) at one probe of norm √d, for the t in `lengths`: [runs, len]."""
    rng = np.random.default_rng(seed)
    last = max(lengths)
    keys, values = rng.standard_normal((2, runs, last, d))
    weights = np.exp(keys[:, :, 0])  # q = √d e_1, so q·k/τ = k_1
    mass = np.cumsum(weights, axis=1)[:, :, None]
    outputs = np.cumsum(weights[:, :, None] * values, axis=1) / mass
    return np.stack([np.linalg.norm(outputs[:, t - 1] - outputs[:, t - 2], axis=1) for t in lengths], axis=1)


def normaliser_deviation(d: int, length: int, runs: int, seed: int) -> Array:
    """(Σ_j e^{q·k_j/τ} / (t √e) - 1)² · t for τ = √d, ‖q‖² = d: its mean is e - 1 at every t: [runs]."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((runs, d))
    q *= np.sqrt(d) / np.linalg.norm(q, axis=1, keepdims=True)
    total = np.zeros(runs)
    for _ in range(length):
        total += np.exp(np.einsum("rd,rd->r", q, rng.standard_normal((runs, d))) / np.sqrt(d))
    return np.asarray((total / (length * np.sqrt(np.e)) - 1) ** 2 * length)


def linear_norms(d: int, lengths: Sequence[int], runs: int, seed: int, *, related: bool) -> Array:
    """‖S_t‖² / d² of linear attention for keys N(0, I_d): values equal to the keys if `related`, else independent."""
    rng = np.random.default_rng(seed)
    state = np.zeros((runs, d, d))
    norms = []
    for t in range(1, max(lengths) + 1):
        k = rng.standard_normal((runs, d))
        v = k if related else rng.standard_normal((runs, d))
        state += v[:, :, None] * k[:, None, :]
        if t in lengths:
            norms.append((state**2).sum(axis=(1, 2)) / d**2)
    return np.stack(norms, axis=1)


def linear_norm_expected(d: int, t: int, *, related: bool) -> float:
    """E‖S_t‖² / d² exactly: t + t(t-1)/d + 2t/d for v = k, t for independent values."""
    return t + (t * (t - 1) + 2 * t) / d if related else float(t)


def progress(memory: str, d: int, before: int, after: int, runs: int, seed: int, decay: float = 1.0) -> Array:
    """How far the answer at a probe q has moved from the old task to the new one: [runs, after], 0 old, 1 new.

    Keys N(0, I_d), values -k for `before` steps and then +k, ‖q‖² = d; the answer's component along q is followed.
    `memory` is "softmax" (τ = √d, older pairs weighted by powers of `decay`; its limits are ∓q/τ, so d drops out) or
    "deltanet" (step 1/‖k‖², limits ∓q).
    """
    from scipy.signal import lfilter

    rng = np.random.default_rng(seed)
    sign = np.where(np.arange(before + after) < before, -1.0, 1.0)
    if memory == "softmax":
        along = rng.standard_normal((runs, before + after))  # q·k/τ
        weights = np.exp(along)
        top, mass = (lfilter([1.0], [1.0, -decay], x, axis=1)[:, before:] for x in (weights * along * sign, weights))
        answers = top / mass
    elif memory == "deltanet":
        keys = rng.standard_normal((runs, before + after, d))
        points = range(before + 1, before + after + 1)
        states = delta_memory(keys, keys[:, :, :1] * sign[:, None], 1.0, points, normalised=True)
        answers = states[:, :, 0, 0].T
    else:
        raise ValueError(f"expected softmax or deltanet, got {memory}")
    return np.asarray((answers + 1) / 2)


def half_time(mean_progress: Array) -> float:
    """The step at which mean progress crosses ½, interpolated; inf if it does not."""
    above = np.flatnonzero(mean_progress >= 0.5)
    if not len(above):
        return float("inf")
    i = int(above[0])
    if i == 0:
        return 1.0
    low, high = mean_progress[i - 1], mean_progress[i]
    return float(i + (0.5 - low) / (high - low))


def half_times(
    memory: str, d: int, before: int, after: int, groups: int, runs: int, seed: int, decay: float = 1.0
) -> Array:
    """The half time of each of `groups` groups of `runs` runs: [groups]."""
    moved = progress(memory, d, before, after, groups * runs, seed, decay)
    return np.array([half_time(g.mean(axis=0)) for g in moved.reshape(groups, runs, after)])
