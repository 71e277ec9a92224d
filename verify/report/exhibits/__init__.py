"""Figures of the report: one file a pillar, each a tuple `EXHIBITS`; a new figure is one new entry.

A file here imports nothing heavy at its top: `compute` and `draw` import what they need when they run.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Exhibit:
    """One figure: numbers from `compute(quick)`, a picture from `draw(numbers)`.

    `compute` is a pure function that returns JSON-able numbers (offered for download on the page); `quick` asks for
    the version that takes seconds. It may raise `NotRun` where it needs something that is absent, saying how to get it.
    `formula` returns presentation MathML (sympy's `mathml(expr, printer="presentation")`) or "".
    """

    id: str
    section: str  # capacity, trained keys, keys, exchange, updates, context, kernels, learning
    title: str
    caption: str  # what is seen, which statistic is meant, what follows
    command: str  # what reproduces it
    compute: Callable[[bool], dict[str, Any]]
    draw: Callable[[dict[str, Any]], Figure]
    alt: str  # the picture in a sentence, for those who do not see it
    assumptions: tuple[str, ...] = ()
    formula: Callable[[], str] = lambda: ""


class NotRun(Exception):
    """This exhibit cannot be computed here; the message says what is missing and how to run it."""


def exhibits() -> list[Exhibit]:
    """Every exhibit, in the order of the files' names and of the entries in them."""
    modules = sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name)
    return [e for m in modules for e in importlib.import_module(f"{__name__}.{m.name}").EXHIBITS]
