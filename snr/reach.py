"""What the spec alone tells, before anything is drawn: divergence, condensation, how rare the mean's carriers are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snr.expectation import condensation_line
from snr.keys import Gaussian, Sphere
from snr.proposals import (
    Diverges,
    NoSignal,
    Pole,
    log_inner,
    norm_proposal,
    pair_proposal,
    ratio_variance_is_finite,
    sphere_proposal,
)
from snr.spec import Spec
from snr.zeros import signal

ENOUGH = 10  # expected number of recalls in the outermost 5 % of what carries the mean
PATIENCE = 10**7  # recalls beyond which direct simulation is given up


@dataclass(frozen=True)
class Reach:
    """How rare what carries the mean is: the chance of a recall (by norm) and of a pair (by norm and product)."""

    recall: float = 1.0
    pair: float = 1.0

    def seen(self, recalls: int, n: int) -> bool:
        return recalls * self.recall >= ENOUGH and recalls * (n - 1) * self.pair >= ENOUGH


def reach_of(spec: Spec, flags: dict[str, str]) -> Reach:
    """How far the mean is from what occurs, and the flags that follow before anything is drawn."""
    from scipy.special import betaincc, gammainc, gammaincc, ndtr

    if not isinstance(spec.keys, Gaussian | Sphere) or spec.statistic == "recall-error":
        return Reach()
    g, tau, d = spec.similarity, spec.tau, spec.d
    try:
        line = condensation_line(g, d, tau)
    except ArithmeticError:  # no real number somewhere: found where it matters, among the products that are drawn
        line = 0.0
    if math.log(spec.n) < line:
        flags["condensed"] = (
            f"ln N = {math.log(spec.n):.3g} is below the condensation line {line:.3g}: one rare key carries the mean "
            "noise of a recall, and a typical recall has less."
        )
    carrier, recall, beyond = float(d), 1.0, 1.0
    try:
        if spec.fixed_norm and signal(g, d, tau)[0] == 0:
            raise NoSignal(f"The inverse SNR is infinite: no signal, g({d:g}) = 0; what is measured of it is rounding")
        around = sphere_proposal(g, tau, d) if spec.on_sphere else None
        if spec.fixed_norm and around is None:
            pair_proposal(g, tau, d, d, d)
        if not spec.fixed_norm and spec.weighable:
            parts = ("noise", "signal") if spec.statistic == "ratio-of-means" else ("mean",)
            proposals = [norm_proposal(g, tau, d, part) for part in parts]
    except Pole as error:
        flags["pole"], flags["unreached"] = f"{error}.", error.sample
        return Reach(0.0, 0.0)
    except Diverges as error:
        if spec.weighable or isinstance(error, NoSignal):
            flags["diverges"] = f"{error}."
        flags["unreached"] = error.sample
        return Reach(0.0, 0.0)
    if not spec.fixed_norm and spec.weighable:
        for p in proposals:
            rare = gammainc if p.carrier < d else gammaincc
            edge = p.edge_low if p.carrier < d else p.edge_high
            recall = min(recall, float(rare(d / 2, edge / 2)))
        if not ratio_variance_is_finite(g, tau, d) and spec.statistic == "mean":
            flags["unreached"] = (
                "The ratio has infinite variance, so no average of recalls obeys the central limit theorem: the direct "
                "interval is only Markov's bound; see the importance-sampled mean."
            )
            return Reach(0.0, 0.0)
        carrier = proposals[0].carrier
        beyond = float((gammainc if carrier < d else gammaincc)(d / 2, carrier / 2))
    if around is not None:
        cosine = min(abs(around.mean) + 1.65 * around.spread, math.sqrt(d)) / math.sqrt(d)
        reach = Reach(recall, float(betaincc((d - 1) / 2, (d - 1) / 2, (1 + cosine) / 2)) if d > 1 else 1.0)
    else:
        _, mean, spread = log_inner(g, np.array([carrier]), tau, d)
        reach = Reach(recall, beyond * float(ndtr(-abs(float(mean[0])) - 1.65 * float(spread[0]))))
    if spec.weighable and not reach.seen(PATIENCE, spec.n):
        flags["unreached"] = (
            "What carries the mean is too rare for direct simulation (about one recall in "
            f"{_rarity(min(reach.recall, reach.pair * (spec.n - 1)))}): the direct interval is only Markov's bound; "
            "see the importance-sampled mean, and the median for what a recall typically has."
        )
    return reach


def _rarity(probability: float) -> str:
    return f"{1 / probability:.0e}" if probability > 1e-300 else "10^300 or more"
