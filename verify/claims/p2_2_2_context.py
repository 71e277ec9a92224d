"""P §2.2.2 and App. F: where a memory goes when its context never ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.evidence import Claim, Evidence, Ruling, Verdict, judge

if TYPE_CHECKING:
    from snr.estimate import Estimate

RUNS, NEAR = 20, 1e-9  # contexts, and the relative distance that counts as the same S*
WITHIN = 0.1  # tolerance of the measured ratios, declared with each claim


def _proof(holds: bool, detail: str, **numbers: Any) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def ratio(draws: Any, predicted: float, words: str) -> Estimate:
    from verify.stats import mean

    return mean(draws / predicted, words)


def show(e: Estimate) -> str:
    return f"{e.value:.3g} [{e.low:.3g}, {e.high:.3g}]"


def worst(estimates: list[Estimate]) -> Verdict:
    verdicts = [judge(e, WITHIN) for e in estimates]
    for verdict in (Verdict.REFUTED, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.CONFIRMED


def statistical(verdict: Verdict, detail: str, **numbers: Any) -> Ruling:
    return Ruling(
        verdict, Evidence.STATISTICAL, detail + " (99.9 % intervals, central limit theorem over runs)", numbers
    )


def _square() -> Ruling:
    import sympy

    from theorem.context import exact_optimum
    from theorem.updates import vanishes

    w_k, w_v = (sympy.Matrix(2, 2, lambda i, j, n=n: sympy.Symbol(f"{n}{i}{j}")) for n in ("k", "v"))  # type: ignore[misc]
    a, b, c = sympy.symbols("a b c", positive=True)
    sigma = sympy.Matrix([[a, b], [b, c]])
    holds = vanishes(exact_optimum(w_k, w_v, sigma) - w_v * w_k.inv())
    return _proof(holds, "S* W_k = W_v for generic 2×2 W_k, W_v and Σ; for every size as Σ W_kᵀ cancels")


def _low_rank() -> Ruling:
    import sympy

    from theorem.context import depends_on_context, exact_optimum, separating_covariance

    w_k = sympy.Matrix([[1, 0, 2], [0, 1, -1]])
    inside = sympy.Matrix([[3, -2, 8]])  # 3 row 1 - 2 row 2
    outside = sympy.Matrix([[1, 1, 0]])
    sigma = separating_covariance(w_k, outside)
    positive = sigma.is_positive_definite
    apart = exact_optimum(w_k, outside, sigma) - exact_optimum(w_k, outside, sympy.eye(3))
    together = exact_optimum(w_k, inside, sigma) - exact_optimum(w_k, inside, sympy.eye(3))
    holds = (
        positive
        and not apart.is_zero_matrix
        and together.is_zero_matrix
        and depends_on_context(w_k, outside)
        and not depends_on_context(w_k, inside)
    )
    detail = (
        f"exact 2×3 W_k: the S* of a value row outside the key rows moves by {apart.tolist()[0]} between Σ = I and a "
        "constructed Σ, of one inside them not at all; the construction works for every such pair"
    )
    return _proof(bool(holds), detail)


def _three_routes() -> Ruling:
    import numpy as np

    from theorem.context import optimum, projections
    from theorem.context_runs import distances, least_squares

    w_k, w_v = projections(8, 8, 4, 3.0, 1)
    root = np.asarray(np.linalg.cholesky(np.eye(8) + 0.5))
    target = optimum(w_k, w_v, root @ root.T)
    closed = float(np.abs(target - w_v @ np.linalg.inv(w_k)).max())
    size = np.linalg.norm(target)
    regressions = [np.linalg.norm(least_squares(w_k, w_v, root, 64, seed) - target) / size for seed in range(RUNS)]
    running = distances(w_k, w_v, root, 1.0, "normalised", (6000,), RUNS, 0)[0]
    near = [closed < NEAR, *(x < NEAR for x in regressions), *(x < NEAR for x in running)]
    share = 0.0005 ** (1 / RUNS)  # of contexts, the least at which all RUNS would agree with probability 0.05 %
    detail = (
        f"d = D = 8, correlated tokens, within {NEAR:g} of S*: W_v W_k⁻¹, {sum(near[1 : RUNS + 1])} of {RUNS} "
        f"least-squares fits of 64 pairs, {sum(near[RUNS + 1 :])} of {RUNS} runs of 6000 steps; so at least "
        f"{100 * share:.0f} % of contexts, each way (exact 99.9 % for both)"
    )
    return Ruling(Verdict.CONFIRMED if all(near) else Verdict.REFUTED, Evidence.STATISTICAL, detail)


def _normalised() -> Ruling:
    from theorem.context import normalised_step_contracts_exactly
    from theorem.context_runs import contraction
    from verify.stats import bounded_mean

    sizes = (2, 3)
    proved = all(normalised_step_contracts_exactly(size) for size in sizes)
    d, steps = 8, 8
    factor = (1 - 1 / d) ** steps
    found = bounded_mean(contraction(d, 1.0, steps, 20_000, 0, normalised=True), 0.0, 1.0, "‖E_T‖²/‖E_0‖²")
    detail = (
        "k kᵀ/‖k‖² is a projection, and its mean over the signed permutations of a generic key is I/d (identities at "
        f"d = {', '.join(map(str, sizes))}), so E‖S - S*‖² falls by exactly 1 - 1/d a step; as a check, d = {d}, "
        f"{steps} steps: {factor:.4f}, measured {show(found)} (exact 99.9 % interval, {found.samples} runs)"
    )
    return _proof(proved and found.contains(factor), detail, factor=factor, measured=found.value)


def _key_alone() -> Ruling:
    import numpy as np

    from theorem.context import key_alone_distance, projections
    from theorem.context_runs import distances
    from verify.stats import median

    d = 8
    w_k, w_v = projections(d, d, 4, 1.0, 1)
    far = {b: median(distances(w_k, w_v, np.eye(d), b, "key", (4000,), 20, 0)[0], "distance") for b in (1.0, 0.02)}
    verdict = Verdict.REFUTED if min(e.low for e in far.values()) > 0.5 else Verdict.INCONCLUSIVE
    shown = ", ".join(f"β = {b:g}: {show(e)}" for b, e in far.items())
    detail = (
        f"white keys, d = {d}: ‖S - S*‖/‖S*‖ after 4000 steps {shown} (exact 99.9 % intervals of the median, 20 runs); "
        f"the memory tends to E‖k‖ S* as β → 0, at distance {key_alone_distance(d):.3g}"
    )
    return Ruling(verdict, Evidence.STATISTICAL, detail, {str(b): e.value for b, e in far.items()})


def _raw_diverges() -> Ruling:
    from theorem.context import growth_exponent
    from theorem.context_runs import log_growth
    from verify.stats import mean

    sizes = (2, 3, 8, 64, 128)
    exponents = {d: growth_exponent(d, 1.0) for d in sizes}
    measured = {d: mean(log_growth(d, 1.0, 300, 600, d), "growth") for d in (2, 8)}
    agree = all(e.contains(exponents[d]) for d, e in measured.items())
    verdict = Verdict.CONFIRMED if min(exponents.values()) > 0 and agree else Verdict.REFUTED
    shown = ", ".join(f"{d}: {g:+.3f}" for d, g in exponents.items())
    detail = (
        f"ln‖S - S*‖ grows a step, almost surely, by (d: rate) {shown}; simulated d = 2 {show(measured[2])}, "
        f"d = 8 {show(measured[8])}; for d = 1 the rate is {growth_exponent(1, 1.0):+.3f}, so it converges there"
    )
    return statistical(verdict, detail, **{str(d): g for d, g in exponents.items()})


def _mean_square() -> Ruling:
    import numpy as np

    from theorem.context import error_operator, mean_square_limit
    from theorem.context_runs import contraction

    d, steps = 8, 6
    found = []
    for beta in (0.05, 0.15):
        predicted = (1 - 2 * beta + beta**2 * (d + 2)) ** steps
        found.append(ratio(contraction(d, beta, steps, 20_000, 1, normalised=False), predicted, "measured/predicted"))
    isotropic = abs(mean_square_limit(np.ones(d)) - 2 / (d + 2)) < 1e-9
    uneven = np.linspace(0.2, 3.0, d)
    limit = mean_square_limit(uneven)
    radii = [float(np.abs(np.linalg.eigvals(error_operator(uneven, limit * s))).max()) for s in (0.999, 1.001)]
    verdict = worst(found) if isotropic and radii[0] < 1 < radii[1] else Verdict.REFUTED
    detail = (
        f"E‖S - S*‖² is multiplied by 1 - 2β + β²(d+2); d = {d}, {steps} steps, measured/predicted at β = 0.05 "
        f"{show(found[0])}, at 0.15 {show(found[1])}; for eigenvalues 0.2..3 the limit {limit:.4f} solves "
        "Σ βλ/(2(1-βλ)) = 1 and the exact operator's spectral radius crosses 1 there"
    )
    return statistical(verdict, detail, limit=2 / (d + 2), limit_uneven=limit)


def _almost_sure() -> Ruling:
    from theorem.context import almost_sure_limit
    from theorem.context_runs import log_growth
    from verify.stats import mean

    d = 8
    limit, square = almost_sure_limit(d), 2 / (d + 2)
    sides = [mean(log_growth(d, limit * s, 2000, 100, 3), "growth") for s in (0.95, 1.05)]
    holds = sides[0].high < 0 < sides[1].low and square < 0.95 * limit
    detail = (
        f"d = {d}: converges almost surely below β = {limit:.4f}, in mean square below {square:.4f}; growth rate at "
        f"0.95 and 1.05 of the former {show(sides[0])}, {show(sides[1])}"
    )
    return statistical(Verdict.CONFIRMED if holds else Verdict.REFUTED, detail, almost_sure=limit, mean_square=square)


def _floor() -> Ruling:
    import numpy as np

    from theorem.context import noise_floor, normalised_floor, optimum, residual
    from theorem.context_runs import delta_memory, squared_distance

    d, tokens, length = 8, 16, 1200
    rng = np.random.default_rng(2)
    # orthonormal rows make the keys white, the case with closed forms for both step conventions
    w_k = np.linalg.qr(rng.standard_normal((tokens, tokens)))[0][:d]
    w_v = rng.standard_normal((4, tokens)) / 4
    sigma = np.eye(tokens)
    target, trace = optimum(w_k, w_v, sigma), float(np.trace(residual(w_k, w_v, sigma)))
    x = rng.standard_normal((150, length, tokens))
    checkpoints = range(600, length + 1, 50)
    found, levels = {}, {}
    for name, beta in (("raw", 0.02), ("raw", 0.1), ("normalised", 0.2), ("normalised", 1.0)):
        states = delta_memory(x @ w_k.T, x @ w_v.T, beta, checkpoints, normalised=name == "normalised")
        floor = normalised_floor(d, beta, trace) if name == "normalised" else noise_floor(np.ones(d), beta, trace)
        label = f"{name} β = {beta:g}"
        found[label] = ratio(squared_distance(states, target).mean(axis=0), floor, "measured/predicted")
        levels[label] = np.sqrt(floor) / np.linalg.norm(target)
    shown = "; ".join(f"{n}: {levels[n]:.3f}, measured²/predicted² {show(e)}" for n, e in found.items())
    detail = f"d = {d} of D = {tokens}, lim ‖S - S*‖/‖S*‖ (root mean square) {shown}"
    return statistical(worst(list(found.values())), detail, **{n: float(v) for n, v in levels.items()})


def _multi_head() -> Ruling:
    import sympy

    from theorem.context import depends_on_context, exact_optimum, separating_covariance

    stack = sympy.Matrix([[1, 2, 0, 1], [0, 1, 1, 0], [1, 0, 1, 2], [2, 1, 0, 1]])
    values = sympy.Matrix([[1, 0, 2, 1], [0, 3, 1, 1], [1, 1, 1, 0], [2, 0, 0, 1]])
    heads = [(stack[i : i + 2, :], values[i : i + 2, :]) for i in (0, 2)]
    moved = []
    for w_k, w_v in heads:
        sigma = separating_covariance(w_k, w_v)
        moved.append(not (exact_optimum(w_k, w_v, sigma) - exact_optimum(w_k, w_v, sympy.eye(4))).is_zero_matrix)
    joint = not depends_on_context(stack, values) and stack.det() != 0
    detail = (
        f"two heads of width 2 on 4-dimensional tokens: W_k stacked is invertible and its S* fixed, each head's own S* "
        f"moves with Σ ({sum(moved)} of {len(moved)}), in exact arithmetic"
    )
    return _proof(joint and all(moved), detail)


SECTION = "P §2.2.2, App. F"
CONTEXT = "python -m verify context"
CLAIMS = (
    Claim(
        "P-2.2.2-optimum-square",
        SECTION,
        "with a square invertible W_k the limit is S* = W_v W_k⁻¹, whatever the distribution of the context",
        check=_square,
    ),
    Claim(
        "P-2.2.2-optimum-low-rank",
        SECTION,
        "with a low-rank W_k the limit S* depends on the context's covariance, unless W_k's rows span W_v's",
        check=_low_rank,
    ),
    Claim(
        "P-2.2.2-multi-head",
        SECTION,
        "with several heads each head's limit depends on the context although all keys together would fix it",
        check=_multi_head,
    ),
    Claim(
        "P-2.2.2-three-routes",
        SECTION,
        "closed form, least squares and DeltaNet with normalised step arrive at the same S*",
        ("square W_k", "fixed seeds"),
        check=_three_routes,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-normalised-key",
        SECTION,
        "DeltaNet converges to S* = W_v W_k⁻¹ if its keys alone are divided by their norm",
        ("square W_k", "Gaussian tokens"),
        check=_key_alone,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-normalised-step",
        SECTION,
        "DeltaNet converges to S* = W_v W_k⁻¹ if the step is β/‖k‖², that is, if key and value are divided by ‖k‖",
        ("square W_k", "isotropic keys for the rate"),
        check=_normalised,
        command=CONTEXT,
        repairs="P-2.2.2-normalised-key",
    ),
    Claim(
        "P-2.2.2-raw-diverges",
        SECTION,
        "with raw Gaussian keys and β = 1 DeltaNet diverges",
        ("keys N(0, I_d), d ≥ 2",),
        check=_raw_diverges,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-step-mean-square",
        SECTION,
        "with raw keys N(0, I_d) E‖S - S*‖² falls exactly if β < 2/(d+2)",
        ("no residual", "measured/predicted within 10 %"),
        check=_mean_square,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-step-almost-sure",
        SECTION,
        "between that limit and a larger one DeltaNet converges almost surely while its mean square error explodes",
        ("keys N(0, I_d), no residual",),
        check=_almost_sure,
        command=CONTEXT,
    ),
    Claim(
        "P-2.2.2-low-rank-floor",
        SECTION,
        "with a low-rank W_k a fixed β never settles but hovers at a distance that vanishes like √β",
        ("white Gaussian keys", "measured/predicted within 10 %"),
        check=_floor,
        command=CONTEXT,
    ),
)
