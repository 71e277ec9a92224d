"""Integrals of positive functions given by their logarithms, with a verified error; many at once.

Panels are found by scanning for the peak of the log-integrand, however high it is (at d = 16384 it reaches thousands of
nats), and bisected until a panel's Gauss–Legendre sum agrees with the sums of its halves. All sums are taken relative
to the running total, in logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
LogFunction = Callable[[Array, Array], Array]  # (points [P, K], row [P, 1]) -> log of the integrand, [P, K]

NODES = 20
NEGLIGIBLE = 42.0  # nats below the peak at which a panel is dropped: e^-42 = 6e-19
MAX_PANELS = 200_000
DEPTH = 150  # halvings of a panel


@dataclass(frozen=True)
class LogIntegral:
    """log of the integrals (inf where the integrand is), and estimates of their relative errors, [rows] each.

    `open_left` and `open_right` say where the scanned range ends before the integrand has become negligible.
    """

    log: Array
    error: Array
    open_left: Array
    open_right: Array


def log_integral(log_f: LogFunction, grid: Array, breaks: Array | None = None, rtol: float = 1e-13) -> LogIntegral:
    """log ∫ exp(log_f) over [grid[:, 0], grid[:, -1]] for each row.

    grid: [rows, points], ascending; its cells are the first panels, so it should resolve what is not a single peak.
    breaks: [rows, k], points where the integrand has a kink or a jump (those outside the range are ignored).
    A singularity inside is integrated if it is weak enough, and makes the integral inf if it is not integrable. Raises
    ArithmeticError where the integrand is not a number or does not settle within MAX_PANELS panels.
    """
    grid = np.atleast_2d(np.asarray(grid, dtype=float))
    edges, heights = _with_peaks(log_f, grid)
    if breaks is not None and np.size(breaks):
        inside = np.clip(np.atleast_2d(breaks), grid[:, :1], grid[:, -1:])
        edges, heights = _merge(log_f, edges, heights, np.broadcast_to(inside, (len(grid), inside.shape[1])))
    heights = _without_poles(heights)
    top = heights.max(axis=1, keepdims=True)
    high = heights >= top - NEGLIGIBLE
    cells = high[:, :-1] | high[:, 1:]
    cells[:, 1:] |= cells[:, :-1].copy()
    cells[:, :-1] |= cells[:, 1:].copy()
    cells &= edges[:, 1:] > edges[:, :-1]
    row, column = np.nonzero(cells)
    if len(row) > MAX_PANELS:
        raise ArithmeticError(f"more than {MAX_PANELS} pieces to integrate over")
    log, error = _bisect(log_f, row, edges[row, column], edges[row, column + 1], len(grid), rtol)
    return LogIntegral(log, error, high[:, 0], high[:, -1])


def _without_poles(heights: Array) -> Array:
    """Infinite heights at panel edges replaced by the row's largest finite one: no panel is evaluated at its edges."""
    finite = np.where(np.isposinf(heights), -np.inf, heights).max(axis=1, keepdims=True)
    return np.where(np.isposinf(heights), np.where(np.isfinite(finite), finite, 0.0), heights)


@lru_cache(maxsize=4)
def _legendre(nodes: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, np.log(w / 2)


def peak(log_f: LogFunction, grid: Array, rounds: int = 5) -> tuple[Array, Array, Array]:
    """Where each row's log-integrand is largest, how large, and over which half-width it falls by about 1: [rows]."""
    rows = np.arange(len(grid))
    index = np.zeros((len(grid), 1), dtype=int) + rows[:, None]
    points, heights = grid, _checked(log_f, grid, index)
    where = points[rows, heights.argmax(axis=1)]
    height, width = heights.max(axis=1), np.full(len(grid), np.inf)
    for _ in range(rounds):
        best = heights.argmax(axis=1)
        low = points[rows, np.maximum(best - 1, 0)]
        high = points[rows, np.minimum(best + 1, points.shape[1] - 1)]
        points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 13)
        heights = _checked(log_f, points, index)
        found = heights.max(axis=1)
        where = np.where(found > height, points[rows, heights.argmax(axis=1)], where)
        height = np.maximum(found, height)
        fallen = np.where(heights < height[:, None] - 1, np.abs(points - where[:, None]), np.inf).min(axis=1)
        width = np.minimum(width, fallen)
    return where, height, np.where(np.isfinite(width), width, (high - low) / 2)


