"""What theory says the inverse SNR of recall is: P's closed form beside the exact values.

Four statistics are called SNR⁻¹, for one recall ratio ‖r‖²/(c² E‖v‖²) (P §2.1 eq. 5–6):

1. fixed-probe: ‖k_i‖² = d held, mean over the other pairs. P's closed forms are this, with N where N − 1 is meant;
2. mean of ratio: the mean over k_i too; field `exact`, for the key law asked for;
3. ratio of means: E‖r‖²/(E c² E‖v‖²);
4. typical: the median over draws; see `snr.typical`.

All assume independent pairs and values of mean 0 independent of the keys: then E‖r‖² = Σ_j E[κ(k_j, k_i)²] E‖v‖²,
whatever the sign of κ, because the cross terms v_j·v_l have mean 0. The values' law enters 1–3 only if ‖v_i‖² is kept
inside the mean (`value_factor`), and 4 through the fluctuation of ‖r‖² about its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from snr import closed_forms, expectation
from snr.closed_forms import Form, form
from snr.expectation import Expectation
from snr.similarity import Similarity, as_similarity

KEYS = ("gaussian", "sphere")
PAPER = ("linear", "relu", "exp", "solu")


@dataclass(frozen=True)
class Prediction:
    """One predicted number, as a logarithm: at d = 16384 the number itself is no float.

    log: −inf for 0, inf where the statistic diverges, None where there is no such prediction; `reason` says why in the
    last two cases. error: bound on the relative error. method: "closed form", "quadrature", ...
    """

    log: float | None
    method: str = ""
    reason: str = ""
    error: float = 0.0

    @property
    def value(self) -> float | None:
        """The number, 0 or inf where a float cannot hold it, None where there is no prediction."""
        if self.log is None:
            return None
        return math.exp(self.log) if self.log < 709.7 else math.inf

    @property
    def diverges(self) -> bool:
        return self.log == math.inf

    def to_json(self) -> float | str | None:
        """ "inf" only where the statistic diverges; a finite number beyond the floats is None (see `log`)."""
        if self.diverges:
            return "inf"
        return None if self.value == math.inf else self.value


@dataclass(frozen=True)
class Predictions:
    """Every prediction for one point, made by `predict`.

    paper: P's formula (eq. 7, 13, 15, 17 with its algebra corrected); printed: the same as P prints it where that
    differs (eq. 17 at tau = √d lacks e²). condensation: ln N minus the condensation line, 2d/tau² for exp and SoLU
    among Gaussian keys (`snr.expectation.condensation_line`); below 0 a single rare key carries the mean, which a
    simulation of N keys does not see.
    """

    similarity: str
    n: int
    d: int
    tau: float
    keys: str
    heads: int
    paper: Prediction
    printed: Prediction
    exact: Prediction
    fixed_probe: Prediction
    ratio_of_means: Prediction
    typical: Prediction
    condensation: float

    @property
    def condensed(self) -> bool:
        return self.condensation < 0

    def to_json(self) -> dict[str, Any]:
        names = ("paper", "printed", "exact", "fixed_probe", "ratio_of_means", "typical")
        return {name: getattr(self, name).to_json() for name in names}


def predict(
    similarity: Similarity | str,
    n: int,
    d: int,
    tau: float,
    keys: str = "gaussian",
    *,
    heads: int = 1,
    d_v: int | None = None,
    values: str = "gaussian",
    typical: bool = True,
) -> Predictions:
    """Predictions for a memory of n pairs with keys of total width d, split over `heads` heads of width d/heads.

    similarity: a Similarity, or its name or expression in x, tau, d.
    tau is that of one head (√(d/heads) for "sqrt"). The heads are equal in law, so each statistic is that of one
    memory of width d/heads. values: "gaussian", "unit" or "signs", of width d_v (None: averaged out); only `typical`
    depends on them.
    `typical` = False leaves the median out (it is the one prediction that takes tenths of a second).

    Raises ValueError for n < 1, d < 1, tau not positive and finite, heads that do not divide d, an unknown key law, or
    a text that is no similarity.
    """
    similarity = as_similarity(similarity)
    width = _check(n, d, tau, keys, heads)
    law = "sphere" if similarity.cosine else keys
    _check_real(similarity, width, tau)
    found = form(similarity, tau, width)
    pairs = math.log(n - 1) if n > 1 else -math.inf
    exact, fixed, ratio = _statistics(similarity, found, law, width, tau, pairs)
    return Predictions(
        similarity=similarity.name,
        n=n,
        d=d,
        tau=tau,
        keys=keys,
        heads=heads,
        paper=_paper(similarity, found, n, width),
        printed=_printed(similarity, n, width, tau),
        exact=exact,
        fixed_probe=fixed,
        ratio_of_means=ratio,
        typical=_typical(similarity, n, width, tau, law, d_v, values)
        if typical
        else Prediction(None, reason="not asked for"),
        condensation=math.log(n) - _condensation_line(similarity, width, tau, law),
    )


def _condensation_line(similarity: Similarity, d: float, tau: float, law: str) -> float:
    """0 where g is no real number somewhere far out: that is found where it matters, by the means themselves."""
    try:
        return expectation.condensation_line(similarity, d, tau, law)
    except ArithmeticError:
        return 0.0


def _check(n: int, d: int, tau: float, keys: str, heads: int) -> int:
    if n < 1 or d < 1:
        raise ValueError(f"n = {n}, d = {d}: expected at least 1")
    if not (math.isfinite(tau) and tau > 0):
        raise ValueError(f"tau = {tau}: expected a positive finite number")
    if keys not in KEYS:
        raise ValueError(f"key law {keys!r}: expected one of {', '.join(KEYS)}")
    if heads < 1 or d % heads:
        raise ValueError(f"{heads} heads do not divide the width {d}")
    return d // heads


def _check_real(similarity: Similarity, d: float, tau: float) -> None:
    if similarity.twin is not None:
        return
    x = np.concatenate([-np.geomspace(1e-3, 8 * d, 40), np.geomspace(1e-3, 8 * d, 40)])
    sign, log = similarity.sign_and_log(x, tau, d)
    bad = np.isnan(sign) | np.isnan(log)
    if bad.any():
        raise ValueError(f"is not a real number at x = {x[bad][0]:.3g}; inner products take both signs")


def paper_log(similarity: Similarity, n: float, d: float, tau: float) -> float | None:
    """log of P's closed form (eq. 7, 13, 15, and 17 with e²), N times the fixed-probe value; None for other kernels."""
    found = form(similarity, tau, d)
    return _paper(similarity, found, n, d).log


