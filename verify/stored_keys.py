"""`verify snr --keys FILE`: the inverse SNR of keys that are given, beside what theory predicts for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from snr.estimate import Estimate
from snr.estimators import measure
from snr.keys import Stored, read_keys
from snr.similarity import Similarity, similarity, temperature
from snr.stored import over_values, predict_stored
from verify.capacity_notes import sentences
from verify.capacity_point import Judged, measured_json, point_claims, ratio_of, stop_rule, user_log
from verify.capacity_tables import stored_tables
from verify.evidence import Finding
from verify.options import BadInput, blame
from verify.session import Session

if TYPE_CHECKING:
    from verify.commands.snr import Options

PREDICTIONS = {
    "paper": "P's closed form (isotropic keys of norm √d)",
    "norms": "Gaussian, isotropic, with the measured norms",
    "covariance": "Gaussian with the measured covariance",
    "mean_and_covariance": "Gaussian with the measured mean and covariance",
    "effective_dimension": "effective dimension, N/d_eff",
    "exact": "these very keys, mean over random values",
}
ABSENT = {
    "paper": "P has no formula for this similarity",
    "norms": "the quadrature did not reach its accuracy",
    "covariance": "the quadrature did not reach its accuracy",
    "mean_and_covariance": "the quadrature did not reach its accuracy",
    "effective_dimension": "derived for linear and relu only",
}
MOST_PAIRS = 1 << 31  # of keys that the exact sum runs over: some seconds


def read(options: Options) -> Stored:
    """The keys of --keys FILE[:TENSOR]. Raises BadInput for anything that cannot be used."""
    given = {"--dk": " ".join(map(str, options.dk)), "--n": " ".join(map(str, options.n))}
    for name, value in given.items():
        if value:
            raise BadInput(f"{name} {value}: the file says how many keys there are, and how wide; expected without it")
    if options.heads != 1:
        raise BadInput(
            f"--heads {options.heads}: the file says how many heads there are, by an array [heads, N, d]; expected "
            "without it"
        )
    for name, path in (("--plot", options.plot), ("--records", options.records)):
        if path:
            raise BadInput(f"{name} {path}: for curves of a key law; expected without it where --keys is a file")
    if options.statistic == "fixed-probe":
        raise BadInput(
            "--statistic fixed-probe: of keys drawn from a law; with keys from a file --normalise fixes norms"
        )
    with blame("--keys", options.keys):
        return read_keys(options.keys, options.normalise)


def measure_stored(options: Options, session: Session) -> Finding:
    """One point a kernel and temperature, each prediction judged by the measured mean over all recalls."""
    keys = read(options)
    judged, tables = [], []
    for kernel in options.kernel:
        for tau in options.tau:
            with blame("--tau", tau):
                at = temperature(tau)(keys.d)
            point = _point(options, session, keys, similarity(kernel), at, tau)
            found = point_claims(point, options.within, session.command)
            tables += stored_tables(point, found, PREDICTIONS)
            judged.append((point, found))
    spec = {k: v for k, v in vars(options).items() if k not in ("plot", "records", "workers", "scheduler", "derive")}
    return Finding(
        "snr",
        spec,
        points=[point for point, _ in judged],
        claims=[claim for _, found in judged for claim in found],
        tables=tables,
        summary=sentences(judged, PREDICTIONS),
    )


def _point(options: Options, session: Session, keys: Stored, g: Similarity, tau: float, given: str) -> dict[str, Any]:
    def show(estimate: Estimate) -> None:
        session.progress(
            f"{estimate.value:.4g} in [{estimate.low:.4g}, {estimate.high:.4g}], {estimate.samples} memories"
        )

    formulas: dict[str, float] = {}
    for text in options.predict:
        with blame("--predict", text):
            formulas[text] = user_log(text, keys.n, keys.d, tau)
    with blame("--kernel", g.name):
        measured = measure(
            g,
            keys.n,
            keys.d,
            tau,
            keys,
            options.statistic,
            stop=stop_rule(vars(options) | {"n": keys.n, "heads": keys.heads}),
            seed=options.seed,
            progress=show,
            confidence=options.confidence,
            values=options.values,
            d_v=options.dv or keys.d,
        )
    predicted = predict_stored(g, keys, tau)
    logs: dict[str, float | None] = {name: getattr(predicted, name) for name in PREDICTIONS if name != "exact"}
    found = measured_json(measured)
    found["notes"] += _above_width(predicted.d_eff_heads, keys)
    reasons = {name: why for name, why in ABSENT.items() if logs[name] is None}
    logs["exact"] = None
    if keys.heads * keys.n**2 <= MOST_PAIRS:
        ratios = over_values(g, keys, tau)
        logs["exact"] = float(np.logaddexp.reduce(ratios, axis=None)) - math.log(ratios.size)
    else:
        reasons["exact"] = f"more than {MOST_PAIRS:,} pairs of keys to sum over"
    judged = [
        Judged(name, "P §2.1", f"the mean SNR⁻¹ is that of: {PREDICTIONS[name]}", options.statistic, log)
        for name, log in logs.items()
        if log is not None and options.statistic == "mean"
    ]
    judged += [
        Judged(text, "user", f"the {options.statistic} SNR⁻¹ is {text}", options.statistic, log)
        for text, log in formulas.items()
    ]
    plain = {
        name: None if log is None else (math.exp(log) if log < 709 else "inf" if log == math.inf else None)
        for name, log in logs.items()
    }
    return {
        "kernel": g.name,
        "d": keys.d,
        "n": keys.n,
        "tau": tau,
        "temperature": given,
        "keys": keys.name,
        "heads": keys.heads,
        "statistic": options.statistic,
        "d_eff": predicted.d_eff,
        "predicted": plain | {"fixed_probe": None, "typical": None},
        "predicted_log": logs,
        "reasons": reasons,
        "derived": False,
        **found,
        "judged": [vars(j) | {"ratio": ratio_of(j, measured)} for j in judged],
    }


def _above_width(d_eff: tuple[float, ...], keys: Stored) -> list[str]:
    """A note where an estimated effective dimension is one that no law of keys can have."""
    above = [value for value in d_eff if value > keys.d * (1 + 1e-9)]
    if not above:
        return []
    heads = f" in {len(above)} of {keys.heads} heads" if keys.heads > 1 else ""
    return [
        f"d_eff = {max(above):.4g} exceeds d = {keys.d}{heads}, as that of no law of keys does: tr(C²) is estimated "
        f"without bias from the pairs of these {keys.n} keys, and came out too small. The exact sum needs no d_eff."
    ]
