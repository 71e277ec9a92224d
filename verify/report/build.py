"""Gathers what the page shows: every exhibit's numbers and every claim's ruling, reusing points already finished."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verify.claims import ledger
from verify.evidence import Claim, Evidence, Ruling, Verdict
from verify.provenance import SOURCE, versions
from verify.records import Records, jsonable, spec_hash
from verify.report.exhibits import Exhibit, NotRun, exhibits
from verify.session import Session
from verify.sweep import executor, sweep


@dataclass(frozen=True)
class Plate:
    """An exhibit as it stands on the page: its numbers and pictures (SVG, one a view), or why there are none."""

    exhibit: Exhibit
    numbers: Mapping[str, Any] | None
    pictures: Sequence[str] = ()
    absent: str = ""


@dataclass(frozen=True)
class Report:
    """Everything on the page. `reused` counts the points that were not computed again."""

    mode: str
    plates: Sequence[Plate]
    claims: Sequence[Claim]
    reused: int


def report_spec(quick: bool) -> dict[str, Any]:
    """What a finished point depends on: the mode, the source text and the versions of the packages under it."""
    digest = hashlib.sha256()
    for package in ("snr", "theorem", "kernels", "verify", "reports/recorded"):
        for path in sorted((SOURCE / package).rglob("*")):
            if path.suffix in (".py", ".json", ".npz", ".npy", ".safetensors"):
                digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
    return {"command": "report", "quick": quick, "source": digest.hexdigest(), "versions": versions()}


def build(
    quick: bool, only: Sequence[str], records: Records, session: Session, *, workers: int = 1, compute: bool = True
) -> Report:
    """Run what `records` does not hold yet (nothing, without `compute`), and keep each point as it is finished.

    `only` names sections of exhibits; empty means all of them and the ledger. `workers` processes compute side by side.
    """
    chosen = [e for e in exhibits() if not only or e.section in only]
    claims = list(ledger().values()) if not only or "ledger" in only else []
    specs = [{"exhibit": e.id, "quick": quick} for e in chosen] + [{"claim": c.id} for c in claims]
    found: dict[str, Mapping[str, Any]] = {}
    reused = 0
    if compute:
        with executor(workers) as pool:
            for spec, point, kept in sweep(compute_point, specs, pool, records):
                found[spec_hash(spec)] = point
                reused += kept
                session.progress(f"report {len(found)}/{len(specs)}: {spec.get('exhibit') or spec.get('claim')}")
    else:
        held = ((spec_hash(spec), records.get(spec_hash(spec))) for spec in specs)
        found = {key: point for key, point in held if point is not None}
        reused = len(found)
    plates = [_plate(e, found.get(spec_hash(spec))) for e, spec in zip(chosen, specs)]
    rulings = [(c, found.get(spec_hash(spec))) for c, spec in zip(claims, specs[len(chosen) :])]
    decided = [replace(c, ruling=_ruling(point)) for c, point in rulings if point]
    return Report("quick" if quick else "full", plates, decided, reused)


def compute_point(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and pictures of one exhibit (or why there are none here), or the ruling on one claim."""
    if "claim" in spec:
        ruling = ledger()[spec["claim"]].decided().ruling
        assert ruling is not None
        return dict(vars(ruling))
    exhibit = next(e for e in exhibits() if e.id == spec["exhibit"])
    try:
        numbers = jsonable(exhibit.compute(spec["quick"]))
    except NotRun as reason:
        return {"absent": str(reason)}
    return {"numbers": numbers, "pictures": draw_all(exhibit, numbers)}


def draw_all(exhibit: Exhibit, numbers: dict[str, Any]) -> list[str]:
    """The exhibit's pictures as inline SVG, the figure itself first."""
    from matplotlib import rc_context

    from verify.report.style import STYLE
    from verify.report.svg import inline_svg

    draws = (exhibit.draw, *(draw for _, draw in exhibit.views))
    with rc_context(STYLE):
        return [inline_svg(draw(numbers), f"{exhibit.id}-{i}", exhibit.alt) for i, draw in enumerate(draws)]


def _plate(exhibit: Exhibit, point: Mapping[str, Any] | None) -> Plate:
    if point is None:
        return Plate(exhibit, None, absent="Not in these records.")
    return Plate(exhibit, point.get("numbers"), point.get("pictures", ()), point.get("absent", ""))


def _ruling(found: Mapping[str, Any]) -> Ruling:
    found = jsonable(found)
    return Ruling(Verdict(found["verdict"]), Evidence(found["evidence"]), found["detail"], found["numbers"])


def open_records(path: Path, quick: bool, session: Session) -> Records:
    """The records of this spec, begun if there are none. Raises ValueError where the file is another spec's."""
    spec = report_spec(quick)
    return Records(path, spec, session.provenance(spec))
