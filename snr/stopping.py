"""When to stop sampling: rules that compose, `MaxSeconds(10) | (RelTol(0.02) & MinSamples(100))`."""

from __future__ import annotations

from dataclasses import dataclass

from snr.estimate import Estimate


@dataclass(frozen=True)
class Progress:
    """Where a run stands: its current estimate and the seconds it has taken."""

    estimate: Estimate
    seconds: float


class Stop:
    """A stopping rule; `a | b` stops at the first of the two, `a & b` when both hold."""

    def reached(self, progress: Progress) -> bool:
        raise NotImplementedError

    def overdue(self, seconds: float) -> bool:
        """Whether the run must end after that many seconds whatever its estimate is: to be asked after every batch."""
        return False

    def __or__(self, other: Stop) -> Stop:
        return _Either(self, other)

    def __and__(self, other: Stop) -> Stop:
        return _Both(self, other)


@dataclass(frozen=True)
class _Either(Stop):
    first: Stop
    second: Stop

    def reached(self, progress: Progress) -> bool:
        return self.first.reached(progress) or self.second.reached(progress)

    def overdue(self, seconds: float) -> bool:
        return self.first.overdue(seconds) or self.second.overdue(seconds)


@dataclass(frozen=True)
class _Both(Stop):
    first: Stop
    second: Stop

    def reached(self, progress: Progress) -> bool:
        return self.first.reached(progress) and self.second.reached(progress)

    def overdue(self, seconds: float) -> bool:
        return self.first.overdue(seconds) and self.second.overdue(seconds)


@dataclass(frozen=True)
class MaxSeconds(Stop):
    """Stop when the run has taken that long: the only rule under which a result depends on the machine."""

    seconds: float

    def reached(self, progress: Progress) -> bool:
        return self.overdue(progress.seconds)

    def overdue(self, seconds: float) -> bool:
        return seconds >= self.seconds


@dataclass(frozen=True)
class RelTol(Stop):
    """Stop when half the interval's width is at most `tolerance` times the value."""

    tolerance: float

    def reached(self, progress: Progress) -> bool:
        return progress.estimate.relative_half_width <= self.tolerance


@dataclass(frozen=True)
class MinSamples(Stop):
    """Holds from that many independent units on; also a cap when joined by |."""

    samples: int

    def reached(self, progress: Progress) -> bool:
        return progress.estimate.samples >= self.samples
