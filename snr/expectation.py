"""The same expectations as `closed_forms.py`, for any g, by quadrature; divergence is found and explained.

Conditional on s = ‖k_i‖² the other keys' products are X ~ N(0, s) (Gaussian keys) or d·T (keys on the sphere, T the
cosine of two random directions), so each statistic is an integral over X, and the mean of ratio one more over s ~ χ²_d.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from snr.closed_forms import form
from snr.closed_forms import log_second_moment as closed_second_moment
from snr.kinks import kinks
from snr.quadrature import NEGLIGIBLE, LogIntegral, log_integral, peak
from snr.similarity import Similarity
from snr.singular import LOWEST, Singular, integral_with_centres, singular_points
from snr.zeros import signal, smallest_reliable, vanishing

Array = Any
TOLERANCE = 1e-10
_NO_MOMENT = "E[g(X)^2] diverges for a normal X: g grows too fast or has a pole"
_EDGE = 1e15  # standard deviations; an integrand that still grows there diverges
_FAR = 30.0  # s up to e^30 d: a mass near there cannot be told from a divergence in double precision
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Expectation:
    """log of an expectation (inf: it diverges, and `reason` says why) and the relative error bound reached."""

    log: float
    error: float = 0.0
    reason: str = ""


def log_second_moment(
    similarity: Similarity, variance: Array, tau: float, d: float, mean: Array | float = 0.0, *, closed: bool = True
) -> tuple[Array, Array]:
    """(log E[g(X)²], relative error) for X ~ N(mean, variance), [rows] each; log is inf where it diverges.

    `closed` = False goes by quadrature even where a closed form exists.
    """
    v = np.atleast_1d(np.asarray(variance, dtype=float))
    m = np.broadcast_to(np.asarray(mean, dtype=float), v.shape)
    found = form(similarity, tau, d) if closed else None
    if found is not None:
        log = closed_second_moment(found, v, m)
        if log is not None:
            return log, 4e-16 * np.abs(log)
    log_f = _normal_integrand(similarity, v, m, tau, d)
    singular, breaks = singular_points(similarity, tau, d), _normal_breaks(similarity, v, m, tau, d)
    if singular:
        scale = np.sqrt(v)
        centres = (np.array([p.point for p in singular]) - m[:, None]) / scale[:, None]

        def local(j: int, offset: Array, row: Array) -> Array:
            sign, log = singular[j].sign_and_log(scale[row] * offset, tau, d)
            z = centres[row, j] + offset
            return np.where(sign == 0, -np.inf, 2 * log) - z * z / 2 - _LOG_SQRT_2PI

        lowest = np.maximum(LOWEST, -680 - np.log(scale))[:, None]
        result = _twice(log_f, _normal_grids(), breaks, local, centres, lowest)
    else:
        result = _twice(log_f, _normal_grids(), breaks)
    diverges = result.open_left | result.open_right | np.isposinf(result.log)
    return np.where(diverges, np.inf, result.log), result.error


def _normal_integrand(
    similarity: Similarity, v: Array, m: Array, tau: float, d: float
) -> Callable[[Array, Array], Array]:
    scale = np.sqrt(v)

    def log_f(z: Array, row: Array) -> Array:
        x = m[row] + scale[row] * z
        sign, log = similarity.sign_and_log(x, tau, d)
        return np.where(sign == 0, -np.inf, 2 * log) - z * z / 2 - _LOG_SQRT_2PI

    return log_f


def _twice(
    log_f: Any,
    grids: tuple[Array, Array],
    breaks: Array,
    local: Any = None,
    centres: Array | None = None,
    lowest: Array | float = LOWEST,
) -> LogIntegral:
    """Two integrations on different first panels: where they disagree a narrow feature slipped through one of them.

    Of many rows, which differ by the variance only, every eighth is done twice. local, centres and lowest: of
    `integral_with_centres`, where g has singular points.
    """
    rows = np.arange(len(breaks))
    again = rows if len(rows) < 16 else rows[::8]

    def integral(grid: Array, rows: Array) -> LogIntegral:
        first = np.tile(grid, (len(rows), 1))
        if centres is None:
            return log_integral(lambda points, row: log_f(points, rows[row]), first, breaks[rows])
        floor = np.broadcast_to(lowest, (len(breaks), 1))[rows]
        return integral_with_centres(
            lambda points, row: log_f(points, rows[row]),
            lambda j, offset, row: local(j, offset, rows[row]),
            first,
            breaks[rows],
            centres[rows],
            floor,
        )

    first, second = integral(grids[0], rows), integral(grids[1], again)
    with np.errstate(invalid="ignore"):
        gap = np.abs(first.log[again] - second.log)
    gap[~np.isfinite(gap)] = 0.0
    error = first.error.copy()
    error[again] = np.maximum(error[again], gap)
    return LogIntegral(first.log, error, first.open_left, first.open_right)


@lru_cache(maxsize=1)
def _normal_grids() -> tuple[Array, Array]:
    """First panels in z: unit steps where a normal law lives, finer towards 0, geometric to ±10¹⁵ for tilted laws."""
    made = []
    for step, ratio in ((1.0, 1.35), (0.73, 1.27)):
        body = np.arange(0.0, 40.0, step)
        tail = 40.0 * ratio ** np.arange(math.ceil(math.log(_EDGE / 40) / math.log(ratio)) + 1)
        side = np.concatenate([step * 10.0 ** np.arange(-6, 0), body[1:], tail])
        made.append(np.concatenate([-side[::-1], [0.0], side]))
    return made[0], made[1]


def _normal_breaks(similarity: Similarity, v: Array, m: Array, tau: float, d: float) -> Array:
    scale = np.sqrt(v)
    reach = float(np.max(np.abs(m) + 45 * scale))
    return (kinks(similarity, tau, d, reach)[None, :] - m[:, None]) / scale[:, None]


def _tolerable(error: float) -> float:
    if error > TOLERANCE:
        raise ArithmeticError(f"quadrature reached a relative error of {error:.1e}, not {TOLERANCE:.0e}")
    return error


def condensation_line(similarity: Similarity, d: float, tau: float, keys: str = "gaussian") -> float:
    """The ln N below which the noise of a probe of norm √d is carried by one rare key among N (random-energy regime).

    Gaussian keys: E g(X)² is carried by X near z*√d, and N keys reach z*√d only if ln N > z*²/2. For exp and SoLU that
    is 2d/tau²; for powers of x, whose carrying keys are ordinary ones, 0. Keys on the sphere: the cosine t* of the
    carrying keys solves 2(1−t²)/tau = t, and the line −(d/2) ln(1−t*²) lies 2d(1−t*)/tau below the capacity.
    """
    found = form(similarity, tau, d)
    if found is not None and found.rate == 0:
        return 0.0
    if found is not None and keys == "sphere":
        b = abs(found.rate)
        t = (math.sqrt(1 + 16 * b * b) - 1) / (4 * b)
        return -d / 2 * math.log1p(-t * t)
    if found is not None:
        return 2 * found.rate**2 * d
    v, m = np.array([float(d)]), np.zeros(1)
    with np.errstate(all="ignore"):
        where, _, _ = peak(_normal_integrand(similarity, v, m, tau, d), _normal_grids()[0][None, :])
    line = float(where[0]) ** 2 / 2
    return line if line > 1.5 else 0.0


# --- the statistics ---


def fixed_probe(similarity: Similarity, d: float, tau: float) -> Expectation:
    """E[g(X)²]/g(d)² with X ~ N(0, d)."""
    sign, log_signal = signal(similarity, d, tau)
    if sign == 0:
        return Expectation(math.inf, reason=f"no signal: g({d:g}) = 0")
    if np.isposinf(log_signal):
        raise ArithmeticError(f"the signal g({d:g}) is infinite")
    log, error = log_second_moment(similarity, float(d), tau, d, closed=False)
    if np.isposinf(log[0]):
        return Expectation(math.inf, reason=_NO_MOMENT)
    return Expectation(float(log[0] - 2 * log_signal), _tolerable(float(error[0])))


def sphere_mean(similarity: Similarity, d: float, tau: float) -> Expectation:
    """E[g(dT)²]/g(d)² with T the cosine of two random directions in R^d, d ≥ 1."""
    sign, log_signal = signal(similarity, d, tau)
    if sign == 0:
        return Expectation(math.inf, reason=f"no signal: g({d:g}) = 0")
    if np.isposinf(log_signal):
        raise ArithmeticError(f"the signal g({d:g}) is infinite")
    if d == 1:
        signs, logs = similarity.sign_and_log(np.array([-1.0, 1.0]), tau, d)
        values = np.where(signs == 0, -np.inf, 2 * logs)
        return Expectation(float(np.logaddexp(*values)) + math.log(0.5) - 2 * float(log_signal))
    log_norm = log_angle_norm(d)

    def log_f(angle: Array, row: Array) -> Array:  # T = sin(angle) makes the density smooth for d = 2 and 3 too
        signs, logs = similarity.sign_and_log(d * np.sin(angle), tau, d)
        weight = (d - 2) * np.log(np.cos(angle)) if d != 2 else 0.0
        return np.where(signs == 0, -np.inf, 2 * logs) + weight + log_norm

    corners = np.arcsin(np.clip(kinks(similarity, tau, d, float(d)) / d, -1, 1))[None, :]
    singular = [p for p in singular_points(similarity, tau, d) if abs(p.point) <= d]
    if singular:
        sines = np.array([p.point / d for p in singular])
        cosines = np.sqrt((1 - sines) * (1 + sines))

        def local(j: int, offset: Array, row: Array) -> Array:  # sums of angles, expanded so that no digit is lost
            turn, less = np.sin(offset), -2 * np.sin(offset / 2) ** 2
            signs, logs = singular[j].sign_and_log(d * (sines[j] * less + cosines[j] * turn), tau, d)
            cosine = cosines[j] * np.cos(offset) - sines[j] * turn
            weight = (d - 2) * np.log(cosine) if d != 2 else 0.0
            return np.where(signs == 0, -np.inf, 2 * logs) + weight + log_norm

        lowest = -300.0 if np.any(cosines == 0) else LOWEST  # at ±π/2 the product moves with the angle's square
        result = _twice(log_f, _angle_grids(), corners, local, np.arcsin(sines)[None, :], lowest)
    else:
        result = _twice(log_f, _angle_grids(), corners)
    if np.isposinf(result.log[0]):
        return Expectation(math.inf, reason="E[g(dT)^2] diverges for the cosine T of two keys: g has a pole")
    return Expectation(float(result.log[0] - 2 * log_signal), _tolerable(float(result.error[0])))


def log_angle_norm(d: float) -> float:
    """log Γ(d/2)/(Γ((d−1)/2) √π), the constant before cos^{d−2}, without cancellation for large d."""
    z = d / 2
    spread = 0.5 * math.log(z) - (z - 0.5) * math.log1p(-0.5 / z) - 0.5
    return _log_gamma_excess(z) - _log_gamma_excess(z - 0.5) + spread - 0.5 * math.log(math.pi)


@lru_cache(maxsize=1)
def _angle_grids() -> tuple[Array, Array]:
    made = []
    for step in (0.05, 0.037):
        side = np.concatenate([np.geomspace(1e-8, step, 16)[:-1], np.arange(step, np.pi / 2, step), [np.pi / 2]])
        made.append(np.concatenate([-side[::-1], [0.0], side]))
    return made[0], made[1]


def gaussian_mean(similarity: Similarity, d: float, tau: float) -> Expectation:
    """E over s ~ χ²_d of E[g(X)² | s]/g(s)², X ~ N(0, s)."""
    zero = vanishing(similarity, d, tau)
    if zero is not None:
        return Expectation(math.inf, reason=f"the signal g(‖k‖²) vanishes {zero}")
    if np.isposinf(log_second_moment(similarity, float(d), tau, d, closed=False)[0][0]):
        return Expectation(math.inf, reason=_NO_MOMENT)
    return _over_norms(similarity, d, tau, _Ratio(similarity, d, tau, noise=True, signal=-2))


def ratio_of_means(similarity: Similarity, d: float, tau: float) -> tuple[Expectation, Expectation]:
    """(E‖r‖² per other pair, E c²), both per E‖v‖², over keys N(0, I_d)."""
    if np.isposinf(log_second_moment(similarity, float(d), tau, d, closed=False)[0][0]):
        noise = Expectation(math.inf, reason=_NO_MOMENT)
    else:
        noise = _over_norms(similarity, d, tau, _Ratio(similarity, d, tau, noise=True, signal=0))
    return noise, _over_norms(similarity, d, tau, _Ratio(similarity, d, tau, noise=False, signal=2))


@dataclass(frozen=True)
class _Ratio:
    """The log-integrand over u = log(s/d): χ²_d density × E[g(X)² | s]^noise × g(s)^signal."""

    similarity: Similarity
    d: float
    tau: float
    noise: bool
    signal: int
    inner_errors: list[tuple[float, float]] = field(default_factory=list)  # (height, relative error there)

    def __call__(self, u: Array, row: Array, *, rough: bool = False) -> Array:
        s = self.d * np.exp(u)
        log = self._density(u)
        if self.signal:
            log = log + self._power(*self.similarity.sign_and_log(s, self.tau, self.d))
        return self._with_noise(log, s, rough) if self.noise else log

    def beside(self, singular: Singular, offset: Array) -> Array:
        """The log-integrand at log(p/d) + offset, p a singular point of the signal."""
        p = singular.point
        log = self._density(math.log(p / self.d) + offset)
        log = log + self._power(*singular.sign_and_log(p * np.expm1(offset), self.tau, self.d))
        return self._with_noise(log, p * np.exp(offset), rough=False) if self.noise else log

    def _density(self, u: Array) -> Array:
        return self.d / 2 * (u - np.expm1(u)) - _log_gamma_excess(self.d / 2)

    def _power(self, sign: Array, size: Array) -> Array:
        return np.where(sign == 0, -self.signal * np.inf, self.signal * size)

    def _with_noise(self, log: Array, s: Array, rough: bool) -> Array:
        if rough:
            noise = self._rough_noise(s)
        else:
            distinct, index = np.unique(s, return_inverse=True)
            noise, error = log_second_moment(self.similarity, distinct, self.tau, self.d, closed=False)
            noise, error = noise[index].reshape(s.shape), error[index].ravel()
            self.inner_errors.extend(zip((log + noise).ravel(), error))
        return np.where(np.isposinf(noise), np.inf, log + noise)

    def inner_error(self) -> float:
        """The relative error that the inner integrals bring in: their errors' mean, weighted by the integrand."""
        if not self.inner_errors:
            return 0.0
        height, error = np.array(self.inner_errors).T
        height, error = height[np.isfinite(height)], error[np.isfinite(height)]
        if not len(height):
            return 0.0
        weight = np.exp(height - height.max())
        return float(np.sum(weight * error) / np.sum(weight))

    def divergence(self, below: float, above: float) -> float | None:
        """The s from which E[g(X)² | s] is infinite, between an s where it is not and one where it is, by bisection.

        None where g does not grow like e^{c x²}, so that no s is the border: how far out one looks would decide.
        """
        for _ in range(60):
            middle = math.sqrt(below * above)
            if np.isfinite(self._rough_noise(np.array([middle]))[0]):
                below = middle
            else:
                above = middle
        x = math.sqrt(below) * np.outer([1e6, 1e13], [-1.0, 1.0])
        with np.errstate(all="ignore"):
            curvature = (2 * self.similarity.sign_and_log(x, self.tau, self.d)[1] / x**2 * below).max(axis=1)
        return below if np.all(np.abs(curvature - 0.5) < 1e-4) else None

    def _rough_noise(self, s: Array) -> Array:
        """The inner integrand's largest value: right up to a few nats, enough to find peaks and ends."""
        v = s.ravel()
        grid = np.tile(_normal_grids()[0], (len(v), 1))
        log_f = _normal_integrand(self.similarity, v, np.zeros_like(v), self.tau, self.d)

        def beside_poles(z: Array, row: Array) -> Array:  # a point where g is infinite, between two where it is not
            heights = log_f(z, row)
            infinite = np.pad(np.isposinf(heights), ((0, 0), (1, 1)))
            return np.where(infinite[:, 1:-1] & ~infinite[:, :-2] & ~infinite[:, 2:], -np.inf, heights)

        with np.errstate(all="ignore"):
            where, height, _ = peak(beside_poles, grid, rounds=8)
        # still growing there; where g vanishes on all that is nearer, the height there is that of a normal density
        grows = (np.abs(where) >= _EDGE / 10) & (height > -1e3)
        return np.where(grows, np.inf, height).reshape(s.shape)


