"""One point of a capacity curve: its predictions, its measurement, and the verdict on each prediction.

`measure_point` is a pure function of its spec, so that points can be computed anywhere and kept; `point_claims` judges
a finished point, kept or fresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from snr.estimate import Estimate
from snr.estimators import measure
from snr.keys import Gaussian, Sphere
from snr.measured import Measured, Scaled
from snr.predictions import Prediction, Predictions, predict
from snr.similarity import Similarity, similarity, temperature
from snr.stopping import MaxSeconds, MinSamples, RelTol, Stop
from verify.capacity_notes import place
from verify.evidence import Claim, Evidence, Ruling, Verdict, judge
from verify.sweep import stream_key

Progress = Callable[[Estimate], None]
LITTLE = 1 << 29  # products of two vectors: of keys, or of weights and values
TYPICAL_WITHIN = 0.1  # a median's interval narrows slowly, and the typical value is asked for its order of magnitude
LARGEST_LOG = 1e10  # float64 holds its logarithm to 1e-6, and sums of such logarithms hardly to 1e-4
LARGEST_LOG_TYPICAL = 1e4  # beyond it the inversion's lattice is too coarse for the median
RESOLVED_ERROR = 1e-3  # the exact recall error is accurate to 1e-6
WEIGHTED = 2 * 128  # such products for each key of a memory of the importance-sampled estimate


@dataclass(frozen=True)
class Judged:
    """A prediction to be judged: its name, the statistic it speaks of, and its logarithm (inf: it says it diverges)."""

    name: str
    source: str
    statement: str
    statistic: str
    log: float


def measure_point(spec: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
    """Predictions and measurement for one spec (the fields of `verify snr`, one value each), as JSON-able numbers.

    Raises ValueError where a value of the spec cannot be used.
    """
    g = similarity(spec["kernel"])
    n, d, heads = spec["n"], spec["d"], spec["heads"]
    tau = temperature(spec["tau"])(d / heads)
    with ThreadPoolExecutor(1) as beside:  # predictions take tenths of a second on one core
        predicted = beside.submit(
            predict, g, n, d, tau, spec["keys"], heads=heads, d_v=spec["d_v"], values=spec["values"]
        )

        def show(estimate: Estimate) -> None:
            if predicted.done():
                predicted.result()  # what it refuses is refused now, not when the time is over
            if progress:
                progress(estimate)

        measured = measure(
            g,
            n,
            d,
            tau,
            Sphere() if spec["keys"] == "sphere" else Gaussian(),
            spec["statistic"],
            stop=stop_rule(spec),
            cross_check=_cross_check(spec),
            seed=spec["seed"],
            point=stream_key(
                {k: v for k, v in spec.items() if k not in ("predict", "within", "rel_tol", "max_seconds")}
            ),
            progress=show,
            confidence=spec["confidence"],
            values=spec["values"],
            d_v=spec["d_v"],
            heads=heads,
        )
    predictions = predicted.result()
    judged = _judged(spec, g.name, tau, predictions)
    error = {j.name: math.exp(j.log) for j in judged if j.name == "recall_error"}
    return {
        "kernel": g.name,
        "d": d,
        "n": n,
        "tau": tau,
        "temperature": spec["tau"],
        "keys": spec["keys"],
        "heads": heads,
        "statistic": spec["statistic"],
        "predicted": predictions.to_json() | error,
        "predicted_log": {name: getattr(predictions, name).log for name in predictions.to_json()},
        "reasons": _reasons(spec, g, predictions),
        "derived": predictions.exact.method == "closed form",
        **measured_json(measured),
        "judged": [vars(j) | {"ratio": ratio_of(j, measured)} for j in judged],
    }


def measured_json(measured: Measured) -> dict[str, Any]:
    """What was measured, which of it judges (`best`), and the flags with a note for each."""
    return {
        "measured": {name: scaled_json(measured.scaled.get(name)) for name in ("mean", "importance", "median")},
        "best": next(name for name, scaled in measured.scaled.items() if scaled is measured.best),
        "flags": list(measured.flags),
        "notes": list(measured.notes),
    }


def stop_rule(spec: Mapping[str, Any]) -> Stop:
    """When the estimate of the statistic is good enough.

    Where no tolerance was asked for: at 2 %, and on to what decides `within` as long as that is little work: half an
    interval of 0.5 `within` leaves the value as much to be off, over three standard errors. Little is counted in
    products, not in seconds, so that a point stays a function of its spec.
    """
    limit = MaxSeconds(spec["max_seconds"])
    if spec["rel_tol"]:
        return limit | RelTol(spec["rel_tol"])
    little = LITTLE if spec["statistic"] in ("median", "recall-error") else 4 * LITTLE  # the others are weighted
    decisive = RelTol(0.5 * spec["within"]) | MinSamples(max(16, little // (spec["n"] * WEIGHTED * spec["heads"])))
    return limit | (RelTol(0.02) & decisive)


def _cross_check(spec: Mapping[str, Any]) -> Stop:
    """When the direct estimate is good enough as a check of the importance-sampled one."""
    if spec["statistic"] == "median":
        return stop_rule(spec)
    return stop_rule(spec) | MinSamples(max(16, LITTLE // 3 // (spec["n"] * min(spec["n"], 1024) * spec["heads"])))


def _judged(spec: Mapping[str, Any], kernel: str, tau: float, p: Predictions) -> list[Judged]:
    """What is judged: the built-in predictions of the statistic that was measured, and the user's own."""
    statistic = spec["statistic"]
    exact = {"mean": p.exact, "fixed-probe": p.fixed_probe, "ratio-of-means": p.ratio_of_means, "median": p.typical}
    found: list[Judged] = []
    if statistic == "recall-error":
        if (log := _recall_error(spec, kernel, tau)) is not None:
            words = "the recall error E‖o − v‖²/E‖v‖² of softmax-normalised recall is its exact value"
            found.append(Judged("recall_error", "P §2.1.1", words, statistic, log))
        return found + _users(spec, tau)
    if p.paper.log is not None:
        statement = f"the {statistic} SNR⁻¹ is P's closed form for {kernel}"
        found.append(Judged("paper", _equation(kernel), statement, statistic, p.paper.log))
    if p.printed.log is not None:
        found.append(Judged("printed", "P eq. 17", "the same as P prints it at τ = √d", statistic, p.printed.log))
    if exact[statistic].log is not None:
        name = "typical" if statistic == "median" else "exact"
        statement = f"the {statistic} SNR⁻¹ is its exact value for {spec['keys']} keys ({exact[statistic].method})"
        found.append(Judged(name, "P §2.1 eq. 6", statement, statistic, _number(exact[statistic])))
    if statistic not in ("median", "fixed-probe") and p.typical.log is not None:
        found.append(Judged("typical", "P §2.1", "the median SNR⁻¹ is the typical value", "median", _number(p.typical)))
    return found + _users(spec, tau)


