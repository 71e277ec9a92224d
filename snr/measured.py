"""What a measurement returns: estimates that need not be floating-point numbers, flags, and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from snr.estimate import Estimate
from snr.intervals import Tail


@dataclass(frozen=True)
class Scaled:
    """The quantity `estimate` × e^`log_scale`: at small tau the inverse SNR is e^{±thousands}."""

    estimate: Estimate
    log_scale: float

    def over(self, log_reference: float) -> Estimate:
        """The estimate of the quantity divided by e^log_reference: measured/predicted for a predicted logarithm."""
        e, shift = self.estimate, self.log_scale - log_reference
        return replace(e, value=_shifted(e.value, shift), low=_shifted(e.low, shift), high=_shifted(e.high, shift))

    @property
    def plain(self) -> Estimate:
        """The quantity itself; 0 or inf where it leaves the range of floats."""
        return self.over(0.0)

    @property
    def log(self) -> tuple[float, float, float]:
        """Natural logarithms of value, low and high."""
        e = self.estimate
        value, low, high = (math.log(x) + self.log_scale if x > 0 else -math.inf for x in (e.value, e.low, e.high))
        return value, low, high


def _shifted(x: float, shift: float) -> float:
    if x <= 0 or math.isinf(x):
        return x
    log = math.log(x) + shift
    return math.exp(log) if log < 709.7 else math.inf


@dataclass(frozen=True)
class Measured:
    """The measured inverse SNR of one point.

    scaled: "mean" (direct simulation), "importance" (importance-sampled, where the key law allows it), "median" (the
    typical value), in logarithmic scale; the properties of those names give plain estimates or None.
    flags: short words for machines, among
      "condensed"    ln N is below the line under which one rare key carries the noise: mean and median part
      "unreached"    the direct simulation has not seen what carries the mean: its interval is only Markov's bound
      "diverges"     the mean is infinite, or does not exist
      "pole"         g is infinite at a product of two keys: no sample tells whether the mean is
      "self-check"   the importance weights failed their check: that interval is only Markov's bound
    notes: a sentence for each flag. tails: the sample's own diagnostics by estimator.
    """

    statistic: str
    scaled: Mapping[str, Scaled]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tails: Mapping[str, Tail] = field(default_factory=dict)

    @property
    def mean(self) -> Estimate | None:
        return self._plain("mean")

    @property
    def importance(self) -> Estimate | None:
        return self._plain("importance")

    @property
    def median(self) -> Estimate | None:
        return self._plain("median")

    @property
    def best(self) -> Scaled:
        """The estimate of the statistic asked for with the narrowest interval."""
        if self.statistic == "median":
            return self.scaled["median"]
        offered = [self.scaled[name] for name in ("importance", "mean") if name in self.scaled]
        return min(offered, key=lambda s: s.estimate.relative_half_width)

    def _plain(self, name: str) -> Estimate | None:
        return self.scaled[name].plain if name in self.scaled else None
