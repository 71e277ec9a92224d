"""f by name: the similarity that a DeltaFormer head applies to an inner product, κ(k, q) = f(k·q).

Assumption 2 of P App. E asks that f be exact near −1, 0, 1 and 2. Rounding is; what else is, and how nearly?
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theorem.exponentials import ExponentialSum, best, interpolating

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Activation:
    """`apply` maps an array of inner products of unit keys elementwise and may overwrite it.

    `integer` says that the values are integers, so that a replay with integer values can be compared exactly.
    """

    name: str
    apply: Callable[[Array], Array]
    integer: bool = False
    sum: ExponentialSum | None = None


def _round(x: Array) -> Array:
    return np.rint(x, out=x)


def _round_half_away(x: Array) -> Array:
    # x + ½ would round 0.49999999999999994 up; truncation of x + nextbelow(½) does not
    return np.trunc(x + np.copysign(np.nextafter(0.5, 0), x), out=x)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0, out=x)


PLAIN = {
    "round": Activation("round", _round, integer=True),  # ties to even, as torch.round, numpy and IEEE 754 have it
    "round-half-away": Activation("round-half-away", _round_half_away, integer=True),
    "linear": Activation("linear", lambda x: x),
    "relu": Activation("relu", _relu),
    "exp4": Activation("exp4", interpolating(4), sum=interpolating(4)),
    "hermite8": Activation("hermite8", interpolating(8), sum=interpolating(8)),
}

NAMES = (*PLAIN, "expJ")
EXPECTED = "round, round-half-away, linear, relu, exp4 (P E.2), hermite8, or expJ with J from 5 to 60, like exp24"


def fitted_terms(name: str) -> int | None:
    """J where the name asks for the best fit of J exponentials (`exp24`), else None.

    Raises ValueError for a name that means nothing.
    """
    if name in PLAIN:
        return None
    found = re.fullmatch(r"exp([1-9][0-9]?)", name)
    if found is None or not 5 <= int(found[1]) <= 60:
        raise ValueError(f"expected {EXPECTED}")
    return int(found[1])


def activation(name: str, coherence: float | None = None) -> Activation:
    """The f of that name; `expJ` is the best sum of J exponentials for keys of that coherence (0 < coherence ≤ 1/8).

    Raises ValueError for an unknown name and for a fit whose coherence is missing or out of range.
    """
    terms = fitted_terms(name)
    if terms is None:
        return PLAIN[name]
    if coherence is None:
        raise ValueError(f"{name} is fitted to the keys' coherence; none was given")
    fit = best(terms, max(coherence, 1e-3), 1.0)
    return Activation(name, fit.sum, sum=fit.sum)
