"""The kernels: how far rounding moves them, where the product form breaks, and what they cost on a GPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit, NotRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILARITIES = ("softmax", "exp", "linear", "relu", "round", "solu")
FORMS = ("parallel", "chunked")
WIDTH = 64


def rounding_errors(quick: bool) -> dict[str, Any]:
    """Errors and bounds of the torch forms in float32, by similarity and T."""
    try:
        from kernels.agreement import agreement, gaussian_problem, gentle_beta
    except ModuleNotFoundError as error:
        raise NotRun("Needs torch: pip install 'associative-memory-verify[kernels]'") from error
    rows = []
    for length in (16, 32, 64, 128, 256) if quick else (16, 32, 64, 128, 256, 512):
        for write in SIMILARITIES:
            problem = gaussian_problem(length, WIDTH, WIDTH, beta=gentle_beta(write, length))
            rows += [agreement(form, write, write, problem).to_json() for form in FORMS]
    return {"rows": rows}


def draw_errors(numbers: dict[str, Any], form: str = "chunked") -> Figure:
    from verify.report.style import BLACK, KERNEL_COLOURS, MARKERS, new_figure
    from verify.report.svg import name_points

    figure, panels = new_figure(width=7.6, height=3.9, columns=2)
    for axes, stage in zip(panels, ("u", "o")):
        for name in SIMILARITIES:
            colour = BLACK if name == "softmax" else KERNEL_COLOURS[name]
            rows = [r for r in numbers["rows"] if r["write"] == name and r["form"] == form]
            lengths = [r["length"] for r in rows]
            axes.plot(lengths, [r[f"{stage}_bound"] for r in rows], "--", color=colour, linewidth=0.8, alpha=0.7)
            errors = [r[f"{stage}_error"] for r in rows]
            (line,) = axes.plot(lengths, errors, color=colour, marker=MARKERS[name], markersize=4, label=name)
            name_points(line, [f"{name}, T = {t}: {e:.1e}" for t, e in zip(lengths, errors)])
        axes.axhline(2.0**-24, color="#999999", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="tokens T", title=f"worst row of {stage}")
        axes.set_xticks(lengths, [str(t) for t in lengths], minor=False)
        axes.minorticks_off()
    panels[0].set_ylabel("error / largest entry")
    panels[0].legend(ncols=2, fontsize=7)
    return figure


def errors_headline(numbers: dict[str, Any]) -> str:
    worst = max(r["ratio"] for r in numbers["rows"])
    count = len(numbers["rows"])
    if worst <= 1:
        return f"In {count} comparisons no row of u or o leaves its rounding bound; the worst uses {worst:.0%} of it."
    return f"In {count} comparisons some row exceeds its rounding bound, by a factor of {worst:.3g}."


def inverse_errors(quick: bool) -> dict[str, Any]:
    """Error of a chunk's inverse in float32 against substitution in float64, by two routes and two kinds of A."""
    import numpy as np

    from kernels import exact

    rows = []
    for size in (4, 8, 16, 32, 64, 128):
        strict = np.tril(np.ones((size, size)), -1)
        logits = np.random.default_rng(0).standard_normal((size, size))
        softmax = np.exp(logits) * strict
        softmax[1:] /= softmax[1:].sum(1, keepdims=True)
        for kind, a in (("softmax rows", softmax), ("2.9 everywhere", 2.9 * strict)):
            rounded = a.astype(np.float32)
            truth = exact.substitution_inverse(rounded.astype(float))
            row: dict[str, Any] = {"A": kind, "C": size, "norm": np.abs(truth).sum(1).max()}
            for route in ("product", "substitution"):
                with np.errstate(over="ignore", invalid="ignore"):
                    found = getattr(exact, f"{route}_inverse")(rounded).astype(float)
                error = np.abs(found - truth).max() / np.abs(truth).max()
                row[route] = float(error) if math.isfinite(error) else math.inf
            rows.append(row)
    return {"rows": rows}


