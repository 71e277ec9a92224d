"""One point of a measurement: what is written, what is recalled, which statistic is meant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snr.keys import VALUES, Gaussian, KeyLaw, Sphere, Stored, value_power
from snr.memory import BLOCK
from snr.similarity import Similarity

STATISTICS = ("mean", "fixed-probe", "ratio-of-means", "median", "recall-error")
"""recall-error: E‖o/Z − v_i‖²/E‖v‖² of the softmax-normalised recall, Z = Σ_j g(k_j·k_i). Normalising leaves the other
four as they are, for it divides r and c by the same Z; this one it does not."""


@dataclass(frozen=True)
class Spec:
    """One point: N pairs, keys of width d (heads × width/heads), temperature tau, and which statistic is meant.

    values: one of snr.keys.VALUES, of width d_v. probes: stored keys recalled in each memory.
    """

    similarity: Similarity
    n: int
    d: int
    tau: float
    keys: KeyLaw | Stored
    statistic: str
    values: str
    d_v: int
    probes: int
    heads: int
    confidence: float

    @property
    def weighable(self) -> bool:
        """Whether importance sampling applies: a mean over a key law whose density is known."""
        means = ("mean", "fixed-probe", "ratio-of-means")
        return self.statistic in means and isinstance(self.keys, Gaussian | Sphere)

    @property
    def power(self) -> float:
        return value_power(self.values, self.d_v)

    @property
    def on_sphere(self) -> bool:
        return isinstance(self.keys, Sphere) or self.similarity.cosine

    @property
    def fixed_norm(self) -> bool:
        """Whether every probe has ‖k_i‖² = d."""
        return self.on_sphere or self.statistic == "fixed-probe"


def make_spec(
    similarity: Similarity,
    n: int,
    d: int,
    tau: float,
    keys: KeyLaw | Stored,
    statistic: str,
    confidence: float = 0.99,
    values: str = "gaussian",
    d_v: int | None = None,
    probes: int | None = None,
    heads: int = 1,
) -> Spec:
    """The spec with its defaults filled in: all probes up to n = 8192, then 1024 and fewer, values as wide as the keys.

    Raises ValueError for values out of range.
    """
    if n < 2:
        raise ValueError(f"n = {n}: noise needs another key; expected at least 2")
    if d < 1 or heads < 1 or d % heads:
        raise ValueError(f"d = {d} with {heads} heads: expected a width that the heads divide")
    if not (tau > 0 and math.isfinite(tau)):
        raise ValueError(f"tau = {tau}: expected a positive finite number")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: expected a number between 0 and 1")
    if statistic not in STATISTICS:
        raise ValueError(f"statistic {statistic!r}: expected one of {', '.join(STATISTICS)}")
    if values not in VALUES:
        raise ValueError(f"values {values!r}: expected one of {', '.join(VALUES)}")
    if isinstance(keys, Stored):
        if (keys.n, keys.d) != (n, d) or heads != 1:
            raise ValueError(f"the stored keys are {keys.n} of width {keys.d}, in {keys.heads} heads of their own")
        if statistic == "fixed-probe":
            raise ValueError("fixed-probe is a statistic of keys drawn from a law; normalise the stored keys instead")
    width = d // heads
    if probes is None:  # a batch recalls at most 2^28 products, or a time limit would not be kept
        probes = n if n <= 8192 else max(16, min(1024, (1 << 28) // n))
    probes = min(probes, n)
    if probes < 1 or (d_v is not None and d_v < 1):
        raise ValueError(f"probes = {probes}, d_v = {d_v}: expected at least 1")
    return Spec(similarity, n, width, tau, keys, statistic, values, d_v or width, probes, heads, confidence)


def stream(*spawn_key: int) -> np.random.Generator:
    """The generator of (seed, point, batch, …)."""
    return np.random.default_rng(np.random.SeedSequence(spawn_key[0], spawn_key=spawn_key[1:]))


def memories_per_batch(n: int, d: int, d_v: int, probes: int, heads: int = 1) -> int:
    """Memories simulated at once: enough to fill a block of scores, and no more keys and values than four blocks."""
    return max(1, min(BLOCK // (n * probes * heads), 4 * BLOCK // (n * (d + d_v) * heads)))


def affordable(spec: Spec, probes: int, most: int) -> int:
    """The number of memories that about a second simulates: where the confidence sequence should be narrowest."""
    work = spec.n * (probes * (spec.d + spec.d_v + 30) + 50 * (spec.d + spec.d_v))
    return int(np.clip(4e10 / work, 8, most))


class Looks:
    """Looks at the draws: after each batch at first, later each time the batches have grown by a tenth."""

    def __init__(self) -> None:
        self.batches, self.taken, self._next = 0, 0, 1

    def due(self, last: bool = False) -> bool:
        """Whether to look now, after one more batch; at the `last` one in any case."""
        self.batches += 1
        if self.batches < self._next and not last:
            return False
        self._next = self.batches + max(1, self.batches // 10)
        self.taken += 1
        return True
