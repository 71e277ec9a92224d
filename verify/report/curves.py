"""Predicted curves as lines, measurements with their intervals: the figure of `verify snr` and of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from verify.report.style import BLACK, KERNEL_COLOURS, MARKERS, PURPLE, new_figure
from verify.report.svg import name_points

Point = Mapping[str, Any]
AXES = {"d": "key width d", "n": "number of pairs N", "tau": "temperature τ"}
LINES = {"paper": (":", "P's formula"), "exact": ("-", "exact mean"), "typical": ("--", "typical")}


def draw_curves(points: Sequence[Point]) -> Figure:
    """SNR⁻¹ against the axis that varies most; lines are predictions, points are measurements with intervals.

    Colour and marker tell the kernel, the dash tells the prediction; a curve for each value of the other axes.
    """
    axis = _varied(points)
    figure, axes = new_figure()
    curves = _curves(points, axis)
    for (kernel, *_), curve in curves:
        _curve(axes, curve, axis, kernel, points)
    if len({p[axis] for p in points}) > 1:
        axes.set_xscale("log", base=2 if axis != "tau" else 10)
    axes.set_yscale("log")
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("inverse SNR of recall")
    _legend(axes, [kernel for (kernel, *_), _ in curves])
    return figure


def draw_ratios(points: Sequence[Point]) -> Figure:
    """Measured over predicted, one panel for P's formula and one for the exact mean: 1 is agreement."""
    axis = _varied(points)
    figure, panels = new_figure(columns=2, height=3.2)
    for axes, name in zip(panels, ("paper", "exact")):
        for (kernel, *_), curve in _curves(points, axis):
            _ratios(axes, curve, axis, kernel, name)
        axes.axhline(1, color=BLACK, linewidth=0.8)
        axes.set_xscale("log", base=10 if axis == "tau" else 2)
        axes.set_xlabel(AXES[axis])
        axes.set_title(f"measured mean / {LINES[name][1]}", fontsize="medium")
    panels[0].set_yscale("log")
    _legend_kernels(panels[0], [p["kernel"] for p in points])
    return figure


def _ratios(axes: Axes, curve: Sequence[Point], axis: str, kernel: str, name: str) -> None:
    found = [(p, r) for p in curve for j in p["judged"] if j["name"] == name and (r := j["ratio"])]
    found = [(p, r) for p, r in found if math.isfinite(_finite(r["high"]))]
    if not found:
        return
    y = [r["value"] for _, r in found]
    bars = axes.errorbar(
        [p[axis] for p, _ in found],
        y,
        [[r["value"] - r["low"] for _, r in found], [r["high"] - r["value"] for _, r in found]],
        fmt=MARKERS.get(kernel, "X"),
        color=KERNEL_COLOURS.get(kernel, PURPLE),
        markersize=4,
        capsize=2,
        linewidth=1,
    )
    name_points(bars.lines[0], [f"{kernel} at {p[axis]:g}: {r['value']:.4g}" for p, r in found])


def draw_residuals(points: Sequence[Point]) -> Figure:
    """(measured − exact mean) in half-widths of the measured 99 % interval: between −1 and 1 the interval holds it."""
    axis = _varied(points)
    figure, axes = new_figure(height=3.2)
    axes.axhspan(-1, 1, color=BLACK, alpha=0.08, linewidth=0)
    kernels = list(dict.fromkeys(p["kernel"] for p in points))
    for (kernel, *_), curve in _curves(points, axis):
        found = [(p, r) for p in curve for j in p["judged"] if j["name"] == "exact" and (r := j["ratio"])]
        found = [(p, r) for p, r in found if math.isfinite(_finite(r["high"]))]
        # kernels stand side by side, so that their marks do not cover each other
        shift = 1.03 ** (kernels.index(kernel) - (len(kernels) - 1) / 2)
        y = [(r["value"] - 1) / ((r["high"] - r["low"]) / 2) for _, r in found]
        colour, marker = KERNEL_COLOURS.get(kernel, PURPLE), MARKERS.get(kernel, "X")
        (marks,) = axes.plot([p[axis] * shift for p, _ in found], y, marker, color=colour, markersize=5)
        name_points(marks, [f"{kernel} at {p[axis]:g}: {v:+.2f}" for (p, _), v in zip(found, y)])
    axes.set_xscale("log", base=10 if axis == "tau" else 2)
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("(measured − exact) / half-width")
    axes.set_ylim(-2, 2)
    _legend_kernels(axes, kernels)
    return figure


