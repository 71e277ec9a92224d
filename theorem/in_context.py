"""In-context learning of a linear task by different memories, before and after the task changes (P §2.2.2).

A context is a run of pairs (x_t, M x_t), x_t of norm √d; at `change` the task M is replaced. Before writing pair t each
memory answers the query x_t from the pairs before it; the loss is ‖answer - M x_t‖² / ‖M x_t‖², so that answering
nothing scores 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DECAY = 0.95


@dataclass(frozen=True)
class Contexts:
    """keys [runs, T, d], values [runs, T, d_v]; scores[r, t, i] = k_t·k_i, entries with i < t are the past."""

    keys: Array
    values: Array

    @property
    def scores(self) -> Array:
        return np.asarray(self.keys @ self.keys.transpose(0, 2, 1))


def draw(runs: int, length: int, change: int, d: int, d_v: int, seed: int) -> Contexts:
    """Contexts with tasks M ~ N(0, 1/d) entrywise. Raises ValueError unless 0 < change < length."""
    if not 0 < change < length:
        raise ValueError(f"expected a change inside the context of {length}, got {change}")
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((runs, length, d))
    keys *= np.sqrt(d) / np.linalg.norm(keys, axis=2, keepdims=True)
    first, second = rng.standard_normal((2, runs, d_v, d)) / np.sqrt(d)
    old, new = (
        np.einsum("rvd,rtd->rtv", m, keys[:, s]) for m, s in ((first, slice(0, change)), (second, slice(change, None)))
    )
    return Contexts(keys, np.concatenate([old, new], axis=1))


def _past(length: int) -> Array:
    return np.tril(np.ones((length, length)), -1)


def _averaged(weights: Array, values: Array) -> Array:
    total = weights.sum(axis=2, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1.0) @ values)


def linear(c: Contexts) -> Array:
    """(1/(t-1)) Σ v (k·q): linear attention, scaled so that it converges to M q for these keys."""
    past = _past(c.keys.shape[1])
    return np.asarray(c.scores * past / np.maximum(past.sum(axis=1), 1)[:, None] @ c.values)


def gated_linear(c: Contexts) -> Array:
    """The same with older pairs weighted by powers of DECAY."""
    steps = np.arange(c.keys.shape[1])
    weights = _past(len(steps)) * DECAY ** np.maximum(steps[:, None] - steps - 1, 0)
    return np.asarray(c.scores * weights / np.maximum(weights.sum(axis=1), 1)[:, None] @ c.values)


def softmax(c: Contexts, temperature: float | None = None) -> Array:
    """Softmax attention, τ = √d unless another temperature is given."""
    d = c.keys.shape[2]
    return _averaged(np.exp((c.scores - d) / (temperature or np.sqrt(d))) * _past(c.keys.shape[1]), c.values)


def sharp_softmax(c: Contexts) -> Array:
    """Softmax attention at τ = 1, nearly a nearest neighbour."""
    return softmax(c, 1.0)


def deltanet(c: Contexts, decay: float = 1.0) -> Array:
    """DeltaNet with the normalised step β = 1/‖k‖², the state decayed before each step."""
    runs, length, d = c.keys.shape
    state = np.zeros((runs, c.values.shape[2], d))
    answers = np.zeros_like(c.values)
    for t in range(length):
        k = c.keys[:, t]
        answers[:, t] = np.einsum("rvd,rd->rv", state, k)
        state = decay * state
        error = c.values[:, t] - np.einsum("rvd,rd->rv", state, k)
        state = state + error[:, :, None] * k[:, None, :] / d
    return answers


def gated_deltanet(c: Contexts) -> Array:
    """Gated DeltaNet with decay DECAY."""
    return deltanet(c, DECAY)


def deltaformer(c: Contexts) -> Array:
    """DeltaFormer, κ₁ = κ₂ = softmax (τ = √d), w = k, α = β = 1, read before the write."""
    d, length = c.keys.shape[2], c.keys.shape[1]
    weights = np.exp((c.scores - d) / np.sqrt(d)) * _past(length)
    total = weights.sum(axis=2, keepdims=True)
    return _written_and_read(weights / np.where(total > 0, total, 1.0), c.values)


def deltaformer_kernel(c: Contexts) -> Array:
    """The kernel delta rule: κ₁ = κ₂ = e^{(x·y - d)/√d}, which is 1 at x = y, w = k, α = β = 1."""
    d = c.keys.shape[2]
    return _written_and_read(np.exp((c.scores - d) / np.sqrt(d)) * _past(c.keys.shape[1]), c.values)


def _written_and_read(lower: Array, values: Array) -> Array:
    # I + A is unit lower triangular; one batched solve for all contexts
    u = np.linalg.solve(np.eye(lower.shape[1]) + lower, values)
    return np.asarray(lower @ u)


def least_squares(c: Contexts, ridge: float = 1e-3) -> Array:
    """Recursive least squares over all pairs so far (MesaNet): the best any linear memory without forgetting can do."""
    runs, length, d = c.keys.shape
    inverse = np.broadcast_to(np.eye(d) / ridge, (runs, d, d)).copy()
    state = np.zeros((runs, c.values.shape[2], d))
    answers = np.zeros_like(c.values)
    for t in range(length):
        k = c.keys[:, t]
        answers[:, t] = np.einsum("rvd,rd->rv", state, k)
        pk = np.einsum("rde,re->rd", inverse, k)
        gain = pk / (1 + np.einsum("rd,rd->r", k, pk))[:, None]
        state = state + (c.values[:, t] - answers[:, t])[:, :, None] * gain[:, None, :]
        inverse = inverse - gain[:, :, None] * pk[:, None, :]
    return answers


MEMORIES: dict[str, Callable[[Contexts], Array]] = {
    "linear": linear,
    "gated linear": gated_linear,
    "softmax": softmax,
    "softmax, τ = 1": sharp_softmax,
    "DeltaNet": deltanet,
    "gated DeltaNet": gated_deltanet,
    "DeltaFormer, softmax": deltaformer,
    "DeltaFormer, exp": deltaformer_kernel,
    "least squares": least_squares,
}


def losses(memory: str, contexts: Contexts) -> Array:
    """The loss at every position: [runs, T]."""
    answers = MEMORIES[memory](contexts)
    gap = ((answers - contexts.values) ** 2).sum(axis=2)
    return np.asarray(gap / (contexts.values**2).sum(axis=2))
