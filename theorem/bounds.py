"""Lower bounds on the coherence of n unit vectors in R^d, and their inverses: least d for (n, ε), most n for (d, ε).

Closed forms: Welch (1974), orthoplex (Rankin 1955), Levenshtein (1982), the higher moments of Welch and Sidelnikov, and
Alon's rank argument (2003), which gives d = Ω(log n / (ε² log 1/ε)). The strongest here is Delsarte's linear programme:
a polynomial f = 1 + Σ_k f_2k P_2k with f_2k ≥ 0 and f ≤ 0 on [0, ε] proves n ≤ f(1) (P_2k the Gegenbauer polynomials of
R^d with P_2k(1) = 1). Its optimum is found in floats and then *proved*: with exact rational coefficients, a Bernstein
form bounds max f on [0, ε] by some δ, and n ≤ (f(1) − δ)/(1 − δ) holds whatever the solver did.

All bounds on coherence are in [0, 1); 0.0 says that the bound is silent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

DEGREES = 8  # P_2 … P_16; higher ones changed no bound for n ≤ 10⁶, 1/20 ≤ ε ≤ 1/4
SLACK = Fraction(1, 10**6)  # Bernstein pieces are split until they know max f this well
LARGEST_D = 10**6


def _check(n: int, d: int) -> None:
    if n < 1 or d < 1:
        raise ValueError(f"n and d must be at least 1, got n = {n}, d = {d}")


def welch(n: int, d: int) -> float:
    """√((n − d)/(d(n − 1))): the mean square of the products, met by equiangular tight frames alone."""
    _check(n, d)
    return math.sqrt((n - d) / (d * (n - 1))) if n > d else 0.0


def orthoplex(n: int, d: int) -> float:
    """1/√d once n > d(d + 1)/2."""
    _check(n, d)
    return d**-0.5 if n > d * (d + 1) // 2 else 0.0


def levenshtein(n: int, d: int) -> float:
    """√((3n − d² − 2d)/((d + 2)(n − d))) where that is real; above `welch` and `orthoplex` for n well above d²/2.

    From f(t) = t²(t² − ε²), whose mean on the sphere is (3 − (d + 2)ε²)/(d(d + 2)): n ≤ f(1)/mean, for every n > d.
    """
    _check(n, d)
    return math.sqrt(max(0, 3 * n - d * d - 2 * d) / ((d + 2) * (n - d))) if n > d else 0.0


def moments(n: int, d: int) -> float:
    """The best bound of the even moments: μ^2k ≥ (n (2k − 1)!!/(d (d + 2) … (d + 2k − 2)) − 1)/(n − 1), k = 1, 2, …"""
    _check(n, d)
    best, ratio = 0.0, float(n)
    for k in range(1, 200):
        ratio *= (2 * k - 1) / (d + 2 * k - 2)
        if ratio <= 1 or n == 1:
            break
        best = max(best, ((ratio - 1) / (n - 1)) ** (1 / (2 * k)))
    return min(best, 1.0)


def alon(n: int, d: int) -> float:
    """The best bound of the rank argument: the k-th entrywise power of the Gram matrix has rank ≤ C(d + k − 1, k), and
    one with unit diagonal and entries ≤ μ^k has rank ≥ n/(1 + (n − 1) μ^2k). Never above `moments`.
    """
    _check(n, d)
    best = 0.0
    for k in range(1, 200):
        rank = math.comb(d + k - 1, k)
        if rank >= n:
            break
        best = max(best, ((n / rank - 1) / (n - 1)) ** (1 / (2 * k)))
    return best


def delsarte(n: int, d: int) -> float:
    """The linear programme's bound: a coherence ε at which it proves fewer than n keys, within 10⁻⁵ of the largest.

    0.0 where it proves nothing; where its optimum is a closed form's polynomial, it stays that much below the form.
    """
    _check(n, d)
    if n <= d:
        return 0.0
    if d == 1:
        return 1.0 - 1e-9
    low, high = 0.0, min(1.0, 1.5 * closed(n, d) + 1e-3)
    while high < 1 and _optimum(d, high)[0] < n:
        low, high = high, min(1.0, 1.5 * high)
    while high - low > 2e-6:  # in floats, to find ε; the proof comes after
        middle = (low + high) / 2
        if _optimum(d, middle)[0] < n:
            low = middle
        else:
            high = middle
    for retreat in (1e-6, 3e-6, 1e-5):
        if most_keys(d, max(0.0, low - retreat)) < n:
            return max(0.0, low - retreat)
    return 0.0


CLOSED: dict[str, Callable[[int, int], float]] = {
    "welch": welch,
    "orthoplex": orthoplex,
    "levenshtein": levenshtein,
    "moments": moments,
    "alon": alon,
}


def closed(n: int, d: int) -> float:
    """The best of the closed forms."""
    return max(bound(n, d) for bound in CLOSED.values())


def coherence_bounds(n: int, d: int) -> dict[str, float]:
    """Every bound on the coherence of n keys in R^d by name; `lp` is Delsarte's programme, never below the others."""
    found = {name: bound(n, d) for name, bound in CLOSED.items()}
    return found | {"lp": max(delsarte(n, d), *found.values())}


