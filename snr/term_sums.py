"""Sums of terms c·x^m·e^{bx}: what g² must be for closed forms, recognised within a budget.

Multiplying out can take for ever: (e^{x/tau} + e^{−x/tau} + x)^30 has half a thousand terms, and its square a hundred
thousand. Terms are counted before they are made, and a derivation of a user's expression has seconds, not minutes.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sympy

from snr.cancellation import most_terms
from snr.expression import symbol

X = symbol("x")
S = sympy.Symbol("s", positive=True)  # ‖k_i‖²
MOST_COUNTED = 150  # terms of g² before like ones are collected
MOST_TERMS = 24
HIGHEST_POWER = 40
LONGEST = 100  # operations in the second moment
SIMPLIFIED = 26  # operations up to which sympy looks for the shortest form


class OverBudget(Exception):
    """A closed form would take more terms, or more time, than the budget allows."""


class Term(NamedTuple):
    """factor · variable^power · e^{rate·variable}."""

    factor: sympy.Expr
    power: sympy.Expr
    rate: sympy.Expr


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise OverBudget in the body once it has used that much processor time, whatever it is doing in Python.

    The last resort against an expression that is small and yet takes sympy long: looked at at each call of a function,
    which works in every thread, as signals do not.
    """
    end, before = time.thread_time() + seconds, sys.getprofile()

    def watch(frame: Any, event: str, argument: Any) -> None:
        # what is raised in a generator that is being closed would be ignored, and said so on the terminal
        if event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR and time.thread_time() > end:
            raise OverBudget(f"not within {seconds:g} s")

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def square_terms(g: sympy.Expr) -> tuple[bool, list[Term]] | None:
    """(half line?, terms) with g² = Σ c x^m e^{bx}, or None where it is no such sum. Raises OverBudget."""
    base, exponent = g.as_base_exp()
    if base == sympy.Max(0, X) and exponent.is_Integer and exponent > 0:
        return True, [Term(sympy.S.One, 2 * exponent, sympy.S.Zero)]
    plain = g.rewrite((sympy.sin, sympy.cos, sympy.sinh, sympy.cosh), sympy.exp)
    if not _could_be_terms(plain):
        return None
    if most_terms(plain**2) > MOST_COUNTED:
        raise OverBudget(f"g² has up to {most_terms(plain**2)} terms when multiplied out")
    collected: dict[tuple[sympy.Expr, sympy.Expr], sympy.Expr] = {}
    square = sympy.expand(sympy.expand(plain) ** 2)
    for part in sympy.Add.make_args(sympy.powsimp(square)):
        term = as_term(part, X)
        if term is None or not term.power.is_Integer or term.power < 0:
            return None
        kind = (term.power, sympy.expand(term.rate))
        collected[kind] = collected.get(kind, sympy.S.Zero) + term.factor
    if len(collected) > MOST_TERMS or any(power > HIGHEST_POWER for power, _ in collected):
        raise OverBudget(f"g² has {len(collected)} terms up to x^{max(int(p) for p, _ in collected)}")
    return False, [Term(c, m, b) for (m, b), c in collected.items()]


def _could_be_terms(g: sympy.Expr) -> bool:
    """Whether x enters only through sums, products, integer powers and exponentials."""
    if not g.has(X) or g == X:
        return True
    if isinstance(g, sympy.exp):
        return bool(g.args[0].is_polynomial(X))
    if g.is_Pow and not (g.exp.is_Integer and (g.exp > 0 or isinstance(g.base, sympy.exp) or g.base == X)):
        return False
    return (g.is_Add or g.is_Mul or g.is_Pow) and all(_could_be_terms(part) for part in g.args)


def as_term(expression: sympy.Expr, variable: sympy.Symbol) -> Term | None:
    """The expression as a single term, or None."""
    c, k, b = sympy.S.One, sympy.S.Zero, sympy.S.Zero
    for factor in sympy.Mul.make_args(sympy.powsimp(expression)):
        if not factor.has(variable):
            c *= factor
        elif isinstance(factor, sympy.exp):
            rate = sympy.expand(factor.args[0]).coeff(variable, 1)
            if sympy.expand(factor.args[0] - rate * variable) != 0 or rate.has(variable):
                return None
            b += rate
        else:
            base, exponent = factor.as_base_exp()
            if base != variable or exponent.has(variable):
                return None
            k += exponent
    return Term(c, k, b)


def normal_moment(term: Term) -> sympy.Expr:
    """E[X^m e^{bX}] for X ~ N(0, s), times the factor: the m-th derivative of e^{t²s/2} at b, by Hermite's formula."""
    m, b = int(term.power), term.rate
    terms = [
        sympy.binomial(m, 2 * j) * sympy.factorial2(2 * j - 1) * S ** (m - j) * b ** (m - 2 * j)
        for j in range(m // 2 + 1)
        if b != 0 or 2 * j == m
    ]
    return term.factor * sympy.Add(*terms) * sympy.exp(b**2 * S / 2)


def short(expression: sympy.Expr) -> sympy.Expr:
    """sympy's shortest form, if the expression is small."""
    return sympy.simplify(expression) if expression.count_ops() <= SIMPLIFIED else expression
