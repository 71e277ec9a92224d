"""Exact expectations for g(x) = x^p e^{b x}, on the whole line or on x > 0: linear, ReLU, exp, SoLU, powers.

With X ~ N(m, v) and t = 2b, tilting the normal law gives the one identity that everything here follows from:

    E[X^{2p} e^{tX}] = e^{tm + t²v/2} Σ_j C(2p, 2j) (2j−1)!! v^j (m + tv)^{2p−2j},   j = 0..p.

All terms are positive, so the logarithms are formed without cancellation. `derivation.py` derives the same formulas
symbolically, and the tests compare both with quadrature. Every function returns the logarithm of the expectation *per
other pair* (to be multiplied by N − 1), or math.inf where it diverges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp

from snr.similarity import Similarity

Array = Any
HALF = math.log(0.5)


@dataclass(frozen=True)
class Form:
    """g(x) = x^power e^{rate·x}, set to 0 for x ≤ 0 if `half`; a constant factor of g cancels in every ratio."""

    power: int
    rate: float = 0.0
    half: bool = False

    @property
    def decay(self) -> float:
        """a in E[κ²]/c² ∝ e^{−a s}: 2b − 2b², for b = 1/τ P's 2(τ−1)/τ²."""
        return 2 * self.rate * (1 - self.rate)

    def terms(self) -> list[tuple[int, float]]:
        """(j, log of C(2p, 2j) (2j−1)!! t^{2p−2j}) for the terms that are not zero."""
        p, t = self.power, abs(2 * self.rate)
        found = []
        for j in range(p + 1):
            if t or j == p:
                gaussian = math.prod(range(1, 2 * j, 2))
                found.append((j, math.log(math.comb(2 * p, 2 * j) * gaussian) + (2 * p - 2 * j) * math.log(t or 1)))
        return found


def form(similarity: Similarity, tau: float, d: float) -> Form | None:
    """The closed form that `similarity` has at tau and d, or None."""
    known = {
        "linear": Form(1),
        "relu": Form(1, half=True),
        "relu2": Form(2, half=True),
        "cubic": Form(3),
        "exp": Form(0, 1 / tau),
        "cosexp": Form(0, 1 / tau),
        "solu": Form(1, 1 / tau),
    }
    if similarity.twin is not None:
        return known.get(similarity.name)
    found = _recognise(similarity)
    if found is None:
        return None
    power, rate = found
    return Form(power, float(rate(tau, d)))


@lru_cache(maxsize=64)
def _recognise(similarity: Similarity) -> tuple[int, Any] | None:
    """(p, b as a function of tau, d) if the expression is c x^p e^{b x}."""
    import sympy

    from snr.expression import symbol
    from snr.signed_log import compile_value

    x, tau, d = symbol("x"), symbol("tau"), symbol("d")
    power, rate = 0, sympy.S.Zero
    for factor in sympy.Mul.make_args(sympy.powsimp(similarity.expression)):
        if not factor.has(x):
            continue
        base, exponent = factor.as_base_exp()
        if base == x and exponent.is_Integer and 0 < exponent <= 20:
            power += int(exponent)
        elif isinstance(factor, sympy.exp) and not (factor.args[0] / x).simplify().has(x):
            rate += (factor.args[0] / x).simplify()
        else:
            return None
    return power, compile_value(rate, [tau, d])


def log_second_moment(f: Form, variance: Array, mean: Array | float = 0.0) -> Array | None:
    """log E[g(X)²] for X ~ N(mean, variance), arrays that broadcast; None for a half-line form off mean 0."""
    t, p = 2 * f.rate, f.power
    v, m = np.asarray(variance, dtype=float), np.asarray(mean, dtype=float)
    if f.half and (np.any(m != 0) or t):
        return None
    with np.errstate(divide="ignore"):
        log_v, log_shift = np.log(v), np.log(np.abs(m + t * v))
    terms = []
    for j in range(p + 1):
        log_coefficient = math.log(math.comb(2 * p, 2 * j) * math.prod(range(1, 2 * j, 2)))
        term = log_coefficient + (j * log_v if j else 0.0)
        terms.append(term + ((2 * p - 2 * j) * log_shift if j < p else 0.0))
    terms = [np.broadcast_to(term, np.broadcast_shapes(v.shape, m.shape)) for term in terms]
    total = logsumexp(np.stack(terms), axis=0)
    return total + t * m + t * t * v / 2 + (HALF if f.half else 0.0)


