"""Numeric twins of a sympy expression: its plain value, and its sign with the logarithm of its absolute value.

The second is built by recursion over the expression, so that exp(2*x/tau)*x**3 at x = 16384 has a logarithm although it
has no float: log exp(y) = y, products add, powers scale, sums go through a signed log-sum-exp. What has no rule
(sin, floor, ...) falls back to the logarithm of the plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
from scipy import special

Signed = tuple[Any, Any]  # sign in {-1, 0, 1} and log |value|, arrays or scalars that broadcast


class Phi(sympy.Function):
    """The standard normal distribution function. A function of its own because sympy turns erfc(-x) into 2 - erfc(x),
    which loses the left tail."""

    nargs = 1

    @classmethod
    def eval(cls, z: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Half if z.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return sympy.exp(-(self.args[0] ** 2) / 2) / sympy.sqrt(2 * sympy.pi)

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_rewrite_as_erf(self, z: sympy.Expr, **_: object) -> sympy.Expr:
        return (1 + sympy.erf(z / sympy.sqrt(2))) / 2

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return self.rewrite(sympy.erf)._eval_evalf(prec)


class Repeated(sympy.Function):
    """base**n for an integer n, multiplied out: numpy's power of an array takes as long as fifty products."""

    nargs = 2


def _repeated(base: Any, n: Any) -> Any:
    power: Any = 1.0
    square, left = base, abs(int(n))
    while left:
        if left % 2:
            power = power * square
        square, left = square * square, left // 2
    return power if n > 0 else 1 / power


_FUNCTIONS = {
    "Phi": special.ndtr,
    "erf": special.erf,
    "erfc": special.erfc,
    "gamma": special.gamma,
    "Repeated": _repeated,
}


def _lambdify(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Any]:
    """sympy's lambdify with numpy, scipy's special functions and integer powers as products."""
    whole = expression.replace(
        lambda e: e.is_Pow and e.exp.is_Integer and abs(e.exp) > 2, lambda e: Repeated(e.base, e.exp)
    )
    function: Callable[..., Any] = sympy.lambdify(list(symbols), whole, modules=[_FUNCTIONS, "numpy"])
    return function


def compile_value(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Any]:
    """The expression's value in float64, silent where it is not finite."""
    function = _lambdify(expression, symbols)

    def value(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*(np.asarray(v, dtype=float) for v in values))

    return value


def compile_signed_log(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Signed]:
    """A function of the symbols' values (in that order) that returns (sign, log |value|), broadcast to one shape."""
    node = _compile(expression, tuple(symbols))

    def sign_and_log(*values: Any) -> Signed:
        arrays = tuple(np.asarray(v, dtype=float) for v in values)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        with np.errstate(all="ignore"):
            sign, log = node(arrays)
        return np.broadcast_to(sign, shape), np.broadcast_to(log, shape)

    return sign_and_log


Node = Callable[[tuple[Any, ...]], Signed]


def _compile(expression: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Node:
    parts = [_compile(part, symbols) for part in expression.args]

    match expression:
        case sympy.exp():
            exponent = _value_node(expression.args[0], symbols)
            return lambda v: (1.0, exponent(v))
        case sympy.Mul():
            return lambda v: _product([part(v) for part in parts])
        case sympy.Add():
            return lambda v: _sum([part(v) for part in parts])
        case sympy.Pow():
            integer, exponent = bool(expression.exp.is_integer), _value_node(expression.exp, symbols)
            return lambda v: _power(parts[0](v), exponent(v), integer)
        case sympy.Abs():
            return lambda v: _absolute(parts[0](v))
        case sympy.Max():
            return lambda v: _extreme([part(v) for part in parts], np.greater)
        case sympy.Min():
            return lambda v: _extreme([part(v) for part in parts], np.less)
        case sympy.log():
            return _logarithm(expression.args[0], symbols)
        case Phi():
            z = _value_node(expression.args[0], symbols)
            return lambda v: (1.0, special.log_ndtr(z(v)))
        case sympy.gamma():
            z = _value_node(expression.args[0], symbols)
            return lambda v: (special.gammasgn(z(v)), special.gammaln(z(v)))
        case sympy.cosh():
            z = _value_node(expression.args[0], symbols)
            return lambda v: (1.0, np.logaddexp(z(v), -z(v)) - np.log(2))
        case sympy.sinh():
            z = _value_node(expression.args[0], symbols)
            return lambda v: (np.sign(z(v)), np.abs(z(v)) + np.log(-np.expm1(-2 * np.abs(z(v)))) - np.log(2))
    value = _value_node(expression, symbols)
    return lambda v: _of_value(value(v))


def _value_node(expression: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Callable[[tuple[Any, ...]], Any]:
    function = _lambdify(expression, symbols)
    return lambda v: np.asarray(function(*v), dtype=float)


def _of_value(value: Any) -> Signed:
    return np.sign(value), np.log(np.abs(value))


def _product(factors: list[Signed]) -> Signed:
    sign, log = factors[0]
    for s, l in factors[1:]:
        sign, log = sign * s, log + l
    return sign, np.where(sign == 0, -np.inf, log)


def _sum(terms: list[Signed]) -> Signed:
    """Signed log-sum-exp. A term of sign 0 has log −inf and drops out."""
    top = terms[0][1]
    for _, log in terms[1:]:
        top = np.maximum(top, log)
    anchor = np.where(np.isfinite(top), top, 0.0)
    total = sum(sign * np.exp(log - anchor) for sign, log in terms)
    return np.sign(total), np.log(np.abs(total)) + anchor


def _power(base: Signed, exponent: Any, integer: bool) -> Signed:
    sign, log = base
    if integer:
        new_sign = np.where(exponent % 2 == 0, sign * sign, sign)
    else:
        new_sign = np.where(sign < 0, np.nan, sign)
    new_sign = np.where((sign == 0) & (exponent < 0), 1.0, new_sign)  # a pole is +inf, as in floats 1/0
    new_sign = np.where(exponent == 0, 1.0, new_sign)
    return new_sign, np.where(exponent == 0, 0.0, exponent * log)


def _absolute(inner: Signed) -> Signed:
    return inner[0] * inner[0], inner[1]


def _extreme(terms: list[Signed], better: Callable[[Any, Any], Any]) -> Signed:
    """Max or Min by comparing first the signs, then the logarithms the way the sign says."""
    sign, log = terms[0]
    for s, l in terms[1:]:
        same = np.where(sign > 0, better(l, log), better(log, l)) & (sign != 0)
        take = np.where(s == sign, same, better(s, sign))
        sign, log = np.where(take, s, sign), np.where(take, l, log)
    return sign, log


def _logarithm(inner: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Node:
    """log u is log |u| of u's own twin: no overflow for log(1 + exp(x)); near u = 1 as log1p, exact for small rests."""
    whole = _compile(inner, symbols)
    rest = _compile(inner - 1, symbols) if isinstance(inner, sympy.Add) else None

    def node(values: tuple[Any, ...]) -> Signed:
        sign, log = whole(values)
        value = np.where(sign > 0, log, np.where(sign == 0, -np.inf, np.nan))
        if rest is None:
            return _of_value(value)
        s, l = rest(values)
        near_one = l < -0.5
        value = np.where(near_one, np.log1p(s * np.exp(np.where(near_one, l, 0.0))), value)
        new_sign, new_log = _of_value(value)
        tiny = l < -37  # log(1 + r) = r to double precision, also where r itself underflows
        return np.where(tiny, s, new_sign), np.where(tiny, l, new_log)

    return node
