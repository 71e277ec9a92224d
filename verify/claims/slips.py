"""Places where the sources disagree with themselves.

The printed figures are in published.json, with where they are printed; the checks compute from those.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from verify.evidence import Claim, Evidence, Ruling, Verdict


def published(name: str) -> dict[str, Any]:
    """One entry of published.json, its numbers as exact decimals."""
    import json
    from importlib.resources import files

    text = files("verify.claims").joinpath("published.json").read_text(encoding="utf-8")
    entry: dict[str, Any] = json.loads(text, parse_float=Decimal)["entries"][name]
    return entry


def _ruling(holds: bool, detail: str, **numbers: Any) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.LITERATURE, detail, numbers)


def _rounds_to(value: Decimal, stated: Decimal) -> bool:
    """Whether `value` is `stated` after rounding to the digits that `stated` shows."""
    return value.quantize(stated) == stated


def _rounding() -> Ruling:
    entry = published("rounding decimals")
    product = Decimal("0.1")  # a product that Assumption 1 (|k_i·k_j| < 1/8) admits
    kept = {where: round(product, entry[where]) for where in ("caption", "code")}
    detail = (
        f"f must send products below 1/8 to 0: round({product}) is {kept['caption']} to {entry['caption']} decimals "
        f"(caption), {kept['code']:.0f} to {entry['code']} (code): only the code's rounding satisfies Assumption 2"
    )
    return _ruling(kept["caption"] == 0, detail)


def _rounding_code() -> Ruling:
    entry = published("rounding decimals")
    products = [Decimal(x) / 100 for x in (-12, 12, 88, 112, 188, 212)]
    rounded = [int(round(x, entry["code"])) for x in products]
    shown = ", ".join(map(str, products))
    return _ruling(rounded == [0, 0, 1, 1, 2, 2], f"products {shown} round to {rounded}: flat around 0, 1 and 2")


def _threshold() -> Ruling:
    first, second = published("curriculum threshold")["values"]
    ratio = (1 - first) / (1 - second)
    detail = f"printed as {first} and as {second}: the error rates differ by a factor of {ratio:.0f}"
    return _ruling(first == second, detail, ratio=float(ratio))


def _code_lead() -> Ruling:
    entry = published("code loss lead")
    low, high = entry["table"]
    holds = any(_rounds_to(x, entry["text"]) for x in (low, high))
    times = entry["text"] / high
    detail = f"the table's leads are {low} to {high}: none rounds to {entry['text']}, {times:.2f} times the largest"
    return _ruling(holds, detail, largest=float(high))


def _general_lead() -> Ruling:
    entry = published("general loss lead")
    stated, table = entry["text"], entry["table"]
    detail = (
        f"at {entry['tokens']} the table has {table}: as DeltaFormer minus Transformer a lead of {-table}, rounding "
        f"to {(-table).quantize(stated)} and not {stated}; as a lead it has the other sign"
    )
    return _ruling(_rounds_to(-table, stated) or _rounds_to(table, stated), detail, table=float(table))


CLAIMS = (
    Claim(
        "P-slip-rounding", "P, caption on round κ₁", "the similarity “round” rounds to two decimals", check=_rounding
    ),
    Claim(
        "P-slip-rounding-code",
        "P, released code",
        "the similarity “round” rounds to integers",
        check=_rounding_code,
        repairs="P-slip-rounding",
    ),
    Claim(
        "P-slip-curriculum",
        "P Fig. 6",
        "the accuracy at which the curriculum doubles T is stated once",
        check=_threshold,
    ),
    Claim("D-slip-code-loss", "D, language modelling", "DeltaFormer leads the code loss by 0.05", check=_code_lead),
    Claim(
        "D-slip-general-loss",
        "D, language modelling",
        "DeltaFormer leads the general loss by 0.003",
        check=_general_lead,
    ),
)
