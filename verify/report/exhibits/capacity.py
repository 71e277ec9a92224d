"""Capacity by prediction: N against d, the best temperature, what eq. 13 is off by, and what normalisation changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("linear", "relu", "exp", "solu")
STYLES: dict[str, Any] = {
    "paper": "--",
    "exact": "-",
    "typical": ":",
    "fixed_probe": "-.",
    "ratio_of_means": (0, (1, 3)),
}
NAMES = {
    "paper": "P's formula",
    "exact": "exact mean",
    "typical": "typical (median)",
    "fixed_probe": "fixed probe",
    "ratio_of_means": "ratio of means",
}


def capacities(quick: bool) -> dict[str, Any]:
    """ln N at SNR⁻¹ = 1, tau = √d, Gaussian keys: P's formula, the exact mean, and the median of a recall."""
    from snr.capacity import log_pairs
    from snr.similarity import similarity

    rows: list[dict[str, Any]] = []
    for name in KERNELS:
        for d in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            for statistic in ("paper", "exact", "typical"):
                if statistic == "typical" and d not in ((16, 256) if quick else (16, 64, 256, 1024)):
                    continue
                log_n = log_pairs(similarity(name), d, math.sqrt(d), 1.0, statistic)
                if log_n is not None and math.isfinite(log_n):
                    rows.append({"kernel": name, "statistic": statistic, "d": d, "log_n": log_n})
    return {"rows": rows, "level": 1.0}


def draw_capacity(numbers: dict[str, Any]) -> Figure:
    """log10 N against d from rows of kernel, statistic, d, log_n; typical values as open marks, the rest as lines."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullFormatter

    from verify.report.style import BLACK, kernel_looks, new_figure, two_columns
    from verify.report.svg import name_points

    figure, axes = new_figure()
    rows = numbers["rows"]
    kernels = list(dict.fromkeys(r["kernel"] for r in rows))
    statistics = list(dict.fromkeys(r["statistic"] for r in rows))
    looks = kernel_looks(kernels)
    for kernel, look in looks.items():
        for statistic in statistics:
            chosen = [r for r in rows if r["kernel"] == kernel and r["statistic"] == statistic]
            marked = statistic == "typical"
            (line,) = axes.plot(
                [r["d"] for r in chosen],
                [r["log_n"] / math.log(10) for r in chosen],
                linestyle="none" if marked else STYLES[statistic],
                marker=look.marker,
                markersize=6 if marked else 2.5,
                markerfacecolor="none" if marked else look.colour,
                color=look.colour,
            )
            name_points(line, [f"{kernel}, {NAMES[statistic]}, d = {r['d']}: N = e^{r['log_n']:.3f}" for r in chosen])
    axes.set(xscale="log", yscale="log", xlabel="key width d", ylabel="log₁₀ N")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    handles: list[Any] = [
        Line2D([], [], color=k.colour, marker=k.marker, markersize=6, markerfacecolor="none") for k in looks.values()
    ]
    for s in statistics:
        marks = [
            Line2D([], [], color=BLACK, linestyle="none", marker=k.marker, markerfacecolor="none", markersize=5)
            for k in looks.values()
        ]
        handles.append(tuple(marks[:3]) if s == "typical" else Line2D([], [], color=BLACK, linestyle=STYLES[s]))
    named, dashes = list(zip(handles, kernels)), list(zip(handles[len(kernels) :], (NAMES[s] for s in statistics)))
    axes.legend(
        *two_columns(named, dashes), handler_map={tuple: HandlerTuple(None)}, fontsize=7, ncols=2, handlelength=2.6
    )
    if not rows:
        axes.text(0.5, 0.5, "no finite number of pairs", transform=axes.transAxes, ha="center")
    return figure


def capacity_headline(numbers: dict[str, Any]) -> str:
    found = {r["statistic"]: r["log_n"] for r in numbers["rows"] if r["kernel"] == "exp" and r["d"] == 1024}
    factor = math.exp(found["paper"] - found["exact"])
    return f"At d = 1024 and tau = √d the exp memory holds {factor:.0f} times fewer pairs than P's formula says."


def temperatures(quick: bool) -> dict[str, Any]:
    """(ln N)/d of the exp memory at SNR⁻¹ = 1 over tau, by four statistics, beside the condensation line 2/tau²."""
    from snr.capacity import log_pairs
    from snr.similarity import similarity

    d = 64
    kernel = similarity("exp")
    settings = (
        ("P's formula (eq. 13)", "paper", "gaussian"),
        ("exact mean, Gaussian keys", "exact", "gaussian"),
        ("typical, probe of norm √d", "typical", "fixed-probe"),
        ("exact mean, keys of norm √d", "exact", "sphere"),
    )
    count = 13 if quick else 25
    taus = [0.5 * 24 ** (i / (count - 1)) for i in range(count)]
    rows: list[dict[str, Any]] = []
    for label, statistic, keys in settings:
        for tau in taus:
            log_n = log_pairs(kernel, d, tau, 1.0, statistic, keys)
            if log_n is not None and math.log(2) < log_n < math.inf:  # at and below ln 2 it is but a bound
                rows.append({"statistic": label, "tau": tau, "log_n/d": log_n / d})
    return {"rows": rows, "d": d}


def draw_temperatures(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLUE, GREEN, ORANGE, VERMILION, new_figure
    from verify.report.svg import name_points

    figure, axes = new_figure()
    rows = numbers["rows"]
    looks = ((BLUE, "--", "o"), (BLUE, "-", "s"), (VERMILION, "-", "^"), (GREEN, "-", "D"))
    labels = list(dict.fromkeys(r["statistic"] for r in rows))
    for label, (colour, style, marker) in zip(labels, looks):
        chosen = [r for r in rows if r["statistic"] == label]
        taus, heights = [r["tau"] for r in chosen], [r["log_n/d"] for r in chosen]
        (line,) = axes.plot(taus, heights, style, color=colour, marker=marker, markersize=3.5, label=label)
        name_points(line, [f"{label}, tau = {t:.3g}: ln N = {h:.3f} d" for t, h in zip(taus, heights)])
    taus = sorted({r["tau"] for r in rows})
    line = [2 / t**2 for t in taus]
    axes.plot(taus, line, color=ORANGE, linewidth=1.2, label="condensation line 2/tau², Gaussian keys")
    condensed = "condensed (Gaussian keys): one rare key carries the mean"
    axes.fill_between(taus, 0, line, color=ORANGE, alpha=0.12, linewidth=0, label=condensed)
    axes.set(xscale="log", ylim=(0, 1.3), xlabel="temperature tau", ylabel="(ln N)/d at SNR⁻¹ = 1")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7)
    return figure


def temperature_headline(numbers: dict[str, Any]) -> str:
    labels = list(dict.fromkeys(r["statistic"] for r in numbers["rows"]))
    best = {k: max((r for r in numbers["rows"] if r["statistic"] == k), key=lambda r: r["log_n/d"]) for k in labels}
    formula, sphere = best[labels[0]], best[labels[-1]]
    return (
        f"P's formula has its best temperature near tau = {formula['tau']:.2g}; with keys of equal norm colder is "
        f"always better, {sphere['log_n/d'] / formula['log_n/d']:.1f} times the exponent at tau = {sphere['tau']:.2g}."
    )


def factors(quick: bool) -> dict[str, Any]:
    """Exact Gaussian mean over P's formula at tau = √d, N ≫ 1."""
    from snr import closed_forms
    from snr.closed_forms import form
    from snr.similarity import similarity

    rows: list[dict[str, Any]] = []
    for name in KERNELS:
        for i in range(2, 57):
            d = max(3, round(2 ** (i / 4)))
            found = form(similarity(name), math.sqrt(d), d)
            assert found is not None
            log = closed_forms.gaussian_mean(found, d) - closed_forms.fixed_probe(found, d)
            if math.isfinite(log) and d not in [r["d"] for r in rows if r["kernel"] == name]:
                rows.append({"kernel": name, "d": d, "factor": math.exp(log)})
    return {"rows": rows, "limit": math.exp(4)}


