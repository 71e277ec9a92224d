from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify.evidence import Finding, Table
from verify.options import BadInput, option
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from verify.benchmarks import Goal


@dataclass(frozen=True)
class Options:
    """Measure the project's speed and memory goals on this machine (GPU kernels: python -m kernels.bench)."""

    only: tuple[str, ...] = option(
        (), help="measure only goals whose name starts with one of these", many=True, metavar="NAME"
    )
    record: str = option("", help="write the measurements as a record", metavar="FILE.json")


def run(options: Options, session: Session) -> Finding:
    import json

    from verify.benchmarks import goals
    from verify.records import jsonable, write_whole

    if options.record:
        check_writable("--record", options.record)
    chosen = [g for g in goals() if not options.only or g.id.startswith(options.only)]
    if not chosen:
        raise BadInput(
            f"--only {' '.join(options.only)}: expected the beginning of one of {', '.join(g.id for g in goals())}"
        )
    points = []
    for number, goal in enumerate(chosen, 1):
        session.progress(f"goal {number}/{len(chosen)}: {goal.what}")
        points.append(_point(goal, goal.measure()))
    spec = {"only": list(options.only)}
    files = []
    if options.record:
        files = [Path(options.record)]
        record = jsonable({"provenance": session.provenance(spec), "goals": points})
        write_whole(files[0], json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    judged = [p["holds"] for p in points if p["holds"] is not None]
    return Finding(
        "bench",
        spec,
        points=points,
        tables=[Table("Speed and memory", ("what", "measured", "goal", "holds"), [_row(p) for p in points])],
        summary=f"{sum(judged)} of {len(judged)} goals hold.",
        files=files,
    )


def _point(goal: Goal, value: float) -> dict[str, Any]:
    point = {name: getattr(goal, name) for name in ("id", "what", "unit", "limit", "more")}
    return point | {"value": value, "holds": goal.holds(value)}


def _row(p: dict[str, Any]) -> tuple[str, ...]:
    bound = "" if p["limit"] is None else f"{'≥' if p['more'] else '≤'} {p['limit']:g}"
    return (p["what"], f"{p['value']:.3g} {p['unit']}", bound, {True: "yes", False: "no", None: ""}[p["holds"]])
