from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from verify.evidence import Finding, Table
from verify.options import BadInput, blame, integer, option, real
from verify.session import Session

if TYPE_CHECKING:
    from snr.estimate import Estimate

STEPS = ("raw", "normalised", "key")


@dataclass(frozen=True)
class Options:
    """Run memories over a long context: do they reach the best linear memory, and do they follow a change of task?

    Tokens are Gaussian, k = W_k x, v = W_v x. A step is raw (beta), normalised (beta over the key's squared norm) or
    key (the key alone divided by its norm).
    """

    d: int = option(8, help="width of keys and values", parse=integer(1, 256))
    tokens: int = option(0, help="width of tokens; more than d makes W_k low-rank (default d)", parse=integer(1, 1024))
    condition: float = option(1.0, help="condition number of W_k", parse=real(1, 1e6))
    step: tuple[str, ...] = option(STEPS, help="how the step is scaled", choices=STEPS, many=True)
    beta: tuple[float, ...] = option((1.0, 0.05), help="step sizes", parse=real(0, open_low=True), many=True)
    t: tuple[int, ...] = option((10, 100, 1000), help="lengths of context", parse=integer(1, 100_000), many=True)
    runs: int = option(40, help="independent contexts", parse=integer(12, 10_000))
    change: int = option(96, help="pairs before the task changes, and after", parse=integer(16, 1024))
    seed: int = option(0, help="seed", parse=integer(0))


BEFORE = (64, 256, 1024)
MOST = 200_000_000  # token entries held at once: 1.6 GB


def run(options: Options, session: Session) -> Finding:
    import numpy as np

    from theorem.context import projections

    tokens = options.tokens or options.d
    if options.runs * max(options.t) * tokens > MOST:
        raise BadInput(f"--runs {options.runs}: runs × longest t × token width may be at most {MOST:.0e}")
    with blame("--tokens", tokens):
        w_k, w_v = projections(options.d, tokens, options.d, options.condition, options.seed)
    eigenvalues = np.linalg.eigvalsh(w_k @ w_k.T)
    points, rows = [], []
    for step in options.step:
        for beta in options.beta:
            session.progress(f"step {step}, β = {beta:g}")
            found = _distances(options, w_k, w_v, step, beta)
            floor = _floor(options, w_k, w_v, eigenvalues, step, beta)
            points += [_point(step, beta, t, e, floor) for t, e in zip(sorted(options.t), found)]
            rows.append((step, f"{beta:g}", *(_show(e) for e in found), _number(floor)))
    regression_points, regression_row = _least_squares(options, w_k, w_v)
    points += regression_points
    rows.append(regression_row)
    session.progress("recovery after a change")
    recovery_points, recovery_rows = _recovery(options)
    session.progress("in-context learning")
    context_points, context_rows = _in_context(options)
    moved_points, moved_rows = _dependence(options, w_k, w_v)
    return Finding(
        "context",
        asdict(options),
        [*points, *moved_points, *recovery_points, *context_points],
        tables=[
            Table("Where the tokens lead", ("what", "is"), _facts(options, tokens, eigenvalues)),
            Table(
                "How far S* moves, ‖ΔS*‖/‖S*‖, when the tokens' covariance changes from I to a random one",
                ("keys", "a head's W_k", "moves by"),
                moved_rows,
            ),
            Table(
                f"‖S - S*‖/‖S*‖ of DeltaNet, median of {options.runs} runs [99.9 %]",
                ("step", "β", *(f"t = {t}" for t in sorted(options.t)), "t → ∞ (r.m.s., theory)"),
                rows,
            ),
            Table(
                "Half-way to the new task after a change at t₀ (pairs; s/(s + t₀) predicts t₀ for softmax)",
                ("memory", *(f"t₀ = {b}" for b in BEFORE)),
                recovery_rows,
            ),
            Table(
                f"In-context loss, task changed after {options.change} pairs (1 = no answer) [99.9 %]",
                ("memory", "before the change", "a quarter later", "at the end"),
                context_rows,
            ),
        ],
        summary="the rows of the ledger on this: python -m verify claims --only P-2.2.2",
    )


def _distances(options: Options, w_k: Any, w_v: Any, step: str, beta: float) -> list[Estimate]:
    import numpy as np

    from theorem.context_runs import distances
    from verify.stats import median

    root = np.eye(w_k.shape[1])
    found = distances(w_k, w_v, root, beta, step, sorted(options.t), options.runs, options.seed)
    return [median(row, "median over runs of ‖S - S*‖/‖S*‖") for row in found]