def draw_factors(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import KERNEL_COLOURS, new_figure
    from verify.report.svg import name_points

    figure, axes = new_figure()
    for name, style in zip(KERNELS, ("-", "--", "-", "-")):
        rows = [r for r in numbers["rows"] if r["kernel"] == name]
        widths, heights = [r["d"] for r in rows], [r["factor"] for r in rows]
        (line,) = axes.plot(widths, heights, style, marker=".", markersize=3, color=KERNEL_COLOURS[name], label=name)
        name_points(line, [f"{name}, d = {d}: {h:.3f}" for d, h in zip(widths, heights)])
    axes.axhline(numbers["limit"], color="#999999", linewidth=0.8)
    axes.annotate("e⁴", (3, numbers["limit"]), textcoords="offset points", xytext=(0, 3))
    axes.set(xscale="log", yscale="log", xlabel="key width d", ylabel="exact mean / P's formula")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7)
    return figure


def factor_formula() -> str:
    """The exact mean of the exp memory per other pair, as MathML."""
    from snr.derivation import Step, derive, equation
    from snr.similarity import similarity

    mean = derive(similarity("exp")).mean
    assert mean is not None
    return Step("", equation("mean", mean)).mathml


def factor_headline(numbers: dict[str, Any]) -> str:
    at = {r["d"]: r["factor"] for r in numbers["rows"] if r["kernel"] == "exp"}
    return f"Eq. 13 understates the exp memory's mean noise by {at[64]:.3g} at d = 64 and {at[1024]:.3g} at d = 1024."


