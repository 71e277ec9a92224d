"""P §2.1.1 eq. 13: how the exp memory's capacity depends on width and temperature, and how eq. 13 misses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from verify.claims.p2_1_capacity import GAUSSIAN, proved
from verify.evidence import Claim, Ruling


def threshold_of_exp() -> Ruling:
    """Where the exp kernel's mean is infinite although P's formula is finite."""
    import sympy

    from snr.derivation import TAU, derive
    from snr.predictions import predict
    from snr.similarity import similarity

    kernel = similarity("exp")
    base = sympy.together(1 + 4 / TAU - 4 / TAU**2)
    roots = [r for r in sympy.solve(sympy.numer(base), TAU) if r.is_positive]
    root = sympy.nsimplify(roots[0]) if roots else sympy.nan
    below = predict(kernel, 2, 64, 0.82, typical=False)
    above = predict(kernel, 2, 64, 0.84, typical=False)
    holds = len(roots) == 1 and below.exact.diverges and not above.exact.diverges and not below.paper.diverges
    assert derive(kernel).mean is not None
    return proved(
        not holds,
        f"1 + 2a = {sympy.sstr(base)} vanishes at tau = {sympy.sstr(root)} = {float(root):.4f}; at and below it the "
        f"mean is infinite, while the formula gives ln SNR⁻¹ = {below.paper.log:.4g} at d = 64, N = 2, tau = 0.82",
        threshold=float(root),
    )


def _log_pairs_at_one() -> tuple[Any, Any, Any]:
    """r = 1/√d, and ln N at SNR⁻¹ = 1, tau = √d as functions of it: by the formula, by the exact Gaussian mean."""
    import sympy

    from snr.derivation import TAU, D, derive
    from snr.similarity import similarity

    r = sympy.Symbol("r", positive=True)
    found = derive(similarity("exp"))

    def log_n(per_pair: Any) -> Any:
        return -sympy.expand_log(sympy.log(per_pair.subs(TAU, sympy.sqrt(D)).subs(D, 1 / r**2)), force=True)

    return r, log_n(found.fixed_probe), log_n(found.mean)


def _width_offset() -> tuple[Any, Any, Any]:
    """(exponent, offset by the formula, offset by the exact mean): lim √d/(½ ln N) and lim √d − ½ ln N at SNR⁻¹ = 1."""
    import sympy

    r, formula, mean = _log_pairs_at_one()
    exponent = sympy.limit(2 / (r * mean), r, 0, "+")
    return exponent, sympy.limit(1 / r - formula / 2, r, 0, "+"), sympy.limit(1 / r - mean / 2, r, 0, "+")


def log_squared_scaling() -> Ruling:
    exponent, _, _ = _width_offset()
    return proved(
        exponent == 1,
        f"at SNR⁻¹ = 1 and tau = √d, √d/(½ ln N) tends to {exponent} for the exact Gaussian mean, as for the formula: "
        f"d grows as (½ ln N)²",
    )


def log_squared_constant() -> Ruling:
    _, formula, mean = _width_offset()
    return proved(
        formula == mean,
        f"√d − ½ ln N is {formula} by eq. 13 and tends to {mean} for the exact Gaussian mean: each d of eq. 13 holds "
        f"e^{2 * (mean - formula)} times fewer pairs than it says",
        formula=int(formula),
        mean=int(mean),
    )


def log_squared_repaired() -> Ruling:
    import sympy

    from snr.capacity import log_pairs
    from snr.similarity import similarity

    r, _, mean = _log_pairs_at_one()
    _, _, offset = _width_offset()
    slope = sympy.limit((1 / r - mean / 2 - offset) / r, r, 0, "+")  # finite, so the rest is O(1/√d)
    widths = (256, 4096, 16384)
    logs = [log_pairs(similarity("exp"), d, math.sqrt(d), 1.0, "exact") for d in widths]
    gaps = [math.sqrt(d) - log / 2 for d, log in zip(widths, logs) if log is not None]
    shown = ", ".join(f"{gap:.3f}" for gap in gaps)
    return proved(
        offset == 3 and bool(slope.is_finite),
        f"√d − ½ ln N = {offset} + ({slope})/√d + …, by the limits of the closed form; in float64 it is {shown} at "
        f"d = {', '.join(map(str, widths))}",
        offset=int(offset),
        next_term=str(slope),
        gaps=gaps,
    )


def sphere_pairs_bounds(d: int, inverse_tau: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds on the pairs N − 1 that SNR⁻¹ = 1 allows for all ‖k‖ = √d and tau = 1/inverse_tau.

    N − 1 = e^{2d/τ} / ₀F₁(; d/2; d²/τ²). Both are series of positive terms: a partial sum is a lower bound, and with
    the ratio r < 1 of the next two terms the rest is at most its first term over 1 − r, as the ratios fall.
    """

    def bounds(ratio: Callable[[int], Fraction]) -> tuple[Fraction, Fraction]:
        total = term = Fraction(1)
        k = 1
        while not (ratio(k) < Fraction(1, 2) and term * 10**30 < total):
            term *= ratio(k)
            total += term
            k += 1
        return total, total + term * ratio(k) / (1 - ratio(k))

    x = 2 * d * inverse_tau
    z, b = (d * inverse_tau) ** 2, Fraction(d, 2)
    exponential = bounds(lambda k: x / k)
    moment = bounds(lambda k: z / (k * (b + k - 1)))
    return exponential[0] / moment[1], exponential[1] / moment[0]


