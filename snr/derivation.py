"""The closed forms derived step by step with sympy, for `verify snr --derive` and the report.

Works for every g whose square is a sum of terms c·x^m·e^{b x} (all built-in kernels but softplus and GELU, sums of
powers, cosh, ...) and for powers of max(0, x). For others the first step stands and the rest is quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy

from snr.expression import symbol
from snr.similarity import Similarity, as_similarity

X, TAU, D = symbol("x"), symbol("tau"), symbol("d")
S = sympy.Symbol("s", positive=True)  # ‖k_i‖²
N = symbol("N")


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

        return str(mathml(self.formula, printer="presentation"))


@dataclass(frozen=True)
class Derivation:
    """Steps, and the results (None where there is no closed form): per other pair, to be multiplied by N − 1.

    fixed_probe, mean and sphere (keys uniform on ‖k‖ = √d) are expressions in d and tau; `condition` is what the mean
    needs in order to be finite.
    """

    steps: tuple[Step, ...]
    second_moment: sympy.Expr | None = None
    fixed_probe: sympy.Expr | None = None
    mean: sympy.Expr | None = None
    condition: sympy.Basic | None = None
    sphere: sympy.Expr | None = None


def _plain(formula: sympy.Basic) -> str:
    if isinstance(formula, sympy.Eq):
        return f"{sympy.sstr(formula.lhs)} = {sympy.sstr(formula.rhs)}"
    return str(sympy.sstr(formula))


@lru_cache(maxsize=64)
def derive(similarity: Similarity | str) -> Derivation:
    """The derivation of the inverse SNR of `similarity` (or its name or expression) for Gaussian keys."""
    similarity = as_similarity(similarity)
    g = similarity.expression
    signal = g.subs(X, S)
    steps = [
        Step("The similarity, with x = k_j·k_i:", sympy.Eq(sympy.Function("g")(X), g)),
        Step(
            "Values are independent with mean 0, so cross terms vanish and E‖r‖² = (N−1) E[g(X)²] E‖v‖². Given "
            "s = ‖k_i‖², the other keys N(0, I_d) give X ~ N(0, s); the signal is c = g(s)."
        ),
    ]
    terms = _terms(g)
    if terms is None:
        steps.append(Step("g² is no sum of terms x^m e^{bx}: the integrals over X and s are done by quadrature."))
        return Derivation(tuple(steps))
    half, parts = terms
    on_sphere = _sphere(similarity, half, parts)
    if similarity.cosine:
        steps[1] = Step("Keys scaled to norm √d give c = g(d) and X = d·T, T the cosine of two random directions.")
        return Derivation((*steps, *on_sphere[1]), sphere=on_sphere[0])
    moment = sympy.expand(sum(c * _gaussian_term(m, b) for c, m, b in parts)) * (sympy.Rational(1, 2) if half else 1)
    moment = sympy.factor_terms(sympy.simplify(moment))
    steps.append(
        Step(
            "E[X^m e^{bX}] is the m-th derivative of the moment generating function e^{t²s/2} at t = b"
            + (", and the half line x > 0 has half of an even moment:" if half else ":"),
            sympy.Eq(sympy.Function("M")(S), moment),
        )
    )
    ratio = sympy.expand(sympy.powsimp(sympy.expand(moment / signal.subs(sympy.Max(0, S), S) ** 2), force=True))
    steps.append(Step("Divide by the signal's square, M(s)/g(s)²:", sympy.simplify(ratio)))
    fixed = sympy.simplify(ratio.subs(S, D))
    steps.append(
        Step(
            "Fixed probe, s = d (P's closed form is this, times N instead of N − 1):",
            sympy.Eq(sympy.Symbol("R_fixed"), fixed),
        )
    )
    mean, condition, last = _over_chi_square(ratio)
    return Derivation((*steps, *last, *on_sphere[1]), moment, fixed, mean, condition, on_sphere[0])


def _over_chi_square(ratio: sympy.Expr) -> tuple[sympy.Expr | None, sympy.Basic | None, list[Step]]:
    """The mean over s ~ χ²_d term by term, what it needs to be finite, and the steps that say so."""
    powers = [_power_and_rate(term) for term in sympy.Add.make_args(ratio)]
    if any(found is None for found in powers):
        return None, None, [Step("g(s)² is a sum: the mean over s ~ χ²_d is done by quadrature.")]
    mean, lowest, rates = sympy.S.Zero, sympy.S.Zero, set()
    for c, k, a in (found for found in powers if found is not None):
        mean += c * 2**k * sympy.gammasimp(sympy.gamma(D / 2 + k) / sympy.gamma(D / 2)) * (1 + 2 * a) ** (-D / 2 - k)
        lowest = min(lowest, k)
        rates.add(sympy.factor(sympy.together(1 + 2 * a)))
    condition = sympy.And(sympy.Gt(D, -2 * lowest), *(rate > 0 for rate in rates))
    why = "Mean over s ~ χ²_d, from E[s^k e^{−as}] = 2^k Γ(d/2+k)/Γ(d/2) (1+2a)^{−d/2−k}, finite if and only if:"
    if condition == sympy.false:
        return None, condition, [Step(why, condition)]
    mean = sympy.factor_terms(sympy.powsimp(mean))
    return mean, condition, [Step(why, condition), Step("Then it is:", sympy.Eq(sympy.Symbol("R_mean"), mean))]


def _sphere(
    similarity: Similarity, half: bool, parts: list[tuple[sympy.Expr, int, sympy.Expr]]
) -> tuple[sympy.Expr, list[Step]]:
    """E[g(dT)²]/g(d)² from E e^{yT} = ₀F₁(; d/2; y²/4), of which E[T^m e^{yT}] is the m-th derivative."""
    y = sympy.Symbol("y", real=True)
    total = sympy.S.Zero
    for c, m, b in parts:
        if b == 0:  # the m-th Taylor coefficient
            if m % 2 == 0:
                total += c * D**m * sympy.prod([sympy.Rational(2 * i + 1) / (D + 2 * i) for i in range(m // 2)])
            continue
        total += c * D**m * sympy.diff(sympy.hyper([], [D / 2], y**2 / 4), y, m).subs(y, b * D)
    signal = similarity.expression.subs(X, D).subs(sympy.Max(0, D), D)
    value = sympy.powsimp(sympy.simplify(total / signal**2)) * (sympy.Rational(1, 2) if half else 1)
    why = "Keys uniform on ‖k‖ = √d instead: X = d·T, E e^{yT} = ₀F₁(; d/2; y²/4), and its derivatives at y = b·d:"
    return value, [Step(why, sympy.Eq(sympy.Symbol("R_sphere"), value))]


def _terms(g: sympy.Expr) -> tuple[bool, list[tuple[sympy.Expr, int, sympy.Expr]]] | None:
    """(half line?, [(c, m, b)]) with g² = Σ c x^m e^{b x}, or None."""
    base, exponent = g.as_base_exp()
    if base == sympy.Max(0, X) and exponent.is_Integer and exponent > 0:
        return True, [(sympy.S.One, 2 * int(exponent), sympy.S.Zero)]
    found = []
    square = sympy.expand(sympy.expand(g.rewrite(sympy.exp)) ** 2)
    for term in sympy.Add.make_args(sympy.powsimp(square)):
        one = _power_and_rate(term, X)
        if one is None or not one[1].is_Integer or one[1] < 0:
            return None
        found.append((one[0], int(one[1]), -one[2]))
    return False, found


def _power_and_rate(term: sympy.Expr, variable: sympy.Symbol = S) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr] | None:
    """(c, k, a) with term = c·variable^k·e^{−a·variable}, or None."""
    c, k, a = sympy.S.One, sympy.S.Zero, sympy.S.Zero
    for factor in sympy.Mul.make_args(sympy.powsimp(term)):
        if not factor.has(variable):
            c *= factor
        elif isinstance(factor, sympy.exp):
            rate = sympy.expand(factor.args[0]).coeff(variable, 1)
            if sympy.simplify(factor.args[0] - rate * variable) != 0 or rate.has(variable):
                return None
            a -= rate
        else:
            base, exponent = factor.as_base_exp()
            if base != variable or exponent.has(variable):
                return None
            k += exponent
    return c, k, a


def _gaussian_term(m: int, b: sympy.Expr) -> sympy.Expr:
    t = sympy.Symbol("t", real=True)
    return sympy.diff(sympy.exp(t**2 * S / 2), t, m).subs(t, b)


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
