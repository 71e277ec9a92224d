"""P §2.1: capacity. The printed formulas for SNR⁻¹, what they are exactly, and by which factor they are off.

P defines SNR⁻¹ as the mean of ‖r‖²/(c²‖v_i‖²) over Gaussian keys and values (eq. 5–6), and prints formulas that hold
a probe at ‖k_i‖² = d and write N for N − 1. So each formula has a row as printed, and rows with what is true.
Every factor is derived by `snr.derivation`, none is typed in here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from verify.evidence import Claim, Evidence, Ruling, Verdict

GAUSSIAN = ("keys N(0, I_d), independent", "values of mean 0, independent of the keys", "‖v_i‖² replaced by its mean")


def proved(holds: bool, detail: str, **numbers: Any) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _printed_as_mean(name: str) -> Ruling:
    """The printed formula against the exact mean of ratio: the factor, as a formula in d at tau = √d, and its limit."""
    import sympy

    from snr.derivation import D, derive, limit_at_infinity, mean_over_fixed_probe
    from snr.similarity import similarity

    factor = mean_over_fixed_probe(similarity(name))
    limit = limit_at_infinity(factor)
    condition = derive(similarity(name)).condition
    values = {d: float(factor.subs(D, d)) for d in (3, 16, 64, 1024)}
    true = sympy.simplify(factor - 1) == 0
    return proved(
        true,
        f"the mean is (N−1)/N × {sympy.sstr(factor)} times the formula at tau = √d: {values[16]:.3g} at d = 16, "
        f"{values[64]:.3g} at d = 64, {values[1024]:.3g} at d = 1024, tending to {sympy.sstr(limit)}; "
        f"finite only for {sympy.sstr(condition)}",
        factor=sympy.sstr(factor),
        limit=sympy.sstr(limit),
        values=values,
        condition=sympy.sstr(condition),
    )


def _repaired_mean(name: str, repaired: str) -> Ruling:
    """The mean of ratio derived term by term against the repaired formula, as an identity; quadrature as a check."""
    import sympy

    from snr import expectation
    from snr.derivation import TAU, D, derive
    from snr.similarity import similarity

    kernel = similarity(name)
    mean = derive(kernel).mean
    assert mean is not None
    formula = sympy.sympify(repaired, locals={"d": D, "tau": TAU})
    same = _same(mean, formula)
    worst, points = 0.0, 0
    for d in (3, 64):
        for tau in (0.9, math.sqrt(d)):
            symbolic = float(sympy.log(formula.subs({D: d, TAU: sympy.Float(tau, 40)})).evalf(30))
            worst = max(worst, abs(symbolic - expectation.gaussian_mean(kernel, d, tau).log))
            points += 1
    return proved(
        same and worst < 1e-10,
        f"E over s ~ χ²_d term by term is {sympy.sstr(mean)}, identically the formula over N−1; as a check, quadrature "
        f"in float64 differs by {worst:.1e} at most at {points} points",
        formula=sympy.sstr(mean),
        quadrature_difference=worst,
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two positive expressions in d and tau are identical: their ratio simplifies to 1."""
    import sympy

    ratio = sympy.powsimp(sympy.expand_power_exp(sympy.together(one / other)), force=True)
    return bool(sympy.simplify(sympy.powdenest(ratio, force=True) - 1) == 0)


def _fixed_probe(name: str, printed: str) -> Ruling:
    """P's formula as a statement about a probe of norm √d, (N−1) in place of N."""
    import sympy

    from snr.derivation import TAU, D, derive
    from snr.similarity import similarity

    derived = derive(similarity(name)).fixed_probe
    formula = sympy.sympify(printed, locals={"d": D, "tau": TAU})
    same = sympy.simplify(derived - formula) == 0
    return proved(
        same,
        f"E[g(X)²]/g(d)² with X ~ N(0, d) is {sympy.sstr(derived)}; with N − 1 for N the formula is exact",
        formula=sympy.sstr(derived),
    )


