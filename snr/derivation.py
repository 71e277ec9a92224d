"""The predictions derived step by step with sympy, for `verify snr --derive` and the report.

Closed forms for every g whose square is a sum of terms c·x^m·e^{b x} (all built-in kernels but softplus and GELU, sums
of powers, cosh, ...) and for powers of max(0, x). For others, and where one would take too many terms, the integrals
that are done by quadrature. The typical value is an inversion for every kernel.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

from snr.expression import symbol
from snr.similarity import Similarity, as_similarity
from snr.sum_law import ORDER
from snr.term_sums import LONGEST, OverBudget, S, Term, X, as_term, at_most, normal_moment, short, square_terms

TAU, D, N = symbol("tau"), symbol("d"), symbol("N")
G, M = sympy.Function("g"), sympy.Function("M")
SECONDS = 4.0  # of processor time for a user's expression
HIGHEST_ON_SPHERE = 8  # derivative of the hypergeometric function
_PAPER = {"linear": "eq. 7", "exp": "eq. 13", "relu": "eq. 15", "solu": "eq. 17"}
_BY_QUADRATURE = "by quadrature:"


@dataclass(frozen=True)
class Step:
    """One line of a derivation: what is done, and the equation or condition it gives."""

    why: str
    formula: sympy.Basic | None = None

    @property
    def plain(self) -> str:
        """The formula in one line of text, "" without one."""
        return "" if self.formula is None else _plain(self.formula)

    @property
    def text(self) -> str:
        return f"{self.why}\n    {self.plain}" if self.plain else self.why

    @property
    def mathml(self) -> str:
        """Presentation MathML of the formula, "" without one."""
        if self.formula is None:
            return ""
        from sympy.printing.mathml import mathml

        text = str(mathml(self.formula, printer="presentation"))
        # HTML's names of characters, which XML does not know
        return re.sub(r"&(?!lt;|gt;|amp;|quot;)\w+;", lambda name: html.unescape(name[0]), text)


@dataclass(frozen=True)
class Derivation:
    """Steps, and the results (None where there is no closed form): per other pair, to be multiplied by N − 1.

    fixed_probe, mean, ratio_of_means and sphere (keys uniform on ‖k‖ = √d) are expressions in d and tau; `condition` is
    what the mean needs in order to be finite, `ratio_condition` the same of both means in the ratio of means.
    """

    steps: tuple[Step, ...]
    second_moment: sympy.Expr | None = None
    fixed_probe: sympy.Expr | None = None
    mean: sympy.Expr | None = None
    condition: sympy.Basic | None = None
    sphere: sympy.Expr | None = None
    ratio_of_means: sympy.Expr | None = None
    ratio_condition: sympy.Basic | None = None


def _plain(formula: sympy.Basic) -> str:
    if isinstance(formula, sympy.Eq):
        return f"{sympy.sstr(formula.lhs)} = {sympy.sstr(formula.rhs)}"
    return str(sympy.sstr(formula))


def equation(name: str, value: sympy.Basic) -> sympy.Eq:
    """R_name = value, unevaluated."""
    return sympy.Eq(sympy.Symbol(f"R_{name}"), value, evaluate=False)


@lru_cache(maxsize=64)
def derive(similarity: Similarity | str) -> Derivation:
    """The derivation of the inverse SNR of `similarity` (or its name or expression) for Gaussian keys.

    Within a few seconds: what is not derived by then is left as an integral.
    """
    similarity = as_similarity(similarity)
    g = similarity.expression
    start = [
        Step("The similarity, with x = k_j·k_i:", sympy.Eq(G(X), g, evaluate=False)),
        Step(
            "Values are independent with mean 0, so cross terms vanish and E‖r‖² = (N−1) E[g(X)²] E‖v‖². Given "
            "s = ‖k_i‖², the other keys N(0, I_d) give X ~ N(0, s); the signal is c = g(s). R_fixed, R_mean, R_ratio "
            "and R_sphere are per other pair, to be multiplied by N − 1."
        ),
    ]
    if similarity.cosine:
        start[1] = Step(
            "Keys scaled to norm √d give c = g(d) and X = d·T, T the cosine of two random directions: every probe is "
            "alike, and mean, fixed probe and ratio of means are one. R is per other pair, to be multiplied by N − 1."
        )
    try:
        terms = _limited(similarity, lambda: square_terms(g))
        why = "g² is no sum of terms x^m e^{bx}: the integrals are done " + _BY_QUADRATURE
    except OverBudget as error:
        terms = None
        why = f"No closed form was derived within the budget ({error}); the integrals are done " + _BY_QUADRATURE
    if terms is None:
        steps = [*start, Step(why), *_quadrature(similarity), *_typical(similarity)]
        return Derivation(tuple(steps))
    try:
        return _limited(similarity, lambda: _closed(similarity, start, *terms))
    except OverBudget as error:
        why = f"No closed form was derived within the budget ({error}); the integrals are done " + _BY_QUADRATURE
        return Derivation((*start, Step(why), *_quadrature(similarity), *_typical(similarity)))


def _limited(similarity: Similarity, compute: Callable[[], Any]) -> Any:
    """Within the budget; the built-in similarities are known to need little, and other profilers keep their hook."""
    if similarity.twin is not None or sys.getprofile() is not None:
        return compute()
    with at_most(SECONDS):
        return compute()


def _closed(similarity: Similarity, start: list[Step], half: bool, parts: list[Term]) -> Derivation:
    on_sphere = _sphere(similarity, half, parts)
    if similarity.cosine:
        return Derivation((*start, *on_sphere[1], *_typical(similarity)), sphere=on_sphere[0])
    signal = similarity.expression.subs(X, S).subs(sympy.Max(0, S), S)
    moment = sympy.expand(sympy.Add(*(normal_moment(term) for term in parts)))
    if moment.count_ops() > LONGEST:
        raise OverBudget(f"E[g(X)²] takes {moment.count_ops()} operations to write down")
    moment = sympy.factor_terms(short(moment * sympy.Rational(1, 2) if half else moment))
    steps = [
        Step(
            "E[X^m e^{bX}] is the m-th derivative of the moment generating function e^{t²s/2} at t = b"
            + (", and the half line x > 0 has half of an even moment:" if half else ":"),
            sympy.Eq(M(S), moment, evaluate=False),
        )
    ]
    ratio = moment / signal**2
    if len(sympy.Add.make_args(signal)) == 1:
        ratio = sympy.expand(sympy.powsimp(sympy.expand(ratio), force=True))
    quotient = short(ratio)
    steps.append(Step("Divide by the signal's square, M(s)/g(s)²:", quotient))
    fixed = quotient.subs(S, D)
    steps.append(Step("Fixed probe, s = d (P's closed forms are this):", equation("fixed", fixed)))
    steps += _paper(similarity, fixed)
    mean, condition, last = _mean(ratio)
    of_means, ratio_condition, ratio_steps = _ratio_of_means(moment, half, parts)
    steps = [*start, *steps, *last, *ratio_steps, *on_sphere[1], *_typical(similarity)]
    return Derivation(tuple(steps), moment, fixed, mean, condition, on_sphere[0], of_means, ratio_condition)


def _paper(similarity: Similarity, fixed: sympy.Expr) -> list[Step]:
    """P's closed form, and what it prints where that differs."""
    if similarity.name not in _PAPER:
        return []
    where = _PAPER[similarity.name]
    steps = [
        Step(f"P {where} is N times the fixed probe's value, with N where N − 1 is meant:", equation("P", N * fixed))
    ]
    if similarity.name == "solu":
        printed = 5 * N / (D * sympy.exp(2 * sympy.sqrt(D)))
        steps.append(
            Step("P prints eq. 17 for τ = √d, and loses a factor e² on the way:", equation("printed", printed))
        )
    return steps


