"""The predictions for keys that are given, step by step: `verify snr --derive --keys FILE`. Numbers: `snr.stored`."""

from __future__ import annotations

import sympy

from snr.derivation import G, M, N, Step, derive, equation
from snr.similarity import Similarity, as_similarity

_I, _J = sympy.symbols("i j", integer=True)
_KEPT = {"linear": sympy.S.One, "relu": sympy.Rational(1, 2)}  # of E X², under g, for X symmetric about 0


def derive_stored(similarity: Similarity | str) -> tuple[Step, ...]:
    """The steps to each prediction for stored keys k_1 … k_N."""
    g = as_similarity(similarity)
    derived = derive(g)
    s, v, mu, t = (sympy.IndexedBase(name) for name in ("s", "v", "mu", "t"))
    k, z = sympy.IndexedBase("k"), sympy.Symbol("z", real=True)

    def over_probes(noise: sympy.Expr) -> sympy.Expr:
        return (N - 1) / N * sympy.Sum(noise / G(s[_I]) ** 2, (_I, 1, N))

    pairs = sympy.Sum(G(sympy.Function("dot")(k[_I], k[_J])) ** 2 / G(s[_I]) ** 2, (_I, 1, N), (_J, 1, N))
    gauss = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    leaning = G(mu[_I] + sympy.sqrt(v[_I] - mu[_I] ** 2) * z) ** 2 * gauss
    start = [derived.steps[0]]
    if g.cosine:
        start.append(Step("The keys are scaled to norm √d first, so that s_i = d."))
    if derived.second_moment is not None:
        start.append(
            Step(
                "E[g(X)²] for X ~ N(0, s), as without --keys:",
                sympy.Eq(M(sympy.Symbol("s", positive=True)), derived.second_moment),
            )
        )
    return (
        *start,
        *_paper(derived.steps),
        Step(
            "These very keys, s_i = ‖k_i‖²; values are random, independent, of mean 0, so cross terms vanish. The mean "
            "over recalls is a double sum, of which the terms j = i are 1 each:",
            equation("exact", pairs / N - 1),
        ),
        Step(
            "Gaussian, isotropic, with the measured norms: k_j·k_i ~ N(0, s_i t_i), t_i = Σ_{j≠i} s_j/((N−1) d), and "
            "M(v) = E g(X)² for X ~ N(0, v):",
            equation("norms", over_probes(M(s[_I] * t[_I]))),
        ),
        Step(
            "Gaussian with the measured covariance: k_j·k_i ~ N(0, v_i), v_i = k_iᵀ C_i k_i, "
            "C_i = Σ_{j≠i} k_j k_jᵀ/(N−1). For g(x) = x, M(v) = v makes this the exact sum:",
            equation("covariance", over_probes(M(v[_I]))),
        ),
        Step(
            "Gaussian with the measured mean and covariance: k_j·k_i ~ N(μ_i, v_i − μ_i²), "
            "μ_i = k_i·Σ_{j≠i} k_j/(N−1):",
            equation("mean_and_covariance", over_probes(sympy.Integral(leaning, (z, -sympy.oo, sympy.oo)))),
        ),
        *_effective(g),
    )


def _paper(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if isinstance(step.formula, sympy.Eq) and step.formula.lhs == sympy.Symbol("R_P")]


def _effective(g: Similarity) -> list[Step]:
    """N/d_eff, d_eff = tr(C)²/tr(C²)."""
    if g.name not in _KEPT:
        return [
            Step(
                "Effective dimension: it repairs the linear and the ReLU kernel only, whose noise is a second "
                "moment of k_j·k_i."
            )
        ]
    trace, squared, d_eff = sympy.symbols("tr(C) tr(C^2) d_eff", positive=True)
    s, gram = sympy.IndexedBase("s"), sympy.IndexedBase("(K^T K)")
    a, b = sympy.symbols("a b", integer=True)
    kept = _KEPT[g.name]
    half = ", of which max(0, X) keeps half, as X and −X have one law" if g.name == "relu" else ""
    return [
        Step(
            "Effective dimension: for independent keys of second moment C = E k kᵀ, E(k_j·k_i)² = E k_iᵀ C k_i = "
            "tr(C C)" + half + ":",
            sympy.Eq(sympy.Symbol("E g(X)^2"), kept * squared),
        ),
        Step(
            "As P does, hold the probe at its mean norm, s = E‖k‖² = tr(C). The noise of a pair over c² = s² is then:",
            sympy.Eq(sympy.Symbol("E g(X)^2/c^2"), kept * squared / trace**2),
        ),
        Step(
            "With the effective dimension, for a law between 1 (one direction) and d (isotropic):",
            sympy.Eq(d_eff, trace**2 / squared),
        ),
        Step("P's N/d and N/(2d) become, with N − 1 pairs:", equation("effective", kept * (N - 1) / d_eff)),
        Step(
            "From the keys K = (k_1 … k_N)ᵀ: tr(C) is the mean of s_i, and tr(C²) the mean of (k_i·k_j)² over pairs "
            "i ≠ j (with i = j it would be biased by about s²/N), which takes one matrix product. Without bias it errs "
            "to both sides: that of few keys may be so small that d_eff is above d, and it is 0 for orthogonal keys:",
            sympy.Eq(
                squared,
                (
                    sympy.Sum(gram[a, b] ** 2, (a, 1, sympy.Symbol("d")), (b, 1, sympy.Symbol("d")))
                    - sympy.Sum(s[_I] ** 2, (_I, 1, N))
                )
                / (N * (N - 1)),
                evaluate=False,
            ),
        ),
    ]
