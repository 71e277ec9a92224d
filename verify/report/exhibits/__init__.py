"""Figures of the report: one file a pillar, each a tuple `EXHIBITS`; a new figure is one new entry.

A file here imports nothing heavy at its top: `compute` and `draw` import what they need when they run.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Draw: TypeAlias = Callable[[dict[str, Any]], "Figure"]


@dataclass(frozen=True)
class Exhibit:
    """One figure: numbers from `compute(quick)`, a picture from `draw(numbers)`.

    `compute` is a pure function that returns JSON-able numbers (offered for download on the page; a list of flat
    dictionaries under "rows" is also shown as a table); `quick` asks for the version that takes seconds. It may raise
    `NotRun` where it needs something that is absent, saying how to get it. `draw` sees the numbers as JSON gives them
    back: infinities are "inf". `views` are further pictures of the same numbers, (label, draw), behind a switch.
    `headline` says the finding in one sentence with its figure, for the top of the page.
    `formula` returns presentation MathML (sympy's `mathml(expr, printer="presentation")`) or "".
    """

    id: str
    section: str  # one of SECTIONS
    title: str
    caption: str  # what is seen, which statistic is meant, what follows
    command: str  # what reproduces it
    compute: Callable[[bool], dict[str, Any]]
    draw: Draw
    alt: str  # the picture in a sentence, for those who do not see it
    assumptions: tuple[str, ...] = ()
    formula: Callable[[], str] = lambda: ""
    views: tuple[tuple[str, Draw], ...] = ()
    headline: Callable[[dict[str, Any]], str] | None = None


SECTIONS = ("capacity", "trained keys", "keys", "exchange", "updates", "context", "kernels", "learning")


class NotRun(Exception):
    """This exhibit cannot be computed here; the message says what is missing and how to run it."""


def exhibits() -> list[Exhibit]:
    """Every exhibit, by section in the page's order, then by the files' names and the entries in them."""
    modules = sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name)
    found = [e for m in modules for e in importlib.import_module(f"{__name__}.{m.name}").EXHIBITS]
    return sorted(found, key=lambda e: SECTIONS.index(e.section))
