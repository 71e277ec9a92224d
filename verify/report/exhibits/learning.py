"""Training experiments (P Fig. 2, 4-8, D Tables 1 and 5): not part of this version, and the page says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit, NotRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compute(quick: bool) -> dict[str, Any]:
    raise NotRun("There is no training command yet and no recorded run; nothing on this page rests on trained models.")


def draw(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import new_figure

    figure, _ = new_figure()
    return figure


EXHIBITS = (
    Exhibit(
        id="learning-curves",
        section="learning",
        title="Learning curves of the papers’ experiments",
        caption="P Fig. 2 and 4 to 8 and D Tables 1 and 5 report trained models; they are to be shown here against the "
        "yardsticks that a constant answer and an exact look-back reach.",
        command="python -m verify report --only learning",
        compute=compute,
        draw=draw,
        alt="No figure: the experiments have not been run.",
    ),
)
