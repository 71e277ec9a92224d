"""How `verify snr` shows points to a person: predictions with their verdicts, measurements with their intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from verify.capacity_notes import EXACT, STATISTIC, Judged, Point, missing, number, shown
from verify.evidence import Claim, Ruling, Table, Verdict

CURVE = ("kernel", "d", "N", "τ")
COLUMNS = ("what", "value", "interval", "verdict", "measured/predicted")
NAMES = {
    "paper": "P's closed form",
    "printed": "P eq. 17 as printed",
    "exact": "exact mean of ratio",
    "fixed_probe": "exact, probe of norm √d",
    "ratio_of_means": "exact ratio of means",
    "typical": "typical (median)",
    "recall_error": "exact recall error of softmax",
}
MEASURED = {"mean": "measured {}, direct", "importance": "measured {}, importance-sampled", "median": "measured median"}


def point_tables(point: Point, claims: Sequence[Claim]) -> list[Table]:
    """One point: every prediction with its verdict, every measurement with its interval, and the user's formulas."""
    heads = f", {point['heads']} heads" if point["heads"] > 1 else ""
    where = f"d = {point['d']}, N = {point['n']}, τ = {point['tau']:.4g}, {point['keys']} keys{heads}"
    rulings = _rulings(point, claims)
    wanted = [*NAMES]
    if point["statistic"] == "recall-error":  # beside it an SNR⁻¹ would be read as what it is not
        wanted = ["recall_error"]
    names = [n for n in wanted if not missing(point, n) or (n in point["reasons"] and n != "printed")]
    rows = [_predicted_row(point, name, NAMES[name], rulings.get(name)) for name in names]
    what = "Recall error" if point["statistic"] == "recall-error" else "SNR⁻¹"
    table = Table(f"{what} of {point['kernel']} at {where}", COLUMNS, rows + measured_rows(point, "units"))
    return [table, *user_tables([(point, claims)])]


def _predicted_row(point: Point, name: str, label: str, ruling: Ruling | None) -> tuple[str, ...]:
    if missing(point, name):
        return (label, "none", "", "", point["reasons"].get(name, ""))
    value = number(point["predicted"].get(name), point["predicted_log"].get(name))
    return (label, value, "", _verdict_words(ruling), _ratio_words(ruling))


def stored_tables(point: Point, claims: Sequence[Claim], names: Mapping[str, str]) -> list[Table]:
    """The same for keys from a file, whose predictions are others; names: how each is called."""
    rulings = _rulings(point, claims)
    rows = [
        _predicted_row(point, name, label, rulings.get(name))
        for name, label in names.items()
        if not missing(point, name) or name in point["reasons"]
    ]
    title = (
        f"SNR⁻¹ of {point['kernel']}, τ = {point['tau']:.4g}, {point['keys']}: N = {point['n']}, d = {point['d']}, "
        f"d_eff = {point['d_eff']:.1f}"
    )
    return [Table(title, COLUMNS, rows + measured_rows(point, "memories")), *user_tables([(point, claims)])]


def measured_rows(point: Point, units: str) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, label in MEASURED.items():
        if m := point["measured"][name]:
            what = label.format("mean" if point["statistic"] == "median" else STATISTIC[point["statistic"]])
            rows.append((what, number(m["value"], m["log"]), _interval(m), "", f"{m['samples']} {units}"))
    return rows


def user_tables(judged: Judged) -> list[Table]:
    """The user's own formulas beside what was measured; no table where there are none."""
    several = len(judged) > 1
    rows = []
    for point, claims in judged:
        rulings = _rulings(point, claims)
        best = best_measured(point)
        measured = f"{number(best['value'], best['log'])} {_interval(best)}"
        for j in point["judged"]:
            if j["source"] == "user":
                ruling = rulings.get(j["name"])
                value = number(None, j["log"]) if abs(j["log"]) > 700 else number(math.exp(j["log"]))
                row = (j["name"], value, measured, _ratio_words(ruling), _verdict_words(ruling), _needed(ruling))
                rows.append((*(_where(point) if several else ()), *row))
    if not rows:
        return []
    statistic = STATISTIC[judged[0][0]["statistic"]]
    columns = ("formula", "predicted", "measured", "measured/predicted", "verdict", "would decide it")
    return [Table(f"Your formulas as the {statistic}", (*(CURVE if several else ()), *columns), rows)]


