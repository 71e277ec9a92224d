"""Where a similarity has kinks and jumps, so that integrals can be split there."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from snr.similarity import Similarity

Array = Any
_BREAK_LIMIT = 20_000


def kinks(similarity: Similarity, tau: float, d: float, reach: float) -> Array:
    """Points x, |x| ≤ reach, where g may have a kink or jump: where the arguments of max, abs, sign, floor turn.

    Raises ArithmeticError where there are too many to integrate between.
    """
    if similarity.twin is not None:
        return np.array([0.0]) if "max" in similarity.text else np.array([])
    found = [np.array([])]
    for function, whole in _turning(similarity):
        found.append(_roots(partial(_at, function, tau, d), reach, whole))
    return np.unique(np.concatenate(found))


def _at(function: Any, tau: float, d: float, x: Array) -> Array:
    return function(x, tau, d)


@lru_cache(maxsize=64)
def _turning(similarity: Similarity) -> list[tuple[Any, bool]]:
    """(function of x, tau, d; whether every integer value matters and not only 0) for each non-smooth part of g."""
    import itertools

    import sympy

    from snr.expression import symbol
    from snr.signed_log import compile_value

    symbols = [symbol(name) for name in ("x", "tau", "d")]
    turning: list[tuple[Any, bool]] = []
    for node in sympy.preorder_traversal(similarity.expression):
        if isinstance(node, (sympy.Max, sympy.Min)):
            turning += [(a - b, False) for a, b in itertools.combinations(node.args, 2)]
        elif isinstance(node, (sympy.Abs, sympy.sign)):
            turning.append((node.args[0], False))
        elif isinstance(node, sympy.floor):
            turning.append((node.args[0], True))
    return [(compile_value(e, symbols), whole) for e, whole in turning if e.has(symbols[0])]


def _roots(f: Callable[[Array], Array], reach: float, whole: bool) -> Array:
    """Where f crosses 0 (or any integer) on a scan of [−reach, reach], by bisection."""
    side = np.concatenate([np.geomspace(1e-9, 1.0, 91), np.linspace(1.0, reach, 4001)[1:]])
    x = np.concatenate([-side[::-1], [0.0], side])
    x = np.sort(np.concatenate([x, x[:-1] + 0.6180339887 * np.diff(x)]))
    y = np.broadcast_to(f(x), x.shape)
    levels = np.floor(y) if whole else np.sign(y)
    crossing = np.isfinite(y[1:]) & np.isfinite(y[:-1]) & (levels[1:] != levels[:-1])
    a, b, ya, yb = x[:-1][crossing], x[1:][crossing], y[:-1][crossing], y[1:][crossing]
    target = np.zeros_like(a)
    if whole:
        low, high = np.minimum(ya, yb), np.maximum(ya, yb)
        count = (np.floor(high) - np.floor(low)).astype(int)
        if count.sum() > _BREAK_LIMIT:
            raise ArithmeticError(f"more than {_BREAK_LIMIT} jumps within |x| <= {reach:.3g}")
        index = np.repeat(np.arange(len(a)), count)
        offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        target = np.floor(low)[index] + 1 + offset
        a, b, ya = a[index], b[index], ya[index]
    for _ in range(60):
        middle = (a + b) / 2
        same = (f(middle) - target > 0) == (ya - target > 0)
        a, b = np.where(same, middle, a), np.where(same, b, middle)
    return (a + b) / 2
