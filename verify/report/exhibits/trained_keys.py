"""Trained keys: what is measured beside what five sets of assumptions predict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("linear", "relu", "exp")
NAMES = {
    "paper": "P's formula",
    "norms": "isotropic, measured norms",
    "covariance": "Gaussian, measured covariance",
    "mean_and_covariance": "Gaussian, measured mean and covariance",
    "effective_dimension": "N/d_eff (half for ReLU)",
}


def compute(quick: bool) -> dict[str, Any]:
    """Measured/predicted for each kernel and prediction, with the interval, as logarithms to base 10."""
    from snr.estimators import measure
    from snr.similarity import similarity
    from snr.stopping import MinSamples, RelTol
    from snr.stored import predict_stored
    from snr.trained import feed_forward_keys

    points = []
    for kernel in KERNELS:
        keys = feed_forward_keys().normalised()
        g, tau = similarity(kernel), math.sqrt(keys.d)
        stop = RelTol(0.03 if quick else 0.01) | MinSamples(500 if quick else 4000)
        measured = measure(g, keys.n, keys.d, tau, keys, stop=stop).scaled["mean"]
        predicted = predict_stored(g, keys, tau)
        for name in NAMES:
            log = getattr(predicted, name)
            if log is not None:
                ratio = [(x - log) / math.log(10) for x in measured.log]
                points.append({"kernel": kernel, "prediction": name, "log10_ratio": ratio})
    return {"n": keys.n, "d": keys.d, "d_eff": predicted.d_eff, "points": points}


def draw(numbers: dict[str, Any]) -> Figure:
    from verify.report.style import KERNEL_COLOURS, MARKERS, new_figure

    figure, axes = new_figure(height=3.2, columns=2)
    order = list(NAMES)
    for point in numbers["points"]:
        panel = axes[1 if point["kernel"] == "exp" else 0]
        shift = {"linear": 0.12, "relu": -0.12, "exp": 0.0}[point["kernel"]]
        value, low, high = (10**x for x in point["log10_ratio"])
        panel.errorbar(
            value,
            -order.index(point["prediction"]) + shift,
            xerr=[[value - low], [high - value]],
            color=KERNEL_COLOURS[point["kernel"]],
            marker=MARKERS[point["kernel"]],
            linestyle="none",
            label=point["kernel"] if point["prediction"] == "paper" else None,
        )
    for panel in axes:
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xlabel("measured / predicted")
        panel.set_ylim(-len(order) + 0.5, 0.5)
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes[0].set_xlim(0.5, 4)
    axes[0].set_xticks([0.5, 1, 2, 3], ["0.5", "1", "2", "3"])
    axes[0].minorticks_off()
    axes[0].set_yticks([-i for i in range(len(order))], [NAMES[name] for name in order])
    axes[1].set_yticks([-i for i in range(len(order))], [""] * len(order))
    return figure


def headline(numbers: dict[str, Any]) -> str:
    """How far P's ReLU formula is off for the shipped keys, and what repairs it."""
    relu = {p["prediction"]: 10 ** p["log10_ratio"][0] for p in numbers["points"] if p["kernel"] == "relu"}
    return (
        f"For trained feed-forward keys the measured noise of the ReLU memory is {relu['paper']:.2g} times P’s "
        f"formula, and {relu['mean_and_covariance']:.2f} times that of a Gaussian with the keys’ mean and covariance."
    )


EXHIBITS = (
    Exhibit(
        id="trained-keys",
        section="trained keys",
        title="Trained keys are neither isotropic nor centred, and some are near twins",
        caption=(
            "384 keys of a trained feed-forward layer, scaled to norm √d and recalled with every stored key; random "
            "values (mean of ratio; the asymptotic 99 % interval is over the values and smaller than the marks). "
            "Linear and ReLU: P's N/d and N/(2d) are too small because the keys use fewer directions than d and lean "
            "to one side; a Gaussian with the measured mean and covariance is right. Exp: near twins carry the noise, "
            "and a Gaussian has none."
        ),
        command="python -m verify claims --only P-2.1-trained",
        compute=compute,
        draw=draw,
        headline=headline,
        alt="Measured over predicted inverse SNR for five predictions; 1 for the Gaussian with mean and covariance.",
        assumptions=(
            "values random, of mean 0 and independent",
            "keys from one trained model (see snr/trained/NOTICE)",
        ),
    ),
)