def curve_tables(judged: Judged) -> list[Table]:
    """A row a point; a row a prediction with its verdicts; and the user's formulas."""
    statistic = judged[0][0]["statistic"]
    names = shown(statistic)
    short = ("paper", "typical")
    columns = (
        *CURVE,
        *(n if n in short else "exact" for n in names),
        f"measured {STATISTIC[statistic]}",
        *(() if statistic == "median" else ("median",)),
        "flags",
    )
    rows = [_curve_row(p, names) for p, _ in judged]
    what = "Recall error" if statistic == "recall-error" else "SNR⁻¹"
    tables = [Table(f"{what}, predicted and measured", columns, rows)]
    if verdicts := _verdict_rows(judged):
        columns = ("prediction", "within", "confirmed", "refuted", "inconclusive", "measured/predicted")
        tables.append(Table(f"Predictions judged as the {STATISTIC[statistic]}", columns, verdicts))
    return tables + user_tables(judged)


def _verdict_rows(judged: Judged) -> list[tuple[str, ...]]:
    """A row a built-in prediction: at how many points it was confirmed, refuted, left open, and its ratios' range."""
    counts: dict[str, Counter[Verdict]] = {}
    ratios: dict[str, list[float]] = {}
    within: dict[str, float | None] = {}
    for point, claims in judged:
        for name, ruling in _rulings(point, claims).items():
            if name in NAMES and ruling:
                within[name] = ruling.numbers.get("within", within.get(name))
                counts.setdefault(name, Counter())[ruling.verdict] += 1
                if ratio := ruling.numbers.get("ratio"):
                    ratios.setdefault(name, []).append(float(ratio["value"]))
    rows = []
    for name, found in counts.items():
        seen = ratios.get(name, [])
        spread = f"{number(min(seen))} to {number(max(seen))}" if seen else ""
        declared = within[name]
        words = (str(found[v] or "") for v in (Verdict.CONFIRMED, Verdict.REFUTED, Verdict.INCONCLUSIVE))
        rows.append((NAMES[name], "" if declared is None else f"{declared:g}", *words, spread))
    return rows


def _curve_row(p: Point, names: Sequence[str]) -> tuple[str, ...]:
    logs = p["predicted_log"]
    predicted = ("none" if missing(p, n) else number(p["predicted"].get(n), logs.get(n)) for n in names)
    best, median = best_measured(p), p["measured"]["median"]
    measured = f"{number(best['value'], best['log'])} {_interval(best)}"
    beside = () if p["statistic"] == "median" else (number(median["value"], median["log"]),)
    return (*_where(p), *predicted, measured, *beside, " ".join(p["flags"]))


def _where(p: Point) -> tuple[str, ...]:
    return (p["kernel"], str(p["d"]), str(p["n"]), f"{p['tau']:.4g}")


def _interval(m: Mapping[str, Any]) -> str:
    return f"[{number(m['low'], m['log_low'])}, {number(m['high'], m['log_high'])}]"


def _rulings(point: Point, claims: Sequence[Claim]) -> dict[str, Ruling | None]:
    """By prediction. What is judged as exact is the exact value of the statistic that was asked for."""
    found = {c.id.removeprefix("snr:"): c.ruling for c in claims}
    if "exact" in found and "d_eff" not in point:
        found[EXACT.get(point["statistic"], "exact")] = found.pop("exact")
    return found


def _verdict_words(ruling: Ruling | None) -> str:
    return ruling.words if ruling else ""


def _ratio_words(ruling: Ruling | None) -> str:
    if ruling is None:
        return ""
    ratio = ruling.numbers.get("ratio")
    return f"{number(ratio['value'])} [{number(ratio['low'])}, {number(ratio['high'])}]" if ratio else ruling.detail


def _needed(ruling: Ruling | None) -> str:
    return str(ruling.numbers.get("budget", "")) if ruling else ""


def best_measured(point: Point) -> Mapping[str, Any]:
    """The measurement of the statistic that was asked for, with the narrower interval: the one that judges."""
    best: Mapping[str, Any] = point["measured"][point["best"]]
    return best
