"""Predicted curves as lines, measurements with their intervals: the figure of `verify snr` and of the report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from verify.capacity_notes import EXACT, STATISTIC
from verify.report.style import BLACK, Look, kernel_looks, new_figure, series_looks, two_columns
from verify.report.svg import name_points

Point = Mapping[str, Any]
AXES = {"d": "key width d", "n": "number of pairs N", "tau": "temperature τ"}
SYMBOLS = {"d": "d", "n": "N", "tau": "τ"}
LINES: dict[str, tuple[Any, str]] = {
    "paper": (":", "P's formula"),
    "exact": ("-", "exact mean"),
    "typical": ("--", "typical"),
}
EXACTLY = {
    "fixed_probe": "exact, probe of norm √d",
    "ratio_of_means": "exact ratio of means",
    "recall_error": "exact recall error",
}
USERS: tuple[Any, ...] = (
    "-.",
    (0, (6, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (3, 1)),
)  # a dash for each formula of the user
INSIDE = 8  # legend entries that find room inside the axes


def draw_curves(points: Sequence[Point]) -> Figure:
    """SNR⁻¹ against the axis that varies most; lines are predictions, points are measurements with intervals.

    Colour and marker tell the series (kernel and the other axes' values), on its lines as on its measurements; the dash
    tells the prediction. Where no axis varies, each point is a column with its predictions as level lines.
    """
    axis = _varied(points)
    lines = _lines(points)
    if len({p[axis] for p in points}) == 1:
        return _columns(points, lines)
    lines = _with_values(points, lines)
    curves = _curves(points, axis)
    looks = _series_looks(curves, axis)
    height = 3.8 + 0.16 * max(0, len(looks) + len(lines) - 14)
    figure, axes = new_figure(height=height) if len(looks) <= INSIDE - 2 else new_figure(width=8.4, height=height)
    arrows = [
        _curve(axes, curve, axis, name, look, lines, mark=len(looks) > 1)
        for curve, (name, look) in zip(curves.values(), looks)
    ]
    axes.set_xscale("log", base=2 if axis != "tau" else 10)
    axes.set_yscale("log")
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel(_what(points))
    _say_if_empty(axes)
    handles, labels = _handles(looks, lines, points[0]["statistic"], arrows=any(arrows), marked=len(looks) > 1)
    _legend(figure, axes, handles, labels, len(looks), inside=len(looks) <= INSIDE - 2)
    return figure


def _what(points: Sequence[Point]) -> str:
    return "recall error ‖o − v‖²" if points[0]["statistic"] == "recall-error" else "inverse SNR of recall"


def _lines(points: Sequence[Point]) -> dict[str, tuple[Any, str]]:
    """The predictions to draw, by name: dash and label. The solid one is exact for the statistic that was measured."""
    statistic = points[0]["statistic"]
    exact = EXACT.get(statistic, "exact")
    found = dict(LINES)
    if exact == "recall_error":
        found = {exact: ("-", EXACTLY[exact])}
    elif exact in EXACTLY:
        found = {"paper": LINES["paper"], exact: ("-", EXACTLY[exact]), "typical": LINES["typical"]}
    users = dict.fromkeys(j["name"] for p in points for j in p["judged"] if j["source"] == "user")
    return found | {name: (USERS[i % len(USERS)], name) for i, name in enumerate(users)}


def _with_values(points: Sequence[Point], lines: Mapping[str, tuple[Any, str]]) -> dict[str, tuple[Any, str]]:
    return {name: look for name, look in lines.items() if any(_predicted(p, name) > 0 for p in points)}


def _predicted(point: Point, name: str) -> float:
    """A positive float; nan, which is not drawn, for what is absent, infinite or beyond the floats."""
    if name in point["predicted"]:
        return _positive(point["predicted"][name])
    log = next((j["log"] for j in point["judged"] if j["name"] == name), math.nan)
    return math.exp(log) if abs(_finite(log)) < 700 else math.nan


def _varied(points: Sequence[Point]) -> str:
    """The axis along which the points vary; τ = √d varies with d."""
    if len({p["d"] for p in points}) > 1:
        return "d"
    return max(AXES, key=lambda name: len({p[name] for p in points}))


def _curves(points: Sequence[Point], axis: str) -> dict[tuple[Any, ...], list[Point]]:
    """Points along the axis, by kernel and the values of the other axes: τ as it was asked for, which may follow d."""
    others = [name for name in ("n", "d", "tau") if name != axis]
    found: dict[tuple[Any, ...], list[Point]] = {}
    for p in points:
        values = (p["temperature"] if name == "tau" else p[name] for name in others)
        found.setdefault((p["kernel"], *values), []).append(p)
    return {key: sorted(curve, key=lambda p: p[axis]) for key, curve in found.items()}


def _series_looks(curves: Mapping[tuple[Any, ...], Sequence[Point]], axis: str) -> list[tuple[str, Look]]:
    """What each series is called, by what tells it apart from the others, and its look."""
    keys = list(curves)
    others = [name for name in ("n", "d", "tau") if name != axis]
    if len({kernel for kernel, *_ in keys}) == len(keys):
        return list(kernel_looks([kernel for kernel, *_ in keys]).items())
    several = [i for i in range(len(keys[0])) if len({key[i] for key in keys}) > 1]
    names = [", ".join(str(key[0]) if i == 0 else _value(others[i - 1], key[i]) for i in several) for key in keys]
    return list(zip(names, series_looks(len(names))))


def _value(name: str, value: Any) -> str:
    text = str(value).replace("sqrt", "√d") if str(value).endswith("sqrt") else str(value)
    return f"{SYMBOLS[name]} = {text}"


def _curve(
    axes: Axes,
    curve: Sequence[Point],
    axis: str,
    name: str,
    look: Look,
    lines: Mapping[str, tuple[Any, str]],
    *,
    mark: bool,
) -> bool:
    """One series; whether some measurement has no upper end. Marked lines are told apart without their colour."""
    x = [p[axis] for p in curve]
    for prediction, (dash, _) in lines.items():
        y = [_predicted(p, prediction) for p in curve]
        axes.plot(x, y, linestyle=dash, color=look.colour, linewidth=1.4 if len(x) > 1 else 0)
        if mark:  # half way between the measurements, which it would cover
            middles = [[math.sqrt(a) * math.sqrt(b) for a, b in itertools.pairwise(values)] for values in (x, y)]
            axes.plot(*middles, look.marker, color=look.colour, markersize=3)
    best = [p["measured"][p["best"]] for p in curve if p["statistic"] != "median"]
    arrows = _measured(axes, x, best, look, f"{name} at {{:g}}", filled=True)
    medians = [p["measured"]["median"] for p in curve if p["statistic"] != "recall-error"]
    return _measured(axes, x, medians, look, f"{name}, median at {{:g}}", filled=False) or arrows


def _measured(
    axes: Axes, x: Sequence[float], estimates: Sequence[Mapping[str, Any]], look: Look, what: str, *, filled: bool
) -> bool:
    """Values with their intervals, or an arrow up from the lower end: whether there is one without an upper end.

    what: the name of a mark, with a place for its x.
    """
    face = look.colour if filled else "none"
    pairs = [(a, e) for a, e in zip(x, estimates) if _finite(e["value"]) > 0]
    shown = [(a, e) for a, e in pairs if math.isfinite(_finite(e["high"]))]
    if shown:
        y = [_finite(e["value"]) for _, e in shown]
        low = [max(v - max(_finite(e["low"]), v * 1e-3), 0.0) for v, (_, e) in zip(y, shown)]
        high = [_finite(e["high"]) - v for v, (_, e) in zip(y, shown)]
        bars = axes.errorbar(
            [a for a, _ in shown], y, [low, high], fmt=look.marker, color=look.colour, markersize=5, capsize=2,
            linewidth=1, markerfacecolor=face,
        )  # fmt: skip
        name_points(
            bars.lines[0],
            [
                f"{what.format(a)}: {_finite(e['value']):.4g} in [{_finite(e['low']):.4g}, {_finite(e['high']):.4g}]"
                for a, e in shown
            ],
        )
    open_ended = [(a, _finite(e["low"])) for a, e in pairs if e["high"] in ("inf", math.inf) and _finite(e["low"]) > 0]
    for a, low_end in open_ended:
        axes.annotate(
            "", (a, low_end), xytext=(0, 16), textcoords="offset points",
            arrowprops={"arrowstyle": "<|-", "color": look.colour, "linewidth": 1, "fill": filled, "shrinkB": 0},
        )  # fmt: skip
        axes.plot([a], [low_end], marker=look.marker, markersize=3, color=look.colour, markerfacecolor=face)
    return bool(open_ended)


def _columns(points: Sequence[Point], lines: Mapping[str, tuple[Any, str]]) -> Figure:
    """No axis to draw along: a column a point, predictions as level lines across it, measurements side by side.

    The lines of a single point carry their names and values, those of several are told by the legend.
    """
    looks = kernel_looks([p["kernel"] for p in points])
    figure, axes = new_figure()
    alone = len(points) == 1
    arrows = False
    ticks: list[tuple[float, str]] = []
    for column, p in enumerate(points):
        look = looks[p["kernel"]]
        heights = {name: _predicted(p, name) for name in lines}
        for name, y in ((name, y) for name, y in heights.items() if y > 0):
            axes.hlines(y, column - 0.4, column + 0.4, color=look.colour, linestyle=lines[name][0], linewidth=1.4)
        names = _names_measured(p)
        for i, (name, label) in enumerate(names.items()):
            x = column + 0.25 * (i - (len(names) - 1) / 2)
            what = f"{label}, {p['kernel']} at d = {p['d']}, N = {p['n']}"
            open_ended = _measured(axes, [x], [p["measured"][name]], look, what, filled=name != "median")
            arrows = arrows or open_ended
            ticks += [(x, label.replace(", ", ",\n"))] * alone
        if not alone:
            ticks.append((column, p["kernel"]))
        else:
            _label_levels(axes, p, heights, lines)
    axes.set_yscale("log")
    axes.set_xlim(-0.5, len(points) - 0.5 + 0.6 * alone)
    axes.set_xticks([x for x, _ in ticks], [label for _, label in ticks])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(_what(points))
    p = points[0]
    axes.set_title(
        f"{p['kernel'] + ', ' if alone else ''}d = {p['d']}, N = {p['n']}, τ = {p['tau']:.4g}, {p['keys']} keys",
        fontsize="medium",
    )
    _say_if_empty(axes)
    if not alone:
        axes.set_xlabel(f"in each column: {'; '.join(_names_measured(points[0]).values())}")
        handles, labels = _handles(list(looks.items()), _with_values(points, lines), p["statistic"], arrows=arrows)
        _legend(figure, axes, handles, labels, len(looks), inside=False)
    return figure


def _names_measured(point: Point) -> dict[str, str]:
    statistic = point["statistic"]
    mean = STATISTIC["mean" if statistic == "median" else statistic]
    names = {"mean": f"{mean}, direct", "importance": f"{mean}, importance-sampled"}
    names |= {} if statistic == "recall-error" else {"median": "median"}
    found = {name: label for name, label in names.items() if point["measured"][name]}
    if point["best"] == "importance" and point["measured"]["mean"]["high"] in ("inf", math.inf):
        del found["mean"]  # a bound that says less than what stands beside it
    return found


def _label_levels(axes: Axes, point: Point, heights: Mapping[str, float], lines: Mapping[str, tuple[Any, str]]) -> None:
    """Name and value at the right of each level line, moved apart where they would overlap; what is ∞ at the top."""
    known = sorted((y, name) for name, y in heights.items() if y > 0)
    seen = [_finite(m[k]) for m in point["measured"].values() if m for k in ("low", "value", "high")]
    ends = [y for y, _ in known] + [y for y in seen if y > 0]
    if ends:
        low, high = math.log(min(ends)), math.log(max(ends))
        room = max(high - low, 0.2)
        axes.set_ylim(math.exp(low - 0.08 * room), math.exp(high + 0.12 * room))
        gap, below = 0.055 * 1.2 * room, -math.inf
        for y, name in known:
            at = max(math.log(y), below + gap)
            below = at
            axes.annotate(
                f"{lines[name][1]}: {y:.4g}", (0.4, y), xytext=(0.46, math.exp(at)), va="center", fontsize="small",
                arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": BLACK},
            )  # fmt: skip
    infinite = [label for name, (_, label) in lines.items() if point["predicted"].get(name) in ("inf", math.inf)]
    if infinite:
        axes.text(0.98, 0.98, f"infinite: {', '.join(infinite)}", transform=axes.transAxes, ha="right", va="top")


def _say_if_empty(axes: Axes) -> None:
    """Say so where nothing that was predicted or measured is a positive floating-point number."""
    drawn = (float(y) for line in axes.lines for y in np.ravel(np.asarray(line.get_ydata(), dtype=float)))
    if not any(y > 0 for y in drawn) and not axes.collections:
        axes.text(0.5, 0.5, "no value that a float holds", transform=axes.transAxes, ha="center")


def _handles(
    looks: Sequence[tuple[str, Look]],
    lines: Mapping[str, tuple[Any, str]],
    statistic: str,
    *,
    arrows: bool,
    marked: bool = False,
) -> tuple[list[Any], list[str]]:
    """Legend: the series by colour and marker, the predictions by dash, the measurements by filled or open marker."""
    handles: list[Any] = [Line2D([], [], color=k.colour, marker=k.marker, linewidth=0) for _, k in looks]
    labels = [name for name, _ in looks]
    own = looks[0][1].marker if marked else ""
    for dash, label in lines.values():
        handles.append(Line2D([], [], color=BLACK, linestyle=dash, marker=own, markersize=3))
        labels.append(label)
    markers = list(dict.fromkeys(look.marker for _, look in looks))[:3]
    for measured, face in ((STATISTIC[statistic], BLACK), ("median", "none")):
        if statistic == ("median" if face == BLACK else "recall-error"):
            continue
        marks = [
            Line2D([], [], color=BLACK, marker=m, markerfacecolor=face, linewidth=0, markersize=5) for m in markers
        ]
        handles.append(tuple(marks))
        labels.append(f"measured {measured}")
    if arrows:
        handles.append(Line2D([], [], color=BLACK, marker="$↑$", linewidth=0, markersize=8))
        labels.append("lower end, no upper one")
    return handles, labels


def _legend(figure: Figure, axes: Axes, handles: list[Any], labels: list[str], series: int, *, inside: bool) -> None:
    """series: how many of the handles tell series; inside, they have a column of their own."""
    look: dict[str, Any] = {"handler_map": {tuple: HandlerTuple(None)}, "fontsize": "small", "handlelength": 2.6}
    if inside:
        entries = list(zip(handles, labels))
        axes.legend(*two_columns(entries[:series], entries[series:]), ncols=2, **look)
    else:
        figure.legend(handles, labels, loc="outside right upper", **look)


def draw_ratios(points: Sequence[Point]) -> Figure:
    """Measured over predicted, one panel for P's formula and one for the exact mean: 1 is agreement."""
    axis = _varied(points)
    figure, panels = new_figure(columns=2, height=3.2)
    curves = _curves(points, axis)
    looks = _series_looks(curves, axis)
    for axes, name in zip(panels, ("paper", "exact")):
        for curve, (series, look) in zip(curves.values(), looks):
            _ratios(axes, curve, axis, series, look, name)
        axes.axhline(1, color=BLACK, linewidth=0.8)
        axes.set_xscale("log", base=10 if axis == "tau" else 2)
        axes.set_xlabel(AXES[axis])
        axes.set_title(f"measured mean / {LINES[name][1]}", fontsize="medium")
    panels[0].set_yscale("log")
    _legend_series(panels[0], looks)
    return figure


def _ratios(axes: Axes, curve: Sequence[Point], axis: str, series: str, look: Look, name: str) -> None:
    found = [(p, r) for p in curve for j in p["judged"] if j["name"] == name and (r := j["ratio"])]
    found = [(p, r) for p, r in found if math.isfinite(_finite(r["high"]))]
    if not found:
        return
    y = [r["value"] for _, r in found]
    bars = axes.errorbar(
        [p[axis] for p, _ in found],
        y,
        [[r["value"] - r["low"] for _, r in found], [r["high"] - r["value"] for _, r in found]],
        fmt=look.marker,
        color=look.colour,
        markersize=4,
        capsize=2,
        linewidth=1,
    )
    name_points(bars.lines[0], [f"{series} at {p[axis]:g}: {r['value']:.4g}" for p, r in found])


def draw_residuals(points: Sequence[Point]) -> Figure:
    """(measured − exact mean) in half-widths of the measured interval: between −1 and 1 the interval holds it."""
    axis = _varied(points)
    figure, axes = new_figure(height=3.2)
    inside = axes.axhspan(-1, 1, color=BLACK, alpha=0.08, linewidth=0, label="the interval holds the exact mean")
    curves = _curves(points, axis)
    looks = _series_looks(curves, axis)
    for i, (curve, (series, look)) in enumerate(zip(curves.values(), looks)):
        found = [(p, r) for p in curve for j in p["judged"] if j["name"] == "exact" and (r := j["ratio"])]
        found = [(p, r) for p, r in found if math.isfinite(_finite(r["high"]))]
        # series stand side by side, so that their marks do not cover each other
        shift = 1.03 ** (i - (len(looks) - 1) / 2)
        y = [(r["value"] - 1) / ((r["high"] - r["low"]) / 2) for _, r in found]
        (marks,) = axes.plot([p[axis] * shift for p, _ in found], y, look.marker, color=look.colour, markersize=5)
        name_points(marks, [f"{series} at {p[axis]:g}: {v:+.2f}" for (p, _), v in zip(found, y)])
    axes.set_xscale("log", base=10 if axis == "tau" else 2)
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("(measured − exact) / half-width")
    axes.set_ylim(-2, 2)
    _legend_series(axes, looks, inside)
    return figure


def _legend_series(axes: Axes, looks: Sequence[tuple[str, Look]], *others: Artist) -> None:
    """others: artists with a label of their own."""
    handles = [Line2D([], [], color=k.colour, marker=k.marker, linewidth=0, label=name) for name, k in looks]
    axes.legend(handles=[*handles, *others], fontsize="small")


def _finite(value: Any) -> float:
    """A float; nan (not drawn) for what is absent or infinite."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan


def _positive(value: Any) -> float:
    number = _finite(value)
    return number if number > 0 else math.nan
