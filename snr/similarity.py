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

    relative(x, anchor, tau, d, out) is g(x)/g(anchor) for an anchor of one dimension or more, without overflow on the
    way; None asks for the general route through the logarithms.
    """

    sign_and_log: Callable[[Array, float, float], tuple[Array, Array]]
    relative: Callable[[Array, Array, float, float, Array | None], Array] | None = None


@dataclass(frozen=True)
class Similarity:
    """g(x) with x = k·q, its temperature tau and the key width d; made by `similarity`.

    Which method for what: a simulation calls `relative` on blocks of inner products (the noise of recall needs g only
    up to the signal's g); predictions call `sign_and_log`, which never overflows up to d = 16384; `value` is g itself
    and may overflow to inf. x may be a float or an array of any shape, tau > 0 and d > 0 are floats.

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

    def value(self, x: Array, tau: float, d: float) -> Array:
        """g(x) as float64; inf where it overflows."""
        if self.twin is None:
            return np.broadcast_to(self.formula.value(x, tau, d), np.shape(x))
        sign, log = self.twin.sign_and_log(np.asarray(x, dtype=float), tau, d)
        with np.errstate(over="ignore"):
            return sign * np.exp(log)

    def sign_and_log(self, x: Array, tau: float, d: float) -> tuple[Array, Array]:
        """(sign of g(x) in {−1, 0, 1}, log |g(x)|), float64 arrays of x's shape; log 0 is −inf."""
        if self.twin is None:
            return self.formula.sign_and_log(x, tau, d)
        return self.twin.sign_and_log(np.asarray(x, dtype=float), tau, d)

    def relative(self, x: Array, anchor: Array, tau: float, d: float, out: Array | None = None) -> Array:
        """g(x)/g(anchor) elementwise; `anchor` (broadcasts against x) is the probe's own product, ‖k_i‖².

        Keeps x's dtype for the built-in similarities. `out` (x's shape and dtype; may be x itself) receives the result
        and saves the memory traffic of a temporary. ±inf or nan where g(anchor) = 0: there is no signal.
        """
        with np.errstate(all="ignore"):
            if self.twin is not None and self.twin.relative is not None:
                return self.twin.relative(x, anchor, tau, d, out)
            sign, log = self.sign_and_log(x, tau, d)
            anchor_sign, anchor_log = self.sign_and_log(anchor, tau, d)
            ratio = np.divide(sign * np.exp(log - anchor_log), anchor_sign)
        if out is None:
            return ratio.astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else ratio
        out[...] = ratio
        return out


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

    def relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
        ratio = np.divide(x, anchor, out=out)
        if p == 1:
            return ratio
        first = np.array(ratio)
        for _ in range(p - 1):  # np.power costs ten products
            ratio = np.multiply(ratio, first, out=out)
        return ratio

    return Twin(sign_and_log, relative)


def _positive_power(p: int) -> Twin:
    def sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
        positive = np.maximum(x, 0.0)
        return np.sign(positive), p * _log_abs(positive)

    def relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
        ratio = np.divide(np.maximum(x, 0, out=out), np.maximum(anchor, 0), out=out)
        return ratio if p == 1 else np.square(ratio, out=out)

    return Twin(sign_and_log, relative)


def _exp_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.ones_like(x), x / tau


def _exp_relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
    difference = np.subtract(x, anchor, out=out)
    return np.exp(np.multiply(difference, 1 / float(tau), out=out), out=out)


def _solu_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.sign(x), _log_abs(x) + x / tau


def _solu_relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
    weight = _exp_relative(x, anchor, tau, d, None)
    return np.multiply(np.divide(x, anchor, out=out), weight, out=out)


def _softplus_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    y = np.asarray(x / tau)
    low = np.minimum(y, 0.0)
    # log(log1p(e^y)) = y + log(log1p(e^y)/e^y); for y < -37 the second part is 0 to double precision
    small = np.where(y < -37, y, np.log(np.log1p(np.exp(np.maximum(low, -37)))))
    return np.ones_like(y), np.where(y > 0, np.log(np.logaddexp(0, np.maximum(y, 0))), small)


def _softplus_relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
    y = np.multiply(x, 1 / float(tau), out=out)
    small = np.exp(np.negative(np.abs(y)))
    soft = np.add(np.maximum(y, 0, out=out), np.log1p(small, out=small if np.ndim(small) else None), out=out)
    at = np.asarray(anchor) / float(tau)
    return np.divide(soft, np.maximum(at, 0) + np.log1p(np.exp(-np.abs(at))), out=out)


def _gelu_relative(x: Array, anchor: Array, tau: float, d: float, out: Array | None) -> Array:
    weight = special.ndtr(x)
    return np.multiply(np.divide(x, np.multiply(anchor, special.ndtr(anchor)), out=out), weight, out=out)


def _gelu_sign_and_log(x: Array, tau: float, d: float) -> tuple[Array, Array]:
    return np.sign(x), _log_abs(x) + special.log_ndtr(x)


BUILTIN: dict[str, Similarity] = {
    s.name: s
    for s in (
        Similarity("linear", "x", twin=_power(1)),
        Similarity("relu", "max(0, x)", twin=_positive_power(1)),
        Similarity("exp", "exp(x/tau)", twin=Twin(_exp_sign_and_log, _exp_relative)),
        Similarity("solu", "x*exp(x/tau)", twin=Twin(_solu_sign_and_log, _solu_relative)),
        Similarity("softplus", "log(1 + exp(x/tau))", twin=Twin(_softplus_sign_and_log, _softplus_relative)),
        Similarity("gelu", "x*Phi(x)", twin=Twin(_gelu_sign_and_log, _gelu_relative)),
        Similarity("relu2", "max(0, x)**2", twin=_positive_power(2)),
        Similarity("cubic", "x**3", twin=_power(3)),
        Similarity("cosexp", "exp(x/tau)", cosine=True, twin=Twin(_exp_sign_and_log, _exp_relative)),
    )
}


@dataclass(frozen=True)
class Temperature:
    """tau as a function of the key width; made by `temperature`."""

    text: str

    def __call__(self, d: float) -> float:
        """tau at width d. Raises ValueError where it is not a positive finite number."""
        value = _temperature_value(self.text, float(d))
        return _possible(value, d, "expected a positive finite number")


def temperature(text: str) -> Temperature:
    """tau from "sqrt" (√d), "3sqrt" (3√d), a number, or an expression in d such as "d**0.25".

    Raises ValueError, in one line, for anything else.
    """
    made = Temperature(" ".join(text.split()))
    expected = "expected sqrt, 3sqrt, a positive finite number or an expression in d"
    try:
        value = _temperature_value(made.text, 64.0)
    except ValueError:
        raise ValueError(expected) from None
    _possible(value, 64, expected)
    return made


COLDEST, HOTTEST = 1e-6, 1e9  # beyond these tau² and x/tau leave what float64 logarithms resolve


def _possible(tau: float, d: float, expected: str) -> float:
    if not (np.isfinite(tau) and tau > 0):
        raise ValueError(f"tau = {tau:g} at d = {d:g}; {expected}")
    if not COLDEST <= tau <= HOTTEST:
        raise ValueError(f"tau = {tau:g} at d = {d:g}; expected a number from {COLDEST:g} to {HOTTEST:g}")
    return tau


@lru_cache(maxsize=1024)
def _temperature_value(text: str, d: float) -> float:
    factor = re.fullmatch(r"([0-9.]*)\s*\*?\s*sqrt", text)
    if factor:
        return float(factor[1] or 1) * float(np.sqrt(d))
    try:
        return float(text)
    except ValueError:
        return float(formula(text, ("d",)).value(d))
