"""Decide the obligations of Theorem 1 with z3, record the answers, and read models as Gram matrices.

z3 is imported when it is needed. Where it is absent, a recorded proof can be read instead: an answer counts only for
the obligation whose text it was given for, by hash.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from theorem.obligations import Obligation, obligations

INSTALL = "z3 is not installed: pip install z3-solver, or this package with its extra `proofs`"
TIMEOUT_MS = 60_000


class SolverMissing(Exception):
    """z3 is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Answer:
    """What the solver said of one obligation.

    result      unsat, sat or unknown for the hypotheses with the negated conclusion
    hypotheses  the same for the hypotheses alone: only with sat does an unsat result prove anything
    """

    name: str
    statement: str
    expected: str
    result: str
    hypotheses: str
    sha256: str
    seconds: float

    @property
    def as_expected(self) -> bool:
        return self.result == self.expected and self.hypotheses == "sat"


@dataclass(frozen=True)
class Proof:
    """Answers of one solver; `origin` is "now" or names the record they were read from."""

    solver: str
    version: str
    origin: str
    answers: tuple[Answer, ...]

    @property
    def complete(self) -> bool:
        """Whether every obligation has the answer that was to be shown."""
        return bool(self.answers) and all(a.as_expected for a in self.answers)

    @property
    def failures(self) -> tuple[Answer, ...]:
        return tuple(a for a in self.answers if not a.as_expected)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "answers": [asdict(a) for a in self.answers]}


def solver_version() -> str:
    """z3's version; raises SolverMissing without z3."""
    version: str = _z3().get_version_string()
    return version


def decide(obligation: Obligation) -> Answer:
    """Ask z3; raises SolverMissing without it."""
    start = time.process_time()
    result = _check(obligation.smtlib)
    hypotheses = _check(obligation.hypotheses)
    seconds = round(time.process_time() - start, 4)
    return Answer(
        obligation.name, obligation.statement, obligation.expected, result, hypotheses, obligation.sha256, seconds
    )


def prove(*prefixes: str, record: Path | None = None) -> Proof:
    """Decide every obligation whose name starts with one of the prefixes (all of them without any).

    Without z3 the answers come from the file `record`. Raises SolverMissing where there is neither, or where the record
    lacks an answer for one of the statements as they are now; ValueError where no obligation has such a name.
    """
    chosen = [o for name, o in obligations().items() if not prefixes or name.startswith(prefixes)]
    if not chosen:
        raise ValueError(f"no obligation starts with {', '.join(prefixes)}")
    try:
        return Proof("z3", solver_version(), "now", tuple(decide(o) for o in chosen))
    except SolverMissing:
        if record is None or not record.exists():
            raise
    recorded = read_proof(record)
    answers = {a.sha256: a for a in recorded.answers}
    missing = [o.name for o in chosen if o.sha256 not in answers]
    if missing:
        raise SolverMissing(f"{INSTALL}; {record.name} has no answer for {missing[0]} as it is stated now")
    return Proof(recorded.solver, recorded.version, record.name, tuple(answers[o.sha256] for o in chosen))


def read_proof(path: Path) -> Proof:
    """The proof recorded in a JSON file as `Proof.to_json` writes it; raises ValueError on anything else."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        answers = tuple(Answer(**answer) for answer in fields["answers"])
        return Proof(fields["solver"], fields["version"], path.name, answers)
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} is not a recorded proof: {error}") from error


def counterexample(obligation: Obligation, slots: str = "ijlm") -> dict[tuple[str, str], Fraction]:
    """The Gram matrix of a model, exactly: inner products of unit keys by pairs of slots.

    Raises SolverMissing without z3, ValueError where there is no model.
    """
    z3 = _z3()
    solver = _solver(obligation.smtlib)
    if str(solver.check()) != "sat":
        raise ValueError(f"{obligation.name} has no model")
    model = solver.model()
    values: Mapping[str, Any] = {d.name(): model[d] for d in model.decls() if z3.is_rational_value(model[d])}
    gram: dict[tuple[str, str], Fraction] = {}
    for a, b in combinations_with_replacement(slots, 2):
        entry = values.get(f"g_{a}{b}")
        gram[a, b] = Fraction(int(a == b)) if entry is None else Fraction(str(entry.as_fraction()))
    return gram


def _z3() -> Any:
    try:
        import z3
    except ImportError as error:
        raise SolverMissing(INSTALL) from error
    return z3


def _solver(smtlib: str) -> Any:
    solver = _z3().Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.from_string(smtlib)
    return solver


def _check(smtlib: str) -> str:
    return str(_solver(smtlib).check())