def cross_terms_vanish() -> Ruling:
    """E‖Σ_j κ_j v_j‖² = Σ_j κ_j² E‖v‖², over every assignment of ±1 values, for symbolic κ of any sign."""
    import itertools

    import sympy

    n, d_v = 4, 2
    kappa = sympy.symbols(f"kappa1:{n + 1}", real=True)
    total = sympy.S.Zero
    for signs in itertools.product((-1, 1), repeat=n * d_v):
        r = [sum(kappa[j] * signs[j * d_v + i] for j in range(n)) for i in range(d_v)]
        total += sum(sympy.expand(x**2) for x in r)
    mean = sympy.expand(total / 2 ** (n * d_v))
    holds = sympy.expand(mean - d_v * sum(k**2 for k in kappa)) == 0
    return proved(
        holds,
        f"averaged over all {2 ** (n * d_v)} assignments of ±1 values to {n} pairs (d_v = {d_v}), "
        f"‖r‖² is {sympy.sstr(mean)}: no cross terms, whatever the signs of κ",
        pairs=n,
        assignments=2 ** (n * d_v),
    )


def printed_solu() -> Ruling:
    import sympy

    from snr.derivation import printed_solu_error

    factor = printed_solu_error()
    return proved(
        factor == 1,
        f"at tau = √d the fixed-probe value is {sympy.sstr(factor)} = {float(factor):.4f} times the printed one",
        factor=sympy.sstr(factor),
    )


def solu_printed_ratio() -> Ruling:
    """SoLU over exp by the two printed formulas, against what both derivations give."""
    import sympy

    from snr.derivation import D, fixed_probe_ratio
    from snr.similarity import similarity

    printed = (5 / (D * sympy.exp(2 * sympy.sqrt(D)))) / sympy.exp(2 - 2 * sympy.sqrt(D))
    true = fixed_probe_ratio(similarity("solu"), similarity("exp"))
    factor = sympy.simplify(true / printed)
    return proved(
        factor == 1,
        f"eq. 17 over eq. 13 as printed is {sympy.sstr(sympy.simplify(printed))}; the fixed-probe values give "
        f"{sympy.sstr(true)}, {sympy.sstr(factor)} times as much",
        factor=sympy.sstr(factor),
    )


def solu_against_exp() -> Ruling:
    import sympy

    from snr.derivation import TAU, D, derive, fixed_probe_ratio
    from snr.similarity import similarity

    solu, exp = similarity("solu"), similarity("exp")
    fixed = fixed_probe_ratio(solu, exp)
    first, second = derive(solu).mean, derive(exp).mean
    assert first is not None
    assert second is not None
    mean = sympy.simplify(sympy.powsimp((first / second).subs(TAU, sympy.sqrt(D))))
    limit = sympy.limit(mean * D, D, sympy.oo)
    crossing = sympy.solve(sympy.Eq(fixed, 1), D)
    return proved(
        sympy.simplify(fixed - 5 / D) == 0 and limit == 5,
        f"SoLU/exp = {sympy.sstr(fixed)} for a fixed probe, so SoLU is the more precise for d > {crossing[0]}; for the "
        f"Gaussian mean it is {sympy.sstr(mean)} = {float(mean.subs(D, 64)):.4f} at d = 64, tending to {limit}/d",
        fixed_probe=sympy.sstr(fixed),
        mean=sympy.sstr(mean),
    )


def normalisation_invariant() -> Ruling:
    from snr.softmax import invariance

    return proved(
        invariance(),
        "dividing every κ_j by Σ_l κ_l leaves ‖r‖²/(c²‖v_i‖²) unchanged, as a symbolic identity",
    )