def _half(f: Form) -> float:
    return HALF if f.half else 0.0


def fixed_probe(f: Form, d: float) -> float:
    """A probe of norm √d among keys N(0, I_d): e^{−ad} Σ_j C(2p,2j)(2j−1)!! t^{2p−2j} d^{−j}."""
    return _sum(c - j * math.log(d) for j, c in f.terms()) - f.decay * d + _half(f)


def gaussian_mean(f: Form, d: float) -> float:
    """Mean of ratio, all keys N(0, I_d): E[s^{−j} e^{−as}] = (1+2a)^{j−d/2} / ∏_{i=1..j}(d−2i) over s ~ χ²_d.

    Diverges for d ≤ 2p and for 1 + 2a ≤ 0. At b = 1/τ the latter means τ ≤ 2√2 − 2, decided within 4 ulp: a float
    cannot hold the threshold itself.
    """
    if d <= 2 * f.power or _at_threshold(f):
        return math.inf
    spread = math.log1p(2 * f.decay)
    return (
        _sum(c + (j - d / 2) * spread - sum(math.log(d - 2 * i) for i in range(1, j + 1)) for j, c in f.terms())
        + _half(f)
    )  # fmt: skip


def _at_threshold(f: Form) -> bool:
    """Whether 1 + 4b − 4b² ≤ 0 up to the rounding of b."""
    rounding = 4 * math.ulp(1.0) * (1 + 4 * abs(f.rate) + 4 * f.rate**2)
    return 1 + 4 * f.rate - 4 * f.rate**2 <= rounding


def sphere_mean(f: Form, d: float) -> float:
    """All keys uniform on ‖k‖ = √d: E[T^{2p} e^{tdT}] e^{−td} for T, the cosine of two random directions.

    E[T^{2m}] = ∏_{i<m} (2i+1)/(d+2i); the exponential's series in it is ₀F₁(; d/2; d²b²) for p = 0.
    """
    y = abs(2 * f.rate) * d
    first = sum(math.log((2 * i + 1) / (d + 2 * i)) for i in range(f.power))
    if y == 0:
        return first + _half(f)
    # the terms grow until (k+1)(d/2+p+k) is about y²/4, then fall at least as fast as a Gaussian of that width
    top = (math.sqrt((d / 2) ** 2 + y * y) - d / 2) / 2
    k = np.arange(int(top + 40 * math.sqrt(top + 10) + 200))
    ratio = y * y / ((2 * k + 1) * (2 * k + 2)) * (2 * (k + f.power) + 1) / (d + 2 * (k + f.power))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratio), dtype=np.longdouble)]).astype(float)
    return float(logsumexp(logs)) + first - 2 * f.rate * d + _half(f)


def ratio_of_means(f: Form, d: float) -> tuple[float, float]:
    """(log E‖r‖² per other pair, log E c²), both per E‖v‖², over keys N(0, I_d); inf where one diverges.

    E[s^k e^{θs}] = ∏_{i<k}(d+2i) (1−2θ)^{−d/2−k}, with θ = 2b² above and θ = 2b below.
    """
    p, b = f.power, f.rate
    noise = [c + _chi2(2 * p - j, 2 * b * b, d) for j, c in f.terms()]
    return (_sum(noise) + _half(f) if max(noise) < math.inf else math.inf), _chi2(2 * p, 2 * b, d)


def _chi2(k: int, theta: float, d: float) -> float:
    if 1 - 2 * theta <= 0:
        return math.inf
    return sum(math.log(d + 2 * i) for i in range(k)) - (d / 2 + k) * math.log1p(-2 * theta)


def _sum(logs: Any) -> float:
    return float(logsumexp(list(logs)))
