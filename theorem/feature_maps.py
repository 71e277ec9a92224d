"""Which similarity functions g(x·y) are kernels, hence have a feature map for a delta rule to write through (P App. C).

A kernel is positive semidefinite (every Gram matrix is). By Schoenberg (1942), a continuous g is a kernel on spheres of
every dimension exactly if its power series has no negative coefficient; the easy half (products and sums of kernels are
kernels) needs no sphere and is what `nonnegative_series` proves. The other direction is settled by a witness: exact
points x_i and weights c_i with Σ c_i c_j g(x_i·x_j) < 0.

Any table κ(k_i, w_t) has *two* feature maps, φ(k_i) = e_i and ψ(w_t) = its column. The recurrence needs no more; being
a gradient step needs φ = ψ, that is w = k and a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy

X = sympy.Symbol("x", real=True)
TAU = sympy.Symbol("tau", positive=True)
Point = tuple[Fraction, ...]


@dataclass(frozen=True)
class Witness:
    """Exact points and weights with a negative quadratic form: a proof that the function is no kernel."""

    points: tuple[Point, ...]
    weights: tuple[int, ...]
    form: Fraction


@dataclass(frozen=True)
class Similarity:
    """g as a sympy expression in x and tau, and as an exact function on rationals where it has one."""

    name: str
    expression: Any
    exact: Callable[[Fraction], Fraction] | None = None
    normalised: bool = False


def _relu(x: Fraction) -> Fraction:
    return max(x, Fraction(0))


def _round(x: Fraction) -> Fraction:
    return Fraction(round(x))  # half to even; no witness below uses a tie


SIMILARITIES = (
    Similarity("linear", X, lambda x: x),
    Similarity("exp", sympy.exp(X / TAU)),
    Similarity("solu", X * sympy.exp(X / TAU)),
    Similarity("cubic", X**3, lambda x: x**3),
    Similarity("relu", sympy.Max(0, X), _relu),
    Similarity("round", sympy.Function("round")(X), _round),
)


def nonnegative_series(expression: Any) -> list[str]:
    """Reasons why the power series of `expression` in x has no negative coefficient; empty where the rules show none.

    Rules: nonnegative constants, x, sums, products, natural powers, and exp, cosh, sinh of such a series.
    """
    if X not in expression.free_symbols:
        return [f"{expression} ≥ 0"] if expression.is_nonnegative else []
    if expression == X:
        return ["x·y is a kernel"]
    if isinstance(expression, sympy.Add | sympy.Mul):
        word = "a sum" if isinstance(expression, sympy.Add) else "a product"
        return _all([nonnegative_series(a) for a in expression.args], f"{word} of kernels is a kernel")
    if isinstance(expression, sympy.Pow) and expression.exp.is_Integer and expression.exp > 0:
        return _all([nonnegative_series(expression.base)], "so is a natural power")
    if isinstance(expression, sympy.exp | sympy.cosh | sympy.sinh):
        name = expression.func.__name__
        return _all([nonnegative_series(expression.args[0])], f"so is {name}, whose own series is nonnegative")
    return []


def _all(parts: Sequence[list[str]], conclusion: str) -> list[str]:
    return [*(line for part in parts for line in part), conclusion] if all(parts) else []


def coefficients_agree(expression: Any, coefficient: Callable[[int], Any], order: int = 12) -> bool:
    """Whether the Taylor coefficients up to `order` are those of the closed form: a second route to the proof."""
    series = sympy.series(expression, X, 0, order).removeO()
    return all(sympy.simplify(series.coeff(X, n) - coefficient(n)) == 0 for n in range(order))


def form(similarity: Similarity, points: Sequence[Point], weights: Sequence[int]) -> Fraction:
    """Σ c_i c_j g(x_i·x_j), exactly."""
    assert similarity.exact is not None
    total = Fraction(0)
    for x, a in zip(points, weights):
        for y, b in zip(points, weights):
            total += a * b * similarity.exact(sum((p * q for p, q in zip(x, y)), Fraction(0)))
    return total


def _points(*rows: Sequence[int | Fraction]) -> tuple[Point, ...]:
    return tuple(tuple(Fraction(e) for e in row) for row in rows)


# ReLU: max(0, cos θ) has the negative Fourier coefficient -2/(15π) at cos 4θ, which alternating weights on eight
# directions pick out. Round: three unit vectors, the outer two rounded to be like the middle one, not like each other.
POINTS = {
    "relu": (
        _points((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)),
        (1, 1, 1, 1, -1, -1, -1, -1),
    ),
    "round": (_points((Fraction(3, 5), Fraction(4, 5)), (1, 0), (Fraction(3, 5), Fraction(-4, 5))), (2, -3, 2)),
}


def witness(similarity: Similarity) -> Witness | None:
    """A negative quadratic form for this function, or None if none is known."""
    if similarity.name not in POINTS:
        return None
    points, weights = POINTS[similarity.name]
    value = form(similarity, points, weights)
    return Witness(points, weights, value) if value < 0 else None


def relu_is_a_kernel_on_the_line() -> bool:
    """In one dimension max(0, xy) = x₊y₊ + x₋y₋, so ReLU is a kernel there: checked on the four sign patterns."""
    a, b = sympy.symbols("a b", nonnegative=True)
    for x in (a, -a):
        for y in (b, -b):
            plus = sympy.Max(0, x) * sympy.Max(0, y) + sympy.Max(0, -x) * sympy.Max(0, -y)
            if sympy.simplify(sympy.Max(0, x * y) - plus) != 0:
                return False
    return True
