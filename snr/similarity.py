"""Similarity functions g of a memory with kernel κ(k, q) = g(k·q): one expression each, and its numeric twins.

The expression in x, tau, d is the definition; `value` and `sign_and_log` are derived from it. The built-in ones also
have plain numpy twins, which the tests compare with the derived ones: they cost no import of sympy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from snr.expression import Formula, formula

if TYPE_CHECKING:
    import sympy

NAMES = ("x", "tau", "d")
Array = Any  # a float or a float array


class Twin(NamedTuple):
    """Plain numpy functions of one built-in similarity.

    value(x, tau, d, out) is g(x) in x's own precision, in few passes over x; `out` may be x itself.
    """

    sign_and_log: Callable[[Array, float, float], tuple[Array, Array]]
    value: Callable[[Array, float, float, Array | None], Array]


@dataclass(frozen=True)
class Similarity:
    """g(x) with x = k·q, its temperature tau and the key width d; made by `similarity`.

    Which method for what: a simulation calls `value`, g itself, on blocks of inner products where it neither overflows
    nor underflows; predictions call `sign_and_log`, which never does up to d = 16384. x may be a float or an array of
    any shape, tau > 0 and d > 0 are floats.

    With `cosine` the kernel sees x = d·cos(k, q): as if keys and probe had been scaled to norm √d before. Whoever
    forms x scales them (P's "cosexp" is exp(d·cos(k, q)/tau)); the methods here take the scaled x.
    """

    name: str
    text: str
    cosine: bool = False
    twin: Twin | None = field(default=None, compare=False, repr=False)

    @cached_property
    def formula(self) -> Formula:
        return Formula(self.text, NAMES)

    @property
    def expression(self) -> sympy.Expr:
        """g as a sympy expression in the symbols x (real), tau and d (positive)."""
        return self.formula.expression

    @property
    def uses_tau(self) -> bool:
        return bool(re.search(r"\b(tau|τ)\b", self.text))

    @property
    def linear(self) -> bool:
        """Whether g(x) = x: the memory is the matrix Σ_j k_j v_jᵀ."""
        return self.text == "x"

    def value(self, x: Array, tau: float, d: float, out: Array | None = None) -> Array:
        """g(x), inf where it overflows; float32 for float32 arrays, as good as the rounding of x allows, else float64.

        `out` (x's shape and type; may be x itself) receives the result and saves the traffic of a temporary.
        """
        x = np.asarray(x)
        if x.dtype != np.float32:
            x = x.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            if self.twin is not None:
                return self.twin.value(x, tau, d, out)
            found = np.broadcast_to(self.formula.value(x, tau, d), np.shape(x))
            if out is None:
                return found.astype(x.dtype)
            out[...] = found
            return out

    def sign_and_log(self, x: Array, tau: float, d: float) -> tuple[Array, Array]:
        """(sign of g(x) in {−1, 0, 1}, log |g(x)|), float64 arrays of x's shape; log 0 is −inf."""
        if self.twin is None:
            return self.formula.sign_and_log(x, tau, d)
        return self.twin.sign_and_log(np.asarray(x, dtype=float), tau, d)


def similarity(text: str) -> Similarity:
    """The built-in similarity of that name, or the one that an expression in x, tau, d describes.

    Raises ValueError, in one line, where it is neither.
    """
    name = " ".join(text.split())
    if name in BUILTIN:
        return BUILTIN[name]
    if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) and name not in NAMES:
        raise ValueError(f"expected one of {', '.join(BUILTIN)}, or an expression in {', '.join(NAMES)}")
    made = Similarity(name, name)
    expression = formula(name, NAMES).expression
    if not any(str(s) == "x" for s in expression.free_symbols):
        raise ValueError("does not depend on x: every key would look alike; expected an expression in x, tau, d")
    return made


def as_similarity(given: Similarity | str) -> Similarity:
    """A similarity as it is, and the one that a text means. Raises ValueError as `similarity` does."""
    return similarity(given) if isinstance(given, str) else given


# --- numpy twins of the built-in ones ---


def _log_abs(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(np.abs(x))


def _power(p: int) -> Twin:
    def sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
        return np.sign(x) ** p, p * _log_abs(x)

    def value(x: Array, tau: float, d: float, out: Array | None) -> Array:
        if p == 1:
            return np.positive(x, out=out)
        power = x
        for _ in range(p - 2):  # np.power costs ten products
            power = power * x
        return np.multiply(power, x, out=out)

    return Twin(sign_and_log, value)


def _positive_power(p: int) -> Twin:
    def sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
        positive = np.maximum(x, 0.0)
        return np.sign(positive), p * _log_abs(positive)

    def value(x: Array, tau: float, d: float, out: Array | None) -> Array:
        positive = np.maximum(x, 0, out=out)
        return positive if p == 1 else np.square(positive, out=out)

    return Twin(sign_and_log, value)


def _exp_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.ones_like(x), x / tau


def _exp_value(x: Array, tau: float, d: float, out: Array | None) -> Array:
    return np.exp(np.multiply(x, 1 / float(tau), out=out), out=out)


def _solu_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.sign(x), _log_abs(x) + x / tau


def _solu_value(x: Array, tau: float, d: float, out: Array | None) -> Array:
    return np.multiply(x, _exp_value(x, tau, d, None), out=out)


def _softplus_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    y = np.asarray(x / tau)
    low = np.minimum(y, 0.0)
    # log(log1p(e^y)) = y + log(log1p(e^y)/e^y); for y < -37 the second part is 0 to double precision
    small = np.where(y < -37, y, np.log(np.log1p(np.exp(np.maximum(low, -37)))))
    return np.ones_like(y), np.where(y > 0, np.log(np.logaddexp(0, np.maximum(y, 0))), small)


def _softplus_value(x: Array, tau: float, d: float, out: Array | None) -> Array:
    y = np.multiply(x, 1 / float(tau), out=out)
    small = np.log1p(np.exp(-np.abs(y)))
    return np.add(np.maximum(y, 0, out=out), small, out=out)


def _gelu_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.sign(x), _log_abs(x) + special.log_ndtr(x)


# Mills' ratio Φ(−a) e^{a²/2} = Σ_k MILLS[k−1] t^k, t = PIVOT/(PIVOT + a): the best fit in relative error, 1.3e-7, on
# 0 ≤ a ≤ 14.5, beyond which e^{−a²/2} is no float32.
PIVOT = 4.25
MILLS = (0.093921844, 0.0928128563, 0.0975162454, 0.037608417, 0.175424541, -0.140283871, 0.206454189, -0.0634542818)


def _gelu_value(x: Array, tau: float, d: float, out: Array | None) -> Array:
    """x Φ(x) = max(0, x) − a Φ(−a), a = |x|; in float32 good to 6e-7 + 6e-8 x², the latter what rounding x costs."""
    if x.dtype != np.float32:
        return np.multiply(x, special.ndtr(x), out=out)
    a = np.abs(x, out=np.empty_like(x))
    t = np.add(a, PIVOT, out=np.empty_like(x))
    np.divide(PIVOT, t, out=t)
    tail = np.multiply(t, MILLS[-1], out=np.empty_like(x))
    for coefficient in MILLS[-2::-1]:
        tail += coefficient
        tail *= t
    tail *= a
    np.multiply(np.square(a, out=a), -0.5, out=a)
    tail *= np.exp(a, out=a)
    return np.subtract(np.maximum(x, 0, out=out), tail, out=out)


BUILTIN: dict[str, Similarity] = {
    s.name: s
    for s in (
        Similarity("linear", "x", twin=_power(1)),
        Similarity("relu", "max(0, x)", twin=_positive_power(1)),
        Similarity("exp", "exp(x/tau)", twin=Twin(_exp_sign_and_log, _exp_value)),
        Similarity("solu", "x*exp(x/tau)", twin=Twin(_solu_sign_and_log, _solu_value)),
        Similarity("softplus", "log(1 + exp(x/tau))", twin=Twin(_softplus_sign_and_log, _softplus_value)),
        Similarity("gelu", "x*Phi(x)", twin=Twin(_gelu_sign_and_log, _gelu_value)),
        Similarity("relu2", "max(0, x)**2", twin=_positive_power(2)),
        Similarity("cubic", "x**3", twin=_power(3)),
        Similarity("cosexp", "exp(x/tau)", cosine=True, twin=Twin(_exp_sign_and_log, _exp_value)),
    )
}


@dataclass(frozen=True)
class Temperature:
    """tau as a function of the key width; made by `temperature`."""

    text: str

    def __call__(self, d: float) -> float:
        """tau at width d. Raises ValueError where it is not a positive finite number."""
        value = _temperature_value(self.text, float(d))
        return _possible(value, f"tau at d = {d:g}", "expected a positive finite number")


def temperature(text: str) -> Temperature:
    """tau from "sqrt" (√d), "3sqrt" (3√d), a number, or an expression in d such as "d**0.25".

    Raises ValueError, in one line, for anything else.
    """
    made = Temperature(" ".join(text.split()))
    expected = "expected sqrt, 3sqrt, a positive finite number or an expression in d"
    root = _ROOT.fullmatch(made.text)
    try:
        factor = float(root[1] or 1) if root else float(made.text)
    except ValueError:
        try:
            formula(made.text, ("d",))  # what it is at some width is seen there
        except ValueError:
            raise ValueError(expected) from None
    else:
        _possible(factor, "tau" if not root else "tau/√d", expected)
    return made


_ROOT = re.compile(r"([0-9.]*)\s*\*?\s*sqrt")  # c·√d
COLDEST, HOTTEST = 1e-6, 1e9  # beyond these tau² and x/tau leave what float64 logarithms resolve


def _possible(tau: float, name: str, expected: str) -> float:
    if not (np.isfinite(tau) and tau > 0):
        raise ValueError(f"{name} = {tau:g}; {expected}")
    if not COLDEST <= tau <= HOTTEST:
        raise ValueError(f"{name} = {tau:g}; expected a number from {COLDEST:g} to {HOTTEST:g}")
    return tau


@lru_cache(maxsize=1024)
def _temperature_value(text: str, d: float) -> float:
    factor = _ROOT.fullmatch(text)
    if factor:
        return float(factor[1] or 1) * float(np.sqrt(d))
    try:
        return float(text)
    except ValueError:
        return float(formula(text, ("d",)).value(d))