def normalised_errors(quick: bool) -> dict[str, Any]:
    """SNR⁻¹ and the recall error of normalised softmax over N, d = 64, tau = √d, keys of norm √d."""
    from snr.predictions import predict
    from snr.similarity import similarity
    from snr.softmax import recall_error

    d, rows = 64, []
    for i in range(1, 25, 2 if quick else 1):
        n = 2**i
        snr = predict(similarity("exp"), n, d, math.sqrt(d), "sphere", typical=False).exact.value
        rows.append({"N": n, "snr": snr, "error": recall_error(n, d, math.sqrt(d), "sphere")})
    return {"rows": rows, "d": d}


def draw_normalised(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLUE, VERMILION, new_figure
    from verify.report.svg import name_points

    figure, axes = new_figure()
    for key, colour, marker, label in (
        ("snr", BLUE, "s", "SNR⁻¹, the error of o/c"),
        ("error", VERMILION, "^", "error of the normalised answer"),
    ):
        pairs, heights = [r["N"] for r in numbers["rows"]], [r[key] for r in numbers["rows"]]
        (line,) = axes.plot(pairs, heights, marker=marker, markersize=4, color=colour, label=label)
        name_points(line, [f"{label}, N = {n}: {h:.3g}" for n, h in zip(pairs, heights)])
    axes.axhline(1, color="#999999", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="pairs N", ylabel="relative squared error")
    axes.legend(fontsize=7)
    return figure


GAUSSIAN = ("keys N(0, I_d), independent", "values of mean 0, independent of the keys")

EXHIBITS = (
    Exhibit(
        "capacity-width",
        "capacity",
        "How many pairs a width holds",
        "N at which SNR⁻¹ = 1, tau = √d. Dashed: P's formulas (a probe of norm √d). Solid: the exact mean over "
        "Gaussian keys. Open markers: the median of one recall. Linear and ReLU hold a multiple of d pairs, exp and "
        "SoLU e^(2√d) up to constants; the mean of exp loses a factor that tends to e⁴.",
        "python -m verify capacity --kernel linear relu exp solu --dk 8 16 32 64 128 256 512 1024 2048 4096",
        capacities,
        draw_capacity,
        "Log-log plot of log N against d: linear and ReLU rise slowly, exp and SoLU like the square root of d.",
        assumptions=GAUSSIAN,
        headline=capacity_headline,
    ),
    Exhibit(
        "capacity-temperature",
        "capacity",
        "The best temperature depends on which inverse SNR is meant",
        "(ln N)/d of the exp memory at SNR⁻¹ = 1 and d = 64. P's formula and the exact Gaussian mean peak near tau = "
        "2. Inside the shaded region, below ln N = 2d/tau², one rare key carries the mean: there the median recall of "
        "a probe of norm √d keeps an exponent near ½ however cold. When all keys have norm √d no product exceeds ‖k‖², "
        "and capacity grows without bound as tau falls.",
        "python -m verify capacity --kernel exp --dk 64 --temperature",
        temperatures,
        draw_temperatures,
        "Four curves over tau: two peak at 2, the typical one is flat below 2, the equal-norm one rises to the left.",
        assumptions=("values of mean 0, independent of the keys", "key laws as labelled"),
        headline=temperature_headline,
    ),
    Exhibit(
        "capacity-factor",
        "capacity",
        "By how much P's formulas understate the mean noise",
        "Exact mean over Gaussian keys divided by P's formula, tau = √d, N large. For linear and ReLU it is d/(d−2); "
        "for exp and SoLU it tends to e⁴, because probes shorter and longer than √d weigh exponentially.",
        "python -m verify claims --only P-2.1-eq13-exp",
        factors,
        draw_factors,
        "Log-log plot over d: linear and ReLU fall to 1, exp and SoLU rise towards e to the fourth.",
        assumptions=GAUSSIAN,
        formula=factor_formula,
        headline=factor_headline,
    ),
    Exhibit(
        "capacity-normalisation",
        "capacity",
        "Normalisation leaves SNR⁻¹ alone, not the recall error",
        "Exp memory, d = 64, tau = √d, keys of norm √d. Dividing by Σκ changes signal and noise alike, so SNR⁻¹ is the "
        "same; but the normalised answer is p_i v_i plus noise, and its error E‖o − v_i‖²/E‖v‖² is first far above "
        "SNR⁻¹ and then near 1 where SNR⁻¹ grows on.",
        "python -m verify claims --only P-2.1-normalisation",
        normalised_errors,
        draw_normalised,
        "Log-log plot over N: SNR⁻¹ is a straight line, the normalised error rises earlier and levels off at 1.",
        assumptions=("keys uniform on ‖k‖ = √d", "values of mean 0, independent of the keys"),
    ),
)
