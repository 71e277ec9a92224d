"""Direct simulation: many independent memories are written, and their stored keys recalled.

The recalls of one memory share its pairs, so the unit of independence is the memory: its average is one draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr import intervals
from snr.draws import ASYMPTOTIC, Draws, scaled_logs
from snr.estimate import Estimate
from snr.intervals import Tail
from snr.keys import Stored, draw_values
from snr.measured import Scaled
from snr.memory import Recalled, recall_stored, route
from snr.reach import Reach
from snr.spec import Looks, Spec, affordable, memories_per_batch, stream

Array = NDArray[Any]

POOL = 1 << 21  # recalls kept for the median
KNOWN = 0.02  # half the relative width of the median's interval that suffices beside another estimate of the mean
PATIENCE = 4  # times the target of the confidence sequence, after which a check by the mean is given up


def direct_batch(spec: Spec, seed: int, point: int) -> Callable[[int], Recalled]:
    """A function of the batch's number: the recalls of independent memories, [M, heads·probes]."""
    keys, n, d = spec.keys, spec.n, spec.d
    heads = keys.heads if isinstance(keys, Stored) else spec.heads
    stored = np.empty(0)
    if isinstance(keys, Stored):
        squares = np.einsum("hnd,hnd->hn", keys.array, keys.array, dtype=np.float64)
        ends = (float(squares.min()), float(squares.max())) if not spec.similarity.cosine else (float(d), float(d))
        way = route(spec.similarity, spec.tau, d, ends, reach=ends[1])
        stored = keys.array.astype(way.dtype, copy=False)
    else:
        way = route(spec.similarity, spec.tau, d, norm_range(spec))
    size = memories_per_batch(n, d, spec.d_v, spec.probes, heads)
    if isinstance(keys, Stored) and spec.probes < n:
        size = 1  # each memory is recalled with its own random choice of the keys, or memories would share it
    fixed = spec.statistic == "fixed-probe" and not spec.on_sphere
    asked = np.full((size * heads, spec.probes), float(d)) if fixed else None

    def recalls(batch: int) -> Recalled:
        rng = stream(seed, point, batch)
        if isinstance(keys, Stored):
            written = np.broadcast_to(stored, (size, heads, n, d)).reshape(size * heads, n, d)
            probes = None if spec.probes == n else np.sort(rng.permutation(n)[: spec.probes])
        else:
            written = keys.draw(rng, size * heads, n, d, way.dtype)
            probes = None if spec.probes == n else np.arange(spec.probes)
        values = draw_values(spec.values, rng, size * heads, n, spec.d_v, way.dtype)
        done = recall_stored(
            spec.similarity,
            written,
            values,
            spec.tau,
            power=spec.power,
            way=way,
            squares=asked,
            probes=probes,
            errors=spec.statistic == "recall-error",
        )
        if done.log_error is not None:  # relative to E‖v‖² as it is
            return Recalled(np.zeros((size, 1)), done.log_error.reshape(size, -1))
        return Recalled(done.log_signal.reshape(size, -1), done.log_noise.reshape(size, -1))

    return recalls


def norm_range(spec: Spec) -> tuple[float, float]:
    """A range of ‖k_i‖² that all but one key in 10^9 keep to."""
    d = float(spec.d)
    if spec.fixed_norm and spec.on_sphere:
        return d, d
    spectrum = getattr(spec.keys, "spectrum", None)
    if spectrum is not None:
        total, square = float(np.sum(spectrum)), float(np.sum(np.square(spectrum)))
        return max(total - 8 * math.sqrt(2 * square), total / 100), total + 12 * math.sqrt(2 * square)
    return max(d - 9 * math.sqrt(2 * d), d / 100), d + 9 * math.sqrt(2 * d) + 18


