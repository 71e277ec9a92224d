"""Importance sampling of the mean inverse SNR.

The mean is carried by probes of rare norm. In actual memories, every probed key is stretched to a norm from the
proposal and its recall weighted by the density ratio. What memories differ by most is ‖Σ_j v_j‖², so that one draw is
the average over a memory and those with the signs of whole groups of its values flipped (all laws of values here are
symmetric). Where one rare *other* key carries the noise (condensation), or where memories are too large to write many,
pairs of a probe and one other key are drawn instead, both from proposals, and E‖r‖² = (N−1) E[g(k_j·k_i)²] E‖v‖² is
used: it holds for independent keys and independent values of mean 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr import intervals
from snr.draws import ASYMPTOTIC, Draws
from snr.estimate import Estimate
from snr.intervals import Tail
from snr.keys import Gaussian, draw_values
from snr.measured import Scaled
from snr.memory import recall_stored, route
from snr.proposals import (
    NormProposal,
    PairProposal,
    SphereProposal,
    log_kurtosis,
    norm_proposal,
    pair_proposal,
    sphere_proposal,
)
from snr.spec import Looks, Spec, affordable, memories_per_batch, stream

Array = NDArray[Any]

GROUP = 64  # pairs averaged to one draw
PAIRS = 1 << 15  # pairs per batch
ENOUGH = 60  # memories that should be affordable, or pairs are drawn instead
WEIGHTED = 128  # probes of one memory: more of them share its keys' noise and add little
GROUPS = 16  # of values whose signs flip together: leaves a sixteenth of the variance that the values cause


@dataclass(frozen=True)
class Sampler:
    """Proposals of one point: norms (None where ‖k_i‖² = d), pairs (None: actual memories are recalled)."""

    norms: NormProposal | None
    signal: NormProposal | None  # for the ratio of means of keys of several norms: others carry its denominator
    pairs: PairProposal | SphereProposal | None


def make_sampler(spec: Spec) -> Sampler:
    g, tau, d = spec.similarity, spec.tau, spec.d
    if spec.on_sphere:
        return Sampler(None, None, sphere_proposal(g, tau, d))
    if spec.statistic == "fixed-probe":
        return Sampler(None, None, pair_proposal(g, tau, d, d, d))
    ratio = spec.statistic == "ratio-of-means"
    norms = norm_proposal(g, tau, d, "noise" if ratio else "mean")
    signal = norm_proposal(g, tau, d, "signal") if ratio else None
    spread = max(log_kurtosis(g, s, tau, d) for s in (norms.low, norms.high))
    if spread <= math.log(spec.n - 1) and affordable(spec, WEIGHTED, ENOUGH) == ENOUGH:
        return Sampler(norms, signal, None)
    return Sampler(norms, signal, pair_proposal(g, tau, d, min(norms.low, d / 2), max(norms.high, 2 * d)))


class Weighted:
    """The weighted draws so far, and what they say."""

    def __init__(self, spec: Spec, sampler: Sampler) -> None:
        self.spec, self.sampler = spec, sampler
        self.looks = Looks()
        self.draws, self.signal = Draws(), Draws()

    def batch(self, seed: int, point: int, batch: int) -> tuple[Array, Array | None]:
        """Logarithms of the weighted ratio (or noise) [units, recalls], and of the weighted signal if it is needed."""
        spec, sampler = self.spec, self.sampler
        rng = stream(seed, point, batch, 1)
        draws = _memories(spec, sampler.norms, rng) if sampler.pairs is None else _pairs(spec, sampler, rng)
        if sampler.signal is None:
            return draws, None
        s, weight = sampler.signal.draw(rng, (PAIRS,))
        return draws, (weight + 2 * spec.similarity.sign_and_log(s, spec.tau, spec.d)[1]).reshape(-1, GROUP)

    def add(self, drawn: tuple[Array, Array | None]) -> None:
        self.draws.add(drawn[0])
        if drawn[1] is not None:
            self.signal.add(drawn[1])

    def estimate(self) -> tuple[Scaled, Tail]:
        """The importance-sampled estimate and its self-check."""
        spec, confidence = self.spec, self.spec.confidence
        pairs = self.sampler.pairs is not None
        units = f"groups of {GROUP} pairs" if pairs else "memories"
        method = "importance sampling, " + ("pairs of a probe and another key" if pairs else "actual memories")
        target = 1 << 11 if pairs else affordable(spec, WEIGHTED, 1 << 9)
        tail = self.draws.tail()
        if self.sampler.signal is None:
            return self.draws.mean(confidence, target, tail.trusted, method, units), tail
        (above, shift_above), (below, shift_below) = self.draws.unit(), self.signal.unit()
        # two independent means: each interval takes half the error probability, the quotient of their ends holds both
        half = (1 + confidence) / 2
        a = intervals.mean_sequence(above, half, target)
        b = intervals.mean_sequence(below, half, 1 << 11)
        low, high, guarantee = 0.0, math.inf, "none: the self-check of the weights failed"
        if tail.trusted and self.signal.tail().trusted and b[1] > 0 and math.isfinite(a[2]):
            low, high = max(a[1], 0.0) / b[2], a[2] / b[1]
            guarantee = ASYMPTOTIC.format(units=units + ", numerator and denominator apart")
        estimate = Estimate(a[0] / b[0], low, high, confidence, len(above), method, guarantee)
        return Scaled(estimate, shift_above - shift_below), tail


def _memories(spec: Spec, norms: NormProposal | None, rng: np.random.Generator) -> Array:
    """Weighted recalls of a batch of actual memories, [memories, probes]."""
    assert norms is not None
    n, d = spec.n, spec.d
    way = route(spec.similarity, spec.tau, d, (norms.low / 2, norms.high * 2))
    probes = min(spec.probes, WEIGHTED)
    size = memories_per_batch(n, d, spec.d_v, probes)
    keys = Gaussian().draw(rng, size, n, d, way.dtype)
    values = draw_values(spec.values, rng, size, n, spec.d_v, way.dtype)
    squares, weight = norms.draw(rng, (size, probes))
    recalled = recall_stored(
        spec.similarity,
        keys,
        values,
        spec.tau,
        power=spec.power,
        way=way,
        squares=squares,
        probes=np.arange(probes),
        groups=min(GROUPS, n),
    )
    logs = recalled.log_noise if spec.statistic == "ratio-of-means" else recalled.log_ratio
    return logs + weight


def _pairs(spec: Spec, sampler: Sampler, rng: np.random.Generator) -> Array:
    """Weighted interference of one other key with one probe, times N−1, [groups, GROUP]."""
    assert sampler.pairs is not None
    g, tau, d = spec.similarity, spec.tau, spec.d
    if sampler.norms is None:
        s, weight = np.full(PAIRS, float(d)), np.zeros(PAIRS)
    else:
        s, weight = sampler.norms.draw(rng, (PAIRS,))
    z, more = sampler.pairs.draw(rng, s)
    logs = weight + more + 2 * g.sign_and_log(np.sqrt(s) * z, tau, d)[1] + math.log(spec.n - 1)
    if sampler.signal is None:  # keys of one norm have one signal, whatever the statistic
        logs = logs - 2 * g.sign_and_log(s, tau, d)[1]
    return logs.reshape(-1, GROUP)
