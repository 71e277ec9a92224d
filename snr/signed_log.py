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

from snr.cancellation import Table, without_cancellation
from snr.special import NUMERIC, Conjugated, Expm1, Phi, Repeated

LOST = -9.0  # nats by which a sum may fall below its terms before it is looked up: 1e-12 is left of its digits
NEAR, FAR = 1e-12, 1e8  # a sine below NEAR times its argument is mostly the argument's rounding; looked at up to FAR
FEW = (
    64  # such points that are evaluated with more digits; many are no exact zeros, and each is as good as its argument
)
Signed = tuple[Any, Any]  # sign in {-1, 0, 1} and log |value|, arrays or scalars that broadcast


def _lambdify(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Any]:
    """sympy's lambdify with numpy, scipy's special functions and integer powers as products."""
    whole = expression.replace(
        lambda e: e.is_Pow and e.exp.is_Integer and abs(e.exp) > 2 and e.base.free_symbols,
        lambda e: Repeated(e.base, e.exp),
    )
    function: Callable[..., Any] = sympy.lambdify(list(symbols), whole, modules=[NUMERIC, "numpy"])
    return function


def compile_value(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Any]:
    """The expression's value in float64, silent where it is not finite."""
    function = _lambdify(without_cancellation(expression), symbols)

    def value(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*(np.asarray(v, dtype=float) for v in values))

    return value


def compile_signed_log(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> Callable[..., Signed]:
    """A function of the symbols' values (in that order) that returns (sign, log |value|), broadcast to one shape."""
    node = _compile(without_cancellation(expression), tuple(symbols))

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
            return _sum_node(expression, parts, symbols)
        case sympy.Pow():
            exponent = _value_node(expression.exp, symbols)
            return lambda v: _power(parts[0](v), exponent(v))
        case Expm1():
            z = _value_node(expression.args[0], symbols)
            return lambda v: _expm1(z(v))
        case Conjugated():
            return lambda v: _conjugated(*(part(v) for part in parts))
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
        case sympy.sin() | sympy.cos() | sympy.tan():
            return _trigonometric(expression, symbols)
    value = _value_node(expression, symbols)
    return lambda v: _of_value(value(v))


def _trigonometric(expression: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Node:
    """Sine, cosine or tangent; close to a zero or a pole from more digits: cos(pi*x/2) is 0 at 1 and not 6e-17."""
    value, argument = _value_node(expression, symbols), _value_node(expression.args[0], symbols)
    table: list[Table] = []

    def node(values: tuple[Any, ...]) -> Signed:
        found, z = value(values), np.abs(argument(values))
        sign, log = _of_value(found)
        near = np.where(z < FAR, NEAR * z, 0.0)
        lost = np.asarray(np.abs(found) < near)
        if isinstance(expression, sympy.tan):
            lost = lost | (np.abs(found) * near > 1)
        if not 0 < lost.sum() <= FEW:
            return sign, log
        if not table:
            table.append(Table(expression, symbols))
        return table[0].correct(values, lost, np.broadcast_to(sign, lost.shape), np.broadcast_to(log, lost.shape))

    return node


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


def _sum_node(expression: sympy.Add, parts: list[Node], symbols: tuple[sympy.Symbol, ...]) -> Node:
    """A sum, looked up with more digits where its terms cancel. x − 5 is exact as it is: that is left alone."""
    exact = all(term.is_number or term in symbols or -term in symbols for term in expression.args)
    table: list[Table] = []

    def node(values: tuple[Any, ...]) -> Signed:
        terms = [part(values) for part in parts]
        sign, log = _sum(terms)
        if exact:
            return sign, log
        lost = np.asarray(log < np.max(np.stack(np.broadcast_arrays(*(t[1] for t in terms))), axis=0) + LOST)
        if not lost.any():
            return sign, log
        if not table:
            table.append(Table(expression, symbols))
        sign, log = np.broadcast_to(sign, lost.shape), np.broadcast_to(log, lost.shape)
        return table[0].correct(values, lost, sign, log)

    return node


def _expm1(u: Any) -> Signed:
    return np.sign(u), np.maximum(u, 0.0) + np.log(-np.expm1(-np.abs(u)))


def _conjugated(a: Signed, b: Signed, difference: Signed) -> Signed:
    """a + b = (a² − b²)/(a − b) where a and b have opposite signs."""
    sum_sign, sum_log = _sum([a, b])
    gap_sign, gap_log = _sum([a, (-b[0], b[1])])
    opposite = a[0] * b[0] < 0
    return (
        np.where(opposite, difference[0] * gap_sign, sum_sign),
        np.where(opposite, difference[1] - gap_log, sum_log),
    )


def _power(base: Signed, exponent: Any) -> Signed:
    sign, log = base
    odd = np.where(exponent % 2 == 0, sign * sign, sign)
    new_sign = np.where((sign < 0) & (exponent != np.floor(exponent)), np.nan, odd)
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
