"""What `verify snr` says below its tables: verdicts counted, why something is missing, and what the notes are about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verify.evidence import Claim, Verdict

Point = Mapping[str, Any]
Judged = Sequence[tuple[Point, Sequence[Claim]]]  # every finished point with the claims on it

STATISTIC = {
    "mean": "mean",
    "fixed-probe": "mean for a fixed probe",
    "ratio-of-means": "ratio of means",
    "median": "median",
    "recall-error": "recall error",
}
NAMED = 3  # points that a line names before it counts the rest
ALIKE = 3  # notes of one kind, with different numbers, before the rest are counted
# the prediction that is exact for the statistic that was asked for
EXACT = {
    "fixed-probe": "fixed_probe",
    "ratio-of-means": "ratio_of_means",
    "median": "typical",
    "recall-error": "recall_error",
}


def number(value: Any, log: Any = None) -> str:
    """Four digits; a power of ten from the logarithm where the number is no float."""
    if isinstance(log, float) and math.isfinite(log) and abs(log) > 700:
        return f"10^{log / math.log(10):.5g}"
    if value is None:
        return "–"
    return "∞" if value in ("inf", math.inf) else f"{float(value):.4g}"


def missing(point: Point, name: str) -> bool:
    """Whether there is no such prediction (a number too large for a float is one)."""
    return point["predicted"].get(name) is None and point["predicted_log"].get(name) is None


def place(point: Point, kernels: bool = True) -> str:
    """Where a point of a sweep lies."""
    words = f"d = {point['d']}, N = {point['n']}, τ = {point['tau']:.4g}"
    return f"{point['kernel']}, {words}" if kernels else words


def sentences(judged: Judged, names: Mapping[str, str]) -> str:
    """The verdicts, what would decide the open ones, why predictions are missing, and the notes of the points.

    names: how a table calls each prediction. With several points every line says which ones it is about, and equal
    lines are one.
    """
    lines = [_verdicts(judged, names), *_undecided(judged, names)]
    places = _Places(judged)
    if len(judged) > 1 and all(name in names for name in shown(judged[0][0]["statistic"])):
        # where every point has a table of its own, as with keys from a file, it has a row for each
        lines += places.merged(_why_missing(judged, names))
    kinds: dict[str, dict[str, None]] = {}
    noted: list[tuple[str, Point]] = []
    for point, _ in judged:
        for i, note in enumerate(point["notes"]):
            kind = point["flags"][i] if i < len(point["flags"]) else note
            kinds.setdefault(kind, {})[note] = None
            noted.append((note, point))
    for kind, texts in kinds.items():
        told = list(texts)[:ALIKE]
        lines += places.merged((note, point) for note, point in noted if note in told)
        if len(texts) > ALIKE:
            lines.append(f"{kind}: likewise at {len(texts) - ALIKE} more points.")
    return "\n".join(lines)


class _Places:
    """Lines about points, each before its line: none where there is one point, all of them, or a few by name."""

    def __init__(self, judged: Judged) -> None:
        self.count = len(judged)
        self.of = Counter(point["kernel"] for point, _ in judged)
        self.kernels = len(self.of) > 1

    def merged(self, found: Iterable[tuple[str, Point]]) -> list[str]:
        at: dict[str, list[Point]] = {}
        for text, point in found:
            at.setdefault(text, []).append(point)
        return [self.before(points) + text for text, points in at.items()]

    def before(self, points: Sequence[Point]) -> str:
        if self.count == 1:
            return ""
        return ("all points" if len(points) == self.count else self.named(points)) + ": "

    def named(self, points: Sequence[Point]) -> str:
        kernels = list(dict.fromkeys(p["kernel"] for p in points))
        if self.kernels and len(points) == sum(self.of[k] for k in kernels):
            return " and ".join(kernels)
        words = "; ".join(place(p, self.kernels) for p in points[:NAMED])
        return words + (f" and {len(points) - NAMED} more" if len(points) > NAMED else "")


def shown(statistic: str) -> list[str]:
    """The predictions that a row of a sweep has room for: P's, the exact one of that statistic, the typical value."""
    exact = EXACT.get(statistic, "exact")
    return ["recall_error"] if statistic == "recall-error" else list(dict.fromkeys(("paper", exact, "typical")))


def _why_missing(judged: Judged, names: Mapping[str, str]) -> list[tuple[str, Point]]:
    """For each kernel and prediction one reason, its first: its numbers change from point to point."""
    first: dict[tuple[str, str], str] = {}
    found = []
    for point, _ in judged:
        for name in shown(point["statistic"]):
            if missing(point, name):
                why = point["reasons"].get(name, "not derived")
                text = first.setdefault((point["kernel"], name), f"{names[name]}: none, {why}.")
                found.append((text, point))
    return found


def _verdicts(judged: Judged, names: Mapping[str, str]) -> str:
    claims = [claim for _, found in judged for claim in found]
    if not claims:
        return _none_judged(judged, names)
    counts = Counter(claim.ruling.verdict for claim in claims if claim.ruling)
    words = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    text = f"Of {len(claims)} judged prediction{'s' if len(claims) > 1 else ''}: {words}."
    if len(judged) == 1:
        point, found = judged[0]
        for claim in found:
            ratio = claim.ruling.numbers.get("ratio") if claim.ruling else None
            if claim.id == "snr:paper" and ratio and claim.ruling and claim.ruling.verdict is Verdict.REFUTED:
                bounded = ratio["high"] not in ("inf", math.inf)
                factor = _factor(point, ratio["value"]) if bounded else f"of at least {number(ratio['low'])}"
                text += f" P's closed form is off by a factor {factor} as the {STATISTIC[point['statistic']]}."
    return text


def _factor(point: Point, value: Any) -> str:
    """measured/predicted for P's closed form, as a power of ten where it is no float."""
    if value not in (0, "inf", math.inf):
        return number(value)
    paper = next(j["log"] for j in point["judged"] if j["name"] == "paper")
    return number(None, float(point["measured"][point["best"]]["log"]) - paper)


def _none_judged(judged: Judged, names: Mapping[str, str]) -> str:
    """That nothing was judged, and why."""
    statistic = judged[0][0]["statistic"]
    failed = (
        all(missing(p, EXACT.get(statistic, "exact")) for p, _ in judged) and EXACT.get(statistic, "exact") in names
    )
    reasons = "in the table" if len(judged) == 1 else "below"
    why = f"for the reasons {reasons}" if failed else "those shown are of another statistic, or of other values"
    return f"No prediction was judged: there is none of the {STATISTIC[statistic]} here ({why})."


def _undecided(judged: Judged, names: Mapping[str, str]) -> list[str]:
    """For each prediction that is not decided everywhere: where, and what would decide it."""
    places = _Places(judged)
    found: dict[str, list[tuple[Point, str]]] = {}
    for point, claims in judged:
        for claim in claims:
            if claim.ruling and claim.ruling.verdict is Verdict.INCONCLUSIVE:
                name = claim.id.removeprefix("snr:")
                found.setdefault(names.get(name, name), []).append((point, claim.ruling.detail))
    lines = []
    for name, where in found.items():
        details = list(dict.fromkeys(detail for _, detail in where))
        if len(judged) == 1 or len(details) == 1:
            lines.append(f"{places.before([p for p, _ in where])}{name}: {details[0]}.")
        else:
            at = places.named([p for p, _ in where])
            lines.append(f"{name}: inconclusive at {at}. At the first of them {details[0]}.")
    return lines
