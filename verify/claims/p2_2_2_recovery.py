"""P §2.2.2 and App. F: does a memory still learn once its context is long? Steps, recovery after a change, norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.claims.p2_2_2_context import CONTEXT, SECTION, WITHIN, ratio, show, statistical, worst
from verify.evidence import Claim, Evidence, Ruling, Verdict, judge

if TYPE_CHECKING:
    from snr.estimate import Estimate


def _softmax_step() -> Ruling:
    import numpy as np

    from theorem.context_runs import softmax_steps
    from verify.stats import slope

    lengths = (250, 500, 1000, 2000, 4000)
    steps = softmax_steps(4, lengths, 400, 0)
    found = slope(np.log(lengths), np.log(steps), "slope of ln‖o_t - o_{t-1}‖ over ln t")
    verdict = judge_slope(found, -1.0)
    return statistical(
        verdict, f"t = {lengths[0]}..{lengths[-1]}, τ = √d: slope {show(found)}, -1 expected", slope=found.value
    )


def judge_slope(found: Estimate, expected: float, within: float = 0.15) -> Verdict:
    """Judge an exponent against expected ± within by its whole interval."""
    if expected - within <= found.low and found.high <= expected + within:
        return Verdict.CONFIRMED
    return Verdict.REFUTED if found.low > expected + within or found.high < expected - within else Verdict.INCONCLUSIVE


def _normaliser() -> Ruling:
    import math

    import sympy

    from theorem.context import softmax_constant
    from theorem.context_runs import normaliser_deviation

    constant, variance = softmax_constant()
    at_one = [x.subs(dict.fromkeys(x.free_symbols, 1)) for x in (constant, variance)]
    exact = at_one[0] == sympy.sqrt(sympy.E) and sympy.expand(at_one[1] - (sympy.E - 1)) == 0
    found = ratio(normaliser_deviation(16, 64, 40_000, 0), math.e - 1, "measured/predicted")
    detail = (
        f"E e^{{q·k/τ}} = {constant}, the relative variance of one term {variance} with s = ‖q‖²/τ², by integration; "
        f"s = 1 gives √e and e - 1; simulated t = 64 variance times t over e - 1: {show(found)}"
    )
    return Ruling(judge(found, WITHIN) if exact else Verdict.REFUTED, Evidence.PROOF, detail, {"measured": found.value})


def _progress_at(memory: str, before: int, after: int, runs: int, decay: float = 1.0) -> Estimate:
    from theorem.context_runs import progress
    from verify.stats import mean

    return mean(progress(memory, 16, before, after, runs, before, decay)[:, -1], "progress to the new task")


BEFORE = (64, 256, 1024)


def _cease() -> Ruling:
    late = {b: _progress_at("softmax", b, 9 * b, 400) for b in BEFORE}
    verdict = Verdict.REFUTED if min(e.low for e in late.values()) > 0.8 else Verdict.INCONCLUSIVE
    shown = ", ".join(f"t₀ = {b}: {show(e)}" for b, e in late.items())
    detail = (
        f"the step is about 1/t but Σ 1/t diverges: 9 t₀ steps after a change at t₀ the answer went {shown} of the way"
    )
    return statistical(verdict, detail, **{str(b): e.value for b, e in late.items()})


def _recovery() -> Ruling:
    found = {b: _progress_at("softmax", b, b, 2000) for b in BEFORE}
    doubled = [_half(e) for e in found.values()]
    shown = ", ".join(f"t₀ = {b}: {show(e)}" for b, e in found.items())
    detail = f"t₀ steps after a change at t₀ the answer has gone, by t₀/(t₀+t₀), half the way: {shown}"
    return statistical(worst(doubled), detail, **{str(b): e.value for b, e in found.items()})


def _half(e: Estimate) -> Estimate:
    from dataclasses import replace

    return replace(e, value=2 * e.value, low=2 * e.low, high=2 * e.high)


def _remedy() -> Ruling:
    import numpy as np

    from theorem.context_runs import half_times
    from verify.stats import slope

    found = {}
    for name, decay in (("softmax", 0.95), ("deltanet", 1.0)):
        times = np.stack([half_times(name, 16, b, 60, 12, 60, b, decay) for b in BEFORE], axis=1)
        label = f"softmax with decay {decay:g}" if decay < 1 else "DeltaNet"
        found[label] = (slope(np.log(BEFORE), np.log(times), "exponent of the half time"), float(times.mean()))
    verdicts = [judge_slope(e, 0.0) for e, _ in found.values()]
    verdict = Verdict.CONFIRMED if set(verdicts) == {Verdict.CONFIRMED} else Verdict.INCONCLUSIVE
    if Verdict.REFUTED in verdicts:
        verdict = Verdict.REFUTED
    shown = "; ".join(
        f"{n}: half-way after {time:.1f} steps, exponent in t₀ {show(e)}" for n, (e, time) in found.items()
    )
    return statistical(verdict, f"t₀ = {BEFORE}: {shown}")


def _linear_norm() -> Ruling:
    from theorem.context_runs import linear_norm_expected, linear_norms

    d, lengths = 8, (16, 64, 256)
    found = []
    for related in (True, False):
        norms = linear_norms(d, lengths, 1000, 0, related=related)
        found += [
            ratio(norms[:, i], linear_norm_expected(d, t, related=related), "measured/predicted")
            for i, t in enumerate(lengths)
        ]
    low, high = min(e.low for e in found), max(e.high for e in found)
    detail = (
        f"E‖S_t‖²/d² = t + (t(t-1) + 2t)/d for v = k, t for independent values, keys N(0, I_d), d = {d}: ‖S_t‖ grows "
        f"like t and √t; measured/predicted at t = {lengths} all in [{low:.3f}, {high:.3f}]"
    )
    return statistical(worst(found), detail)


def _in_context() -> dict[str, Any]:
    import numpy as np

    from theorem.in_context import MEMORIES, draw, losses
    from verify.stats import mean

    change, length = 96, 192
    contexts = draw(80, length, change, 8, 8, 0)
    table = {}
    for name in MEMORIES:
        loss = losses(name, contexts)
        windows = {
            "before": slice(change - 8, change),
            "after": slice(change + 24, change + 32),
            "end": slice(-8, None),
        }
        table[name] = {k: mean(np.asarray(loss[:, w].mean(axis=1)), "loss") for k, w in windows.items()}
    return table


def _learns() -> Ruling:
    table = _in_context()
    verdict = Verdict.CONFIRMED if all(t["before"].high < 1 for t in table.values()) else Verdict.INCONCLUSIVE
    shown = ", ".join(f"{name} {show(t['before'])}" for name, t in table.items())
    return statistical(verdict, f"d = 8, loss after 96 pairs, 1 is no answer: {shown}")


def _adapts() -> Ruling:
    table = _in_context()
    slow = ("linear", "softmax", "softmax, τ = 1", "DeltaFormer, softmax", "least squares")
    fast = ("gated linear", "DeltaNet", "gated DeltaNet")
    best, worst = min(table[n]["after"].low for n in slow), max(table[n]["after"].high for n in fast)
    verdict = Verdict.CONFIRMED if worst < best else Verdict.INCONCLUSIVE
    shown = ", ".join(f"{name} {show(table[name]['after'])}" for name in (*fast, *slow, "DeltaFormer, exp"))
    return statistical(verdict, f"24 to 32 pairs after a change at 96: {shown}")


CLAIMS = (
    Claim(
        "P-2.2.2-softmax-step",
        SECTION,
        "the step of softmax attention is O(1/t)",
        ("exponent within 0.15 of -1",),
        check=_softmax_step,
    ),
    Claim(
        "P-2.2.2-softmax-normaliser",
        SECTION,
        "the normaliser is t√e up to a relative standard deviation of √((e-1)/t)",
        ("keys N(0, I_d), ‖q‖² = d, τ = √d",),
        check=_normaliser,
    ),
    Claim(
        "P-2.2.2-updates-cease",
        SECTION,
        "as its step vanishes, softmax attention stops adapting to a changed context",
        check=_cease,
    ),
    Claim(
        "P-2.2.2-recovery-time",
        SECTION,
        "softmax attention adapts to a change at t₀, in a time proportional to t₀",
        ("keys N(0, I_d), τ = √d", "half-way point within 10 %"),
        check=_recovery,
        repairs="P-2.2.2-updates-cease",
    ),
    Claim(
        "P-2.2.2-recovery-remedy",
        SECTION,
        "decay, or the delta rule, makes the recovery time independent of t₀",
        ("exponent within 0.15 of 0",),
        check=_remedy,
    ),
    Claim(
        "P-2.2.2-linear-norm",
        SECTION,
        "the state of unnormalised linear attention grows without bound",
        ("measured/predicted within 10 %",),
        check=_linear_norm,
    ),
    Claim(
        "P-2.2.2-in-context-learns",
        SECTION,
        "every memory of the list learns a linear task in context",
        ("keys of norm √d", "its loss is below that of no answer"),
        check=_learns,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-in-context-adapts",
        SECTION,
        "after a change of task, memories whose step does not vanish adapt faster than softmax and least squares",
        check=_adapts,
        command=CONTEXT,
    ),
)