def _paper(similarity: Similarity, found: Form | None, n: float, d: float) -> Prediction:
    if similarity.name not in PAPER or found is None:
        return Prediction(None, reason="P has no formula for this similarity")
    return Prediction(math.log(n) + closed_forms.fixed_probe(found, d), "closed form")


def _printed(similarity: Similarity, n: float, d: float, tau: float) -> Prediction:
    """P eq. 17 as printed, 5N/(d e^{2√d}), which is stated at tau = √d only."""
    if similarity.name == "solu" and math.isclose(tau, math.sqrt(d), rel_tol=1e-12):
        return Prediction(math.log(5 * n / d) - 2 * math.sqrt(d), "closed form")
    return Prediction(None, reason="P prints nothing that differs from `paper`")


def _statistics(
    similarity: Similarity, found: Form | None, law: str, d: float, tau: float, pairs: float
) -> tuple[Prediction, Prediction, Prediction]:
    """(exact, fixed-probe, ratio of means) for one head, times e^pairs."""
    if law == "sphere":  # every probe has norm √d and c is constant: the three statistics are one
        one = _sphere(similarity, found, d, tau, pairs)
        return one, one, one
    if found is None:
        return (
            _guarded(lambda: expectation.gaussian_mean(similarity, d, tau), pairs),
            _guarded(lambda: expectation.fixed_probe(similarity, d, tau), pairs),
            _guarded(lambda: _quotient(*expectation.ratio_of_means(similarity, d, tau)), pairs),
        )
    noise, signal = (Expectation(log) for log in closed_forms.ratio_of_means(found, d))
    ratio = _of(_quotient(noise, signal), pairs, "closed form")
    fixed = Prediction(pairs + closed_forms.fixed_probe(found, d), "closed form", error=1e-13)
    return _of(_gaussian(similarity, found, d), pairs, "closed form"), fixed, ratio


def _sphere(similarity: Similarity, found: Form | None, d: float, tau: float, pairs: float) -> Prediction:
    if found is None or d == 1:
        return _guarded(lambda: expectation.sphere_mean(similarity, d, tau), pairs)
    return Prediction(pairs + closed_forms.sphere_mean(found, d), "closed form", error=1e-12)


def _gaussian(similarity: Similarity, found: Form, d: float) -> Expectation:
    log = closed_forms.gaussian_mean(found, d)
    if log < math.inf:
        return Expectation(log, 1e-13)
    if d <= 2 * found.power:
        return Expectation(
            log, reason=f"the mean diverges for d ≤ {2 * found.power}: short probes have too little signal"
        )
    if similarity.name in ("exp", "solu"):
        return Expectation(log, reason="the mean diverges for tau ≤ 2√2 − 2: long keys have more noise than signal")
    grows = f"g(x) grows like e^(bx) with b = {found.rate:.4g}, and the mean diverges unless (1 − √2)/2 < b < "
    return Expectation(log, reason=grows + "(1 + √2)/2: long keys have more noise than signal")


def _quotient(noise: Expectation, signal: Expectation) -> Expectation | None:
    if signal.log == math.inf:
        return None
    return Expectation(noise.log - signal.log, noise.error + signal.error, noise.reason)


def _of(found: Expectation | None, pairs: float, method: str) -> Prediction:
    if found is None:
        return Prediction(None, method, "the mean signal E c² is infinite, so there is no ratio of means")
    if found.log == math.inf:
        return Prediction(math.inf, method, found.reason or "diverges")
    return Prediction(pairs + found.log, method, error=found.error)


def _guarded(compute: Any, pairs: float) -> Prediction:
    """By quadrature; where it does not reach its accuracy there is no prediction, and the reason is told."""
    try:
        return _of(compute(), pairs, "quadrature")
    except ArithmeticError as error:
        return Prediction(None, "quadrature", str(error))


def _typical(
    similarity: Similarity, n: int, d: float, tau: float, law: str, d_v: int | None, values: str
) -> Prediction:
    from snr.typical import recall_law

    if n < 2:
        return Prediction(-math.inf, "exact", "a single pair has no noise")
    try:
        log = recall_law(similarity, n, d, tau, law, d_v=d_v, values=values).quantile(0.5)
    except ArithmeticError as error:
        return Prediction(None, "Laplace inversion", str(error))
    return Prediction(log, "Laplace inversion", error=1e-2)


def value_factor(values: str, d_v: int) -> float:
    """E[E‖v‖²/‖v_i‖²]: the factor on the mean of ratio if ‖v_i‖² is kept inside it instead of its mean.

    d_v/(d_v − 2) for Gaussian values (inf for d_v ≤ 2), 1 for values of fixed norm ("unit", "signs").
    """
    if values not in ("gaussian", "unit", "signs"):
        raise ValueError(f"values {values!r}: expected gaussian, unit or signs")
    if values != "gaussian":
        return 1.0
    return d_v / (d_v - 2) if d_v > 2 else math.inf
