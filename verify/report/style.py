"""One look for every figure: Okabe-Ito colours that colour-blind readers can tell apart, one colour a kernel."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from verify.records import write_whole

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
KERNEL_COLOURS = {
    "linear": BLUE,
    "relu": ORANGE,
    "exp": VERMILION,
    "solu": GREEN,
    "softmax": VERMILION,
    "round": PURPLE,
    "cubic": SKY,
}
MARKERS = {"linear": "o", "relu": "s", "exp": "^", "solu": "D", "softmax": "^", "round": "v", "cubic": "P"}
# the series' own colours, neighbours far apart in hue and in grey; nine markers and seven colours make 63 looks
_COLOURS = (BLUE, ORANGE, VERMILION, SKY, GREEN, PURPLE, BLACK)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


@dataclass(frozen=True)
class Look:
    """How a series is drawn: its lines and its marks alike."""

    colour: str
    marker: str


def series_looks(count: int) -> list[Look]:
    """So many looks; the marker alone tells nine series apart without colour."""
    return [Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]) for i in range(count)]


def kernel_looks(kernels: Sequence[str]) -> dict[str, Look]:
    """The look of each kernel: that of its name everywhere, and for expressions what the others leave."""
    names = list(dict.fromkeys(kernels))
    found = {k: Look(KERNEL_COLOURS[k], MARKERS[k]) for k in names if k in KERNEL_COLOURS}
    colours = [c for c in (*_COLOURS, YELLOW) if c not in {look.colour for look in found.values()}] or [*_COLOURS]
    markers = [m for m in _MARKERS if m not in {look.marker for look in found.values()}]
    others = [k for k in names if k not in found]
    found |= {k: Look(colours[i % len(colours)], markers[i % len(markers)]) for i, k in enumerate(others)}
    return {k: found[k] for k in names}


def two_columns(first: Sequence[tuple[Any, str]], second: Sequence[tuple[Any, str]]) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend with ncols=2 that has each list in a column of its own.

    A legend fills its columns in turn and evenly, so that the shorter list is filled up with blanks.
    """
    length = max(len(first), len(second))
    blank = (Line2D([], [], linestyle="none"), "")
    entries = [entry for column in (first, second) for entry in (*column, *[blank] * (length - len(column)))]
    return [handle for handle, _ in entries], [label for _, label in entries]


_UNDATED: dict[str, Any] = {"Date": None}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "verify",  # the same figure gives the same bytes
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def new_figure(width: float = 6.4, height: float = 3.8, rows: int = 1, columns: int = 1):  # type: ignore[no-untyped-def]
    """A figure without pyplot's global state and its axes (one, or an array of rows × columns)."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns)


def write_figure(figure: Figure, target: str | BinaryIO, kind: str) -> None:
    """Write the figure as `kind` (svg or png) with no date in it, so that the same figure gives the same bytes."""
    with rc_context(STYLE):
        figure.savefig(
            target, format=kind, dpi=160, transparent=kind == "svg", metadata=_UNDATED if kind == "svg" else None
        )


def save(figure: Figure, path: str) -> None:
    """Write the figure whole or not at all, as what the file's name ends in (.svg or .png)."""
    stream = io.BytesIO()
    write_figure(figure, stream, path.rsplit(".", 1)[-1])
    write_whole(Path(path), stream.getvalue())