def _chi_square_moment(term: Term) -> tuple[sympy.Expr, sympy.Expr]:
    """E[c s^k e^{bs}] over s ~ χ²_d for an integer k, and 1 − 2b, whose real part must be positive for it."""
    c, k, b = term
    rising = sympy.Mul(*(D + 2 * i for i in range(k))) / sympy.Mul(*(D - 2 * i for i in range(1, 1 - k)))
    return c * rising * (1 - 2 * b) ** (-D / 2 - k), sympy.factor(sympy.together(1 - 2 * b))


def _over_norms(terms: list[Term]) -> tuple[sympy.Expr, sympy.Basic]:
    """The mean of a sum of terms over s ~ χ²_d, and the condition under which it is finite."""
    moments = [_chi_square_moment(term) for term in terms]
    lowest = min([sympy.S.Zero, *(term.power for term in terms)])
    condition = sympy.And(sympy.Gt(D, -2 * lowest), *(sympy.re(rate) > 0 for rate in {m[1] for m in moments}))
    return sympy.Add(*(m[0] for m in moments)), condition


def _mean(ratio: sympy.Expr) -> tuple[sympy.Expr | None, sympy.Basic | None, list[Step]]:
    """The mean of ratio term by term, what it needs to be finite, and the steps that say so."""
    terms = [as_term(part, S) for part in sympy.Add.make_args(ratio)]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        why = "g(s)² is a sum: the mean over s ~ χ²_d is done by quadrature:"
        return None, None, [Step(why, equation("mean", _expected(M(S) / G(S) ** 2)))]
    mean, condition = _over_norms(known)
    why = "Mean over s ~ χ²_d, from E[s^k e^{bs}] = 2^k Γ(d/2+k)/Γ(d/2) (1−2b)^{−d/2−k}, finite if and only if:"
    if condition == sympy.false:
        return None, condition, [Step(why, condition)]
    mean = sympy.factor_terms(sympy.powsimp(mean))
    return mean, condition, [Step(why, condition), Step("Then it is:", equation("mean", mean))]