def _with_peaks(log_f: LogFunction, grid: Array) -> tuple[Array, Array]:
    """The grid with points at distances 1, 2, 4, 8, 16 widths around each row's peak, and the heights there."""
    where, _, width = peak(log_f, grid)
    steps = np.array([-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16.0])
    around = np.clip(where[:, None] + width[:, None] * steps, grid[:, :1], grid[:, -1:])
    index = np.arange(len(grid))[:, None]
    return _merge(log_f, grid, _checked(log_f, grid, index), around)


def _merge(log_f: LogFunction, edges: Array, heights: Array, more: Array) -> tuple[Array, Array]:
    index = np.arange(len(edges))[:, None]
    points = np.concatenate([edges, more], axis=1)
    values = np.concatenate([heights, _checked(log_f, more, index)], axis=1)
    order = np.argsort(points, axis=1, kind="stable")
    return np.take_along_axis(points, order, 1), np.take_along_axis(values, order, 1)


def _bisect(log_f: LogFunction, row: Array, a: Array, b: Array, rows: int, rtol: float) -> tuple[Array, Array]:
    done = np.full(rows, -np.inf)
    error = np.zeros(rows)
    parent, _ = _panels(log_f, row, a, b)
    spent = len(row)
    for level in range(DEPTH + 1):
        if not len(row):
            break
        middle = (a + b) / 2
        left, noise_left = _panels(log_f, row, a, middle)
        right, noise_right = _panels(log_f, row, middle, b)
        both = np.logaddexp(left, right)
        total = done.copy()
        np.logaddexp.at(total, row, both)
        if level == DEPTH - 20:
            before = total
        if level == DEPTH:
            return _singular(done, error, row, before, total)
        infinite = np.isposinf(total)
        done[infinite] = np.inf
        anchor = np.where(np.isfinite(total), total, 0.0)[row]
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.exp(both - anchor)
            difference = np.abs(share - np.exp(np.minimum(parent - anchor, 700.0)))
            noise = np.maximum(noise_left, noise_right) * share  # rounding of log_f itself
        narrow = b - a <= 4e-16 * np.maximum(np.abs(a), np.abs(b))
        accept = (difference <= rtol + noise) | narrow | infinite[row]
        np.logaddexp.at(done, row[accept], both[accept])
        np.add.at(error, row[accept], np.where(infinite[row], 0.0, difference + noise)[accept])
        go = ~accept
        spent += 2 * int(go.sum())
        if spent > max(MAX_PANELS, 4 * DEPTH * rows):
            raise ArithmeticError(f"the integrand does not settle within {spent} panels")
        parent = np.concatenate([left[go], right[go]])
        row, a, b = np.tile(row[go], 2), np.concatenate([a[go], middle[go]]), np.concatenate([middle[go], b[go]])
    return done, error


def _singular(done: Array, error: Array, row: Array, before: Array, total: Array) -> tuple[Array, Array]:
    """After DEPTH halvings towards a point: a total that still grows is infinite, one that does not was not reached."""
    with np.errstate(invalid="ignore"):
        growing = total - before > 0.01
    if not growing[row].all():
        raise ArithmeticError(f"the integrand's singularity does not settle within {DEPTH} halvings")
    log = done.copy()
    log[row] = np.inf
    return log, error


def _panels(log_f: LogFunction, row: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """log of the Gauss–Legendre sums over [a, b], and the relative rounding error of log_f there."""
    x, log_w = _legendre(NODES)
    width = b - a
    heights = _checked(log_f, a[:, None] + width[:, None] * x, row[:, None])
    top = heights.max(axis=1)
    anchor = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        sums = np.log(np.exp(np.minimum(heights, 1e300) + log_w - anchor[:, None]).sum(axis=1)) + anchor + np.log(width)
    return np.where(np.isposinf(top), np.inf, sums), 2e-16 * np.abs(anchor)


def _checked(log_f: LogFunction, points: Array, row: Array) -> Array:
    with np.errstate(all="ignore"):
        heights = np.asarray(log_f(points, row), dtype=float)
    if np.isnan(heights).any():
        where = np.broadcast_to(points, heights.shape)[np.isnan(heights)][0]
        raise ArithmeticError(f"the integrand is not a number at {where:.6g}")
    return heights