def draw_inverses(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLUE, VERMILION, new_figure
    from verify.report.svg import name_points

    figure, axes = new_figure()
    floor = 2.0**-27  # an error of zero has no place on a logarithmic axis
    for kind, style in (("softmax rows", "--"), ("2.9 everywhere", "-")):
        rows = [r for r in numbers["rows"] if r["A"] == kind]
        for route, colour, marker in (("product", VERMILION, "o"), ("substitution", BLUE, "s")):
            seen = [(r["C"], r[route]) for r in rows if r[route] != "inf"]
            label = f"{route}, {kind}" + (" (overflows beyond)" if len(seen) < len(rows) else "")
            sizes, errors = zip(*seen)
            (line,) = axes.plot(
                sizes, [max(e, floor) for e in errors], style, color=colour, marker=marker, markersize=4, label=label
            )
            name_points(line, [f"{route}, {kind}, C = {c}: {e:.1e}" for c, e in seen])
    axes.axhline(1, color="#999999", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="chunk C", ylabel="error / largest entry of (I + A)⁻¹")
    every = sorted({r["C"] for r in numbers["rows"]})
    axes.set_xticks(every, [str(c) for c in every], minor=False)
    axes.minorticks_off()
    axes.legend(fontsize=7)
    return figure


def speeds(quick: bool) -> dict[str, Any]:
    """The recorded forward times, each also as a multiple of FlashAttention-2's at the same shape in the same run."""
    from verify.kernel_speeds import NOT_RUN, recorded_speeds

    try:
        record = recorded_speeds()
    except ValueError as error:
        raise NotRun(str(error)) from error
    if record is None:
        raise NotRun(NOT_RUN)
    rows = []
    for row in record["rows"]:
        ms = row["ms"]
        shape = " × ".join(map(str, row["shape"]))
        rows += [
            {"case": row["case"], "shape": shape, "who": who, "ms": time, "of FA2": time / ms["fa2"]}
            for who, time in ms.items()
            if "fa2" in ms
        ]
    if not rows:
        raise NotRun("the record holds no case that FlashAttention-2 ran beside; run python -m kernels.bench again")
    return {"device": record["device"], "rows": rows}


def draw_speeds(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, new_figure
    from verify.report.svg import name_points

    names = {"ours": (BLUE, "o"), "fa2": (BLACK, "|"), "cudnn": (GREEN, "D"), "fla": (ORANGE, "s")}
    places = list(dict.fromkeys(f"{r['case']}, {r['shape']}" for r in numbers["rows"]))
    figure, axes = new_figure(width=7.2, height=1.2 + 0.3 * len(places))
    for who in dict.fromkeys(r["who"] for r in numbers["rows"]):
        colour, marker = names.get(who, (PURPLE, "v"))
        rows = [r for r in numbers["rows"] if r["who"] == who]
        heights = [places.index(f"{r['case']}, {r['shape']}") for r in rows]
        (line,) = axes.plot([r["of FA2"] for r in rows], heights, marker, color=colour, label=who)
        name_points(line, [f"{who}: {r['ms']:.3g} ms, {r['of FA2']:.2f} × FA2" for r in rows])
    axes.set_yticks(range(len(places)), places, fontsize=7)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel=f"forward time / FlashAttention-2's ({numbers['device']})")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.4, 1.16))
    return figure


EXHIBITS = (
    Exhibit(
        "kernels-rounding",
        "kernels",
        "Rounding in float32 against the float64 oracle",
        "Solid: the worst row's error of the form over the largest entry of the true u (left) and o (right). "
        "Dashed: what rounding can do at most, from |(I + A)⁻¹| and the roundings of every sum. Grey: one "
        "unit of roundoff. Round's bound jumps where a score is so near a tie that float32 may round it the other way. "
        "Gaussian keys of width 64, w = k, β = 1 for softmax and 1/T for the rest.",
        "python -m verify kernel --case beta --length 16 32 64 128 256 512 --d 64 --dv 64 --device cpu",
        rounding_errors,
        draw_errors,
        "Two log-log panels: measured errors of u and o near 1e-7 for six similarities, each below its dashed bound.",
        assumptions=("float32", "Gaussian keys", "β as stated"),
        views=(("parallel form", lambda numbers: draw_errors(numbers, "parallel")),),
        headline=errors_headline,
    ),
    Exhibit(
        "kernels-product-form",
        "kernels",
        "The product form is safe where rows sum to one, and only there",
        "Error of a chunk's inverse (I + A)⁻¹ in float32. With softmax rows both routes keep their digits. With 2.9 in "
        "every place below the diagonal, where ‖(I + A)⁻¹‖∞ grows like 1.9^C, powers of A cancel and the product "
        "form's error passes the inverse itself (grey line) before it overflows; substitution keeps its digits. So "
        "unnormalised similarities are substituted.",
        "python -m verify claims --only D-F-unnormalised-growth",
        inverse_errors,
        draw_inverses,
        "Log-log plot: three lines stay near 1e-7, the product form with 2.9 rises through 1.",
    ),
    Exhibit(
        "kernels-speed",
        "kernels",
        "Speed beside attention",
        "Median forward time of DeltaFormer over that of FlashAttention-2 at the same shape [B, T, H, D], bfloat16. "
        "cudnn is torch's cuDNN attention, fla the public DeltaFormer of flash-linear-attention.",
        "python -m kernels.bench",
        speeds,
        draw_speeds,
        "Dot plot: for each shape the time of our kernel, cuDNN attention and the public kernel relative to FA2.",
        assumptions=("a recorded run on the GPU named below the axis",),
    ),
)