def _ratio_of_means(
    moment: sympy.Expr, half: bool, parts: list[Term]
) -> tuple[sympy.Expr | None, sympy.Basic | None, list[Step]]:
    """E‖r‖²/E c² over s ~ χ²_d. The signal's square at s > 0 has the very terms of g²."""
    noise_terms = [as_term(part, S) for part in sympy.Add.make_args(sympy.expand(moment))]
    noise, for_noise = _over_norms([term for term in noise_terms if term is not None])
    signal, for_signal = _over_norms(parts)
    condition = sympy.And(for_noise, for_signal)
    steps = [
        Step(
            "Ratio of means: the mean noise E M(s) and the mean signal E g(s)² over s ~ χ²_d, both finite iff:",
            condition,
        )
    ]
    if condition == sympy.false:
        return None, condition, steps
    noise, signal = sympy.factor_terms(sympy.powsimp(noise)), sympy.factor_terms(sympy.powsimp(signal))
    value = short(noise / signal)
    steps += [
        Step("The mean noise:", sympy.Eq(sympy.Symbol("E_noise"), noise, evaluate=False)),
        Step("The mean signal:", sympy.Eq(sympy.Symbol("E_signal"), signal, evaluate=False)),
        Step("Their ratio:", equation("ratio", value)),
    ]
    return value, condition, steps