def best_temperature() -> Ruling:
    """Eq. 13 as a function of tau, against keys that all have norm √d: rational bounds on the pairs held at d = 64."""
    import sympy

    from snr.derivation import TAU

    a = 2 * (TAU - 1) / TAU**2
    best = sympy.solve(sympy.diff(a, TAU), TAU)[0]
    d = 64
    found = {tau: sphere_pairs_bounds(d, 1 / Fraction(tau)) for tau in (2.0, 1.0, 0.5)}
    rising = found[0.5][0] > found[1.0][1] and found[1.0][0] > found[2.0][1]
    exponents = {tau: math.log(low) / d for tau, (low, _) in found.items()}
    return proved(
        not (rising and best == 2),
        f"eq. 13 has its maximum ln N = {a.subs(TAU, best)} d at tau = {best}; with all ‖k‖ = √d, (ln N)/d at d = {d} "
        f"is {exponents[2.0]:.4f} at tau = 2, {exponents[1.0]:.4f} at 1 and {exponents[0.5]:.4f} at 0.5 (rational "
        f"bounds on e^(2d/τ)/₀F₁(; d/2; d²/τ²)): no product exceeds ‖k‖², and colder is better",
        formula=float(a.subs(TAU, best)),
        exponents={str(t): e for t, e in exponents.items()},
    )


