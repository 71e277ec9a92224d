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
from verify.capacity_point import Judged, point_claims, ratio_of, scaled_json, stop_rule, user_log
from verify.capacity_tables import MEASURED, number, sentence
from verify.evidence import Claim, Finding, Table
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
MOST_PAIRS = 1 << 31  # of keys that the exact sum runs over: some seconds


def read(options: Options) -> Stored:
    """The keys of --keys FILE[:TENSOR]. Raises BadInput for anything that cannot be used."""
    if options.dk or options.n or options.heads != 1:
        raise BadInput("--dk, --n and --heads: the file says them; expected none of these with --keys FILE")
    if options.plot or options.records:
        raise BadInput("--plot and --records: for curves of a key law; expected neither with --keys FILE")
    with blame("--keys", options.keys):
        return read_keys(options.keys, options.normalise)


def measure_stored(options: Options, session: Session) -> Finding:
    """One point a kernel and temperature, each prediction judged by the measured mean over all recalls."""
    keys = read(options)
    points, claims, tables = [], [], []
    for kernel in options.kernel:
        for tau in options.tau:
            with blame("--tau", tau):
                at = temperature(tau)(keys.d)
            point = _point(options, session, keys, similarity(kernel), at)
            found = point_claims(point, options.within, session.command)
            tables.append(_table(point, found))
            points.append(point)
            claims += found
    spec = {k: v for k, v in vars(options).items() if k not in ("plot", "records", "workers", "scheduler", "derive")}
    return Finding("snr", spec, points=points, claims=claims, tables=tables, summary=sentence(points, claims))


def _point(options: Options, session: Session, keys: Stored, g: Similarity, tau: float) -> dict[str, Any]:
    def show(estimate: Estimate) -> None:
        session.progress(
            f"{estimate.value:.4g} in [{estimate.low:.4g}, {estimate.high:.4g}], {estimate.samples} memories"
        )

    if options.statistic == "fixed-probe":
        raise BadInput(
            "--statistic fixed-probe: of keys drawn from a law; with keys from a file --normalise fixes norms"
        )
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
    notes = list(measured.notes)
    logs["exact"] = None
    if keys.heads * keys.n**2 <= MOST_PAIRS:
        ratios = over_values(g, keys, tau)
        logs["exact"] = float(np.logaddexp.reduce(ratios, axis=None)) - math.log(ratios.size)
    else:
        notes.append(f"The exact sum over pairs is left out: these are more than {MOST_PAIRS:,} pairs of keys.")
    judged = [
        Judged(name, "P §2.1", f"the mean SNR⁻¹ is that of: {PREDICTIONS[name]}", options.statistic, log)
        for name, log in logs.items()
        if log is not None and options.statistic == "mean"
    ]
    for text in options.predict:
        with blame("--predict", text):
            log = user_log(text, keys.n, keys.d, tau)
        judged.append(Judged(text, "user", f"the {options.statistic} SNR⁻¹ is {text}", options.statistic, log))
    plain = {
        name: None if log is None else (math.exp(log) if log < 709 else "inf" if log == math.inf else None)
        for name, log in logs.items()
    }
    return {
        "kernel": g.name,
        "d": keys.d,
        "n": keys.n,
        "tau": tau,
        "keys": keys.name,
        "heads": keys.heads,
        "statistic": options.statistic,
        "d_eff": predicted.d_eff,
        "predicted": plain | {"fixed_probe": None, "typical": None},
        "predicted_log": logs,
        "reasons": {},
        "measured": {name: scaled_json(measured.scaled.get(name)) for name in ("mean", "importance", "median")},
        "flags": list(measured.flags),
        "notes": notes,
        "judged": [vars(j) | {"ratio": ratio_of(j, measured)} for j in judged],
    }


def _table(point: dict[str, Any], claims: list[Claim]) -> Table:
    rulings = {c.id.removeprefix("snr:"): c.ruling for c in claims}
    rows = []
    for name in [*PREDICTIONS, *(n for n in rulings if n not in PREDICTIONS)]:
        value, ruling = point["predicted"].get(name), rulings.get(name)
        ratio = ruling.numbers.get("ratio") if ruling else None
        words = f"{number(ratio['value'])} [{number(ratio['low'])}, {number(ratio['high'])}]" if ratio else ""
        if value is not None or ruling or point["predicted_log"].get(name) is not None:
            value = number(value, point["predicted_log"].get(name))
            rows.append((PREDICTIONS.get(name, name), value, "", str(ruling.verdict) if ruling else "", words))
    for name, label in MEASURED.items():
        if m := point["measured"][name]:
            interval = f"[{number(m['low'], m['log_low'])}, {number(m['high'], m['log_high'])}]"
            rows.append(
                (
                    label.format(point["statistic"]),
                    number(m["value"], m["log"]),
                    interval,
                    "",
                    f"{m['samples']} memories",
                )
            )
    title = (
        f"SNR⁻¹ of {point['kernel']}, τ = {point['tau']:.4g}, {point['keys']}: N = {point['n']}, d = {point['d']}, "
        f"d_eff = {point['d_eff']:.1f}"
    )
    return Table(title, ("what", "value", "interval", "verdict", "measured/predicted"), rows)