class Direct:
    """The draws of a direct simulation so far, and what they say."""

    def __init__(self, spec: Spec, reach: Reach, hopeless: bool) -> None:
        self.spec, self.reach, self.hopeless = spec, reach, hopeless
        self.target = affordable(spec, spec.probes * spec.heads, 1 << 14)
        self.kept = min(spec.probes * spec.heads, max(64, (1 << 16) // self.target))
        self.looks = Looks()
        alike = not isinstance(spec.keys, Stored)
        self.ratio, self.noise, self.signal = Draws(alike), Draws(alike), Draws(alike)
        self.pool: list[Array] = []
        self.given_up = False
        self.pooled = 0

    def add(self, recalled: Recalled) -> None:
        ratio = recalled.log_ratio
        if not np.all(ratio < math.inf):  # inf or nan
            raise ValueError("the similarity is not a finite real number at some product of two keys")
        self.ratio.add(ratio)
        if self.spec.statistic == "ratio-of-means":
            self.noise.add(recalled.log_noise)
            self.signal.add(recalled.log_signal)
        if self.pooled < POOL:
            self.pool.append(ratio[:, : self.kept])
            self.pooled += self.pool[-1].size

    def tracked(self) -> Scaled:
        """The estimate whose width decides when to stop: the median where the mean cannot be had."""
        return self.median() if self.spec.statistic == "median" or self.hopeless else self.mean()

    def resigned(self) -> bool:
        """Whether the mean has no upper end after so many memories, and the median, all that is left, is known well."""
        if not self.hopeless and self.ratio.count >= PATIENCE * self.target:
            self.hopeless = self.given_up = math.isinf(self.mean().estimate.high)
        return self.given_up and self.median().estimate.relative_half_width <= KNOWN

    def median(self) -> Scaled:
        spec, groups = self.spec, np.concatenate(self.pool)
        if groups.shape[1] == 1:
            interval = intervals.median_by_order(groups[:, 0], spec.confidence, self.looks.taken)
            guarantee = "exact: order statistics of independent recalls, the error shared out over the looks"
        else:
            interval = intervals.median_of_groups(groups, spec.confidence, self.target)
            guarantee = ASYMPTOTIC.format(units="memories, for the share of recalls below a threshold")
        return scaled_logs(interval, spec.confidence, len(groups), "direct simulation, median of recalls", guarantee)

    def mean(self) -> Scaled:
        spec = self.spec
        if spec.statistic == "ratio-of-means":
            return self._ratio_of_means()
        trusted = self._seen() and self.ratio.tail().trusted
        return self.ratio.mean(spec.confidence, self.target, trusted, self._method, "memories")

    def _ratio_of_means(self) -> Scaled:
        (a, shift_a), (b, shift_b) = self.noise.unit(), self.signal.unit()
        value, low, high = intervals.ratio_sequence(a, b, self.spec.confidence, self.target)
        guarantee = ASYMPTOTIC.format(units="memories (Fieller)")
        trusted = self._seen() and self.noise.tail().trusted and self.signal.tail().trusted
        if not (trusted and math.isfinite(high)):
            low, high, guarantee = 0.0, math.inf, "none: the simulation has not seen what carries the two means"
        estimate = Estimate(value, max(low, 0.0), high, self.spec.confidence, len(a), self._method, guarantee)
        return Scaled(estimate, shift_a - shift_b)

    def tail(self) -> Tail:
        return self.ratio.tail()

    @property
    def _method(self) -> str:
        spec = self.spec
        return "direct simulation" + ("" if spec.probes == spec.n else f", {spec.probes} recalls a memory")

    def _seen(self) -> bool:
        return self.reach.seen(self.ratio.count * self.spec.probes * self.spec.heads, self.spec.n)

    def why(self) -> str:
        """A sentence on why the mean has no two-sided interval."""
        bound = "its interval has no upper end."
        if not self._seen():
            return "The direct simulation was too short to see what carries the mean: " + bound
        tails = [self.noise.tail(), self.signal.tail()] if self.noise.count else [self.ratio.tail()]
        tail = next((t for t in tails if not t.trusted), None)
        if tail is None:
            return f"The direct simulation wrote only {self.ratio.count} memories: " + bound
        if math.isnan(tail.index):
            what = "too few to tell how heavy its tail is" if tail.effective else "and none of them had any noise"
            return f"The direct simulation wrote only {self.ratio.count} memories, {what}: {bound}"
        return (
            f"The direct simulation's tail is too heavy for the central limit theorem (Pareto k {tail.index:.2f}, "
            f"effective size {tail.effective:.0f}, largest draw {tail.largest:.0%} of the sum): {bound}"
        )