def sphere_exponent() -> Ruling:
    """The growth rate by the largest term of a positive series, and the same number as a maximum over the cosine t."""
    import sympy

    from snr.capacity import log_pairs
    from snr.similarity import similarity
    from snr.typical import sphere_capacity_exponent

    # ₀F₁(; d/2; d²/τ²) = Σ z^k Γ(d/2)/(k! Γ(d/2+k)) lies between its largest term and a multiple of d times it, so
    # its rate is that of the term k = κd, by Stirling ln Γ(cd) = d (c ln c - c + c ln d) + O(ln d); the ln d cancel
    t, kappa, tau = sympy.symbols("t kappa tau", positive=True)
    half = sympy.Rational(1, 2)

    def stirling(c: Any) -> Any:
        return c * sympy.log(c) - c

    rate = -2 * kappa * sympy.log(tau) + stirling(half) - stirling(kappa) - stirling(half + kappa)
    cosine = sympy.log(1 - t**2) / 2 + 2 * t / tau
    alpha = t / (1 + t) - sympy.log(1 - t**2) / 2
    temperature = 2 * (1 - t**2) / t  # at which t is the maximum's place, and κ that of the largest term
    y = sympy.Symbol("y", positive=True)  # t = y/(1+y) covers (0, 1), and every logarithm splits
    at = {tau: temperature, kappa: t**2 / (2 * (1 - t**2))}

    def vanishes(expression: Any) -> bool:
        found = expression.subs(at).subs(t, y / (1 + y))
        found = found.replace(sympy.log, lambda x: sympy.log(sympy.factor(sympy.together(x))))
        return bool(sympy.simplify(sympy.expand(sympy.expand_log(found, force=True))) == 0)

    stationary = vanishes(sympy.diff(rate, kappa)) and vanishes(sympy.diff(cosine, t))
    concave = vanishes(sympy.diff(rate, kappa, 2) + 1 / kappa + 1 / (half + kappa))
    same = vanishes(2 / tau - rate - alpha) and vanishes(2 / tau - cosine - alpha)
    unbounded = sympy.limit(alpha, t, 1, "-") == sympy.oo and sympy.limit(temperature, t, 1, "-") == 0
    gaps = {
        d: max(
            abs((log_pairs(similarity("exp"), d, x, 1.0, "exact", "sphere") or 0) / d - sphere_capacity_exponent(x))
            for x in (0.5, 2.0, 8.0)
        )
        for d in (256, 4096)
    }
    return proved(
        bool(stationary and concave and same and unbounded),
        f"the largest term of the positive series ₀F₁(; d/2; d²/τ²) and the maximum over t give the same rate: with "
        f"τ = 2(1−t²)/t, α = {sympy.sstr(alpha)}, identically, unbounded as t → 1, that is τ → 0; in float64 the exact "
        f"capacity is within {gaps[256]:.1e} of it at d = 256 and {gaps[4096]:.1e} at 4096",
        alpha=sympy.sstr(alpha),
        gaps={str(d): gap for d, gap in gaps.items()},
    )


CLAIMS = (
    Claim(
        "P-2.1-eq13-every-tau",
        "P §2.1.1 eq. 13",
        "The exp memory's mean SNR⁻¹ is finite at every temperature, as the formula is",
        GAUSSIAN,
        check=threshold_of_exp,
    ),
    Claim(
        "P-2.1-eq13-best-temperature",
        "P §2.1.1 eq. 13",
        "At mean SNR⁻¹ = 1 the exp memory holds most pairs at tau = 2, where N = e^(d/2)",
        ("keys uniform on ‖k‖ = √d, where mean, fixed probe and ratio of means are one",),
        check=best_temperature,
    ),
    Claim(
        "P-2.1-eq13-sphere-exponent",
        "P §2.1.1 eq. 13",
        "At mean SNR⁻¹ = 1, with every key of norm √d, N grows as e^(αd), α = 2/tau − max_t [½ ln(1−t²) + 2t/tau], "
        "unbounded as tau → 0",
        ("keys uniform on ‖k‖ = √d, where mean, fixed probe and ratio of means are one",),
        check=sphere_exponent,
        repairs="P-2.1-eq13-best-temperature",
    ),
    Claim(
        "P-2.1-log2n-scaling",
        "P §2.1.1",
        "At tau = √d and mean SNR⁻¹ = 1 the exp memory needs d = O(log² N)",
        GAUSSIAN,
        check=log_squared_scaling,
    ),
    Claim(
        "P-2.1-log2n-constant",
        "P §2.1.1 eq. 13",
        "At tau = √d and mean SNR⁻¹ = 1 the exp memory needs √d = ½ ln N + 1",
        GAUSSIAN,
        check=log_squared_constant,
    ),
    Claim(
        "P-2.1-log2n-constant-mean",
        "P §2.1.1 eq. 13",
        "At tau = √d and mean SNR⁻¹ = 1 the exp memory needs √d = ½ ln N + 3 + O(1/√d)",
        GAUSSIAN,
        check=log_squared_repaired,
        repairs="P-2.1-log2n-constant",
    ),
)