def least_dimension(n: int, epsilon: float) -> dict[str, int]:
    """For each bound the least d that it allows for n keys of coherence ≤ ε; `lp` is the largest of them."""
    if n < 1 or not 0 < epsilon < 1:
        raise ValueError(f"expected n ≥ 1 and 0 < ε < 1, got n = {n}, ε = {epsilon}")
    found = {name: _least(partial(_permits, bound, n, epsilon)) for name, bound in CLOSED.items()}
    start = max(found.values())
    return found | {"lp": _least(lambda d: most_keys(d, epsilon) >= n, start)}


def _permits(bound: Callable[[int, int], float], n: int, epsilon: float, d: int) -> bool:
    return bound(n, d) <= epsilon


def _least(allowed: Callable[[int], bool], start: int = 1) -> int:
    """The least d ≥ start with allowed(d), which stays true from there on."""
    if allowed(start):
        return start
    low, high = start, 2 * start
    while not allowed(high):
        low, high = high, 2 * high
        if high > LARGEST_D:
            raise ValueError(f"no dimension up to {LARGEST_D} is allowed")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def most_keys(d: int, epsilon: float) -> float:
    """The most keys of coherence ≤ ε in R^d that the linear programme allows: an integer, or inf where it is silent.

    Proved for the rational number that the float ε is.
    """
    _check(1, d)
    if not 0 <= epsilon < 1:
        raise ValueError(f"expected 0 ≤ ε < 1, got {epsilon}")
    if d == 1:
        return 1.0
    value, coefficients = _optimum(d, epsilon)
    return math.inf if value == math.inf else _proved(d, Fraction(epsilon) ** 2, coefficients)


def gegenbauer(d: int, degrees: int) -> list[list[Fraction]]:
    """P_0, P_2, …, P_{2·degrees} of R^d, exactly: coefficients in s = t², lowest first, P(1) = 1."""
    previous, current = [Fraction(1)], [Fraction(0), Fraction(1)]  # in t
    even = [[Fraction(1)]]
    for k in range(1, 2 * degrees):
        # (k + d − 2) P_{k+1} = (2k + d − 2) t P_k − k P_{k−1}
        raised = [Fraction(0), *(Fraction(2 * k + d - 2, k + d - 2) * c for c in current)]
        for i, c in enumerate(previous):
            raised[i] -= Fraction(k, k + d - 2) * c
        previous, current = current, raised
        if k % 2:
            even.append(current[::2])
    return even


def _optimum(d: int, epsilon: float) -> tuple[float, list[float]]:
    """f(1) and f_2, f_4, … ≥ 0 that minimise it with f ≤ 0 on a grid of [0, ε], in floats; (inf, []) if none do."""
    from scipy.optimize import linprog

    grid = (epsilon * np.sin(np.linspace(0, np.pi / 2, 300))) ** 2
    powers = grid[:, None] ** np.arange(DEGREES + 1)
    values = powers @ _float_gegenbauer(d).T
    size = np.abs(values).max(axis=0)
    answer = linprog(1 / size, A_ub=values / size, b_ub=-np.ones(len(grid)), method="highs")
    if answer.status != 0:
        return math.inf, []
    return 1 + float(answer.fun), (answer.x / size).tolist()


@lru_cache(maxsize=256)
def _float_gegenbauer(d: int) -> NDArray[np.float64]:
    """P_2, P_4, … as rows of coefficients in s, padded to DEGREES + 1."""
    rows = np.zeros((DEGREES, DEGREES + 1))
    for k, polynomial in enumerate(gegenbauer(d, DEGREES)[1:]):
        rows[k, : len(polynomial)] = [float(c) for c in polynomial]
    return rows


def _proved(d: int, end: Fraction, coefficients: list[float]) -> float:
    """The bound on n that f = 1 + Σ f_2k P_2k proves, whatever its sign on [0, √end], in rational arithmetic."""
    f = [Fraction(0)] * (len(coefficients) + 1)
    for weight, polynomial in zip([1.0, *coefficients], gegenbauer(d, len(coefficients))):
        for i, c in enumerate(polynomial):
            f[i] += Fraction(float(f"{max(weight, 0.0):.9g}")) * c
    excess = max(Fraction(0), _maximum(f, end))
    if excess >= 1:
        return math.inf
    return float(math.floor((sum(f) - excess) / (1 - excess)))


def _maximum(f: list[Fraction], end: Fraction) -> Fraction:
    """An upper bound, within SLACK or below zero, of the polynomial f(s) on [0, end] by its Bernstein coefficients."""
    degree = len(f) - 1
    scaled = [c * end**i for i, c in enumerate(f)]
    bernstein = [
        sum((Fraction(math.comb(j, i), math.comb(degree, i)) * scaled[i] for i in range(j + 1)), Fraction(0))
        for j in range(degree + 1)
    ]
    pieces, bound = [bernstein], Fraction(-1)
    while pieces:
        piece = pieces.pop()
        top = max(piece)
        if top <= max(bound, Fraction(0)):
            continue
        if top - max(piece[0], piece[-1]) <= SLACK:
            bound = max(bound, top)
            continue
        pieces += _halves(piece)
    return bound


def _halves(piece: list[Fraction]) -> list[list[Fraction]]:
    """De Casteljau: the Bernstein coefficients on the two halves of the interval."""
    left, right, row = [piece[0]], [piece[-1]], piece
    while len(row) > 1:
        row = [(a + b) / 2 for a, b in pairwise(row)]
        left.append(row[0])
        right.append(row[-1])
    return [left, right[::-1]]
