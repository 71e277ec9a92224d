"""Multiply-adds of DeltaFormer's forms, counted while they run (P App. D; D §3).

Every form computes the same U and O for heads of width d (keys and values alike); the dense tiles a form computes are
counted in full, masked or not, as a matrix unit would. Softmax's exponentials and sums are not multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Counter:
    """Multiply-adds so far, and the number of steps that had to wait for the one before."""

    operations: int = 0
    serial_steps: int = 0

    def product(self, x: Array, y: Array) -> Array:
        """x @ y, counted."""
        self.operations += x.shape[0] * x.shape[1] * y.shape[1]
        return x @ y


@dataclass(frozen=True)
class Sequence:
    """Keys, write queries, queries and values, each T x d. Other kernels than linear cost the same products."""

    k: Array
    w: Array
    q: Array
    v: Array
    chunk: int


def draw(length: int, width: int, chunk: int = 1, seed: int = 0) -> Sequence:
    """A random sequence with rows of length about 1, so that linear similarity keeps the solution small."""
    parts = np.random.default_rng(seed).standard_normal((4, length, width)) / np.sqrt(width)
    return Sequence(parts[0], parts[1], parts[2], parts[3], chunk)


def recurrent(s: Sequence, count: Counter) -> tuple[Array, Array]:
    """One token at a time: T serial steps."""
    u, o = np.zeros_like(s.v), np.zeros_like(s.v)
    for t in range(len(s.v)):
        count.serial_steps += 1
        u[t] = s.v[t] - count.product(count.product(s.w[t : t + 1], s.k[:t].T), u[:t])[0]
        o[t] = count.product(count.product(s.q[t : t + 1], s.k[: t + 1].T), u[: t + 1])[0]
    return u, o


def parallel(s: Sequence, count: Counter) -> tuple[Array, Array]:
    """Two full score matrices, one triangular solve, one product."""
    u = _solve(np.tril(count.product(s.w, s.k.T), -1), s.v, count)
    return u, count.product(np.tril(count.product(s.q, s.k.T)), u)


def chunked(s: Sequence, count: Counter, inverse: Callable[[Array, Counter], Array]) -> tuple[Array, Array]:
    """Chunks of C tokens: earlier chunks by dense products, the chunk itself by the inverse of its own C x C block."""
    u, o = np.zeros_like(s.v), np.zeros_like(s.v)
    for start in range(0, len(s.v), s.chunk):
        count.serial_steps += 1
        here, past = slice(start, start + s.chunk), slice(0, start)
        rest = s.v[here] - count.product(count.product(s.w[here], s.k[past].T), u[past])
        block = np.tril(count.product(s.w[here], s.k[here].T), -1)
        u[here] = count.product(inverse(block, count), rest)
        o[here] = count.product(count.product(s.q[here], s.k[past].T), u[past])
        o[here] += count.product(np.tril(count.product(s.q[here], s.k[here].T)), u[here])
    return u, o


def by_substitution(block: Array, count: Counter) -> Array:
    """(I + A)⁻¹ by forward substitution; row i of the inverse has i + 1 entries, and only those are multiplied."""
    size = len(block)
    inverse = np.eye(size)
    for t in range(size):
        for i in range(t):
            count.operations += i + 1
            inverse[t, : i + 1] -= block[t, i] * inverse[i, : i + 1]
    return inverse


def by_product(block: Array, count: Counter) -> Array:
    """(I + A)⁻¹ = ∏_m (I + (-A)^{2^m}), whose factors are dense products."""
    size = len(block)
    power, result = -block, np.eye(size) - block
    for _ in range(1, (size - 1).bit_length()):
        power = count.product(power, power)
        result = result + count.product(result, power)
    return result


def _solve(lower: Array, right: Array, count: Counter) -> Array:
    solution = right.copy()
    for t in range(len(right)):
        solution[t] -= count.product(lower[t : t + 1, :t], solution[:t])[0]
    return solution


FORMS: dict[str, Callable[[Sequence, Counter], tuple[Array, Array]]] = {
    "recurrent": recurrent,
    "parallel": parallel,
    "chunk-wise, substitution": lambda s, c: chunked(s, c, by_substitution),
    "chunk-wise, nilpotent product": lambda s, c: chunked(s, c, by_product),
}
TERMS = ("T²d", "TCd", "TC²", "Td", "T")


def counted(form: str, length: int, width: int, chunk: int) -> Counter:
    """The counter after one run of that form."""
    count = Counter()
    FORMS[form](draw(length, width, chunk), count)
    return count


def coefficients(form: str, *, chunk: int | None = None) -> dict[str, Fraction]:
    """The exact coefficients of TERMS in the form's count, solved from runs and checked on held-out ones.

    With `chunk` the chunk length is held fixed, which leaves T²d, Td and T. Raises ValueError where no such polynomial
    fits the held-out runs.
    """
    import sympy

    sizes = [(8, 2, 2), (8, 3, 4), (16, 2, 4), (16, 5, 8), (24, 3, 2), (24, 2, 4), (32, 4, 8), (40, 3, 4), (48, 5, 8)]
    if chunk is not None:
        sizes = [(chunk * n, d, chunk) for n, d in ((1, 2), (2, 3), (3, 2), (4, 5), (5, 3))]
    names = TERMS if chunk is None else ("T²d", "Td", "T")
    rows = [[_term(name, *size) for name in names] for size in sizes]
    counts = [counted(form, *size).operations for size in sizes]
    fit = len(names) + 1
    unknowns = sympy.symbols(f"c0:{len(names)}")
    equations = [sum(a * c for a, c in zip(row, unknowns)) - n for row, n in zip(rows[:fit], counts)]
    solutions = sympy.linsolve(equations, *unknowns)
    if not solutions:
        raise ValueError(f"the count of the {form} form is not a combination of {', '.join(names)}")
    (solution,) = solutions
    found = [Fraction(int(c.p), int(c.q)) for c in solution]
    if any(sum(a * c for a, c in zip(row, found)) != n for row, n in zip(rows, counts)):
        raise ValueError(f"the count of the {form} form is not a combination of {', '.join(names)}")
    return dict(zip(names, found))


def _term(name: str, length: int, width: int, chunk: int) -> int:
    return {
        "T²d": length**2 * width,
        "TCd": length * chunk * width,
        "TC²": length * chunk**2,
        "Td": length * width,
        "T": length,
    }[name]