def _varied(points: Sequence[Point]) -> str:
    """The axis along which the points vary; τ = √d varies with d."""
    if len({p["d"] for p in points}) > 1:
        return "d"
    return max(AXES, key=lambda name: len({p[name] for p in points}))


def _curves(points: Sequence[Point], axis: str) -> list[tuple[tuple[Any, ...], list[Point]]]:
    tied = axis == "d"  # then τ follows d and does not tell curves apart
    others = [name for name in ("n", "d", "tau") if name != axis and not (name == "tau" and tied)]
    found: dict[tuple[Any, ...], list[Point]] = {}
    for p in points:
        found.setdefault((p["kernel"], *(p[name] for name in others)), []).append(p)
    return [(key, sorted(curve, key=lambda p: p[axis])) for key, curve in found.items()]


def _curve(axes: Axes, curve: Sequence[Point], axis: str, kernel: str, points: Sequence[Point]) -> None:
    colour, marker = KERNEL_COLOURS.get(kernel, PURPLE), MARKERS.get(kernel, "X")
    x = [p[axis] for p in curve]
    for name, (dash, _) in LINES.items():
        y = [_finite(p["predicted"][name]) for p in curve]
        axes.plot(x, y, dash, color=colour, linewidth=1.4 if len(x) > 1 else 0, marker="_" if len(x) == 1 else "")
    best = [p["measured"]["importance"] or p["measured"]["mean"] for p in curve]
    _measured(axes, x, best, colour, marker, kernel, filled=True)
    _measured(axes, x, [p["measured"]["median"] for p in curve], colour, marker, f"{kernel}, median", filled=False)


def _measured(
    axes: Axes,
    x: Sequence[float],
    estimates: Sequence[Mapping[str, Any]],
    colour: str,
    marker: str,
    what: str,
    *,
    filled: bool,
) -> None:
    shown = [(a, e) for a, e in zip(x, estimates) if math.isfinite(_finite(e["high"])) and _finite(e["value"]) > 0]
    if not shown:
        return
    y = [_finite(e["value"]) for _, e in shown]
    low = [max(v - max(_finite(e["low"]), v * 1e-3), 0.0) for v, (_, e) in zip(y, shown)]
    high = [_finite(e["high"]) - v for v, (_, e) in zip(y, shown)]
    bars = axes.errorbar(
        [a for a, _ in shown], y, [low, high], fmt=marker, color=colour, markersize=5, capsize=2, linewidth=1,
        markerfacecolor=colour if filled else "none",
    )  # fmt: skip
    name_points(
        bars.lines[0],
        [
            f"{what} at {a:g}: {_finite(e['value']):.4g} in [{_finite(e['low']):.4g}, {_finite(e['high']):.4g}]"
            for a, e in shown
        ],
    )


def _legend(axes: Axes, kernels: Sequence[str]) -> None:
    handles = _kernel_handles(kernels)
    handles += [Line2D([], [], color=BLACK, ls=dash, label=label) for dash, label in LINES.values()]
    handles += [Line2D([], [], color=BLACK, marker="o", linewidth=0, label="measured mean")]
    handles += [Line2D([], [], color=BLACK, marker="o", markerfacecolor="none", linewidth=0, label="measured median")]
    axes.legend(handles=handles, fontsize="small", ncols=2)


def _legend_kernels(axes: Axes, kernels: Sequence[str]) -> None:
    axes.legend(handles=_kernel_handles(kernels), fontsize="small")


def _kernel_handles(kernels: Sequence[str]) -> list[Line2D]:
    return [
        Line2D([], [], color=KERNEL_COLOURS.get(k, PURPLE), marker=MARKERS.get(k, "X"), linewidth=0, label=k)
        for k in dict.fromkeys(kernels)
    ]


def _finite(value: Any) -> float:
    """A float; nan (not drawn) for what is absent or infinite."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan
