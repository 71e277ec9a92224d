"""The one shape in which a measured number leaves an estimator."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Estimate:
    """A measured value with an interval that says what it guarantees.

    low <= value <= high; `confidence` is the coverage probability of [low, high]; `samples` counts the independent
    units (memories, not recalls); `method` names the estimator; `guarantee` is "exact" or "asymptotic", with what the
    coverage rests on.
    """

    value: float
    low: float
    high: float
    confidence: float
    samples: int
    method: str
    guarantee: str = "asymptotic"

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width over |value|; inf at value 0."""
        return (self.high - self.low) / (2 * abs(self.value)) if self.value else float("inf")

    def contains(self, truth: float) -> bool:
        return self.low <= truth <= self.high

    def to_json(self) -> dict[str, object]:
        return asdict(self)
