"""Figures on infinite context: where memories converge, at which step sizes, and how they follow a change of task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 8
# (step, β) of `theorem.context_runs.distances`
STEPS = (("normalised", 1.0), ("normalised", 0.1), ("raw", 0.05), ("raw", 0.25), ("key", 0.05))


def convergence(quick: bool) -> dict[str, Any]:
    """‖S - S*‖/‖S*‖ along the context, root mean square over runs, for a square and a low-rank W_k with white keys."""
    import numpy as np

    from theorem.context import projections
    from theorem.context_runs import distances

    times = [int(t) for t in np.unique(np.round(np.geomspace(1, 1000 if quick else 4000, 22)))]
    rows = []
    for tokens in (WIDTH, 2 * WIDTH):
        w_k, w_v = projections(WIDTH, tokens, WIDTH, 1.0, 0)
        for step, beta in STEPS:
            found = distances(w_k, w_v, np.eye(tokens), beta, step, times, 40 if quick else 200, 0)
            for t, row in zip(times, found):
                distance = float(np.median(row))
                rows.append({"tokens": tokens, "step": step, "beta": beta, "t": t, "distance": distance})
    return {"d": WIDTH, "rows": rows}


def _draw_convergence(numbers: dict[str, Any], tokens: int, title: str) -> Figure:
    from verify.report.style import BLUE, GREEN, ORANGE, PURPLE, VERMILION, new_figure

    figure, axis = new_figure()
    for (step, beta), colour in zip(STEPS, (BLUE, GREEN, ORANGE, VERMILION, PURPLE)):
        rows = [r for r in numbers["rows"] if (r["tokens"], r["step"], r["beta"]) == (tokens, step, beta)]
        shown = [min(max(float(r["distance"]), 1e-16), 1e6) for r in rows]
        axis.loglog([r["t"] for r in rows], shown, color=colour, label=f"{step} step, β = {beta:g}")
    axis.set(xlabel="pairs read", ylabel="‖S - S*‖ / ‖S*‖", title=title, ylim=(1e-9 if tokens == WIDTH else 0.03, 100))
    axis.legend()
    return figure


def draw_square(numbers: dict[str, Any]) -> Figure:
    return _draw_convergence(numbers, WIDTH, f"W_k square, d = {WIDTH}")


def draw_low_rank(numbers: dict[str, Any]) -> Figure:
    return _draw_convergence(numbers, 2 * WIDTH, f"W_k low-rank, d = {WIDTH} of {2 * WIDTH}")


def step_sizes(quick: bool) -> dict[str, Any]:
    """The largest raw step: 2/(d+2) in mean square, the zero of the growth exponent almost surely."""
    from theorem.context import almost_sure_limit, growth_exponent

    widths = (1, 2, 4, 8, 16, 32) if quick else (1, 2, 4, 8, 16, 32, 64, 128)
    rows = [
        {
            "d": d,
            "mean square": 2 / (d + 2),
            "almost sure": almost_sure_limit(d),
            "growth at 1": growth_exponent(d, 1.0),
        }
        for d in widths
    ]
    return {"rows": rows}


def draw_step_sizes(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, VERMILION, new_figure
    from verify.report.svg import name_points

    figure, axis = new_figure()
    widths = [r["d"] for r in numbers["rows"]]
    for name, colour in (("mean square", BLUE), ("almost sure", VERMILION)):
        (line,) = axis.loglog(widths, [r[name] for r in numbers["rows"]], "o-", color=colour, label=f"{name} limit")
        name_points(line, [f"{name}, d = {r['d']}: β = {r[name]:.4g}" for r in numbers["rows"]])
    axis.axhline(1, color=BLACK, lw=0.8, ls="--", label="β = 1")
    axis.set(xlabel="key width d", ylabel="largest step β for raw keys")
    axis.legend()
    return figure


BEFORE = (64, 256, 1024)


def recovery(quick: bool) -> dict[str, Any]:
    """Mean progress from the old task to the new against the time since the change over t₀."""
    import numpy as np

    from theorem.context_runs import progress

    rows = []
    for name, memory, decay in (("softmax", "softmax", 1.0), ("softmax, decay 0.95", "softmax", 0.95)):
        for before in BEFORE:
            after = 4 * before
            moved = progress(memory, WIDTH, before, after, 300 if quick else 2000, before, decay).mean(axis=0)
            for s in np.unique(np.round(np.geomspace(1, after, 24)).astype(int)):
                rows.append({"memory": name, "t0": before, "s": int(s), "progress": float(moved[s - 1])})
    return {"rows": rows}


def draw_recovery(numbers: dict[str, Any]) -> Figure:
    import numpy as np

    from verify.report.style import BLACK, BLUE, GREEN, VERMILION, new_figure

    figure, axis = new_figure()
    for before, colour in zip(BEFORE, (BLUE, GREEN, VERMILION)):
        for name, style in (("softmax", "-"), ("softmax, decay 0.95", ":")):
            rows = [r for r in numbers["rows"] if r["t0"] == before and r["memory"] == name]
            x = [r["s"] / before for r in rows]
            axis.semilogx(x, [r["progress"] for r in rows], style, color=colour, label=f"{name}, t₀ = {before}")
    ratio = np.geomspace(0.01, 4, 60)
    axis.semilogx(ratio, ratio / (1 + ratio), "--", color=BLACK, lw=0.8, label="s/(s + t₀)")
    axis.set(xlabel="pairs since the change / t₀", ylabel="way to the new task", ylim=(-0.1, 1.1))
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=7)
    return figure


SHOWN = ("linear", "softmax", "DeltaNet", "gated DeltaNet", "DeltaFormer, softmax", "DeltaFormer, exp", "least squares")


def in_context(quick: bool) -> dict[str, Any]:
    """Mean loss at every position over contexts, the task changing in the middle."""
    from theorem.in_context import MEMORIES, draw, losses

    change = 96
    contexts = draw(60 if quick else 300, 2 * change, change, WIDTH, WIDTH, 0)
    rows = []
    for name in MEMORIES:
        for t, loss in enumerate(losses(name, contexts).mean(axis=0)):
            rows.append({"memory": name, "position": t, "loss": float(loss)})
    return {"change": change, "d": WIDTH, "rows": rows}


def draw_in_context(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, new_figure

    figure, axis = new_figure(7.0, 4.0)
    for name, colour in zip(SHOWN, (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)):
        rows = [r for r in numbers["rows"] if r["memory"] == name]
        loss = [max(r["loss"], 1e-4) for r in rows]
        axis.semilogy([r["position"] for r in rows], loss, color=colour, lw=1.2, label=name)
    axis.axvline(numbers["change"], color=BLACK, lw=0.8, ls="--")
    axis.set(xlabel="position in the context", ylabel="loss (1: no answer)", ylim=(1e-4, 5))
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=7)
    return figure


def in_context_headline(numbers: dict[str, Any]) -> str:
    at = numbers["change"] + 32
    loss = {r["memory"]: r["loss"] for r in numbers["rows"] if r["position"] == at}
    return (
        f"32 pairs after a change of task DeltaNet's loss is {loss['DeltaNet']:.2g}, "
        f"softmax attention's {loss['softmax']:.2g}."
    )


EXHIBITS = (
    Exhibit(
        "context-convergence",
        "context",
        "Does DeltaNet reach the best linear memory?",
        "Distance to S* = W_v Σ W_kᵀ(W_k Σ W_kᵀ)⁻¹, median over runs. With the step normalised it converges; with the "
        "key alone normalised it settles elsewhere; a raw step of 0.25 is above both limits and diverges. With a "
        "low-rank W_k no fixed step settles, and smaller steps come closer.",
        "python -m verify context",
        convergence,
        draw_square,
        "Distance to the optimum against pairs read, for five ways to scale the step.",
        ("white Gaussian keys",),
        views=(("low-rank W_k", draw_low_rank),),
    ),
    Exhibit(
        "context-step-size",
        "context",
        "The largest step for raw Gaussian keys",
        "Below the lower curve, 2/(d+2), the mean square error stays bounded; between the curves the error converges "
        "almost surely although its mean square explodes (a heavy tail that no average of runs shows); above the upper "
        "one it diverges. β = 1 is above both for the widths shown from d = 2 on.",
        "python -m verify claims --only P-2.2.2-step P-2.2.2-raw",
        step_sizes,
        draw_step_sizes,
        "Two falling curves of step size against width; the line β = 1 crosses the upper one between d = 1 and d = 2.",
        ("keys N(0, I_d), no residual",),
    ),
    Exhibit(
        "context-recovery",
        "context",
        "Softmax attention goes on adapting, ever more slowly",
        "How far the answer has moved from the old task to the new one. Without decay all curves fall on s/(s + t₀): "
        "the half-way point is t₀ itself. With decay the recovery time is a constant number of pairs, whatever t₀.",
        "python -m verify claims --only P-2.2.2-recovery P-2.2.2-updates",
        recovery,
        draw_recovery,
        "Progress to the new task against time since the change over t₀: curves without decay coincide, others do not.",
        ("keys N(0, I_d), τ = √d",),
    ),
    Exhibit(
        "context-in-context",
        "context",
        "In-context learning before and after a change of task",
        "Mean loss of answering each query from the pairs before it; the task is replaced at the dashed line. Least "
        "squares and DeltaNet learn the first task exactly, but least squares, softmax and linear attention then "
        "average the two tasks, while DeltaNet overwrites.",
        "python -m verify context",
        in_context,
        draw_in_context,
        "Loss against position for seven memories; all jump at the change, DeltaNet recovers first.",
        ("keys of norm √d, linear tasks without noise", "τ = √d"),
        headline=in_context_headline,
    ),
)
