"""The law of a single recall's inverse SNR, and with it the typical value: its median over draws.

Given the probe's norm, s = ‖k_i‖², the noise is a sum over the other pairs: `snr.sum_law` has its law. Given the
weights a_j = g(k_j·k_i) of the other values, ‖r‖²/E‖v‖² has mean S = Σ a_j² over the values, and

- Gaussian values: it is S·χ²_ν/ν with ν = d_v exactly;
- values of fixed norm (unit, signs): its variance is (2/d_v)(S² − Σ a_j⁴), for a term alone has nothing to fluctuate.
  One term (n = 2, condensation): no spread at all. Many comparable terms: by the central limit theorem that of Gaussian
  values. Between them S·χ²_ν/ν with ν = d_v/(1 − P), P = Σ a_j⁴/S² the dominance, has the right mean and variance; P is
  replaced by its mean given S.

The signal's own value does not enter: a recall's inverse SNR is ‖r‖²/(c² E‖v‖²). The median is that of the mixture over
s, S and χ².

Leading order for ln N = αd at a fixed tau: `typical_exponent` (Gaussian products) and `sphere_capacity_exponent`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from snr.keys import VALUES
from snr.similarity import Similarity
from snr.sum_law import LEVELS, Steps, SumLaw, check_not_between, gaussian_points, sphere_points, sum_law
from snr.zeros import pole, signal

Array = Any
MAX_LOG_N = 600.0
MIXTURE = 400  # probe norms, at equal probabilities
FEW = 14  # norms at which the law of the noise is computed
CHI = 101  # values of χ², at equal probabilities; odd, so that its median is one
CROWD, RIVALS = 2.0, 8.0  # see `_check_resolved`


def typical_exponent(alpha: float, tau: float) -> float:
    """lim (1/d) ln of the typical exp-kernel SNR⁻¹ for N = e^{αd} Gaussian keys, probe of norm √d, at a fixed tau.

    Uncondensed, α ≥ 2/tau²: the mean's α − 2(tau−1)/tau². Condensed: the nearest key, at x = d√(2α), carries the noise:
    (2/tau)(√(2α) − 1). The zero of this in α is the typical capacity exponent.
    """
    if alpha >= 2 / tau**2:
        return alpha - 2 * (tau - 1) / tau**2
    return 2 / tau * (math.sqrt(2 * alpha) - 1)


def capacity_exponent(tau: float) -> float:
    """α* with typical_exponent(α*, tau) = 0: 2(tau−1)/tau² for tau ≥ 2, else ½. P has 2(tau−1)/tau² for every tau."""
    return 2 * (tau - 1) / tau**2 if tau >= 2 else 0.5


def sphere_capacity_exponent(tau: float) -> float:
    """The same for keys uniform on ‖k‖ = √d, where mean and typical agree: 2/tau − max_t [½ ln(1−t²) + 2t/tau].

    A cosine near t has probability (1−t²)^{d/2}, not e^{−t²d/2}, and no key can have t > 1: the exponent exceeds P's
    2(tau−1)/tau² for every tau, has no bound as tau → 0, and so no best temperature.
    """
    t = tau * (math.sqrt(1 + 16 / tau**2) - 1) / 4
    return 2 * (1 - t) / tau - math.log1p(-t * t) / 2


@dataclass(frozen=True)
class RecallLaw:
    """The law of log ‖r‖²/(c² E‖v‖²) for one recall; made by `recall_law`.

    silent: [norms] P(r = 0); tables: [values, norms, levels] the other quantiles at `LEVELS`, given the norm of the
    probe and a quantile of χ²_ν/ν. Norms and values are equally probable.
    """

    silent: Array
    tables: Array

    def cdf(self, log: float) -> float:
        """P(log SNR⁻¹ ≤ log)."""
        found = 0.0
        for table in self.tables:
            found += float(np.mean(self.silent + (1 - self.silent) * _table_cdf(table, log)))
        return found / len(self.tables)

    def quantile(self, p: float) -> float:
        """log of the p-quantile, inf{x: P(SNR⁻¹ ≤ x) ≥ p}: −inf where P(no noise) ≥ p, inf where P(no signal) > 1 − p.

        Each norm's table ends at 0.001 and 0.999. By false position (Illinois), which halves in each third step lest a
        gap in the law hold it up.
        """
        if not 0 < p < 1:
            raise ValueError(f"p = {p}: expected a probability strictly between 0 and 1")
        if float(np.mean(self.silent)) >= p - 1e-9:
            return -math.inf
        finite = self.tables[np.isfinite(self.tables)]
        low, high = (float(finite.min()) - 1, float(finite.max()) + 1) if len(finite) else (0.0, 0.0)
        below, above = self.cdf(low) - p, self.cdf(high) - p
        if below >= 0 or above < 0:
            return -math.inf if below >= 0 else math.inf
        width = 1e-9 * max(1.0, abs(low), abs(high))
        moved, step = 0, 0
        while high - low > width:
            step += 1
            middle = low + (high - low) * (below / (below - above) if step % 3 else 0.5)
            # an end that has arrived fetches the other
            middle = min(max(middle, low + 0.4 * width), high - 0.4 * width)
            excess = self.cdf(middle) - p
            if excess < 0:
                above *= 0.5 if moved < 0 else 1.0
                low, below, moved = middle, excess, -1
            else:
                below *= 0.5 if moved > 0 else 1.0
                high, above, moved = middle, excess, 1
        return (low + high) / 2


def recall_law(
    similarity: Similarity,
    n: float,
    d: float,
    tau: float,
    keys: str = "gaussian",
    *,
    d_v: int | None = None,
    values: str = "gaussian",
) -> RecallLaw:
    """The law of one recall's inverse SNR in a memory of n ≥ 2 pairs.

    keys: "gaussian" (all N(0, I_d)), "sphere" (all uniform on ‖k‖ = √d), or "fixed-probe" (a probe of norm √d among
    Gaussian keys, P's setting). values: "gaussian", "unit" or "signs", of width d_v; None: averaged out, ‖r‖² replaced
    by its mean over the values.

    Accuracy of the median, against simulation of 2016 points with Gaussian values (nine kernels, all key laws, n from
    2 to 1024, d from 3 to 64) and 1109 with values of fixed norm: 1 % of it or, where that is coarser, 0.1 % in
    probability (laws that span tens of nats: 2.4 % at worst, SoLU at n = 2, d = 64, tau = 1). Other quantiles share
    the staircase of the χ² values: half of 1/CHI in probability.

    Raises ArithmeticError with the reason where there is no such accuracy (a noise in steps, values of fixed norm that
    two moments do not describe, a g that oscillates too fast or has a pole) or g is not real; ValueError for n < 2 or
    beyond e^600, unknown values, d_v < 1.
    """
    if not 2 <= n < math.exp(MAX_LOG_N):
        raise ValueError(f"n = {n:g}: expected at least 2 and below e^{MAX_LOG_N:.0f}")
    if values not in VALUES or (d_v is not None and d_v < 1):
        raise ValueError(f"values {values!r} of width {d_v}: expected one of {', '.join(VALUES)}, of width at least 1")
    try:
        return _recall_law(similarity, n, d, tau, keys, d_v, values)
    except Steps as error:
        on_sphere = keys == "sphere" or similarity.cosine
        at = pole(similarity, d, tau, float(d) if on_sphere else 7 * math.sqrt(d))
        if at is None:
            raise
        raise ArithmeticError(
            f"g has a pole near x = {at:.4g}, beside which the law of the noise is not resolved"
        ) from error


def _recall_law(
    similarity: Similarity, n: float, d: float, tau: float, keys: str, d_v: int | None, values: str
) -> RecallLaw:
    pairs = float(n - 1)
    fixed = values != "gaussian" and d_v is not None
    if keys == "sphere" or similarity.cosine:
        norms, laws = np.array([float(d)]), [sum_law(sphere_points(similarity, d, tau, pairs), fixed)]
    elif keys == "fixed-probe":
        norms, laws = np.array([float(d)]), [sum_law(gaussian_points(similarity, float(d), d, tau, pairs), fixed)]
    else:
        # quantiles of S given s are smooth in log s: a polynomial through few norms serves the many of the mixture
        few = _chebyshev_norms(d)
        laws = [sum_law(gaussian_points(similarity, float(s), d, tau, pairs), fixed) for s in few]
        norms = 2 * gammaincinv(d / 2, (np.arange(MIXTURE) + 0.5) / MIXTURE)
        laws = _interpolated(np.log(few), laws, np.log(norms))
    silent = np.array([law.silent for law in laws])
    tables, dominance = np.array([law.log for law in laws]), np.array([law.dominance for law in laws])
    if len(norms) == 1:
        sign, log_signal = (np.array([part]) for part in signal(similarity, d, tau))
    else:
        sign, log_signal = similarity.sign_and_log(norms, tau, d)
        check_not_between(log_signal)
    with np.errstate(invalid="ignore"):
        tables = np.where(sign == 0, np.inf, tables.T - 2 * log_signal).T
    if d_v is not None and fixed:
        _check_resolved(dominance, d_v)
    return RecallLaw(np.where(sign == 0, 0.0, silent), tables + _value_shifts(d_v, dominance if fixed else None))


# --- the mixture over norms and values ---


def _chebyshev_norms(d: float) -> Array:
    low, high = np.log(2 * gammaincinv(d / 2, np.array([0.4 / MIXTURE, 1 - 0.4 / MIXTURE])))
    return np.exp((low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(FEW) + 0.5) / FEW)[::-1])


def _interpolated(x: Array, laws: list[SumLaw], fine: Array) -> list[SumLaw]:
    """Barycentric interpolation through laws at Chebyshev points x."""
    weights = (-1.0) ** np.arange(len(x)) * np.sin(np.pi * (np.arange(len(x)) + 0.5) / len(x))
    difference = fine[:, None] - x
    quotient = weights / np.where(difference == 0, 1e-300, difference)
    quotient /= quotient.sum(axis=1, keepdims=True)
    silent = np.clip(quotient @ np.array([law.silent for law in laws]), 0.0, 1.0)
    log = quotient @ np.array([law.log for law in laws])
    dominance = np.clip(quotient @ np.array([law.dominance for law in laws]), 0.0, 1.0)
    return [SumLaw(float(a), b, c) for a, b, c in zip(silent, log, dominance)]


def _check_resolved(dominance: Array, d_v: int) -> None:
    """Refuse where the mean and the variance of ‖r‖² do not give its median to 1 %.

    The error of the median, against simulation over nine kernels for d_v from 1 to 16, was below
    CROWD·E[P(1 − P)]/d_v² where many terms make the noise and below RIVALS·E[P(1 − P)]/d_v² where one has a rival now
    and then (n = 3 is worst).
    """
    middle = dominance[:, (LEVELS > 0.1) & (LEVELS < 0.9)]
    error = (CROWD if middle.mean() <= 0.5 else RIVALS) * float(np.mean(middle * (1 - middle))) / d_v**2
    if error > 0.01:
        raise ArithmeticError(
            f"values of fixed norm and width {d_v}: neither one pair nor many carry the noise (Σ a⁴/(Σ a²)² is "
            f"{middle.mean():.2g} on average), so that its mean and variance do not give its median to 1 %"
        )


def _value_shifts(d_v: int | None, dominance: Array | None) -> Array:
    """log(χ²_ν/ν), ν = d_v/(1 − dominance), at CHI equal probabilities; [CHI, 1, 1], or [CHI, *dominance.shape]."""
    if d_v is None:
        return np.zeros((1, 1, 1))
    if dominance is None:
        return _log_chi(d_v)[:, -1][:, None, None]
    root = np.sqrt(1 - dominance)
    grid = np.linspace(0, 1, _log_chi(d_v).shape[1])
    return np.array([np.interp(root, grid, row) for row in _log_chi(d_v)])


@lru_cache(maxsize=64)
def _log_chi(d_v: int) -> Array:
    """log(χ²_ν/ν) at CHI equal probabilities for √(d_v/ν) from 0 to 1, [CHI, 65]."""
    p = (np.arange(CHI) + 0.5) / CHI
    nu = d_v / np.linspace(0, 1, 65)[1:] ** 2
    found = np.zeros((CHI, 65))
    found[:, 1:] = np.log(2 * gammaincinv(nu / 2, p[:, None]) / nu)
    return found


def _table_cdf(tables: Array, log: float) -> Array:
    """P(· ≤ log) for each row of quantiles at LEVELS, linear between them on the normal scale; 0 and 1 beyond."""
    after = (tables <= log).sum(axis=1)
    rows, last = np.arange(len(tables)), len(LEVELS) - 1
    a, b = np.clip(after - 1, 0, last), np.clip(after, 0, last)
    below, above = tables[rows, a], tables[rows, b]
    normal = ndtri(LEVELS)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(below) & (above > below), (log - below) / (above - below), 0.0)
    found = ndtr(normal[a] + share * (normal[b] - normal[a]))
    return np.where(after == 0, 0.0, np.where(after > last, 1.0, found))
