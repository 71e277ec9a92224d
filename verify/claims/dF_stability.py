"""D App. F: how errors in the similarities grow through the recurrence."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from verify.evidence import Claim, Evidence, Ruling, Verdict

if TYPE_CHECKING:
    from snr.estimate import Estimate

WIDTHS = (32, 128)
COUNTS = (64, 192)
COHERENCES = (0.0, 0.1, 0.4)
RUNS = 12  # an order-statistics interval of a median at 99.9 % needs 11


def _proof(holds: bool, detail: str, **numbers: object) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _exact_change() -> Ruling:
    import sympy

    size = 4
    a, e = (sympy.Matrix(size, size, lambda t, i, x=x: sympy.Symbol(f"{x}{t}{i}") if i < t else 0) for x in "ae")
    v = sympy.Matrix(sympy.symbols(f"v0:{size}"))
    identity = sympy.eye(size)
    u, changed = ((identity + m).lower_triangular_solve(v) for m in (a, a + e))
    gap = (identity + a + e) * (changed - u) + e * u
    holds = all(sympy.expand(x) == 0 for x in gap)
    return _proof(
        holds, f"(I + A + δA) δU = -δA U in generic entries at T = {size}: one multiplication gives it for every T"
    )


def _less_stable() -> Ruling:
    import numpy as np

    from theorem.stability import growth, keys
    from verify.stats import median

    found = {}
    for coherence in COHERENCES:
        ratios = []
        for run in range(RUNS):
            rng = np.random.default_rng([run, int(100 * coherence)])
            k = keys(256, 64, coherence, rng)
            g = growth("softmax", 64, k, rng.standard_normal((256, 64)), rng)
            ratios.append(g.u_from_write / g.o_from_write)
        found[coherence] = median(np.array(ratios), "u's relative error over o's")
    low, high = min(e.low for e in found.values()), max(e.high for e in found.values())
    verdict = Verdict.CONFIRMED if low > 1 else Verdict.REFUTED if high < 1 else Verdict.INCONCLUSIVE
    shown = ", ".join(f"{c:g}: {e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for c, e in found.items())
    detail = (
        f"T = 256, d = 64: median of u's relative error over o's at coherence {shown} "
        f"(exact 99.9 % intervals over {RUNS} runs)"
    )
    return Ruling(verdict, Evidence.STATISTICAL, detail, {str(c): e.value for c, e in found.items()})


def _growth() -> Ruling:
    import numpy as np

    from theorem.stability import SIMILARITIES, growth, keys
    from verify.stats import median

    count, width = 64, 32
    grown, shares, reads = {}, [], []
    for name in SIMILARITIES:
        for coherence in COHERENCES:
            runs = []
            for run in range(RUNS):
                rng = np.random.default_rng([run, int(100 * coherence)])
                runs.append(
                    growth(name, width, keys(count, width, coherence, rng), rng.standard_normal((count, width)), rng)
                )
            grown[name, coherence] = median(np.array([g.u_from_write for g in runs]), "u's error over the rounding's")
            shares.append(median(np.array([g.share_of_bound for g in runs]), "u's error over its bound"))
            reads.append(median(np.array([g.o_from_read for g in runs]), "o's error over the rounding's"))
    share, read = max(e.high for e in shares), max(e.high for e in reads)
    verdict = Verdict.CONFIRMED if share < 1 and read < 1 else Verdict.INCONCLUSIVE
    if max(e.low for e in (*shares, *reads)) > 1:
        verdict = Verdict.REFUTED
    worst = {name: max((grown[name, c] for c in COHERENCES), key=lambda e: e.value) for name in SIMILARITIES}
    shown = ", ".join(f"{name} {_interval(e)}" for name, e in worst.items())
    detail = (
        f"T = {count}, d = {width}, coherence {COHERENCES}: u's relative error over κ₁'s rounding, at the coherence of "
        f"its largest median: {shown}; medians at most {share:.2g} of ‖(I + A)⁻¹‖‖A‖, and for o from rounding a "
        f"softmax κ₂ at most {read:.2g}; {_simultaneous(3 * len(grown))}"
    )
    return Ruling(verdict, Evidence.STATISTICAL, detail, {name: e.value for name, e in worst.items()})


def _interval(e: Estimate) -> str:
    return f"{e.value:.3g} [{e.low:.3g}, {e.high:.3g}]"


def _simultaneous(intervals: int) -> str:
    """What order statistics guarantee for that many medians at once, each between the least and the largest draw."""
    share = 1 - intervals * 2.0 ** (1 - RUNS)
    return f"intervals of medians over {RUNS} key sets, all {intervals} at once at {100 * share:.1f} % or more (exact)"


def condition_table() -> dict[str, dict[tuple[int, int, float], Estimate]]:
    """The median condition number of I + A₁ for each similarity, at each (T, d, coherence), over RUNS key sets."""
    import numpy as np

    from theorem.stability import SIMILARITIES, condition, keys
    from verify.stats import median

    table: dict[str, dict[tuple[int, int, float], Estimate]] = {name: {} for name in SIMILARITIES}
    for count, width, coherence in itertools.product(COUNTS, WIDTHS, COHERENCES):
        seeds = [np.random.default_rng([run, count, width, int(100 * coherence)]) for run in range(RUNS)]
        scores = [k @ k.T for k in (keys(count, width, coherence, rng) for rng in seeds)]
        for name, similarity in SIMILARITIES.items():
            draws = np.array([condition(similarity(x, width, True)) for x in scores])
            table[name][count, width, coherence] = median(draws, "condition number of I + A₁")
    return table


LIMIT = 10.0  # declared with the claim


def _condition() -> Ruling:
    worst = {name: max(row.values(), key=lambda e: e.value) for name, row in condition_table().items()}
    others = [worst[name] for name in ("linear", "relu", "round")]
    verdict = Verdict.INCONCLUSIVE
    if worst["softmax"].high < LIMIT < min(e.low for e in others):
        verdict = Verdict.CONFIRMED
    elif worst["softmax"].low > LIMIT or min(e.high for e in others) < LIMIT:
        verdict = Verdict.REFUTED
    shown = ", ".join(f"{name} {_interval(e)}" for name, e in sorted(worst.items(), key=lambda x: x[1].value))
    cells = len(COUNTS) * len(WIDTHS) * len(COHERENCES)
    detail = (
        f"largest median condition number of I + A₁ (β = 1) over T = {COUNTS}, d = {WIDTHS}, coherence {COHERENCES}: "
        f"{shown}; {_simultaneous(cells * len(worst))}"
    )
    return Ruling(verdict, Evidence.STATISTICAL, detail, {name: e.value for name, e in worst.items()})


CLAIMS = (
    Claim(
        "D-F-exact-change",
        "D App. F",
        "an error δA in κ₁ changes u by exactly -(I + A + δA)⁻¹ δA U; one in κ₂ changes o by δA₂ U, with no inverse",
        check=_exact_change,
    ),
    Claim(
        "D-F-rounding",
        "D App. F",
        "rounding κ₁ typically grows in u by less than ‖(I + A)⁻¹‖‖A‖; rounding a softmax κ₂ does not grow in o",
        (
            "relative, Frobenius",
            "independent relative errors of up to 2⁻⁹ in every entry",
            "Gaussian values, keys of norm √d with a common direction; medians over key sets",
        ),
        check=_growth,
    ),
    Claim(
        "D-F-u-relative",
        "D App. F",
        "u is less stable than o in another sense: relative to their sizes, rounding κ₁ changes u by more than o",
        ("softmax κ₁ and κ₂, w = k, α = β = 1", "Gaussian values", "each entry of κ₁ off by up to 2⁻⁹ of itself"),
        check=_less_stable,
    ),
    Claim(
        "D-F-condition",
        "D App. F",
        "softmax κ₁ keeps the condition number of I + A₁ below 10 where linear, ReLU and round exceed it",
        (
            "medians over key sets, the worst of the grid",
            "keys of norm √d with a common direction",
            "κ₁(k, k) = 1 for the unnormalised similarities",
        ),
        check=_condition,
    ),
)
