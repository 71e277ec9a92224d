"""P §2.1: do the closed forms, derived for Gaussian keys, hold for the keys of a trained Transformer?

The keys are the ones that ship with the package: 384 keys of a trained feed-forward layer (snr/trained/NOTICE), of all
six layers the one on which P's linear and ReLU formulas do best; for exp others are milder (`make example-trained-keys`
measures them all, and attention keys). They are fixed; the randomness, and so the interval, is in the values. Both
sides are of the mean over all stored keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from verify.evidence import EXACT_WITHIN, Claim, Evidence, Ruling, judge

if TYPE_CHECKING:
    from snr.keys import Stored

KEYS = "keys of a trained feed-forward layer (all-MiniLM-L6-v2, layer 4, every fourth)"
VALUES = "random values of mean 0, independent of each other and of the keys"


def against(kernel: str, prediction: str, within: float, *, normalised: bool = False) -> Callable[[], Ruling]:
    """A check that simulated recall of the shipped keys, over the named prediction, lies within 1 ± within.

    A tolerance above `EXACT_WITHIN` makes the claim an approximation, and the detail says so.
    """

    def check() -> Ruling:
        from snr.estimators import measure
        from snr.similarity import similarity
        from snr.stopping import MinSamples, RelTol
        from snr.stored import over_values, predict_stored
        from snr.trained import feed_forward_keys

        keys: Stored = feed_forward_keys()
        keys = keys.normalised() if normalised else keys
        g, tau = similarity(kernel), math.sqrt(keys.d)
        predicted = predict_stored(g, keys, tau)
        log: float = getattr(predicted, prediction)
        stop = RelTol(min(0.01, within / 2)) | MinSamples(4000)
        measured = measure(g, keys.n, keys.d, tau, keys, stop=stop).scaled["mean"]
        ratio, value = measured.over(log), measured.plain
        by_formula = _mean(over_values(g, keys, tau).ravel())
        return Ruling(
            judge(ratio, within),
            Evidence.STATISTICAL,
            f"{_kind(within)}: measured {value.value:.4g}, predicted {math.exp(log):.4g}, measured/predicted "
            f"{ratio.value:.4g} [{ratio.low:.4g}, {ratio.high:.4g}] at {ratio.confidence:.0%} over {ratio.samples} "
            f"draws of the values ({ratio.guarantee.split(':')[0]}). N = {keys.n}, d = {keys.d}, "
            f"d_eff = {predicted.d_eff:.0f}",
            {
                "measured": value.value,
                "low": value.low,
                "high": value.high,
                "exact_over_values": math.exp(by_formula),
                "predicted": math.exp(log),
                "ratio": ratio.value,
                "ratio_low": ratio.low,
                "ratio_high": ratio.high,
                "within": within,
                "n": keys.n,
                "d": keys.d,
                "d_eff": predicted.d_eff,
            },
        )

    return check


def _kind(within: float) -> str:
    declared = f"{100 * within:.3g} %"
    return f"as an equality, to {declared}" if within <= EXACT_WITHIN else f"as an approximation, to {declared}"


def _mean(logs: object) -> float:
    import numpy as np

    values = np.asarray(logs, dtype=float)
    return float(np.logaddexp.reduce(values) - math.log(len(values)))


CLAIMS = (
    Claim(
        id="P-2.1-trained-linear",
        source="P §2.1.1 eq. 7, §2.1.2 eq. 14",
        statement="A linear memory with trained keys has mean SNR⁻¹ = N/d, to 10 %",
        assumptions=(KEYS, VALUES),
        check=against("linear", "paper", 0.1),
    ),
    Claim(
        id="P-2.1-trained-linear-covariance",
        source="P §2.1.1 eq. 7",
        statement=(
            "A linear memory with trained keys has mean SNR⁻¹ = (N−1) · mean over i of k_iᵀ C_i k_i/‖k_i‖⁴, C_i the "
            "second moment of the other keys"
        ),
        assumptions=(KEYS, VALUES),
        check=against("linear", "covariance", EXACT_WITHIN),
        repairs="P-2.1-trained-linear",
    ),
    Claim(
        id="P-2.1-trained-linear-effective",
        source="P §2.1.1 eq. 7",
        statement=(
            "A linear memory with trained keys has mean SNR⁻¹ = (N−1)/d_eff, d_eff = tr(C)²/tr(C²), as an equality"
        ),
        assumptions=(KEYS, VALUES),
        check=against("linear", "effective_dimension", EXACT_WITHIN),
    ),
    Claim(
        id="P-2.1-trained-linear-effective-approximate",
        source="P §2.1.1 eq. 7",
        statement=(
            "Approximation, with a declared tolerance of 20 %: a linear memory with trained keys has "
            "mean SNR⁻¹ ≈ (N−1)/d_eff, d_eff = tr(C)²/tr(C²)"
        ),
        assumptions=(KEYS, VALUES, "norms near their mean: a rule of thumb"),
        check=against("linear", "effective_dimension", 0.2),
        repairs="P-2.1-trained-linear-effective",
    ),
    Claim(
        id="P-2.1-trained-relu",
        source="P §2.1.2 eq. 14–15",
        statement="A feed-forward layer, read as a ReLU memory, has mean SNR⁻¹ = N/(2d), to 10 %",
        assumptions=(KEYS, VALUES, "ReLU and no bias, as in P; the model itself uses GELU and a bias"),
        check=against("relu", "paper", 0.1),
    ),
    Claim(
        id="P-2.1-trained-relu-gaussian",
        source="P §2.1.2 eq. 15",
        statement=(
            "Approximation, with a declared tolerance of 5 %: the trained ReLU memory has the mean SNR⁻¹ of Gaussian "
            "keys with the measured mean and covariance"
        ),
        assumptions=(KEYS, VALUES, "the covariance alone is not enough: trained keys lean to one side"),
        check=against("relu", "mean_and_covariance", 0.05),
        repairs="P-2.1-trained-relu",
    ),
    Claim(
        id="P-2.1-trained-exp",
        source="P §2.1.1 eq. 13",
        statement="An exp memory at τ = √d with trained keys of norm √d has mean SNR⁻¹ = N e^{−2(τ−1)d/τ²}, to 10 %",
        assumptions=(KEYS, VALUES, "keys normalised to ‖k‖ = √d, the case in which eq. 13 is best"),
        check=against("exp", "paper", 0.1, normalised=True),
    ),
    Claim(
        id="P-2.1-trained-exp-gaussian",
        source="P §2.1.1 eq. 13",
        statement=(
            "Approximation, with a declared tolerance of 10 %: the trained exp memory has the mean SNR⁻¹ of Gaussian "
            "keys with the measured mean and covariance"
        ),
        assumptions=(KEYS, VALUES, "keys normalised to ‖k‖ = √d"),
        check=against("exp", "mean_and_covariance", 0.1, normalised=True),
    ),
)
