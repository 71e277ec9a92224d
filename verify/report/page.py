"""The page: one self-contained HTML file from a Report; also the same content as Markdown."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from verify.claims import by_section, section_of
from verify.commands.claims import SOURCES
from verify.evidence import Claim, Verdict
from verify.report.build import Plate, Report
from verify.report.exhibits import SECTIONS

FIRST = ("capacity", "exchange", "trained keys")  # whose findings stand at the top of the page
ASKED = {
    "capacity": "How much noise does recall carry?",
    "trained keys": "Do the formulas hold for trained keys?",
    "keys": "Do near-orthogonal keys exist, and how many?",
    "exchange": "Is Theorem 1 true, and what does it need?",
    "updates": "Which updates descend which objective?",
    "context": "What remains after infinite context?",
    "kernels": "How fast and how exact are the kernels?",
    "learning": "What do trained models show?",
}


def render(report: Report, origin: Mapping[str, Any]) -> str:
    """The whole page as HTML text. Same report, same bytes, but for the block that shows `origin`."""
    environment = Environment(
        loader=PackageLoader("verify.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _cell
    sections = [
        {"name": name, "anchor": name.replace(" ", "-"), "asked": ASKED[name], "plates": plates}
        for name in SECTIONS
        if (plates := [_plate(p) for p in report.plates if p.exhibit.section == name])
    ]
    claims = [
        claim.to_json() | {"section": section_of(claim), "words": claim.ruling.words if claim.ruling else ""}
        for claim in by_section(report.claims)
    ]
    return environment.get_template("page.html.j2").render(
        mode=report.mode,
        sections=sections,
        claims=claims,
        sources=SOURCES,
        ledger_sections=list(dict.fromkeys(c["section"] for c in claims)),
        counts=counts(report.claims),
        headlines=_headlines(report.plates),
        origin=origin,
        css=Markup(_resource("page.css")),
        js=Markup(_resource("page.js")),
    )


def counts(claims: Sequence[Claim]) -> dict[str, int]:
    """How many claims have each verdict, in the order of `Verdict`."""
    found = Counter(str(c.ruling.verdict) for c in claims if c.ruling)
    return {str(v): found[str(v)] for v in Verdict}


def markdown(report: Report) -> str:
    """Headlines and ledger as Markdown, for pipelines."""
    from verify.commands.claims import markdown as ledger_markdown

    lines = ["# Associative memory in Transformers: what was checked", ""]
    lines += [", ".join(f"{n} {v}" for v, n in counts(report.claims).items()), ""]
    lines += [f"- {h['text']}" for h in _headlines(report.plates)]
    lines += [f"- {p.exhibit.title}: not run here. {p.absent}" for p in report.plates if p.numbers is None]
    return "\n".join(lines) + "\n\n" + ledger_markdown(list(report.claims))


def _headlines(plates: Sequence[Plate], most: int = 3) -> list[dict[str, Any]]:
    """The first finding of each section that has one, in the order of `FIRST`, `most` of them."""
    found: dict[str, Plate] = {}
    for plate in plates:
        if plate.exhibit.headline and plate.numbers is not None:
            found.setdefault(plate.exhibit.section, plate)
    order = [*(name for name in FIRST if name in found), *(name for name in found if name not in FIRST)]
    return [_headline(found[name]) for name in order[:most]]


def _headline(plate: Plate) -> dict[str, Any]:
    e = plate.exhibit
    assert e.headline is not None
    assert plate.numbers is not None
    svg = plate.pictures[0].replace(f"{e.id}-0-", f"head-{e.id}-")  # ids of its own: the picture stands below again
    return {"text": e.headline(dict(plate.numbers)), "anchor": e.id, "svg": Markup(svg)}


def _plate(plate: Plate) -> dict[str, Any]:
    e = plate.exhibit
    shown: dict[str, Any] = {
        "e": e,
        "absent": plate.absent,
        "formula": _mathml(e.formula()),
        "pictures": [],
        "rows": [],
    }
    if plate.numbers is None:
        return shown
    numbers = dict(plate.numbers)
    labels = ("figure", *(label for label, _ in e.views))
    shown["pictures"] = [{"label": label, "svg": Markup(svg)} for label, svg in zip(labels, plate.pictures)]
    rows = numbers.get("rows")
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        shown["rows"], shown["columns"] = rows[:200], list(rows[0])
    text = json.dumps(
        {"id": e.id, "command": e.command, "numbers": numbers}, indent=1, ensure_ascii=False, sort_keys=True
    )
    shown["json"] = _link(text, "application/json")
    shown["csv"] = _link(_csv(numbers), "text/csv")
    return shown


def _mathml(formula: str) -> Markup:
    """The formula as a block of its own; sympy writes what stands inside the `math` element."""
    return Markup(f'<math display="block">{formula}</math>') if formula else Markup("")


def _link(text: str, kind: str) -> str:
    return f"data:{kind};charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


def _csv(numbers: Mapping[str, Any]) -> str:
    """The rows as a table where there are rows, else one line a number: its path and its value."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    rows = numbers.get("rows")
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer.writerow(columns)
        writer.writerows([row.get(name, "") for name in columns] for row in rows)
    else:
        writer.writerow(("path", "value"))
        writer.writerows(_leaves(numbers, ""))
    return stream.getvalue()


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{path}.{key}".lstrip("."))]
    if isinstance(value, (list, tuple)):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(item, f"{path}[{index}]")]
    return [(path, value)]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return "–" if value is None else str(value)


def _resource(name: str) -> str:
    return resources.files("verify.report").joinpath(name).read_text(encoding="utf-8")