def _log_gamma_excess(z: float) -> float:
    """log Γ(z) − z log z + z without the cancellation that would cost 1e-11 at z = 8192."""
    if z < 20:
        return float(gammaln(z)) - z * math.log(z) + z
    return _LOG_SQRT_2PI - math.log(z) / 2 + (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * z * z)) / z**2) / z**2) / z


def _over_norms(similarity: Similarity, d: float, tau: float, integrand: _Ratio) -> Expectation:
    """∫ du exp(integrand), with both ends examined first: slopes in u = log(s/d) decide convergence."""
    deepest = smallest_reliable(similarity, d, tau) - math.log(d)
    scan = np.concatenate([np.linspace(deepest, -14, 24)[:-1], np.linspace(-14, _FAR, 260)])[None, :]

    def rough(u: Array, row: Array) -> Array:
        return integrand(u, row, rough=True)

    with np.errstate(all="ignore"):
        heights = rough(scan, np.zeros((1, 1), dtype=int))[0]
        slope = float((heights[1] - heights[0]) / (scan[0, 1] - scan[0, 0]))
        finite = np.isfinite(heights[:2]).all()
        peak_at, top, width = peak(rough, scan)
    if np.isnan(heights).any() or np.isposinf(heights).any():
        bad = d * math.exp(scan[0][np.isnan(heights) | np.isposinf(heights)][0])
        if integrand.noise and np.isfinite(integrand._rough_noise(np.array([bad]))[0]):
            return Expectation(math.inf, reason="long keys: 1/g(‖k‖²)² outgrows any density")
        start = integrand.divergence(d, bad) if integrand.noise else None
        where = "for long keys" if start is None else f"from ‖k‖² = {start:.4g} on"
        return Expectation(math.inf, reason=f"E[g(X)^2] diverges {where}: g grows too fast")
    # where g loses digits near 0 the scan starts higher, and the slope has not settled to its limit yet
    if finite and slope < (1e-9 if deepest < -300 else 1e-2):
        power = f"grows like s^{round(slope, 3) + 0.0:g}/s" if deepest < -300 else "is not integrable"
        return Expectation(math.inf, reason=f"short keys: the integrand {power} as s → 0, d = {d:g}")
    if heights[-1] >= top[0] - NEGLIGIBLE or peak_at[0] > _FAR - 8:
        return Expectation(math.inf, reason="long keys: the noise outgrows the signal and the density as s → ∞")
    high = heights >= top[0] - NEGLIGIBLE - 15
    index = np.flatnonzero(high) if high.any() else np.array([int(np.searchsorted(scan[0], peak_at[0]))])
    low = float(scan[0][max(index[0] - 1, 0)])
    up = float(scan[0][min(index[-1] + 1, scan.shape[1] - 1)])
    steps = np.array([-12, -6, -3, -1, 0, 1, 3, 6, 12.0])
    edges = np.concatenate([np.linspace(low, up, 12), peak_at[0] + width[0] * steps])
    edges = np.unique(np.clip(edges, low, up))
    corners = kinks(similarity, tau, d, d * math.exp(up))
    breaks = np.log(corners[corners > 0] / d)[None, :]
    singular = [p for p in singular_points(similarity, tau, d) if low < math.log(max(p.point, 1e-300) / d) < up]
    if singular and integrand.signal:

        def local(j: int, offset: Array, row: Array) -> Array:
            return integrand.beside(singular[j], offset)

        centres = np.log([[p.point / d for p in singular]])
        result = integral_with_centres(integrand, local, edges[None, :], breaks, centres)
        if np.isposinf(result.log[0]):
            words = "vanishes" if integrand.signal < 0 else "has a pole"
            points = " or ".join(f"{p.point:.6g}" for p in singular)
            return Expectation(math.inf, reason=f"the signal g(‖k‖²) {words} at ‖k‖² = {points}")
    else:
        result = log_integral(integrand, edges[None, :], breaks, rtol=1e-12)
    log = float(result.log[0])
    if result.open_left[0]:  # below the reliable range the integrand is a power of s: its integral is known
        log = float(np.logaddexp(log, _height(integrand, low) - math.log(slope)))
        # up to corrections of relative order √s, as the products are of that order
        left = math.exp(_height(integrand, low) - math.log(slope) - log) * math.exp(low / 2) * math.sqrt(d)
    else:
        left = 0.0
    error = float(result.error[0]) + integrand.inner_error() + left
    return Expectation(log, _tolerable(error))


def _height(integrand: _Ratio, u: float) -> float:
    return float(integrand(np.array([[u]]), np.zeros((1, 1), dtype=int))[0, 0])
