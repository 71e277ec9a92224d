"""One look for every figure: Okabe-Ito colours that colour-blind readers can tell apart, one colour a kernel."""

import io
from pathlib import Path
from typing import Any, BinaryIO

from matplotlib import rc_context
from matplotlib.figure import Figure

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