def normalisation_matters() -> Ruling:
    """The recall error with normalisation against SNR⁻¹, which is the error if the answer is divided by c instead."""
    from snr.predictions import predict
    from snr.similarity import similarity
    from snr.softmax import recall_error

    weights = (Fraction(1, 2), Fraction(1, 2))  # two pairs with equal κ
    smallest = (1 - weights[0]) ** 2 + weights[1] ** 2, (weights[1] / weights[0]) ** 2
    d, tau = 64, 8.0
    rows = {}
    for n in (16, 1024, 65536, 4_194_304):
        rows[n] = recall_error(n, d, tau, "sphere"), predict(similarity("exp"), n, d, tau, "sphere").exact.value
    told = "; ".join(f"N = {n}: {error:.3g}, {snr:.3g}" for n, (error, snr) in rows.items())
    return proved(
        smallest[0] == smallest[1],
        f"two pairs with equal κ have error {smallest[0]} and SNR⁻¹ {smallest[1]}. At d = {d}, tau = √d, ‖k‖ = √d the "
        f"error E‖o − v_i‖²/E‖v‖² and SNR⁻¹ are: {told}. The normalised answer shrinks by p_i, so its error is the "
        f"larger at first, and it stays bounded where SNR⁻¹ does not",
        rows={str(n): row for n, row in rows.items()},
    )


def _heads_over_one(name: str, statistic: str) -> tuple[Any, Any]:
    """SNR⁻¹ of H heads of width d/H over that of one of width d, and for which width w of a head it is finite.

    The ratio in d and H, each memory at tau the square root of its width. statistic: "fixed_probe" or "mean", as
    `snr.derivation` has them per other pair.
    """
    import sympy

    from snr.derivation import TAU, D, derive
    from snr.similarity import similarity

    found = derive(similarity(name))
    one = getattr(found, statistic).subs(TAU, sympy.sqrt(D))
    narrow = D / sympy.Symbol("H", positive=True)
    condition = sympy.true if statistic == "fixed_probe" else found.condition
    assert condition is not None
    width = sympy.Symbol("w", positive=True)
    return one.subs(D, narrow) / one, condition.subs(TAU, sympy.sqrt(D)).subs(D, width)


HEADS = {"linear": "H", "exp": "exp(2*sqrt(d)*(1 - 1/sqrt(H)))"}  # as the printed formulas have it
HEADS_MEAN = {
    "linear": "(d - 2)/(d/H - 2)",
    "exp": "(1 + 4/sqrt(d) - 4/d)**(d/2)/(1 + 4*sqrt(H/d) - 4*H/d)**(d/(2*H))",
}


def multi_head(statistic: str, formulas: Mapping[str, str]) -> Ruling:
    """Whether H heads have the given multiples of one head's SNR⁻¹, as identities in d and H, for linear and exp."""
    import sympy

    from snr.derivation import D

    h = sympy.Symbol("H", positive=True)
    told, ratios, holds = [], {}, True
    for name, formula in formulas.items():
        ratio, finite = _heads_over_one(name, statistic)
        claimed = sympy.sympify(formula, locals={"d": D, "H": h})
        at = {D: 64, h: 8}
        same = _same(ratio, claimed)
        holds = holds and same
        shown = sympy.sstr(claimed if same else ratio)
        ratios[name] = {"formula": shown, "d = 64, H = 8": float(ratio.subs(at))}
        beside = "" if same else f" (the formulas: {float(claimed.subs(at)):.4g})"
        told.append(
            f"{name}'s {shown} times, {float(ratio.subs(at)):.4g} at d = 64, H = 8{beside}"
            + ("" if finite == sympy.true else f", finite for heads of width w with {sympy.sstr(finite)}")
        )
    twelve = float(sympy.log(_heads_over_one("exp", statistic)[0].subs({D: 768, h: 12})))
    what = "for a probe at ‖k_i‖² = d/H" if statistic == "fixed_probe" else "as the mean over Gaussian keys"
    return proved(
        holds,
        f"{what}, tau = √(d/H), SNR⁻¹ is one head's: {'; '.join(told)}. For 12 heads of 64 exp's is e^{twelve:.1f} "
        f"times: SNR⁻¹ alone would have one head help exp far more than linear, which P Fig. 2 does not find",
        **ratios,
    )


