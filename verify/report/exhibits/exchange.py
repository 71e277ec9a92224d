"""State exchange (P App. E): what each f makes of it, and what a sum of exponentials can and cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOTS = 16
EPSILON = 0.02
SHOWN = ("linear", "relu", "exp4", "hermite8", "exp16", "exp24", "round")
FLOOR = 1e-16  # where an error of exactly zero is drawn on a logarithmic axis


def _errors(quick: bool) -> dict[str, Any]:
    """Largest error of any slot against the number of swaps, and how many slots are wrong."""
    import numpy as np

    from theorem.activations import activation
    from theorem.exchange import replay, signed_gram
    from theorem.exponentials import accumulated_error, summation_error
    from theorem.swaps import random_swaps

    steps = 1000 if quick else 10_000
    gram = signed_gram(SLOTS, EPSILON, np.random.default_rng(1))
    swaps = random_swaps(SLOTS, steps, np.random.default_rng(2))
    marks = np.unique(np.geomspace(1, steps, 40).astype(int)).tolist()
    rows, first = [], {}
    for name in SHOWN:
        found = replay(gram, swaps, activation(name, EPSILON), checkpoints=marks)
        first[name] = found.first_wrong
        rows += [
            {"f": name, "swaps": c.swap, "largest error": c.max_error, "wrong slots": c.wrong_slots}
            for c in found.checkpoints
        ]
    fitted = activation("exp24", EPSILON).sum
    assert fitted is not None
    delta = fitted.certified_error(EPSILON) + fitted.rounding(EPSILON) + summation_error(SLOTS + steps)
    bound = accumulated_error(SLOTS, steps, delta)
    return {
        "rows": rows,
        "first wrong swap": first,
        "bound for exp24": [{"swaps": int(t), "bound": float(bound[t])} for t in [0, *marks]],
        "keys": SLOTS,
        "epsilon": EPSILON,
        "steps": steps,
    }


def _draw_errors(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, GREEN, KERNEL_COLOURS, PURPLE, SKY, VERMILION, YELLOW, new_figure

    colours = {
        "linear": KERNEL_COLOURS["linear"],
        "relu": KERNEL_COLOURS["relu"],
        "round": PURPLE,
        "exp4": VERMILION,
        "hermite8": YELLOW,
        "exp16": SKY,
        "exp24": GREEN,
    }
    figure, axes = new_figure()
    for name in SHOWN:
        rows = [r for r in numbers["rows"] if r["f"] == name]
        errors = [max(_number(r["largest error"]), FLOOR) for r in rows]
        seen = [(r["swaps"], e) for r, e in zip(rows, errors) if e < 1e12]
        axes.plot([max(t, 0.7) for t, _ in seen], [e for _, e in seen], color=colours[name], label=name)
    bound = [(row["swaps"], _number(row["bound"])) for row in numbers["bound for exp24"]]
    axes.plot(
        [max(t, 0.7) for t, b in bound if b < 1e3],
        [b for _, b in bound if b < 1e3],
        color=colours["exp24"],
        linestyle=":",
        label="exp24, proven bound",
    )
    axes.axhline(1, color=BLACK, linewidth=0.8, linestyle="--")
    axes.text(0.75, 60, "above the dashed line a sign may flip", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(FLOOR / 3, 1e12)
    axes.set_xlabel("swaps")
    axes.set_ylabel("largest error of a coordinate (values ±1)")
    axes.legend(fontsize=8, ncols=2, loc="center left", bbox_to_anchor=(0.02, 0.25), frameon=False)
    return figure


def _headline_errors(numbers: dict[str, Any]) -> str:
    first = numbers["first wrong swap"]
    return (
        f"State exchange is exact under rounding for all {numbers['steps']:,} swaps; the paper's four exponentials "
        f"lose a slot at swap {first['exp4']} even for keys of coherence {numbers['epsilon']:g}."
    )


def _fits(quick: bool) -> dict[str, Any]:
    """The least error of J exponentials near −1, 0, 1, 2, enclosed, and the bits its printed form needs."""
    from theorem.exponentials import best

    rows = []
    for rate in (1.0, 0.25):
        for epsilon in (1 / 8, 0.0905, 0.05, 0.02, 0.005):
            for terms in range(4, 33 if quick else 61, 4):
                try:
                    fit = best(terms, epsilon, rate)
                except ValueError:  # below what float64 resolves
                    break
                rows.append(
                    {
                        "rate": rate,
                        "epsilon": epsilon,
                        "exponentials": terms,
                        "error at most": fit.upper,
                        "error at least": fit.lower,
                        "bits": round(fit.bits(), 1),
                    }
                )
    return {"rows": rows}


def _draw_fits(rate: float, numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, SKY, VERMILION, new_figure

    figure, axes = new_figure()
    chosen = [r for r in numbers["rows"] if r["rate"] == rate]
    for epsilon, colour in zip(sorted({r["epsilon"] for r in chosen}), (SKY, GREEN, ORANGE, VERMILION, BLUE)):
        rows = [r for r in chosen if r["epsilon"] == epsilon]
        terms, upper = [r["exponentials"] for r in rows], [r["error at most"] for r in rows]
        axes.plot(terms, upper, color=colour, label=f"ε = {epsilon:g}")
        for bits, marker in ((24, "o"), (53, "s")):
            fitting = [r for r in rows if r["bits"] <= bits]
            if fitting:
                axes.plot(
                    fitting[-1]["exponentials"],
                    fitting[-1]["error at most"],
                    marker,
                    color=colour,
                    markerfacecolor="white",
                )
    axes.plot([], [], "o", color=BLACK, markerfacecolor="white", label="last that float32 can add up")
    axes.plot([], [], "s", color=BLACK, markerfacecolor="white", label="last that float64 can add up")
    axes.set_yscale("log")
    axes.set_xlabel("number of exponentials J")
    axes.set_ylabel("least error near −1, 0, 1, 2")
    axes.legend(fontsize=8, loc="lower left", frameon=False)
    return figure


def _headline_fits(numbers: dict[str, Any]) -> str:
    rows = [r for r in numbers["rows"] if r["rate"] == 1 and r["epsilon"] == 0.0905]
    last = [r for r in rows if r["bits"] <= 53][-1]
    return (
        f"At the coherence of 512 keys in R^128, {last['exponentials']} exponentials are the most that float64 can add "
        f"up, and they still miss f by {last['error at least']:.2f}."
    )


def _first_wrong(quick: bool) -> dict[str, Any]:
    """The first swap after which a slot is wrong, against the coherence of the keys."""
    import numpy as np

    from theorem.activations import activation
    from theorem.exchange import replay, signed_gram
    from theorem.swaps import random_swaps

    steps = 1000 if quick else 5000
    swaps = random_swaps(SLOTS, steps, np.random.default_rng(2))
    rows = []
    for epsilon in np.geomspace(1e-4, 0.1, 7 if quick else 16).tolist():
        gram = signed_gram(SLOTS, epsilon, np.random.default_rng(1))
        for name in ("linear", "exp4", "hermite8", "exp16", "round"):
            found = replay(gram, swaps, activation(name, max(epsilon, 1e-3)), stop_when_wrong=True)
            rows.append({"f": name, "epsilon": epsilon, "first wrong swap": found.first_wrong})
    return {"rows": rows, "steps": steps}


def _draw_first_wrong(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLUE, PURPLE, SKY, VERMILION, YELLOW, new_figure

    figure, axes = new_figure()
    steps = numbers["steps"]
    for name, colour, marker in (
        ("linear", BLUE, "o"),
        ("exp4", VERMILION, "^"),
        ("hermite8", YELLOW, "D"),
        ("exp16", SKY, "s"),
        ("round", PURPLE, "v"),
    ):
        rows = [r for r in numbers["rows"] if r["f"] == name]
        swaps = [steps * 1.5 if r["first wrong swap"] is None else max(r["first wrong swap"], 0.7) for r in rows]
        axes.plot([r["epsilon"] for r in rows], swaps, marker=marker, color=colour, label=name, markersize=4)
    axes.axhline(steps, color="black", linewidth=0.8, linestyle="--")
    axes.text(1e-4, steps * 0.9, f"above the dashed line: not within {steps:,} swaps", fontsize=8, va="top")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("coherence ε of the keys")
    axes.set_ylabel("first swap after which a slot is wrong")
    axes.legend(fontsize=8, loc="lower left", frameon=False)
    return figure


def _cache(quick: bool) -> dict[str, Any]:
    """Numbers in the cache with rewriting every n swaps, measured, and in a linear state that does the same."""
    import numpy as np

    from theorem.activations import activation
    from theorem.exchange import binary_codes, gram_of, replay
    from theorem.known import narrowest
    from theorem.swaps import random_swaps

    rows = []
    for n in (16, 32, 64, 128, 256, 512, 1024)[: 5 if quick else 7]:
        known = narrowest(n)
        keys = known.keys()
        found = replay(
            gram_of(keys.vectors, keys.scale),
            random_swaps(n, 4 * n, np.random.default_rng(n)),
            activation("round"),
            rewrite=n,
        )
        width = binary_codes(n).shape[1]
        rows.append(
            {
                "n": n,
                "d": keys.d,
                "keys": known.construction,
                "tokens held": found.tokens,
                "exact": found.exact,
                "cache": found.tokens * (keys.d + width),
                "linear state, narrow values": (n - 1) * width,
                "linear state, wide values": (n - 1) ** 2,
            }
        )
    return {"rows": rows}


def _draw_cache(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLUE, PURPLE, SKY, new_figure

    figure, axes = new_figure()
    n = [row["n"] for row in numbers["rows"]]
    for name, label, colour, marker in (
        ("cache", "DeltaFormer, rewritten every n swaps", PURPLE, "v"),
        ("linear state, wide values", "linear state, d_v = d = n − 1", BLUE, "o"),
        ("linear state, narrow values", "linear state, d_v = ⌈log₂ n⌉", SKY, "s"),
    ):
        axes.plot(n, [row[name] for row in numbers["rows"]], marker=marker, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("slots n")
    axes.set_ylabel("numbers held")
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    return figure


def _number(value: Any) -> float:
    """A number as JSON gave it back: "inf" and null are infinite."""
    return float("inf") if value is None else float(value)


KEYS = f"{SLOTS} unit keys whose products are all +ε or −ε, signs at random"

EXHIBITS = (
    Exhibit(
        "exchange-error",
        "exchange",
        "Error against swaps",
        f"The largest error of any coordinate of any slot, for random swaps of {SLOTS} slots with keys of coherence "
        f"{EPSILON}; values are codes of ±1. Rounding is exact, drawn at 10⁻¹⁶. Four exponentials (P App. E.2) "
        "interpolate −1, 0, 1, 2 but are steep there, and eight that are flat there are curved; the best 16 and 24 "
        "last until their errors have added up, and stay under the bound proved for them (dotted).",
        "python -m verify claims --only P-E2",
        _errors,
        _draw_errors,
        "Lines of error against swaps: linear, ReLU and four exponentials rise above 1 within a few swaps, fitted "
        "sums of 16 and 24 exponentials rise slowly, and rounding stays at zero.",
        (KEYS,),
        headline=_headline_errors,
    ),
    Exhibit(
        "exchange-first-wrong",
        "exchange",
        "How long each f lasts",
        "The first swap after which some slot is nearest to a wrong element, against the coherence of the keys; "
        "points on top were never wrong. With as many dimensions as slots the linear rule outlasts four exponentials, "
        "and eight flat ones, at every ε; rounding is never wrong.",
        "python -m verify claims --only P-E2-four-exponentials",
        _first_wrong,
        _draw_first_wrong,
        "The first wrong swap falls as coherence grows: from hundreds to none for four exponentials, later for the "
        "linear rule, never for rounding.",
        (KEYS,),
    ),
    Exhibit(
        "exchange-exponentials",
        "exchange",
        "How many exponentials make f",
        "The least error that J exponentials exp(jx) can have within 3ε of −1 and 1, 4ε of 0 and 2ε of 2; it is "
        "enclosed between an alternation bound and exact values, less than 3 % apart. The printed form Σ a_j exp(jx) "
        "cancels: circles and squares mark the last J whose terms float32 or float64 can add up without losing what "
        "the fit gained.",
        "python -m verify claims --only P-E2-many-exponentials",
        _fits,
        lambda numbers: _draw_fits(1.0, numbers),
        "Error against the number of exponentials, one falling line for each coherence: steep at 0.005, hardly "
        "falling at 1/8.",
        headline=_headline_fits,
        views=(("exponents j/4", lambda numbers: _draw_fits(0.25, numbers)),),
    ),
    Exhibit(
        "exchange-cache",
        "exchange",
        "What tracking n elements costs in memory",
        "Numbers held while any number of swaps goes by: DeltaFormer's cache with all slots read out and written anew "
        "every n swaps (P App. E.3; 2n tokens, each a key of the narrowest set known below 1/8 and ⌈log₂ n⌉ "
        "signs), and a linear state, whose width is at least n − 1. The cache grows like n log n. The linear state "
        "grows like n² if its values are as wide as its keys, and like n log n too if they are ⌈log₂ n⌉ signs.",
        "python -m verify claims --only P-E3",
        _cache,
        _draw_cache,
        "Three lines of numbers held against n: the linear state with wide values is steepest and crosses "
        "DeltaFormer's cache; the one with narrow values stays below both.",
    ),
)
