"""What an answer is made of: verdicts, kinds of evidence, claims with their checks, and a command's finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from snr.estimate import Estimate

__all__ = ["Claim", "Estimate", "Evidence", "Finding", "Ruling", "Table", "Verdict", "judge"]


EXACT_WITHIN = 0.01  # the tolerance of measured/predicted up to which a value is called confirmed without a word more


class Verdict(StrEnum):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"  # the budget was spent before the question was decided
    CONDITIONAL = "conditional"  # rests on something no computation decides; `detail` names it


class Evidence(StrEnum):
    PROOF = "proof"  # symbolic identity, SMT, or exhaustive exact arithmetic
    STATISTICAL = "statistical"  # an interval; `detail` says its confidence and what the coverage rests on
    MEASURED = "measured"  # a recorded run: hardware, versions, commit, date
    LITERATURE = "literature"


@dataclass(frozen=True)
class Ruling:
    """What a check found: the verdict, the kind of evidence, one line of reason, and the numbers behind it."""

    verdict: Verdict
    evidence: Evidence
    detail: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The verdict as a person should read it: a confirmation to a coarse tolerance names the tolerance."""
        within = self.numbers.get("within")
        if self.verdict is Verdict.CONFIRMED and within is not None and within > EXACT_WITHIN:
            return f"{self.verdict} ±{100 * within:.3g} %"
        return str(self.verdict)


@dataclass(frozen=True)
class Claim:
    """A statement with an id, a source (`P §2.1.1 eq. 13`), its assumptions, and the check that decides it.

    A printed claim that is false but has a true repair is two claims; the repaired one names the other in `repairs`.
    `check` is None for a ruling made inside a command (a user's own formula, say); the ledger's claims all have one.
    """

    id: str
    source: str
    statement: str
    assumptions: tuple[str, ...] = ()
    check: Callable[[], Ruling] | None = None
    command: str = ""
    repairs: str = ""
    ruling: Ruling | None = None

    def decided(self, ruling: Ruling | None = None) -> Claim:
        """The same claim with its ruling: the one given, or the one that its check returns."""
        if ruling is None:
            if self.check is None:
                raise ValueError(f"claim {self.id} has no check to run")
            ruling = self.check()
        return replace(self, ruling=ruling)

    def words(self) -> dict[str, Any]:
        """What is claimed, and the command that decides it, before anything is decided."""
        return {
            "id": self.id,
            "source": self.source,
            "statement": self.statement,
            "assumptions": list(self.assumptions),
            "repairs": self.repairs or None,
            "command": self.command or f"python -m verify claims --only {self.id}",
        }

    def to_json(self) -> dict[str, Any]:
        if self.ruling is None:
            raise ValueError(f"claim {self.id} has not been decided")
        return {
            **self.words(),
            "verdict": str(self.ruling.verdict),
            "evidence": str(self.ruling.evidence),
            "detail": self.ruling.detail,
            "numbers": dict(self.ruling.numbers),
        }


@dataclass(frozen=True)
class Table:
    """A short table for a person; cells are already formatted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Finding:
    """What one command found: points and claims for the JSON object, tables and a sentence for a person.

    `status` overrides the exit status where the command defines one of its own (`verify check`).
    """

    command: str
    spec: Mapping[str, Any]
    points: Sequence[Mapping[str, Any]] = ()
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    summary: str = ""
    files: Sequence[Path] = ()
    status: int | None = None


def judge(ratio: Estimate, within: float) -> Verdict:
    """Judge measured/predicted against 1 ± within, by the whole interval and never by its middle.

    confirmed when [low, high] lies inside [1 − within, 1 + within], refuted when it lies outside, else inconclusive.
    """
    if not (within > 0 and math.isfinite(within)):
        raise ValueError(f"within must be positive and finite, got {within}")
    if 1 - within <= ratio.low and ratio.high <= 1 + within:
        return Verdict.CONFIRMED
    if ratio.low > 1 + within or ratio.high < 1 - within:
        return Verdict.REFUTED
    return Verdict.INCONCLUSIVE
