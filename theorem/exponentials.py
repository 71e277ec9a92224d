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
from scipy.linalg import qr, solve_triangular

TARGETS = (-1, 0, 1, 2)
RADII = (3, 4, 3, 2)  # in units of ε
SIGNIFICAND = {"bf16": 8, "fp16": 11, "fp32": 24, "fp64": 53}  # bits
UNIT = 2.0**-53  # unit roundoff of float64

_GRID = 48  # y and the nodes are multiples of 2^-_GRID, coefficients of 2^-_COEFFICIENT_GRID: values are exact integers
_COEFFICIENT_GRID = 240

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ExponentialSum:
    """f(x) = Σ_{j=1..J} a_j e^{rate·jx} = y (b_0 + (y − y_0)(b_1 + (y − y_1)(b_2 + …))), y = e^{rate·x}.

    J = len(newton). With its nodes in the neighbourhoods Newton's form is accurate there; the printed one cancels.
    """

    rate: float
    nodes: tuple[float, ...]
    newton: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.newton)

    def __call__(self, x: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            y = np.exp(self.rate * np.asarray(x, dtype=np.float64))
            total = np.full_like(y, self.newton[-1])
            for node, b in zip(self.nodes[::-1], self.newton[-2::-1]):
                total *= y - node
                total += b
            return total * y

    @cached_property
    def coefficients(self) -> tuple[Fraction, ...]:
        """a_1 … a_J, exactly."""
        total = [Fraction(self.newton[-1])]
        for node, b in zip(self.nodes[::-1], self.newton[-2::-1]):
            total = [low - Fraction(node) * high for low, high in zip([Fraction(0), *total], [*total, Fraction(0)])]
            total[0] += Fraction(b)
        return tuple(total)

    def cancellation(self, epsilon: float) -> float:
        """max over the neighbourhoods of Σ_j |a_j| e^{jx}: times a unit roundoff, the error of summing term by term."""
        y = Fraction(math.exp(self.rate * (2 + 2 * epsilon)))  # the sum of absolute terms grows with x
        return float(sum(abs(a) * y**j for j, a in enumerate(self.coefficients, 1)))

    def slopes(self) -> tuple[float, ...]:
        """f′ at −1, 0, 1, 2."""
        at = [Fraction(math.exp(self.rate * x)) for x in TARGETS]
        return tuple(self.rate * float(sum(a * j * y**j for j, a in enumerate(self.coefficients, 1))) for y in at)

    def rounding(self, epsilon: float) -> float:
        """A bound on the float64 error of `__call__` on the neighbourhoods, from values at dense nodes.

        A product of k factors and its place in the nested sum are off by at most 3k + 4 units, and the two units of y
        itself move f by its slope, at most J² times its variation over a neighbourhood (Markov); doubled for the gaps
        between the nodes.
        """
        spans = neighbourhoods(epsilon, self.rate)
        y = np.concatenate([np.linspace(low, high, 40 * len(self)) for _, low, high in spans])
        product, size = y.copy(), np.zeros_like(y)
        for k, b in enumerate(self.newton):
            size += (3 * k + 4) * abs(b) * product
            if k < len(self.nodes):
                product = product * (np.abs(y - self.nodes[k]) + UNIT * 4 * y)
        return 2 * UNIT * float(size.max()) + 2.0**-50 * len(self)

    def certified_error(self, epsilon: float, nodes: int = 12) -> float:
        """An upper bound on max |f(x) − c| over the four neighbourhoods, by exact integer arithmetic.

        `nodes` per degree and neighbourhood set the bound's slack, 1/cos(π/(2·nodes)) − 1 (0.9 % for 12).
        """
        count = nodes * len(self)
        angles = (np.arange(count) + 0.5) * math.pi / count
        bound = 0.0
        for target, low, high in neighbourhoods(epsilon, self.rate, outward=True):
            y = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
            worst = max(abs(e) for e in self.exact_errors(y, target))
            # a node rounded to the grid has moved in θ = arccos by at most the root of twice its relative shift
            spacing = math.pi / (2 * count) + math.sqrt(2 * 2.0**-_GRID / ((high - low) / 2))
            bound = max(bound, float(worst) * (1 + 1e-12) / math.cos(len(self) * spacing))
        return bound

    def exact_errors(self, y: Array, target: int) -> list[Fraction]:
        """f − target at the points of the grid nearest to y [m], exactly."""
        points = np.array([round(v * 2.0**_GRID) for v in y.tolist()], dtype=object)
        b = [int(Fraction(v) * 2**_COEFFICIENT_GRID) for v in self.newton]
        total, scale = np.full(len(points), b[-1], dtype=object), _COEFFICIENT_GRID
        for node, value in zip(self.nodes[::-1], b[-2::-1]):
            scale += _GRID
            total = total * (points - round(node * 2.0**_GRID)) + (value << (scale - _COEFFICIENT_GRID))
        return [Fraction(int(v), 2 ** (scale + _GRID)) - target for v in (total * points).tolist()]


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


def interpolating(terms: int) -> ExponentialSum:
    """The sum of 4 exponentials with f(c) = c at −1, 0, 1, 2 (P App. E.2), or of 8 that also has f′(c) = 0 there."""
    if terms not in (4, 8):
        raise ValueError(f"interpolation at four points takes 4 exponentials, or 8 with zero slopes, got {terms}")
    repeats = terms // 4
    nodes = np.repeat(np.round(np.exp(np.array(TARGETS)) * 2.0**_GRID) / 2.0**_GRID, repeats)
    # q = f/y takes the values of c/y, and f′ = 0 is q′ = (c/y)′: divided differences, a slope where a node repeats
    target = np.repeat(np.array(TARGETS, dtype=np.float64), repeats)
    column = target / nodes
    newton = [column[0]]
    for order in range(1, terms):
        width = nodes[order:] - nodes[:-order]
        slope = -target[order:] / nodes[order:] ** 2
        column = np.where(width == 0, slope, np.diff(column) / np.where(width == 0, 1, width))
        newton.append(column[0])
    return ExponentialSum(1.0, tuple(nodes[:-1].tolist()), _on_grid(np.array(newton)))


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
    angles = np.linspace(math.pi, 0, 40 * terms + 1)
    spans = neighbourhoods(epsilon, rate)
    y = np.concatenate([(low + high) / 2 + (high - low) / 2 * np.cos(angles) for _, low, high in spans])
    y = np.round(y * 2.0**_GRID) / 2.0**_GRID
    target = np.repeat(np.array(TARGETS, dtype=np.float64), len(angles))
    nodes = _leja_points(y, terms)
    newton, sizes = _newton_basis(y, nodes)
    chosen = _fekete_points(newton)
    basis, triangle = qr(newton[:, :terms], mode="economic")
    for _ in range(100):
        signs = (-1.0) ** np.arange(terms + 1)
        solution = np.linalg.solve(np.column_stack([basis[chosen], signs]), target[chosen])
        errors = basis @ solution[:-1] - target
        level = abs(solution[-1])
        if np.abs(errors).max() <= level * (1 + 1e-3):
            break
        chosen = _alternating_extrema(errors, terms + 1)
        if len(chosen) <= terms:
            raise _unresolved(terms, rate, epsilon)
    else:
        raise _unresolved(terms, rate, epsilon)
    coefficients = solve_triangular(triangle, solution[:-1]) / sizes[:terms]
    found = ExponentialSum(rate, tuple(nodes[: terms - 1].tolist()), _on_grid(coefficients))
    # one more point strictly inside where rounding to the grid may have left the neighbourhood
    span = [spans[i // len(angles)] for i in chosen]
    inside = [min(max(y[i], low * (1 + 1e-12)), high * (1 - 1e-12)) for i, (_, low, high) in zip(chosen, span)]
    errors_there = [found.exact_errors(np.array([v]), c)[0] for v, (c, _, _) in zip(inside, span)]
    lower = min(map(abs, errors_there)) if all(a * b < 0 for a, b in pairwise(errors_there)) else Fraction(0)
    fit = Fit(epsilon, found, float(lower), found.certified_error(epsilon))
    if not fit.lower > 0.9 * fit.upper:
        raise _unresolved(terms, rate, epsilon)
    return fit


def _unresolved(terms: int, rate: float, epsilon: float) -> ValueError:
    return ValueError(
        f"float64 does not resolve the best {terms} exponentials of rate {rate:g} at coherence {epsilon:g}"
    )


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


def longest_summable(epsilon: float, dtype: str, rate: float = 1.0) -> Fit | None:
    """The longest best fit whose printed terms can be added in `dtype` without losing what the fit gained.

    None where even one term needs more bits. Raises ValueError for a dtype that is not in SIGNIFICAND.
    """
    if dtype not in SIGNIFICAND:
        raise ValueError(f"expected one of {', '.join(SIGNIFICAND)}, got {dtype}")
    found, terms = None, 1
    while (fit := best(terms, epsilon, rate)).bits() <= SIGNIFICAND[dtype]:
        found, terms = fit, terms + 1
    return found


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
    unit = tokens * UNIT
    return 2.5 * 2 * unit / (1 - unit)


def _leja_points(y: Array, count: int) -> Array:
    """`count` of the points y, each farthest (in the product of distances) from those before: good Newton nodes."""
    chosen = [float(y[np.argmax(y)])]
    logarithm = np.zeros_like(y)
    with np.errstate(divide="ignore"):
        while len(chosen) < count:
            logarithm += np.log(np.abs(y - chosen[-1]))
            chosen.append(float(y[np.argmax(logarithm)]))
    return np.array(chosen)


def _newton_basis(y: Array, nodes: Array) -> tuple[Array, Array]:
    """y Π_{i<k} (y − y_i) for k = 0 … len(nodes), each divided by its largest absolute value; and these sizes."""
    columns, sizes = [y], [1.0]
    for node in nodes:
        columns.append(columns[-1] * (y - node))
        sizes.append(float(np.abs(columns[-1]).max()))
        columns[-1] = columns[-1] / sizes[-1]
    return np.stack(columns, axis=1), np.cumprod(sizes).astype(np.float64)


def _on_grid(coefficients: Array) -> tuple[float, ...]:
    scale = 2**_COEFFICIENT_GRID
    return tuple(float(Fraction(int(Fraction(float(c)) * scale), scale)) for c in coefficients)


def _fekete_points(basis: Array) -> NDArray[np.int64]:
    """As many rows of `basis` as it has columns, well conditioned together: the pivots of a QR of its transpose."""
    orthonormal, _ = qr(basis, mode="economic")
    return np.sort(qr(orthonormal.T, mode="r", pivoting=True)[1][: basis.shape[1]])


def _alternating_extrema(errors: Array, count: int) -> NDArray[np.int64]:
    """Indices of `count` extrema of alternating sign, the largest among them (the exchange step of Remez)."""
    edges = np.flatnonzero(np.diff(errors >= 0)) + 1
    runs = np.split(np.arange(len(errors)), edges)
    peaks = [int(run[np.argmax(np.abs(errors[run]))]) for run in runs]
    while len(peaks) > count:
        sizes = np.abs(errors[peaks])
        if len(peaks) == count + 1:
            peaks.pop(0 if sizes[0] < sizes[-1] else -1)
            continue
        weakest = int(np.argmin(sizes))
        if weakest in (0, len(peaks) - 1):
            del peaks[weakest]
            continue
        # an inner peak takes its weaker neighbour with it, so that signs still alternate
        start = weakest - 1 if sizes[weakest - 1] < sizes[weakest + 1] else weakest
        del peaks[start : start + 2]
    return np.array(peaks)
