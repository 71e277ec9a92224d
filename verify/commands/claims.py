from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from verify.evidence import Claim, Finding, Table
from verify.options import BadInput, blame, option
from verify.session import Session, check_writable


@dataclass(frozen=True)
class Options:
    """List the ledger of claims and decide them."""

    only: tuple[str, ...] = option(
        (), help="decide only claims whose id starts with one of these", many=True, metavar="ID"
    )
    list: bool = option(False, help="list the claims without deciding them")
    markdown: str = option("", help="write the ledger as Markdown to PATH", metavar="PATH")


def run(options: Options, session: Session) -> Finding:
    from verify.claims import by_section, ledger, section_of

    claims = ledger()
    for prefix in options.only:
        if not prefix or not any(name.startswith(prefix) for name in claims):
            given = prefix or repr(prefix)
            raise BadInput(f"--only {given}: expected the beginning of a claim's id; see verify claims --list")
    if options.list and options.markdown:
        raise BadInput(f"--markdown {options.markdown}: expected without --list, which decides nothing to write")
    if options.markdown:
        check_writable("--markdown", options.markdown)
    chosen = by_section(c for name, c in claims.items() if not options.only or name.startswith(options.only))
    if options.list:
        tables = [
            Table(section, ("id", "source", "statement"), [(c.id, c.source, c.statement) for c in group])
            for section, group in groupby(chosen, key=section_of)
        ]
        points = [claim.words() for claim in chosen]
        return Finding("claims", asdict(options), points, tables=tables, summary=f"{len(chosen)} claims")
    decided: list[Claim] = []
    start = time.monotonic()
    for number, claim in enumerate(chosen, 1):
        session.progress(f"claim {number}/{len(chosen)} {claim.id}, {time.monotonic() - start:.0f} s so far")
        decided.append(claim.decided())
    files: list[Path] = []
    if options.markdown:
        from verify.records import write_whole

        files = [Path(options.markdown)]
        with blame("--markdown", options.markdown):
            write_whole(files[0], markdown(decided))
    counts = {v: sum(c.ruling is not None and c.ruling.verdict == v for c in decided) for v in _order(decided)}
    return Finding(
        "claims",
        asdict(options),
        claims=decided,
        tables=[
            Table(
                section,
                ("id", "source", "verdict", "evidence", "why, and the command that decides it"),
                [_row(c) for c in group],
            )
            for section, group in groupby(decided, key=section_of)
        ],
        summary="; ".join(f"{n} {v}" for v, n in counts.items()),
        files=files,
    )


def _order(decided: list[Claim]) -> list[str]:
    return sorted({str(c.ruling.verdict) for c in decided if c.ruling})


def _row(claim: Claim) -> tuple[str, ...]:
    row = claim.to_json()
    return (claim.id, claim.source, _verdict(claim), row["evidence"], f"{row['detail']}\n$ {row['command']}")


def _verdict(claim: Claim) -> str:
    return claim.ruling.words if claim.ruling else ""


SOURCES = (
    "Statements are this project's summaries of the sources named, not quotations: the papers' full text was not at "
    "hand, so section, equation and table numbers are to be checked against it before a verdict is quoted."
)
COLUMNS = ("id", "source", "statement", "verdict", "evidence", "why", "command")


def markdown(decided: Sequence[Claim]) -> str:
    """The ledger as Markdown, a table a section of the papers; the same text for the same rulings."""
    from verify.claims import by_section, section_of

    lines = [
        "# Claims",
        "",
        "Written by `python -m verify claims --markdown CLAIMS.md`; do not edit by hand.",
        "",
        SOURCES,
    ]
    for section, group in groupby(by_section(decided), key=section_of):
        lines += ["", f"## {section}", "", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
        lines += ["| " + " | ".join(cells(claim)) + " |" for claim in group]
    return "\n".join(lines) + "\n"


def cells(claim: Claim) -> list[str]:
    """One row of the Markdown table: its cells, with nothing in them that would end a cell."""
    row = claim.to_json()
    row |= {"why": row["detail"], "verdict": _verdict(claim)}
    if claim.assumptions:
        row["statement"] += f" (assuming {'; '.join(claim.assumptions)})"
    if claim.repairs:
        row["statement"] += f" (repairs {claim.repairs})"
    return [str(row[name]).replace("|", "\\|").replace("\n", " ") for name in COLUMNS]
