from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify.evidence import Finding, Table
from verify.options import BadInput, blame, option
from verify.session import Session

if TYPE_CHECKING:
    from theorem.obligations import Obligation

REPLAYED = {"above-eighth/eps = 0.126": "half-even", "eighth-half-away/distinct": "half-away"}


@dataclass(frozen=True)
class Options:
    """Prove Lemma 1 and the induction of Theorem 1 for every key set, by an SMT solver (needs z3)."""

    only: tuple[str, ...] = option((), help="only obligations whose name starts so", many=True, metavar="NAME")
    record: str = option("", help="write the answers, with solver and version, to PATH", metavar="PATH")
    smtlib: str = option("", help="write every obligation to DIR as SMT-LIB 2, for another solver", metavar="DIR")


def run(options: Options, session: Session) -> Finding:
    from theorem.obligations import obligations
    from theorem.smt import SolverMissing, prove
    from verify.records import write_whole
    from verify.session import check_writable

    if options.record:
        check_writable("--record", options.record)
    chosen = {n: o for n, o in obligations().items() if not options.only or n.startswith(options.only)}
    if not chosen:
        raise BadInput(f"--only {' '.join(options.only)}: expected the beginning of an obligation's name, like lemma-1")
    files: list[Path] = []
    if options.smtlib:
        with blame("--smtlib", options.smtlib):
            _write_scripts(Path(options.smtlib), chosen)
        files.append(Path(options.smtlib))
    try:
        proof = prove(*options.only)
    except SolverMissing as error:
        raise BadInput(str(error)) from error
    if options.record:
        files.append(Path(options.record))
        write_whole(files[-1], json.dumps(proof.to_json(), indent=1) + "\n")
    groups: dict[str, list[bool]] = {}
    for answer in proof.answers:
        groups.setdefault(answer.name.split("/")[0], []).append(answer.as_expected)
    rows = [(name, f"{len(right)}", "all as stated" if all(right) else "FAILED") for name, right in groups.items()]
    models = {answer.name for answer in proof.answers if answer.result == "sat"} & set(REPLAYED)
    found = {name: _counterexample(chosen[name], REPLAYED[name]) for name in sorted(models)}
    tables = [Table(f"Obligations, decided by {proof.solver} {proof.version}", ("statement", "cases", "answers"), rows)]
    if found:
        columns = ("counterexample", "coherence", "four integer keys", "replay")
        tables.append(Table("Models as explicit keys", columns, [_row(name, keys) for name, keys in found.items()]))
    return Finding(
        "prove",
        asdict(options),
        points=[{**asdict(a), "counterexample": found.get(a.name)} for a in proof.answers],
        tables=tables,
        summary=(
            f"{len(proof.answers)} obligations, all decided as stated: they hold for every key set."
            if proof.complete
            else "NOT PROVED: " + "; ".join(f"{a.name}: {a.result}, expected {a.expected}" for a in proof.failures)
        ),
        files=files,
        status=0 if proof.complete else 1,
    )


def _write_scripts(folder: Path, chosen: dict[str, Obligation]) -> None:
    from verify.records import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    for name, obligation in chosen.items():
        words = "".join(c if c.isalnum() or c in "-=" else "_" for c in name)
        head = f"; {obligation.statement}\n; expected: {obligation.expected}\n"
        write_whole(folder / f"{words}.smt2", head + obligation.smtlib)


def _counterexample(obligation: Obligation, rule: str) -> dict[str, Any]:
    """The solver's model as integer keys, and where an exact replay of at most two swaps goes wrong."""
    from theorem.sharpness import every_two_swaps, keys_of
    from theorem.smt import counterexample

    keys = keys_of(counterexample(obligation))
    wrong = every_two_swaps(keys, rule)
    return {
        "keys": keys.z.tolist(),
        "scale": keys.scale,
        "coherence": float(keys.coherence_squared) ** 0.5,
        "rule": rule,
        "wrong": None if wrong is None else asdict(wrong),
    }


def _row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    wrong = found["wrong"]
    reading = f"slot {wrong['slot']} wrong after swap {wrong['step']}" if wrong else "all right"
    width = f"{len(found['keys'][0])} dimensions, scale {found['scale']}"
    return name, f"{found['coherence']:.6g}", width, f"{reading} ({found['rule']})"
