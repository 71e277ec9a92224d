"""D App. F: how errors in the similarities grow through the recurrence."""

from __future__ import annotations

from verify.evidence import Claim, Evidence, Ruling, Verdict

WIDTHS = (32, 128)
COUNTS = (64, 256)
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

    worst: dict[str, tuple[float, float]] = {}
    read = share = 0.0
    for name, similarity in SIMILARITIES.items():
        grown, norms = [], []
        for coherence in COHERENCES:
            rng = np.random.default_rng([7, int(100 * coherence)])
            k = keys(128, 64, coherence, rng)
            found = growth(name, 64, k, rng.standard_normal((128, 64)), rng)
            size = float(np.linalg.norm(similarity(k @ k.T, 64, True)))
            share = max(share, found.u_from_write / max(found.inverse_norm * size, 1e-300))
            grown.append(found.u_from_write)
            norms.append(found.inverse_norm)
            read = max(read, found.o_from_read)
        worst[name] = (max(grown), max(norms))
    shown = ", ".join(f"{name} {g:.2g} ({n:.2g})" for name, (g, n) in worst.items())
    detail = (
        f"T = 128, d = 64, coherence {COHERENCES}: u's largest relative error over κ₁'s rounding, and ‖(I + A)⁻¹‖: "
        f"{shown}; at most {share:.2g} of the bound ‖(I + A)⁻¹‖‖A‖; o's from rounding a softmax κ₂ at most {read:.2g}"
    )
    verdict = Verdict.CONFIRMED if share < 1 and read < 1 else Verdict.REFUTED
    numbers = {name: {"growth": g, "inverse_norm": n} for name, (g, n) in worst.items()}
    return Ruling(verdict, Evidence.STATISTICAL, detail + "; one draw each, no interval", numbers)


def _condition_table() -> dict[str, dict[tuple[int, int, float], float]]:
    import numpy as np

    from theorem.stability import SIMILARITIES, condition, keys

    table: dict[str, dict[tuple[int, int, float], float]] = {name: {} for name in SIMILARITIES}
    for count in COUNTS:
        for width in WIDTHS:
            for coherence in COHERENCES:
                runs = [keys(count, width, coherence, np.random.default_rng([run, count, width])) for run in range(3)]
                for name, similarity in SIMILARITIES.items():
                    medians = [condition(similarity(k @ k.T, width, True)) for k in runs]
                    table[name][count, width, coherence] = float(np.median(medians))
    return table


def _condition() -> Ruling:
    table = _condition_table()
    worst = {name: max(row.values()) for name, row in table.items()}
    softmax, others = worst["softmax"], {n: w for n, w in worst.items() if n in ("linear", "relu", "round")}
    holds = softmax < 10 < min(others.values())
    shown = ", ".join(f"{name} {value:.3g}" for name, value in sorted(worst.items(), key=lambda x: x[1]))
    detail = (
        f"largest condition number of I + A₁ (β = 1) over T = {COUNTS}, d = {WIDTHS}, coherence {COHERENCES}, "
        f"median of 3 key sets each: {shown}"
    )
    verdict = Verdict.CONFIRMED if holds else Verdict.REFUTED
    return Ruling(verdict, Evidence.STATISTICAL, detail + "; a comparison on these key sets, no interval", worst)


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
        "rounding κ₁ grows in u by at most ‖(I + A)⁻¹‖‖A‖; rounding a softmax κ₂ does not grow in o",
        ("relative, Frobenius", "independent relative errors of up to 2⁻⁹ in every entry"),
        check=_growth,
    ),
    Claim(
        "D-F-u-relative",
        "D App. F",
        "relative to their sizes u suffers more from rounding κ₁ than o does",
        ("softmax κ₁ and κ₂, w = k, α = β = 1", "Gaussian values", "each entry of κ₁ off by up to 2⁻⁹ of itself"),
        check=_less_stable,
    ),
    Claim(
        "D-F-condition",
        "D App. F",
        "softmax κ₁ keeps the condition number of I + A₁ below 10 where linear, ReLU and round exceed it",
        ("keys of norm √d with a common direction", "κ₁(k, k) = 1 for the unnormalised similarities"),
        check=_condition,
    ),
)