def _least_squares(options: Options, w_k: Any, w_v: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    import numpy as np

    from theorem.context import optimum
    from theorem.context_runs import least_squares
    from verify.stats import median

    root = np.eye(w_k.shape[1])
    target = optimum(w_k, w_v, root)
    found = []
    for t in sorted(options.t):
        states = [least_squares(w_k, w_v, root, t, options.seed + run) for run in range(options.runs)]
        far = np.array([np.linalg.norm(s - target) for s in states]) / np.linalg.norm(target)
        found.append(median(far, "median over runs of ‖S - S*‖/‖S*‖"))
    points = [_point("least squares", None, t, e, 0.0) for t, e in zip(sorted(options.t), found)]
    return points, ("least squares", "", *(_show(e) for e in found), "0")


def _recovery(options: Options) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    """Half times of the mean over groups of runs, with the interval of the groups' mean."""
    import numpy as np

    from theorem.context_runs import half_times
    from verify.stats import mean

    points, rows = [], []
    for name, memory, decay, after in (
        ("softmax", "softmax", 1.0, 3),
        ("softmax, decay 0.95", "softmax", 0.95, 0),
        ("DeltaNet, normalised step", "deltanet", 1.0, 0),
    ):
        found = []
        for before in BEFORE:
            length = after * before or 100 + 2 * options.d  # the delta rule forgets at a rate of about 1/d a step
            times = half_times(memory, options.d, before, length, 8, 60, options.seed + before, decay)
            words = "mean over groups of 60 runs of the half time"
            found.append(mean(times, words) if np.isfinite(times).all() else _beyond(length, len(times), words))
            points.append({"recovery": name, "t0": before, "half_time": found[-1].to_json()})
        rows.append((name, *(_show(e) for e in found)))
    return points, rows


def _beyond(length: int, groups: int, words: str) -> Estimate:
    """A half time that not every group reached in `length` steps: no mean, and no upper end."""
    from snr.estimate import Estimate

    return Estimate(math.inf, 0.0, math.inf, 0.999, groups, words, f"not reached by every group in {length} steps")


def _dependence(options: Options, w_k: Any, w_v: Any) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    """How far S* moves when the tokens' covariance changes from I to a random one, for all keys and for one head's."""
    import numpy as np

    from theorem.context import optimum

    d, tokens = w_k.shape
    points: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    factor = np.random.default_rng([options.seed, 1]).standard_normal((tokens, tokens))
    sigma = factor @ factor.T / tokens + np.eye(tokens)
    for heads in (1, 2, 4):
        if d % heads:
            continue
        head = slice(0, d // heads)
        before, after = (optimum(w_k[head], w_v[head], x) for x in (np.eye(tokens), sigma))
        moved = float(np.linalg.norm(after - before) / np.linalg.norm(before))
        keys = f"{heads} heads of width {d // heads}" if heads > 1 else f"one head of width {d}"
        fixed = d // heads == tokens
        points.append({"heads": heads, "width": d // heads, "tokens": tokens, "moved": moved})
        rows.append((keys, f"{d // heads}×{tokens}", "0 up to rounding" if fixed and moved < 1e-9 else f"{moved:.3g}"))
    return points, rows


def _floor(options: Options, w_k: Any, w_v: Any, eigenvalues: Any, step: str, beta: float) -> float | None:
    """The limit of the root mean square distance where theory gives one; None where it does not."""
    import numpy as np

    from theorem.context import mean_square_limit, noise_floor, normalised_floor, optimum, residual

    sigma = np.eye(w_k.shape[1])
    size = float(np.linalg.norm(optimum(w_k, w_v, sigma)))
    trace = float(np.trace(residual(w_k, w_v, sigma)))
    trace = trace if trace > 1e-12 * size**2 else 0.0  # a square W_k leaves rounding, not a residual
    if step == "raw":
        stable = beta < mean_square_limit(eigenvalues)
        return math.sqrt(noise_floor(eigenvalues, beta, trace)) / size if stable else math.inf
    if step == "normalised" and beta < 2 and trace == 0:
        return 0.0
    if step == "normalised" and beta < 2 and np.ptp(eigenvalues) < 1e-9:
        scale = 1 / float(eigenvalues[0])  # keys of variance λ are keys of variance 1, S grown by √λ
        return math.sqrt(scale * normalised_floor(options.d, beta, trace)) / size
    return None


def _point(step: str, beta: float | None, t: int, found: Estimate, floor: float | None) -> dict[str, Any]:
    return {"step": step, "beta": beta, "t": t, "distance": found.to_json(), "limit_rms": floor}


def _facts(options: Options, tokens: int, eigenvalues: Any) -> list[tuple[str, str]]:
    import numpy as np

    from theorem.context import almost_sure_limit, mean_square_limit

    square = tokens == options.d
    rows = [
        ("W_k", f"{options.d}×{tokens}, condition number {options.condition:g}"),
        ("S*", "W_v W_k⁻¹, whatever the context" if square else "depends on the context's covariance"),
        ("raw step", f"bounded mean square error below β = {mean_square_limit(eigenvalues):.4g}"),
    ]
    if np.ptp(eigenvalues) < 1e-9:
        limit = almost_sure_limit(options.d) / float(eigenvalues[0])
        rows.append(("", f"without residual, almost sure convergence below β = {limit:.4g}"))
    return rows


def _in_context(options: Options) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    import numpy as np

    from theorem.in_context import MEMORIES, draw, losses

    change, width = options.change, 8
    contexts = draw(options.runs, 2 * change, change, options.d, options.d, options.seed)
    later = change + change // 4
    windows = {
        "before": slice(change - width, change),
        "quarter": slice(later, later + width),
        "end": slice(-width, None),
    }
    points, rows = [], []
    for name in MEMORIES:
        loss = losses(name, contexts)
        found = {k: _loss(np.asarray(loss[:, w].mean(axis=1))) for k, w in windows.items()}
        points.append({"memory": name, "change": change, **{k: e.to_json() for k, e in found.items()}})
        rows.append((name, *(_show(e) for e in found.values())))
    return points, rows


def _loss(draws: Any) -> Estimate:
    """The mean of losses, none of them negative: what lies below 0 is cut off the interval."""
    from verify.stats import mean

    found = mean(draws, "mean loss over runs")
    return replace(found, low=max(0.0, found.low))


def _show(found: Estimate) -> str:
    return f"{_number(found.value)} [{_number(found.low)}, {_number(found.high)}]"


def _number(value: float | None) -> str:
    return "-" if value is None else "∞" if value == float("inf") else f"{value:.3g}"