def _users(spec: Mapping[str, Any], tau: float) -> list[Judged]:
    statistic = spec["statistic"]
    what = "the recall error" if statistic == "recall-error" else f"the {statistic} SNR⁻¹"
    return [
        Judged(text, "user", f"{what} is {text}", statistic, user_log(text, spec["n"], spec["d"], tau))
        for text in spec["predict"]
    ]


def _recall_error(spec: Mapping[str, Any], kernel: str, tau: float) -> float | None:
    """log of the exact recall error; None for another kernel than exp, and below what its accuracy resolves."""
    from snr.softmax import recall_error

    d = spec["d"] // spec["heads"]
    if kernel not in ("exp", "cosexp") or d < 2:
        return None
    error = recall_error(spec["n"], d, tau, "sphere" if kernel == "cosexp" else spec["keys"])
    return math.log(error) if error > RESOLVED_ERROR else None


def _equation(kernel: str) -> str:
    return {"linear": "P §2.1 eq. 7", "relu": "P §2.1.2 eq. 15", "exp": "P §2.1.1 eq. 13", "solu": "P §2.1.2 eq. 17"}[
        kernel
    ]


def _number(p: Prediction) -> float:
    assert p.log is not None
    return p.log


def user_log(text: str, n: int, d: int, tau: float) -> float:
    """log of a user's formula in N, d, tau. Raises ValueError where it is not a positive number there."""
    from snr.expression import formula

    sign, log = formula(text, ("N", "d", "tau")).sign_and_log(float(n), float(d), tau)
    if not (float(sign) > 0 and math.isfinite(float(log))):
        raise ValueError(f"is not a positive number at N = {n}, d = {d}, tau = {tau:.6g}")
    return float(log)


def _reasons(spec: Mapping[str, Any], g: Similarity, p: Predictions) -> dict[str, str]:
    found = reasons(g, p)
    if spec["statistic"] == "recall-error":
        found["recall_error"] = (
            f"its exact value is known for exp of width 2 or more, and shown above {RESOLVED_ERROR:g}, which its "
            "accuracy of 1e-6 resolves"
        )
    return found


def reasons(g: Similarity, p: Predictions) -> dict[str, str]:
    """Why a prediction is absent or infinite, in terms of the kernel that was given."""
    fields = {n: getattr(p, n) for n in ("paper", "exact", "fixed_probe", "ratio_of_means", "typical")}
    found = {name: prediction.reason for name, prediction in fields.items() if prediction.reason}
    width = p.d // p.heads
    if p.heads > 1 and "d ≤" in found.get("exact", ""):
        found["exact"] += f" (d = {width} is the width of one head)"
    return found


def scaled_json(scaled: Scaled | None) -> dict[str, Any] | None:
    if scaled is None:
        return None
    return scaled.plain.to_json() | dict(zip(("log", "log_low", "log_high"), scaled.log))