def hebbian_only() -> Ruling:
    """Least squares on integer keys, in rational arithmetic: exact recall for N ≤ d, and the residual beyond."""
    import numpy as np
    import sympy

    rng = np.random.default_rng(0)
    d = 5
    residuals = {}
    for n in (3, 5, 8, 12):
        keys = sympy.Matrix(rng.integers(-9, 10, size=(d, n)).tolist())
        # V − S K with S = V K⁺ is V(I − K⁺K): a projector, whose trace over n is the mean residual for isotropic values
        plus = keys.T * (keys * keys.T).inv() if n > d else (keys.T * keys).inv() * keys.T
        projector = sympy.eye(n) - plus * keys
        residuals[n] = sympy.Rational(projector.trace(), n)
    holds = all(value == max(sympy.S.Zero, 1 - sympy.Rational(d, n)) for n, value in residuals.items())
    told = ", ".join(f"N = {n}: {value}" for n, value in residuals.items())
    return proved(
        not holds,
        f"least squares on the same pairs leaves max(0, 1 − d/N) of E‖v‖² (d = {d}, rational arithmetic: {told}); "
        f"at N = d the Hebbian write has SNR⁻¹ near 1 and least squares none",
        residuals={str(n): str(value) for n, value in residuals.items()},
    )


def least_squares() -> Ruling:
    ruling = hebbian_only()
    holds = ruling.verdict == Verdict.REFUTED
    return proved(holds, ruling.detail, **ruling.numbers)


def _formula_claims() -> tuple[Claim, ...]:
    """Printed, repaired and fixed-probe rows of the four kernels with a formula."""
    rows = (
        ("linear", "7", "N/d", "(N−1)/(d−2), d > 2", "1/d", "1/(d - 2)"),
        (
            "exp",
            "13",
            "N exp(−2(tau−1)d/tau²)",
            "(N−1)(1 + 4/tau − 4/tau²)^(−d/2), tau > 2√2−2",
            "exp(-2*(tau - 1)*d/tau**2)",
            "(1 + 4/tau - 4/tau**2)**(-d/2)",
        ),
        ("relu", "15", "N/(2d)", "(N−1)/(2(d−2)), d > 2", "1/(2*d)", "1/(2*(d - 2))"),
        (
            "solu",
            "17",
            "N (1+4d/tau²)/d exp(−2(tau−1)d/tau²)",
            "(N−1)(1+2a)^(−d/2) [(1+2a)/(d−2) + 4/tau²], a = 2(tau−1)/tau²",
            "(1 + 4*d/tau**2)/d*exp(-2*(tau - 1)*d/tau**2)",
            "(1 + 4*(tau - 1)/tau**2)**(-d/2)*((1 + 4*(tau - 1)/tau**2)/(d - 2) + 4/tau**2)",
        ),
    )
    claims = []
    for name, number, printed, repaired, formula, mean in rows:
        first = f"P-2.1-eq{number}-{name}"
        source = f"P §2.1.1 eq. {number}"
        claims += [
            Claim(
                first,
                source,
                f"The {name} memory has SNR⁻¹ = {printed}, the mean over Gaussian keys",
                GAUSSIAN,
                check=lambda name=name: _printed_as_mean(name),  # type: ignore[misc]
            ),
            Claim(
                f"{first}-mean",
                source,
                f"The {name} memory has mean SNR⁻¹ = {repaired}, exactly",
                GAUSSIAN,
                check=lambda name=name, mean=mean: _repaired_mean(name, mean),  # type: ignore[misc]
                repairs=first,
            ),
            Claim(
                f"{first}-fixed-probe",
                source,
                f"{printed} with N − 1 for N is exact for a probe of norm √d among Gaussian keys",
                ("‖k_i‖² = d held", *GAUSSIAN),
                check=lambda name=name, formula=formula: _fixed_probe(name, formula),  # type: ignore[misc]
                repairs=first,
            ),
        ]
    return tuple(claims)