def _sphere(similarity: Similarity, half: bool, parts: list[Term]) -> tuple[sympy.Expr | None, list[Step]]:
    """E[g(dT)²]/g(d)² from E e^{yT} = ₀F₁(; d/2; y²/4), of which E[T^m e^{yT}] is the m-th derivative."""
    why = "Keys uniform on ‖k‖ = √d instead: X = d·T, "
    if any(rate != 0 and power > HIGHEST_ON_SPHERE for _, power, rate in parts):
        return None, [Step(why + _BY_QUADRATURE, equation("sphere", _sphere_integral()))]
    y = sympy.Symbol("y", real=True)
    total = sympy.S.Zero
    for c, m, b in parts:
        if b == 0:  # the m-th Taylor coefficient
            if m % 2 == 0:
                total += c * D**m * sympy.prod([sympy.Rational(2 * i + 1) / (D + 2 * i) for i in range(m // 2)])
            continue
        total += c * D**m * sympy.diff(sympy.hyper([], [D / 2], y**2 / 4), y, m).subs(y, b * D)
    signal = similarity.expression.subs(X, D).subs(sympy.Max(0, D), D)
    value = total / signal**2 * (sympy.Rational(1, 2) if half else 1)
    value = sympy.powsimp(value) if value.has(sympy.hyper) else short(value)
    why += "E e^{yT} = ₀F₁(; d/2; y²/4), and its derivatives at y = b·d:"
    return value, [Step(why, equation("sphere", value))]


# --- what is left to numbers ---


def _density() -> sympy.Expr:
    return S ** (D / 2 - 1) * sympy.exp(-S / 2) / (2 ** (D / 2) * sympy.gamma(D / 2))


def _expected(value: sympy.Expr) -> sympy.Expr:
    """∫ value · χ²_d density over s."""
    return sympy.Integral(value * _density(), (S, 0, sympy.oo))


def _sphere_integral() -> sympy.Expr:
    a = sympy.Symbol("a", real=True)
    norm = sympy.gamma(D / 2) / (sympy.gamma((D - 1) / 2) * sympy.sqrt(sympy.pi))
    inside = G(D * sympy.sin(a)) ** 2 * sympy.cos(a) ** (D - 2)
    return norm * sympy.Integral(inside, (a, -sympy.pi / 2, sympy.pi / 2)) / G(D) ** 2


def _quadrature(similarity: Similarity) -> list[Step]:
    """The integrals behind each prediction where there is no closed form."""
    z = sympy.Symbol("z", real=True)
    sphere = Step("Keys uniform on ‖k‖ = √d: X = d·T, T = sin a the cosine:", equation("sphere", _sphere_integral()))
    if similarity.cosine:
        return [sphere]
    gauss = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    moment = sympy.Integral(G(sympy.sqrt(S) * z) ** 2 * gauss, (z, -sympy.oo, sympy.oo))
    return [
        Step("The noise of a probe of squared norm s:", sympy.Eq(M(S), moment, evaluate=False)),
        Step("Fixed probe, s = d:", equation("fixed", M(D) / G(D) ** 2)),
        Step("Mean of ratio, over s ~ χ²_d:", equation("mean", _expected(M(S) / G(S) ** 2))),
        Step("Ratio of means:", equation("ratio", _expected(M(S)) / _expected(G(S) ** 2))),
        sphere,
    ]


def _typical(similarity: Similarity) -> list[Step]:
    """The median of ‖r‖²/(c² E‖v‖²): the noise's Laplace transform, inverted, in the mixture of norms and values."""
    theta, z, w, y, q = (sympy.Symbol(name, real=True) for name in ("theta", "z", "w", "y", "q"))
    transform, law = sympy.Function("L"), sympy.Function("F")
    loss = 1 - sympy.exp(-theta * G(sympy.sqrt(S) * z) ** 2)
    gauss = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    product = "X = √s z, z ~ N(0, 1)"
    if similarity.cosine:
        loss, product, gauss = (
            1 - sympy.exp(-theta * G(D * z) ** 2),
            "X = d·z, z the cosine T of density f",
            sympy.Function("f")(z),
        )
    expectation = sympy.Integral(loss * gauss, (z, -sympy.oo, sympy.oo))
    return [
        Step(
            "Typical value: given s, the noise S = Σ_{j≠i} g(X_j)² is a sum of N − 1 independent terms, "
            f"{product}, whose Laplace transform E e^{{−θS}} is exact also where one rare key carries the mean:",
            sympy.Eq(transform(theta, S), (1 - expectation) ** (N - 1), evaluate=False),
        ),
        Step(
            "It is inverted numerically for the law of S given s, by Euler summation with nodes β_k and weights η_k "
            "(Abate and Whitt 2006):",
            sympy.Eq(
                law(y, S),
                sympy.Sum(
                    sympy.re(
                        sympy.IndexedBase("eta")[w]
                        * transform(sympy.IndexedBase("beta")[w] / y, S)
                        / sympy.IndexedBase("beta")[w]
                    ),
                    (w, 0, 2 * ORDER),
                ),
                evaluate=False,
            ),
        ),
        Step(
            "The typical value, of all N − 1 pairs, is the median of the mixture over the probe's norm, of density f, "
            "and over Gaussian values of width d_v, ‖r‖² = S q E‖v‖² with q ~ χ²_{d_v}/d_v of density h:",
            sympy.Eq(
                sympy.Integral(
                    law(sympy.Symbol("R_typical") * G(S) ** 2 / q, S) * sympy.Function("f")(S) * sympy.Function("h")(q),
                    (S, 0, sympy.oo),
                    (q, 0, sympy.oo),
                ),
                sympy.S.Half,
                evaluate=False,
            ),
        ),
    ]


# --- identities between P's formulas, decided exactly ---


def fixed_probe_ratio(first: Similarity, second: Similarity, tau: sympy.Expr | None = None) -> sympy.Expr:
    """Fixed-probe SNR⁻¹ of `first` over that of `second`, simplified; at tau = √d where `tau` is None.

    Raises ValueError where one of them has no closed form.
    """
    a, b = derive(first).fixed_probe, derive(second).fixed_probe
    if a is None or b is None:
        raise ValueError("both similarities need a closed form")
    return sympy.simplify((a / b).subs(TAU, sympy.sqrt(D) if tau is None else tau))


def printed_solu_error() -> sympy.Expr:
    """What P eq. 17 as printed, 5/(d e^{2√d}) per N, is off by: (correct)/(printed) = e²."""
    from snr.similarity import similarity

    correct = derive(similarity("solu")).fixed_probe
    assert correct is not None
    printed = 5 / (D * sympy.exp(2 * sympy.sqrt(D)))
    return sympy.simplify(sympy.powsimp(sympy.expand(correct.subs(TAU, sympy.sqrt(D)) / printed)))


def mean_over_fixed_probe(similarity: Similarity) -> sympy.Expr:
    """Exact Gaussian mean of ratio over the fixed-probe value, at tau = √d: the factor by which P is off, in d."""
    found = derive(similarity)
    if found.mean is None or found.fixed_probe is None:
        raise ValueError("the similarity needs a closed form")
    factor = (found.mean / found.fixed_probe).subs(TAU, sympy.sqrt(D))
    return sympy.simplify(sympy.powsimp(factor))


def limit_at_infinity(factor: sympy.Expr) -> sympy.Expr:
    """lim d → ∞ of a factor in d, through its logarithm in r = 1/√d (a plain series where `limit` would search)."""
    r = sympy.Symbol("r", positive=True)
    log = sympy.expand_log(sympy.log(factor.subs(D, 1 / r**2)), force=True)
    return sympy.exp(sympy.limit(log, r, 0, "+"))
