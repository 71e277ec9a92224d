"""Figures about key sets: what coherence costs in dimensions, and what building keys does to the Gram matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 512
DIMENSIONS = tuple(range(40, 161, 2))
DESCENT_DIMENSIONS = (56, 64, 67, 70, 80, 88, 96, 112, 128, 144, 160)


def _coherence(quick: bool) -> dict[str, Any]:
    from theorem.bounds import CLOSED, delsarte
    from theorem.bounds import coherence_bounds as bounds_of
    from theorem.known import narrowest
    from theorem.packings import build, random_keys
    from theorem.packings.constructions import offers

    dimensions = DIMENSIONS[::10] if quick else DIMENSIONS
    measured = DESCENT_DIMENSIONS[2::4] if quick else DESCENT_DIMENSIONS
    seconds = 0.5 if quick else 8.0
    bounds: dict[str, list[float]] = {name: [bound(N, d) for d in dimensions] for name, bound in CLOSED.items()}
    bounds["lp"] = [delsarte(N, d) for d in dimensions]
    points: dict[str, list[tuple[int, float]]] = {}
    for d in range(dimensions[0], dimensions[-1] + 1, 8 if quick else 1):
        for offer in offers(N, d):
            family = offer.construction.split(" q = ")[0].split(" p = ")[0].split(" d = ")[0].split(" [")[0]
            family += ", lifted" if "lifted" in offer.construction else ""
            if offer.coherence < 0.16 and all(c > offer.coherence + 1e-9 for _, c in points.get(family, [])):
                points.setdefault(family, []).append((d, offer.coherence))
    known = narrowest(N)
    return {
        "n": N,
        "d": dimensions,
        "known": {"d": known.d, "coherence": known.keys().coherence, "construction": known.construction},
        "bounds": bounds,
        "random": [random_keys(N, d).coherence for d in dimensions],
        "constructions": points,
        "rows": [
            {"d": d, "coherence": k.coherence, "bound": max(bounds_of(N, d).values()), "construction": k.construction}
            for d in measured
            for k in [build(N, d, seconds).keys]
        ],
    }


def _headline(numbers: dict[str, Any]) -> str:
    least = min(row["d"] for row in (*numbers["rows"], numbers["known"]) if row["coherence"] < 1 / 8)
    return f"{numbers['n']} keys below 1/8 fit into {least} dimensions"


def _draw_coherence(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW, new_figure

    figure, axes = new_figure(height=4.2)
    axes.plot(numbers["d"], numbers["random"], color=ORANGE, label="random keys")
    colours = (SKY, GREEN, PURPLE, YELLOW, BLUE)
    for i, (family, points) in enumerate(sorted(numbers["constructions"].items())):
        marker = "sD^vP*X<>"[i % 9]
        axes.plot(*zip(*points), marker, color=colours[i % len(colours)], markersize=4, label=family)
    axes.plot(
        *zip(*[(row["d"], row["coherence"]) for row in numbers["rows"]]),
        "o-",
        color=VERMILION,
        markersize=4,
        label="best built",
    )
    known = numbers["known"]
    axes.plot(known["d"], known["coherence"], "*", color=BLACK, markersize=8, label="least d known below 1/8")
    welch, programme = numbers["bounds"]["welch"], numbers["bounds"]["lp"]
    same = max(abs(a - b) for a, b in zip(welch, programme)) < 1e-4
    axes.plot(numbers["d"], welch, color=BLACK, label="Welch's bound" + (" (the programme's too)" if same else ""))
    if not same:
        axes.plot(numbers["d"], programme, ":", color=BLACK, label="linear programme's bound")
    axes.axhline(1 / 8, color=BLACK, linewidth=0.7, linestyle="--")
    axes.annotate("1/8", (numbers["d"][-1], 1 / 8), xytext=(0, 3), textcoords="offset points", ha="right")
    axes.set(xlabel="dimension d", ylabel=f"coherence of {numbers['n']} keys", yscale="log")
    ticks = (0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_yticks([], minor=True)
    axes.legend(fontsize=7, ncols=2)
    return figure


def _gram(quick: bool) -> dict[str, Any]:
    import numpy as np

    from theorem.packings import build, random_keys

    d = 128
    edges = np.linspace(-0.5, 0.5, 101)
    counts = {}
    for name, keys in (
        ("random", random_keys(N, d)),
        ("built", build(N, d, 2.0 if quick else 15.0).keys),
    ):
        unit = keys.unit()
        products = (unit @ unit.T)[np.triu_indices(N, 1)]
        counts[name] = np.histogram(products, edges)[0].tolist()
        counts[f"{name} coherence"] = keys.coherence
    return {"n": N, "d": d, "edges": edges.tolist(), **counts}


def _draw_gram(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, ORANGE, VERMILION, new_figure

    figure, axes = new_figure(height=3.2)
    for name, colour in (("random", ORANGE), ("built", VERMILION)):
        label = f"{name} keys, coherence {numbers[f'{name} coherence']:.3f}"
        axes.stairs(numbers[name], numbers["edges"], color=colour, fill=True, alpha=0.5, label=label)
    for side in (-1, 1):
        axes.axvline(side / 8, color=BLACK, linewidth=0.7, linestyle="--")
    axes.set(xlabel="inner product of two keys (dashed: ±1/8)", ylabel="pairs", yscale="log")
    axes.legend()
    return figure


EXHIBITS = (
    Exhibit(
        id="keys-coherence",
        section="keys",
        title=f"What coherence costs: {N} keys against their dimension",
        caption=(
            "The least coherence reached by each algebraic construction and by descent, random keys, and lower bounds:"
            " no keys lie below the black lines. Assumption 1 wants less than 1/8."
        ),
        command=f"python -m verify keys --n {N} --d 128",
        compute=_coherence,
        draw=_draw_coherence,
        headline=_headline,
        alt=f"Coherence of {N} keys falls with d; built keys stay near the Welch bound, random keys far above 1/8.",
    ),
    Exhibit(
        id="keys-gram",
        section="keys",
        title=f"The Gram matrix before and after: {N} keys in 128 dimensions",
        caption=(
            "Histogram of the inner products of all pairs of keys. Random keys spread far beyond ±1/8; built keys crowd"
            " at plus and minus their coherence, inside ±1/8: what a given mean square of products allows."
        ),
        command=f"python -m verify keys --n {N} --d 128",
        compute=_gram,
        draw=_draw_gram,
        alt="A wide bell of inner products for random keys; for built keys a narrow shape, densest at both ends.",
    ),
)
