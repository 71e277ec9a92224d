from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from verify.evidence import Claim, Finding
from verify.options import BadInput, blame, integer, option
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from verify.records import Records
    from verify.report.build import Report


@dataclass(frozen=True)
class Options:
    """Write the page: what was checked, the answers, the figures, the ledger.

    Finished points are kept beside the page, and a rerun of the same sources reuses them.
    """

    out: str = option("reports/index.html", help="the page (or text) to write", metavar="PATH")
    quick: bool = option(False, help="the version that takes a minute (the default)")
    full: bool = option(False, help="the version that takes a few minutes: larger grids, narrower intervals")
    only: str = option(
        "", help="only these sections, separated by commas (capacity, keys, …, ledger)", metavar="SECTIONS"
    )
    records: str = option("", help="where finished points are kept (default: beside the page)", metavar="PATH")
    workers: int = option(os.cpu_count() or 1, help="processes that compute side by side", parse=integer(1, 1024))
    from_: str = option("", help="show what these records hold and compute nothing", metavar="RECORDS")
    format: str = option("html", help="what to write", choices=("html", "markdown", "json"))
    fail_on: str = option(
        "", help="exit 1 if any claim has this verdict", choices=("refuted", "inconclusive", "conditional")
    )


def run(options: Options, session: Session) -> Finding:
    from verify.records import write_whole
    from verify.report.build import build
    from verify.report.exhibits import SECTIONS

    if options.quick and options.full:
        raise BadInput("--quick --full: expected one of them")
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    for name in only:
        if name not in (*SECTIONS, "ledger"):
            raise BadInput(f"--only {name}: expected some of {', '.join((*SECTIONS, 'ledger'))}")
    out = Path(options.out)
    if options.out == "reports/index.html":
        out.parent.mkdir(exist_ok=True)
    check_writable("--out", str(out))
    mode = "full" if options.full else "quick"
    if options.from_ and not Path(options.from_).is_file():
        raise BadInput(f"--from {options.from_}: no such file of records")
    named = options.from_ or options.records
    kept = Path(named) if named else out.with_name(f".points-{mode}.jsonl")
    records = _open(kept, options, session)
    report = build(mode == "quick", only, records, session, workers=options.workers, compute=not options.from_)

    spec = {"mode": mode, "only": only}
    finding = Finding(
        "report",
        spec,
        points=[{"exhibit": p.exhibit.id, "numbers": p.numbers, "absent": p.absent or None} for p in report.plates],
        claims=report.claims,
        summary=f"{len(report.plates)} figures, {len(report.claims)} claims; {report.reused} points reused from {kept}",
        files=[out.absolute()],
        status=_status(options.fail_on, report.claims),
    )
    session.progress("report: writing")
    with blame("--out", out):
        write_whole(out, _text(options.format, finding, report, session))
    return finding


def _open(kept: Path, options: Options, session: Session) -> Records:
    """The records to reuse: those named by the user must fit the sources, those beside the page are begun anew."""
    from verify.report.build import open_records

    try:
        return open_records(kept, not options.full, session)
    except ValueError as error:
        if options.from_ or options.records:
            raise BadInput(f"{'--from' if options.from_ else '--records'} {kept}: {error}") from error
        kept.unlink(missing_ok=True)
        kept.with_name(kept.name + ".manifest.json").unlink(missing_ok=True)
        return open_records(kept, not options.full, session)


def _text(format: str, finding: Finding, report: Report, session: Session) -> str:
    from verify.report import page
    from verify.session import to_object

    origin = session.provenance(finding.spec)
    if format == "html":
        return page.render(report, origin)
    if format == "markdown":
        return page.markdown(report)
    return json.dumps(to_object(finding, origin), indent=1, ensure_ascii=False) + "\n"


def _status(fail_on: str, claims: Sequence[Claim]) -> int | None:
    return 1 if fail_on and any(c.ruling and str(c.ruling.verdict) == fail_on for c in claims) else None
