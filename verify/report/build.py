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
from verify.records import Records, jsonable
from verify.report.exhibits import Exhibit, NotRun, exhibits
from verify.session import Session


@dataclass(frozen=True)
class Plate:
    """An exhibit as it stands on the page: its numbers, or why there are none."""

    exhibit: Exhibit
    numbers: Mapping[str, Any] | None
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


def build(quick: bool, only: Sequence[str], records: Records, session: Session, *, compute: bool = True) -> Report:
    """Run what `records` does not hold yet (nothing, without `compute`), and keep each point as it is finished.

    `only` names sections of exhibits; empty means all of them and the ledger.
    """
    chosen = [e for e in exhibits() if not only or e.section in only]
    claims = list(ledger().values()) if not only or "ledger" in only else []
    total, reused = len(chosen) + len(claims), 0
    plates: list[Plate] = []
    for number, exhibit in enumerate(chosen, 1):
        session.progress(f"report {number}/{total}: {exhibit.title}")
        key = f"exhibit {exhibit.id}"
        found = records.get(key)
        reused += found is not None
        if found is None and compute:
            try:
                records.append(key, {"numbers": jsonable(exhibit.compute(quick))})
                found = records.get(key)
            except NotRun as reason:
                plates.append(Plate(exhibit, None, str(reason)))
                continue
        plates.append(Plate(exhibit, found["numbers"]) if found else Plate(exhibit, None, "Not in these records."))
    decided: list[Claim] = []
    for number, claim in enumerate(claims, len(chosen) + 1):
        session.progress(f"report {number}/{total}: claim {claim.id}")
        key = f"claim {claim.id}"
        found = records.get(key)
        reused += found is not None
        if found is None and compute:
            ruling = claim.decided().ruling
            assert ruling is not None
            records.append(key, vars(ruling))
            found = records.get(key)
        if found:
            decided.append(replace(claim, ruling=_ruling(found)))
    return Report("quick" if quick else "full", plates, decided, reused)


def _ruling(found: Mapping[str, Any]) -> Ruling:
    return Ruling(Verdict(found["verdict"]), Evidence(found["evidence"]), found["detail"], found["numbers"])


def open_records(path: Path, quick: bool, session: Session) -> Records:
    """The records of this spec, begun if there are none. Raises ValueError where the file is another spec's."""
    spec = report_spec(quick)
    return Records(path, spec, session.provenance(spec))
