"""Figures of Lemma 1: how far the products of swaps get from what they should round to, and what margin is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.provenance import SOURCE
from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDED_KEYS = SOURCE / "theorem" / "recorded" / "keys-512-128.npz"
BINS = 60


def compute_windows(quick: bool) -> dict[str, Any]:
    """For certified keys and random ones of the same size: histograms of each swap's worst product, by target."""
    import numpy as np

    from theorem.checker import read_certificate
    from theorem.lemma import deviations, gram_condition_of

    certificate, _ = read_certificate(RECORDED_KEYS)
    n, d = certificate.z.shape
    random = np.random.default_rng(0).standard_normal((n, d))
    random = np.rint(2**12 * random / np.linalg.norm(random, axis=1, keepdims=True)).astype(np.int64)
    edges = np.linspace(0.0, 1.2, BINS + 1)
    key_sets = {}
    for name, z, scale in (("certified", certificate.z.astype(np.int64), certificate.scale), ("random", random, 2**24)):
        gram = z @ z.T
        by_target = deviations(gram, scale)
        unit = np.sqrt(np.diag(gram))
        key_sets[name] = {
            "coherence": float(np.abs(gram / np.outer(unit, unit) - np.eye(n)).max()),
            "margin": float(gram_condition_of(gram, scale, certificate.rule).margin),
            "counts": {str(t): np.histogram(x, edges)[0].tolist() for t, x in by_target.items()},
            "largest": {str(t): float(x.max()) for t, x in by_target.items()},
        }
    return {"n": n, "d": d, "swaps": n * (n - 1) // 2, "edges": edges.tolist(), "keys": key_sets}


def draw_windows(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, new_figure

    figure, axes = new_figure(6.4, 4.4, rows=2)
    colours = {"0": BLUE, "1": ORANGE, "2": GREEN}
    for axis, (name, found) in zip(axes, numbers["keys"].items(), strict=True):
        for target, counts in found["counts"].items():
            axis.stairs(counts, numbers["edges"], color=colours[target], fill=True, alpha=0.35)
            label = "products that should be " + {"0": "0", "1": "±1", "2": "2"}[target]
            axis.stairs(counts, numbers["edges"], color=colours[target], label=label)
        axis.axvline(0.5, color=BLACK, linewidth=1)
        axis.set_title(
            f"{name} keys, n = {numbers['n']}, d = {numbers['d']}: coherence {found['coherence']:.3f}, "
            f"margin {found['margin']:+.3f}",
            loc="left",
            fontsize=9,
        )
        axis.set_xlim(numbers["edges"][0], numbers["edges"][-1])
        axis.set_ylabel("swaps")
    axes[0].legend()
    axes[-1].set_xlabel("largest distance of a product from its integer; above 1/2 it rounds to another")
    return figure


def compute_margin(quick: bool) -> dict[str, Any]:
    """Coherence and margin of many key sets of different kinds."""
    from fractions import Fraction

    import numpy as np
    from scipy.linalg import hadamard

    from theorem.checker import read_certificate
    from theorem.lemma import gram_condition
    from theorem.sharpness import IntegerKeys, simplex, worst_case

    def point(keys: IntegerKeys, label: str) -> dict[str, Any]:
        margin = gram_condition(keys.z, keys.scale).margin
        return {"label": label, "coherence": float(keys.coherence_squared) ** 0.5, "margin": float(margin)}

    generator = np.random.default_rng(0)
    n, size = 48, 2**12
    series: dict[str, list[dict[str, Any]]] = {"random keys, n = 48": []}
    for d in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
        k = generator.standard_normal((n, d))
        z = np.rint(size * k / np.linalg.norm(k, axis=1, keepdims=True)).astype(np.int64)
        series["random keys, n = 48"].append(point(IntegerKeys(z, size * size), f"d = {d}"))
    series["basis and Hadamard rows, n = 2d"] = [
        point(
            IntegerKeys(np.vstack([root * np.eye(root**2, dtype=np.int64), hadamard(root**2)]), root**2),
            f"d = {root**2}",
        )
        for root in (4, 8, 16)
    ]
    series["simplex, norm 1"] = [point(simplex(m, True), f"n = {m}") for m in (3, 4, 5, 6, 8, 12, 20, 40)]
    series["simplex, k = e − 1/n"] = [point(simplex(m, False), f"n = {m}") for m in (3, 4, 5, 6, 8, 12, 20, 40)]
    series["worst case, n = 4"] = [point(worst_case(Fraction(c, 40)), f"{c}/40") for c in range(1, 12)]
    certificate, _ = read_certificate(RECORDED_KEYS)
    certified = IntegerKeys(certificate.z.astype(np.int64), certificate.scale)
    series["certified, n = 512, d = 128"] = [point(certified, "int8")]
    return {"series": series}


def draw_margin(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, new_figure

    figure, axis = new_figure(6.4, 4.8)
    looks = zip((BLUE, SKY, ORANGE, GREEN, VERMILION, PURPLE), "osD^vP", strict=True)
    axis.plot([0, 0.3], [0.5, 0.5 - 4 * 0.3], color=BLACK, linewidth=1, label="1/2 − 4ε: no unit keys below")
    axis.plot([0, 0.6], [0.5, 0.5 - 2 * 0.6], color=BLACK, linewidth=1, linestyle="--", label="1/2 − 2ε: none above")
    for (name, points), (colour, marker) in zip(numbers["series"].items(), looks, strict=True):
        x, y = [p["coherence"] for p in points], [p["margin"] for p in points]
        axis.plot(x, y, marker=marker, color=colour, linewidth=0.8, markersize=5, label=name)
    axis.axhline(0, color=BLACK, linewidth=0.8, linestyle=":")
    axis.axvline(0.125, color=BLACK, linewidth=0.8, linestyle=":")
    axis.set(xlim=(0, 0.52), ylim=(-0.62, 0.52), xlabel="coherence ε", ylabel="margin (Theorem 1 holds above 0)")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def compute_dimensions(quick: bool) -> dict[str, Any]:
    """Margins that descent on the condition itself reaches for 128 slots, beside what coherence could give."""
    import numpy as np

    from theorem.lemma import gram_condition
    from theorem.spread import integer_keys, lower_spread

    n, iterations = 128, 120 if quick else 400
    points = []
    for d in (36, 40, 42, 44, 50, 60) if quick else range(34, 66, 2):
        start = np.random.default_rng(0).standard_normal((n, d)) / np.sqrt(d)
        z, scale = integer_keys(lower_spread(start, iterations), 2047)
        welch = ((n - d) / (d * (n - 1))) ** 0.5
        margin = float(gram_condition(z, scale).margin)
        points.append({"d": d, "margin": margin, "guarantee": 0.5 - 4 * welch, "unit": 0.5 - 2 * welch})
    return {"n": n, "iterations": iterations, "points": points}


def draw_dimensions(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, ORANGE, VERMILION, new_figure

    figure, axis = new_figure(6.4, 3.8)
    d = [p["d"] for p in numbers["points"]]
    axis.plot(d, [p["unit"] for p in numbers["points"]], color=ORANGE, linestyle="--", label="no unit keys above")
    axis.plot(
        d, [p["margin"] for p in numbers["points"]], "o-", color=BLUE, label="found by descent, exact for integer keys"
    )
    words = "most that Assumption 1 can guarantee (Welch)"
    axis.plot(d, [p["guarantee"] for p in numbers["points"]], color=VERMILION, label=words)
    axis.axhline(0, color=BLACK, linewidth=0.8, linestyle=":")
    axis.set(xlabel=f"dimensions d, for n = {numbers['n']} slots", ylabel="margin (Theorem 1 holds above 0)")
    axis.set_ylim(top=0.46)
    axis.legend(loc="upper left")
    return figure


EXHIBITS = (
    Exhibit(
        id="lemma-windows",
        section="exchange",
        title="Every pair of swaps, for keys that work and for keys that do not",
        caption=(
            "For each swap (i, j), the inner product with another slot or swap that lies furthest from its integer, by "
            "what that integer is. Rounding is right up to 1/2 (line). P App. E bounds the three by 4ε, 3ε and 2ε. The "
            "upper keys are a certificate of Theorem 1; the lower ones, random of the same size, fail it."
        ),
        command=f"python -m verify check {RECORDED_KEYS.relative_to(SOURCE)}",
        compute=compute_windows,
        draw=draw_windows,
        alt="Histograms of each swap's worst product: below one half for certified keys, mostly above for random ones.",
        assumptions=("f = round",),
    ),
    Exhibit(
        id="lemma-margin",
        section="exchange",
        title="The margin of Theorem 1 against coherence",
        caption=(
            "Margin: 1/2 minus the largest second difference |R_il − R_jl − R_im + R_jm| of R = G − I, padded by zero; "
            "Theorem 1 with f = round holds exactly where it is positive (at 0 the rounding rule decides). Assumption "
            "1 guarantees the solid line, where the worst case of four keys lies. Unit keys stay below the broken one: "
            "above ε = 1/4 none work, though keys of other norms can."
        ),
        command="python -m verify claims --only P-E-gram-condition P-E-simplex P-E-eighth-tight",
        compute=compute_margin,
        draw=draw_margin,
        alt="Margin falls with coherence; unit keys lie between the lines 1/2 − 4ε and 1/2 − 2ε.",
        assumptions=("f = round",),
    ),
    Exhibit(
        id="lemma-dimensions",
        section="exchange",
        title="Fewer dimensions than Assumption 1 allows",
        caption=(
            "128 slots. Descent on the condition of Theorem 1 itself, norms left free, against the most that coherence "
            "can guarantee: 1/2 − 4ε at the Welch bound, which no keys need attain. Theorem 1 holds where a dot is "
            "above 0, for every sequence of swaps; the broken line is 1/2 − 2ε at the Welch bound."
        ),
        command="python -m verify spread --n 128 --d 42 --iterations 400 --peak 2047",
        compute=compute_dimensions,
        draw=draw_dimensions,
        alt="The margin found by descent lies above the best that coherence guarantees and crosses zero earlier.",
        assumptions=("f = round",),
    ),
)
