"""How `verify snr` shows points to a person."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from verify.evidence import Claim, Ruling, Table, Verdict

CURVE = ("kernel", "d", "N", "τ", "paper", "exact", "typical", "measured", "median", "flags")

NAMES = {
    "paper": "P's closed form",
    "printed": "P eq. 17 as printed",
    "exact": "exact mean of ratio",
    "fixed_probe": "exact, probe of norm √d",
    "ratio_of_means": "exact ratio of means",
    "typical": "typical (median)",
    "recall_error": "exact recall error of softmax",
}
MEASURED = {
    "mean": "measured mean, direct",
    "importance": "measured mean, importance-sampled",
    "median": "measured median",
}


def point_table(point: Mapping[str, Any], claims: Sequence[Claim]) -> Table:
    """One point: every prediction with its verdict, then every measurement with its interval."""
    heads = f", {point['heads']} heads" if point["heads"] > 1 else ""
    place = f"d = {point['d']}, N = {point['n']}, τ = {point['tau']:.4g}, {point['keys']} keys{heads}"
    rulings = {c.id.removeprefix("snr:"): c.ruling for c in claims}
    if (
        point["statistic"] in EXACT and "exact" in rulings
    ):  # judged is the exact value of the statistic that was asked for
        rulings[EXACT[point["statistic"]]] = rulings.pop("exact")
    logs = point.get("predicted_log", {})
    rows = []
    for name in [
        *(n for n in NAMES if point["predicted"].get(n) is not None or logs.get(n) is not None),
        *(n for n in rulings if n not in NAMES),
    ]:
        ruling = rulings.get(name)
        value = number(point["predicted"].get(name), logs.get(name)) if name in NAMES else ""
        verdict = str(ruling.verdict) if ruling else ""
        rows.append((NAMES.get(name, name), value, "", verdict, _ratio_words(ruling)))
    for name, label in MEASURED.items():
        if m := point["measured"][name]:
            interval = f"[{number(m['low'], m['log_low'])}, {number(m['high'], m['log_high'])}]"
            rows.append(
                (label.format(point["statistic"]), number(m["value"], m["log"]), interval, "", f"{m['samples']} units")
            )
    columns = ("what", "value", "interval", "verdict", "measured/predicted")
    return Table(f"SNR⁻¹ of {point['kernel']} at {place}", columns, rows)


def _ratio_words(ruling: Ruling | None) -> str:
    if ruling is None:
        return ""
    ratio = ruling.numbers.get("ratio")
    return f"{number(ratio['value'])} [{number(ratio['low'])}, {number(ratio['high'])}]" if ratio else ruling.detail


def curve_table(points: Sequence[Mapping[str, Any]]) -> Table:
    """A row a point."""
    return Table("SNR⁻¹, predicted and measured", CURVE, [_curve_row(p) for p in points])


def _curve_row(p: Mapping[str, Any]) -> tuple[str, ...]:
    place = (p["kernel"], str(p["d"]), str(p["n"]), f"{p['tau']:.4g}")
    logs = p.get("predicted_log", {})
    predicted = (number(p["predicted"][name], logs.get(name)) for name in ("paper", "exact", "typical"))
    best = best_measured(p)
    interval = f"{number(best['value'], best['log'])} "
    interval += f"[{number(best['low'], best['log_low'])}, {number(best['high'], best['log_high'])}]"
    median = p["measured"]["median"]
    return (*place, *predicted, interval, number(median["value"], median["log"]), " ".join(p["flags"]))


def best_measured(point: Mapping[str, Any]) -> Mapping[str, Any]:
    """The measurement of the statistic that was asked for: importance-sampled where there is one."""
    found = point["measured"]
    best: Mapping[str, Any] = (
        found["median"] if point["statistic"] == "median" else found["importance"] or found["mean"]
    )
    return best


EXACT = {"fixed-probe": "fixed_probe", "ratio-of-means": "ratio_of_means"}


def number(value: Any, log: Any = None) -> str:
    """Four digits; a power of ten from the logarithm where the number is no float."""
    if isinstance(log, float) and math.isfinite(log) and abs(log) > 700:
        return f"10^{log / math.log(10):.5g}"
    if value is None:
        return "–"
    return "∞" if value in ("inf", math.inf) else f"{float(value):.4g}"


def sentence(points: Sequence[Mapping[str, Any]], claims: Sequence[Claim]) -> str:
    counts = {v: sum(c.ruling is not None and c.ruling.verdict is v for c in claims) for v in Verdict}
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    text = f"Of {len(claims)} judged predictions: {words}."
    if len(points) == 1:
        for claim in claims:
            ratio = claim.ruling.numbers.get("ratio") if claim.ruling else None
            if claim.id == "snr:paper" and ratio and claim.ruling and claim.ruling.verdict is Verdict.REFUTED:
                text += f" P's closed form is off by a factor {number(ratio['value'])} as the {points[0]['statistic']}."
            if claim.ruling and claim.ruling.verdict is Verdict.INCONCLUSIVE:
                text += f"\n{claim.id.removeprefix('snr:')}: {claim.ruling.detail}."
    notes = dict.fromkeys(note for p in points for note in p["notes"])
    return "\n".join([text, *notes])
