"""Sums of exponentials as f: how many make Assumption 2 true on neighbourhoods rather than at four points?

P App. E.2 builds f from exponential heads, f(x) = Σ_{j=1..J} a_j e^{jx}. Under |k_i·k_j| ≤ ε an argument of f is within
    4ε of 0 (two swaps without a common slot), 3ε of ±1 (one common slot), 2ε of 2 (the same pair twice),
each bound being the number of off-diagonal products in (k_a − k_b)·(k_c − k_d). With y = e^{hx} (h the `rate`, 1 in P)
the sum is a polynomial y q(y) of degree J, and the best one is found by Remez exchange. Two bounds enclose its error:
- above: exact integer values at dense nodes and |p(θ)| ≥ ‖p‖ cos(J(θ − θ*)) near a maximum θ* of a trigonometric
  polynomial of degree J (van der Corput & Schaake 1935; Ehlich & Zeller 1964);
- below: de la Vallée-Poussin's theorem. J exponentials form a Haar system, so an error that alternates at J+1 points
  cannot be made smaller than its least value there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

TARGETS = (-1, 0, 1, 2)
RADII = (3, 4, 3, 2)  # in units of ε
UNIT_ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24, "fp64": 2.0**-53}

_GRID = 40  # s, mid and half are multiples of 2^-_GRID, coefficients of 2^-_COEFFICIENT_GRID: values are exact integers
_COEFFICIENT_GRID = 100

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ExponentialSum:
    """f(x) = y Σ_k c_k T_k(s), s = (y − mid)/half, y = e^{rate·x}: J = len(c) exponentials e^{rate·jx}, j = 1 … J.

    The Chebyshev form evaluates to a few units in the last place of Σ|c_k| where the printed form Σ a_j e^{jx} cancels.
    """

    rate: float
    mid: float
    half: float
    chebyshev: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.chebyshev)

    def __call__(self, x: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            y = np.exp(self.rate * np.asarray(x, dtype=np.float64))
            return y * self._q((y - self.mid) / self.half)

    def _q(self, s: Array) -> Array:
        before, now = np.ones_like(s), s
        total = np.full_like(s, self.chebyshev[0])
        for c in self.chebyshev[1:]:
            total += c * now
            before, now = now, 2 * s * now - before
        return total

    @cached_property
    def coefficients(self) -> tuple[Fraction, ...]:
        """a_1 … a_J, exactly."""
        mid, half = Fraction(self.mid), Fraction(self.half)
        before, now = [Fraction(1)], [-mid / half, 1 / half]
        total = [Fraction(0)] * len(self)
        for k, c in enumerate(self.chebyshev):
            polynomial = before if k == 0 else now
            for power, value in enumerate(polynomial):
                total[power] += Fraction(c) * value
            if k > 0:
                step = _times_linear(now, -2 * mid / half, 2 / half)
                before, now = now, [a - b for a, b in zip(step, before + [Fraction(0)] * (len(step) - len(before)))]
        return tuple(total)

    def cancellation(self, epsilon: float) -> float:
        """max over the neighbourhoods of Σ_j |a_j| e^{jx}: times a unit roundoff, the error of summing term by term."""
        y = math.exp(self.rate * (2 + 2 * epsilon))  # the sum of absolute terms grows with x
        return float(sum(abs(a) * Fraction(y) ** j for j, a in enumerate(self.coefficients, 1)))

    def slopes(self) -> tuple[float, ...]:
        """f′ at −1, 0, 1, 2."""
        return tuple(
            float(sum(a * j * Fraction(math.exp(self.rate * x)) ** j for j, a in enumerate(self.coefficients, 1)))
            * self.rate
            for x in TARGETS
        )

    def rounding(self, epsilon: float) -> float:
        """A bound on the float64 error of `__call__` on the neighbourhoods.

        The three-term recurrence leaves T_k with at most 2.5 k² units, the sum with J more, and the 2 units of y are
        amplified by at most J² y/half (Markov); 32 (J+1)² max(1, y/half) covers all three.
        """
        y = math.exp(self.rate * (2 + 2 * epsilon))
        size = y * sum(map(abs, self.chebyshev)) * max(1.0, y / self.half)
        return 32 * (len(self) + 1) ** 2 * UNIT_ROUNDOFF["fp64"] * size

    def certified_error(self, epsilon: float, nodes: int = 12) -> float:
        """An upper bound on max |f(x) − c| over the four neighbourhoods, by exact integer arithmetic.

        `nodes` per degree and neighbourhood set the bound's slack, 1/cos(π/(2·nodes)) − 1 (0.9 % for 12).
        """
        count = nodes * len(self)
        angles = (np.arange(count) + 0.5) * math.pi / count
        bound = 0.0
        for target, low, high in neighbourhoods(epsilon, self.rate, outward=True):
            y = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
            worst = max(abs(e) for e in self._exact_errors(y, target))
            # a node rounded to the grid has moved in θ = arccos by at most the root of twice its relative shift
            spacing = math.pi / (2 * count) + _angle_shift(self.half, low, high)
            bound = max(bound, float(worst) * (1 + 1e-12) / math.cos(len(self) * spacing))
        return bound

    def _exact_errors(self, y: Array, target: int) -> list[Fraction]:
        """f − target at the points of the grid nearest to y, exactly."""
        unit = 2**_GRID
        mid, half = int(self.mid * unit), int(self.half * unit)
        s = np.array([round((v - self.mid) / self.half * unit) for v in y.tolist()], dtype=object)
        c = [int(Fraction(v) * 2**_COEFFICIENT_GRID) for v in self.chebyshev]
        top = len(c) - 1
        before, now = np.full(len(s), 1, dtype=object), s
        total = np.full(len(s), c[0] << (_GRID * top), dtype=object)
        for k in range(1, top + 1):
            total = total + c[k] * now * (1 << (_GRID * (top - k)))
            before, now = now, 2 * s * now - before * unit * unit
        scaled_y = mid * unit + half * s  # y · 2^(2·_GRID)
        scale = 2 ** (_COEFFICIENT_GRID + _GRID * top + 2 * _GRID)
        return [Fraction(int(v), scale) - target for v in (total * scaled_y).tolist()]


@dataclass(frozen=True)
class Fit:
    """The best sum of its length for one ε: lower ≤ least possible error ≤ its own error ≤ upper, all certified."""

    epsilon: float
    sum: ExponentialSum
    lower: float
    upper: float

    def bits(self) -> float:
        """The significand bits at which adding the printed terms one by one still leaves no more error than `upper`."""
        return math.log2(self.sum.cancellation(self.epsilon) / self.upper)


def neighbourhoods(epsilon: float, rate: float = 1.0, outward: bool = False) -> list[tuple[int, float, float]]:
    """(target, low, high) in y = e^{rate·x} for the four neighbourhoods; `outward` adds 2^-30 on either side."""
    widen = 2.0**-30 if outward else 0.0
    return [
        (c, math.exp(rate * (c - r * epsilon)) * (1 - widen), math.exp(rate * (c + r * epsilon)) * (1 + widen))
        for c, r in zip(TARGETS, RADII)
    ]


def interpolating(terms: int, epsilon: float = 1 / 8) -> ExponentialSum:
    """The sum of 4 exponentials with f(c) = c at −1, 0, 1, 2 (P App. E.2), or of 8 that also has f′(c) = 0 there."""
    if terms not in (4, 8):
        raise ValueError(f"interpolation at four points takes 4 exponentials, or 8 with zero slopes, got {terms}")
    mid, half = _hull(epsilon, 1.0)
    y = np.exp(np.array(TARGETS, dtype=np.float64))
    values = _basis(y, mid, half, terms)
    target = np.array(TARGETS, dtype=np.float64)
    if terms == 8:
        q = np.polynomial.chebyshev
        derivative = np.stack(
            [
                q.chebval((y - mid) / half, row) + y / half * q.chebval((y - mid) / half, q.chebder(row))
                for row in np.eye(terms)
            ],
            axis=1,
        )
        values, target = np.vstack([values, derivative]), np.concatenate([target, np.zeros(4)])
    return ExponentialSum(1.0, mid, half, _on_grid(np.linalg.solve(values, target).astype(np.float64)))


@cache
def best(terms: int, epsilon: float, rate: float = 1.0) -> Fit:
    """The sum of `terms` exponentials e^{rate·jx} with the least error on the neighbourhoods of ε, by Remez exchange.

    Raises ValueError unless 0 < ε ≤ 1/8 (beyond 1/7 the neighbourhoods of 0 and 1 meet), 1 ≤ terms ≤ 80, rate > 0.
    """
    if not 0 < epsilon <= 1 / 8:
        raise ValueError(f"the neighbourhoods need a coherence in (0, 1/8], got {epsilon:g}")
    if not 1 <= terms <= 80:
        raise ValueError(f"expected 1 to 80 exponentials, got {terms}")
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"the rate must be positive and finite, got {rate}")
    mid, half = _hull(epsilon, rate)
    angles = np.linspace(math.pi, 0, 40 * terms + 1)
    spans = neighbourhoods(epsilon, rate)
    y = np.concatenate([(low + high) / 2 + (high - low) / 2 * np.cos(angles) for _, low, high in spans])
    target = np.repeat(np.array(TARGETS, dtype=np.float64), len(angles))
    basis = _basis(y, mid, half, terms)
    chosen = _fekete_points(_basis(y, mid, half, terms + 1))
    for _ in range(100):
        signs = (-1.0) ** np.arange(terms + 1)
        solution = np.linalg.solve(np.column_stack([basis[chosen], signs]), target[chosen])
        errors = basis @ solution[:-1] - target
        level = abs(solution[-1])
        if np.abs(errors).max() <= level * (1 + 1e-3):
            break
        chosen = _alternating_extrema(errors, terms + 1)
        if len(chosen) <= terms:
            raise ValueError(
                f"float64 does not resolve the best {terms} exponentials of rate {rate:g} at coherence {epsilon:g}"
            )
    found = ExponentialSum(rate, mid, half, _on_grid(solution[:-1].astype(np.float64)))
    inside = [
        (target[i], min(max(y[i], spans[i // len(angles)][1] * (1 + 1e-9)), spans[i // len(angles)][2] * (1 - 1e-9)))
        for i in chosen
    ]
    values = [found._exact_errors(np.array([v]), int(c))[0] for c, v in inside]
    alternates = all(a * b < 0 for a, b in pairwise(values))
    lower = float(min(map(abs, values))) if alternates and len(values) == terms + 1 else 0.0
    return Fit(epsilon, found, lower, found.certified_error(epsilon))


def least_terms(epsilon: float, delta: float, rate: float = 1.0, most: int = 60) -> Fit | None:
    """The fit with J(ε, δ) exponentials, the least number with an error of at most δ; None if `most` are too few.

    The error falls with J, so J is found by doubling and bisection. Raises ValueError where float64 does not resolve a
    fit on the way.
    """
    low, high = 0, 1
    while best(high, epsilon, rate).upper > delta:
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if best(middle, epsilon, rate).upper <= delta else (middle, high)
    return best(high, epsilon, rate)


def accumulated_error(n: int, steps: int, delta: float, *, rewrite: int | None = None, value: float = 1.0) -> Array:
    """A bound on the error of every readout coordinate after 0 … steps swaps, [steps + 1], for |f − f_exact| ≤ δ.

    Write û for what the cache holds, p for what the exact f would read from it, m for the largest error of p, and
    S = Σ|û|. A swap's û differs from p_b − p_a by at most δS; the exact f then exchanges the two contents, which leaves
    m ≤ m + δS and S ≤ S + 2·value + 2m + δS. What is read errs by at most m + δS. So the error grows like δ t² at first
    and like e^{t√(2δ)} in the end; reading all slots out and writing them anew every `rewrite` swaps resets S and makes
    it linear in t. `value` bounds the coordinates of the values.
    """
    bound = np.empty(steps + 1)
    m = value_error = total = 0.0

    def write() -> tuple[float, float]:
        size, error = 0.0, value_error
        for _ in range(n):
            error = max(error, value_error + delta * size)
            size += value + value_error + delta * size
        return size, error

    total, m = write()
    bound[0] = m + delta * total
    for t in range(1, steps + 1):
        m, total = m + delta * total, total + 2 * value + 2 * m + delta * total
        bound[t] = m + delta * total
        if bound[t] > 1e100:
            bound[t:] = np.inf
            break
        if rewrite and t % rewrite == 0:
            value_error = float(bound[t])
            total, m = write()
    return bound


def summation_error(tokens: int) -> float:
    """What float64 sums over `tokens` cached tokens add to δ: |fl(Σ f u) − Σ f u| ≤ γ Σ|f||u| with |f| ≤ 2 + ½."""
    unit = tokens * UNIT_ROUNDOFF["fp64"]
    return 2.5 * 2 * unit / (1 - unit)


def _hull(epsilon: float, rate: float) -> tuple[float, float]:
    """Middle and half width of the interval of y that holds all neighbourhoods, on the grid of exact arithmetic."""
    spans = neighbourhoods(epsilon, rate)
    low, high = spans[0][1], spans[-1][2]
    unit = 2.0**_GRID
    return round((low + high) / 2 * unit) / unit, math.ceil((high - low) / 2 * unit) / unit


def _basis(y: Array, mid: float, half: float, terms: int) -> Array:
    return np.polynomial.chebyshev.chebvander((y - mid) / half, terms - 1) * y[:, None]


def _on_grid(coefficients: Array) -> tuple[float, ...]:
    scale = 2**_COEFFICIENT_GRID
    return tuple(float(Fraction(int(Fraction(float(c)) * scale), scale)) for c in coefficients)


def _angle_shift(half: float, low: float, high: float) -> float:
    """How far in θ a node may move when y is rounded to the grid: |Δθ| ≤ √(2|Δcos θ|)."""
    return math.sqrt(2 * half * 2.0**-_GRID / ((high - low) / 2))


def _times_linear(polynomial: list[Fraction], constant: Fraction, slope: Fraction) -> list[Fraction]:
    result = [constant * p for p in polynomial] + [Fraction(0)]
    for power, p in enumerate(polynomial):
        result[power + 1] += slope * p
    return result


def _fekete_points(basis: Array) -> NDArray[np.int64]:
    """As many rows of `basis` as it has columns, well conditioned together: the pivots of a QR of its transpose."""
    orthonormal, _ = qr(basis, mode="economic")
    return np.sort(qr(orthonormal.T, mode="r", pivoting=True)[1][: basis.shape[1]])


def _alternating_extrema(errors: Array, count: int) -> NDArray[np.int64]:
    """Indices of `count` extrema of alternating sign, the largest among them (the exchange step of Remez)."""
    edges = np.flatnonzero(np.diff(np.sign(errors)) != 0) + 1
    runs = np.split(np.arange(len(errors)), edges)
    peaks = [int(run[np.argmax(np.abs(errors[run]))]) for run in runs]
    while len(peaks) > count:
        sizes = np.abs(errors[peaks])
        if len(peaks) == count + 1:
            peaks.pop(0 if sizes[0] < sizes[-1] else -1)
            continue
        # drop the weakest neighbours together, so that signs still alternate
        pair = int(np.argmin(np.maximum(sizes[:-1], sizes[1:])))
        del peaks[pair : pair + 2]
    return np.array(peaks)
