from dataclasses import asdict, dataclass
from pathlib import Path

from verify.evidence import Finding, Table
from verify.options import BadInput, option
from verify.session import Session


@dataclass(frozen=True)
class Options:
    """Prove Lemma 1 and the induction of Theorem 1 for every key set, by an SMT solver (needs z3)."""

    only: tuple[str, ...] = option((), help="only obligations whose name starts so", many=True, metavar="NAME")
    record: str = option("", help="write the answers, with solver and version, to PATH", metavar="PATH")
    smtlib: str = option("", help="write every obligation to DIR as SMT-LIB 2, for another solver", metavar="DIR")


def run(options: Options, session: Session) -> Finding:
    from theorem.obligations import obligations
    from theorem.smt import SolverMissing, prove
    from verify.options import blame
    from verify.records import write_whole
    from verify.session import check_writable

    if options.record:
        check_writable("--record", options.record)
    files: list[Path] = []
    if options.smtlib:
        with blame("--smtlib", options.smtlib):
            Path(options.smtlib).mkdir(parents=True, exist_ok=True)
            for name, obligation in obligations().items():
                if not options.only or name.startswith(options.only):
                    words = "".join(c if c.isalnum() or c in "-=" else "_" for c in name)
                    write_whole(
                        Path(options.smtlib) / f"{words}.smt2",
                        f"; {obligation.statement}\n; expected: {obligation.expected}\n{obligation.smtlib}",
                    )
        files.append(Path(options.smtlib))
    with blame("--only", " ".join(options.only)):
        try:
            proof = prove(*options.only)
        except SolverMissing as error:
            raise BadInput(str(error)) from error
    if options.record:
        import json

        files.append(Path(options.record))
        write_whole(files[-1], json.dumps(proof.to_json(), indent=1) + "\n")
    groups: dict[str, list[bool]] = {}
    for answer in proof.answers:
        groups.setdefault(answer.name.split("/")[0], []).append(answer.as_expected)
    rows = [(name, f"{len(right)}", "all as stated" if all(right) else "FAILED") for name, right in groups.items()]
    return Finding(
        "prove",
        asdict(options),
        points=[asdict(answer) for answer in proof.answers],
        tables=[
            Table(f"Obligations, decided by {proof.solver} {proof.version}", ("statement", "cases", "answers"), rows)
        ],
        summary=(
            f"{len(proof.answers)} obligations, all decided as stated: they hold for every key set."
            if proof.complete
            else "NOT PROVED: " + "; ".join(f"{a.name}: {a.result}, expected {a.expected}" for a in proof.failures)
        ),
        files=files,
        status=0 if proof.complete else 1,
    )