def ratio_of(judged: Judged, measured: Measured) -> dict[str, Any] | None:
    """measured/predicted with its interval; None where the prediction says that there is no finite number, or where
    float64 does not hold the digits of its logarithm that a ratio needs."""
    most = LARGEST_LOG_TYPICAL if judged.name == "typical" else LARGEST_LOG
    if not math.isfinite(judged.log) or abs(judged.log) > most:
        return None
    scaled = measured.scaled["median"] if judged.statistic == "median" else measured.best
    return scaled.over(judged.log).to_json()


def point_claims(point: Mapping[str, Any], within: float, command: str = "") -> list[Claim]:
    """The verdict on every judged prediction of a finished point; `within` is the declared tolerance of the ratio.

    command: what decides them again.
    """
    where = f"{place(point)}, {point['keys']} keys"
    at = {name: point[name] for name in ("kernel", "d", "n", "tau")}
    claims = []
    for j in point["judged"]:
        tolerance = max(within, TYPICAL_WITHIN) if j["name"] == "typical" and point["statistic"] != "median" else within
        claim = Claim(
            id=f"snr:{j['name']}",
            source=j["source"],
            statement=f"{where}: {j['statement']}, within {tolerance:g}",
            assumptions=("values independent of the keys, with mean 0",),
            command=command,
        )
        ruling = ruling_on(j, point, tolerance)
        claims.append(claim.decided(replace(ruling, numbers={**ruling.numbers, **at})))
    return claims


def ruling_on(judged: Mapping[str, Any], point: Mapping[str, Any], within: float) -> Ruling:
    diverges = point["predicted"].get("exact") in ("inf", math.inf)
    if diverges and judged["statistic"] == "mean":
        reason = point["reasons"].get("exact", "the mean diverges")
        finite = judged["ratio"] is not None
        if not point["derived"]:
            words = f"the quadrature finds no finite mean ({reason}), which proves nothing for any expression"
            return Ruling(Verdict.INCONCLUSIVE, Evidence.STATISTICAL, words + "; no sample shows it")
        return Ruling(
            Verdict.REFUTED if finite else Verdict.CONFIRMED,
            Evidence.PROOF,
            f"{reason}; no sample shows it" + (", and this prediction is finite" if finite else ""),
        )
    if judged["ratio"] is None and math.isfinite(_float(judged["log"])):
        words = f"the logarithm {judged['log']:.3g} is too large for its digits to decide a ratio"
        return Ruling(Verdict.INCONCLUSIVE, Evidence.STATISTICAL, words)
    if judged["ratio"] is None:
        return Ruling(Verdict.INCONCLUSIVE, Evidence.STATISTICAL, "predicts a value that no finite sample can show")
    ratio = Estimate(**{k: _float(v) for k, v in judged["ratio"].items()})
    verdict = judge(ratio, within)
    detail = (
        f"measured/predicted = {ratio.value:.4g} in [{ratio.low:.4g}, {ratio.high:.4g}] at {ratio.confidence:.0%} "
        f"({ratio.method}, {ratio.samples} units; {ratio.guarantee.split(':')[0]})"
    )
    numbers: dict[str, Any] = {"ratio": ratio.to_json(), "within": within}
    if verdict is Verdict.INCONCLUSIVE:
        numbers["budget"] = _budget(ratio, within)
        detail += f"; what would decide it: {numbers['budget']}"
    return Ruling(verdict, Evidence.STATISTICAL, detail, numbers)


def _float(value: Any) -> Any:
    return {"inf": math.inf, "-inf": -math.inf}.get(value, value) if isinstance(value, str) else value


def _floor(tolerance: float) -> float:
    """Rounded down to two digits."""
    unit = 10.0 ** (math.floor(math.log10(tolerance)) - 1)
    return math.floor(tolerance / unit) * unit


def _budget(ratio: Estimate, within: float) -> str:
    """What would decide it: the interval shrinks as one over the square root of the units.

    Where the interval is wide, where the ratio lies in it says little: then half of `within`, which decides all but
    what lies about as near to an edge of what was declared.
    """
    half = (ratio.high - ratio.low) / 2
    if not math.isfinite(half):
        return "cannot be told, the interval has no upper end"
    slack = abs(abs(ratio.value - 1) - within)
    if slack == 0:
        return "cannot be told, the ratio lies on the edge of what was declared"
    if ratio.value <= 0:
        return "cannot be told, nothing but zeros was measured"
    if half > 2 * within:
        tolerance = _floor(0.45 * within / (1 + within))
        unless = f", unless measured/predicted is within {within / 2:.2g} of {1 - within:g} or {1 + within:g}"
    else:
        tolerance, unless = _floor(min(0.9 * slack / ratio.value, 1.0)), ""
    units = math.ceil(ratio.samples * (half / ratio.value / tolerance) ** 2)
    return f"--rel-tol {tolerance:g}{unless} (about {units} units, {units / ratio.samples:.1f} times as many)"
