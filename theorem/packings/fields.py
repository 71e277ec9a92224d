"""Small finite fields as tables, and the trace sequence of a Galois ring: all the algebra the constructions use.

Elements of GF(p^k) are the numbers 0..q−1 whose base-p digits are the coefficients of a polynomial in the primitive
element x. The tables take q² entries, so this is for q up to a few thousand; `tests/theorem` compares them with the
package `galois`, which is not needed to run.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray


def is_prime(number: int) -> bool:
    return number > 1 and all(number % p for p in range(2, math.isqrt(number) + 1))


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, k) with q = p^k, or None where q is no prime power."""
    for p in range(2, math.isqrt(q) + 1):
        if q % p == 0:
            k = 0
            while q % p == 0:
                q, k = q // p, k + 1
            return (p, k) if q == 1 else None
    return (q, 1) if q > 1 else None


class Field:
    """GF(q): `power` lists x^0 … x^(q−2), `log` undoes it (log of 0 is −1), `add` and `multiply` are q × q tables."""

    def __init__(self, q: int) -> None:
        found = prime_power(q)
        if found is None:
            raise ValueError(f"{q} is no prime power")
        self.q, (self.p, self.k) = q, found
        self.power = _powers(self.p, self.k)
        self.log = np.full(q, -1, np.int64)
        self.log[self.power] = np.arange(q - 1)

    @cached_property
    def multiply(self) -> NDArray[np.int64]:
        table = self.power[(self.log[:, None] + self.log[None, :]) % (self.q - 1)]
        table[0, :] = table[:, 0] = 0
        return table

    @cached_property
    def add(self) -> NDArray[np.int64]:
        digits = self._digits(np.arange(self.q))
        return ((digits[:, None, :] + digits[None, :, :]) % self.p) @ self.p ** np.arange(self.k)

    @cached_property
    def trace(self) -> NDArray[np.int64]:
        """The trace of each element to GF(p), as a number below p."""
        total = np.zeros((self.q, self.k), np.int64)
        for j in range(self.k):
            conjugate = self.power[self.log * self.p**j % (self.q - 1)]
            conjugate[0] = 0
            total += self._digits(conjugate)
        return total[:, 0] % self.p

    def _digits(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        return elements[:, None] // self.p ** np.arange(self.k) % self.p


@lru_cache
def field(q: int) -> Field:
    """GF(q), made once."""
    return Field(q)


def _powers(p: int, k: int) -> NDArray[np.int64]:
    """Powers of a root of the first primitive polynomial x^k = c_{k−1} x^{k−1} + … + c_0 over GF(p)."""
    for coefficients in product(range(p), repeat=k):
        if coefficients[0]:
            powers = _orbit(p, k, coefficients)
            if len(powers) == p**k - 1:
                return np.array(powers, np.int64)
    raise AssertionError(f"GF({p}^{k}) has a primitive polynomial")


def _orbit(p: int, k: int, coefficients: tuple[int, ...]) -> list[int]:
    """1, x, x², … up to the first return to 1, as numbers; short where the polynomial is not primitive."""
    high = p ** (k - 1)
    tails = [sum(t * c % p * p**i for i, c in enumerate(coefficients)) for t in range(p)]
    powers, element = [1], 1
    while True:
        top, rest = divmod(element, high)
        element = _digit_sum(rest * p, tails[top], p)
        if element in (0, 1) or len(powers) >= p**k:
            return powers
        powers.append(element)


def _digit_sum(a: int, b: int, p: int) -> int:
    if p == 2:
        return a ^ b
    total, place = 0, 1
    while a or b:
        total += (a % p + b % p) % p * place
        a, b, place = a // p, b // p, place * p
    return total


@lru_cache
def galois_ring_trace(m: int) -> NDArray[np.int64]:
    """T(ξ^j) mod 4 for j = 0 … 2^m − 2, ξ of order 2^m − 1 in the Galois ring GR(4, m).

    T is the trace to Z_4 of multiplication; ξ's polynomial is the lift (Graeffe) of GF(2^m)'s: its roots are the
    squares of the roots of any polynomial over Z_4 above the binary one.
    """
    binary = np.zeros(m + 1, np.int64)  # coefficients of 1, x, …, x^m
    binary[m] = 1
    binary[:m] = field(2**m)._digits(field(2**m).power[m : m + 1])[0] if m > 1 else [1]
    even, odd = binary.copy(), binary.copy()
    even[1::2], odd[0::2] = 0, 0
    squares = np.convolve(even, even) - np.convolve(odd, odd)  # f(x) f(−x) up to sign, a polynomial in x²
    lifted = squares[::2] * (-1) ** m
    companion = np.zeros((m, m), np.int64)
    companion[np.arange(1, m), np.arange(m - 1)] = 1
    companion[:, -1] = -lifted[:m]
    traces, current = [], np.eye(m, dtype=np.int64)
    for _ in range(2**m - 1):
        traces.append(int(np.trace(current)) % 4)
        current = current @ companion % 4
    if not np.array_equal(current, np.eye(m, dtype=np.int64)):
        raise AssertionError(f"ξ has order 2^{m} − 1 in GR(4, {m})")
    return np.array(traces)