CLAIMS = (
    *_formula_claims(),
    Claim(
        "P-2.1-eq10-kernel",
        "P §2.1.1 eq. 10",
        "A kernel memory's noise is E‖r‖² = Σ_{j≠i} E[κ(k_j, k_i)²] E‖v‖²: cross terms vanish, whatever the signs of κ",
        ("values independent with mean 0",),
        check=cross_terms_vanish,
    ),
    Claim(
        "P-2.1-eq17-printed",
        "P §2.1.1 eq. 17",
        "At tau = √d the SoLU memory has SNR⁻¹ = 5N/(d e^(2√d)) for a fixed probe of norm √d",
        ("‖k_i‖² = d held", *GAUSSIAN),
        check=printed_solu,
    ),
    Claim(
        "P-2.1-solu-exp-printed",
        "P §2.1.1 eq. 13, 17",
        "At tau = √d SoLU's SNR⁻¹ is 5/(e² d) of exp's for a fixed probe, as the printed formulas say",
        ("‖k_i‖² = d held", *GAUSSIAN),
        check=solu_printed_ratio,
    ),
    Claim(
        "P-2.1-solu-exp",
        "P §2.1.1 eq. 13, 17",
        "At tau = √d SoLU's SNR⁻¹ is 5/d of exp's, exactly for a fixed probe and to leading order for the mean",
        GAUSSIAN,
        check=solu_against_exp,
        repairs="P-2.1-solu-exp-printed",
    ),
    Claim(
        "P-2.1-normalisation-snr",
        "P §2.1.1",
        "Softmax normalisation does not change the SNR⁻¹ of any recall, nor then its mean, median or ratio of means",
        (),
        check=normalisation_invariant,
    ),
    Claim(
        "P-2.1-normalisation-error",
        "P §2.1.1",
        "Normalisation does not matter: the mean recall error with it is the mean SNR⁻¹ too",
        ("keys uniform on ‖k‖ = √d, where mean, fixed probe and ratio of means are one",),
        check=normalisation_matters,
    ),
    Claim(
        "P-2.1-multi-head",
        "P §2.1, Fig. 2; eq. 7, 13",
        "H heads of width d/H have, as the mean over Gaussian keys, H times one head's SNR⁻¹ for linear and "
        "e^(2√d(1−1/√H)) times for exp, tau the root of the width, as the formulas give",
        GAUSSIAN,
        check=lambda: multi_head("mean", HEADS),
    ),
    Claim(
        "P-2.1-multi-head-fixed-probe",
        "P §2.1, Fig. 2; eq. 7, 13",
        "For a fixed probe, of norm the root of a head's width, H heads have H times one head's SNR⁻¹ for linear and "
        "e^(2√d(1−1/√H)) times for exp",
        ("‖k_i‖² = d/H held (d for one head)", *GAUSSIAN),
        check=lambda: multi_head("fixed_probe", HEADS),
        repairs="P-2.1-multi-head",
    ),
    Claim(
        "P-2.1-multi-head-mean",
        "P §2.1, Fig. 2; eq. 7, 13",
        "H heads have (d−2)/(d/H−2) times one head's mean SNR⁻¹ for linear and "
        "(1+4/√d−4/d)^(d/2) / (1+4√(H/d)−4H/d)^(d/(2H)) times for exp, exactly",
        GAUSSIAN,
        check=lambda: multi_head("mean", HEADS_MEAN),
        repairs="P-2.1-multi-head",
    ),
    Claim(
        "P-2.1-eq7-any-write",
        "P §2.1 eq. 7",
        "N/d is the noise of a linear state of width d, mean over its pairs, however it is written",
        ("keys in general position", "isotropic values"),
        check=hebbian_only,
    ),
    Claim(
        "P-2.1-eq7-least-squares",
        "Wang, Shi, Fox 2025",
        "Least squares recalls exactly for N ≤ d and leaves, as the mean over its pairs, 1 − d/N of E‖v‖² beyond; N/d "
        "is the noise of the Hebbian write",
        ("keys in general position", "isotropic values"),
        check=least_squares,
        repairs="P-2.1-eq7-any-write",
    ),
)
