"""The ledger: one file per section of the paper, each a tuple `CLAIMS`; a new claim is one new entry.

A file here imports nothing heavy at its top: checks import what they need when they run.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable

from verify.evidence import Claim


def ledger() -> dict[str, Claim]:
    """Every claim by id, in the order of the files' names and of the entries in them.

    Raises ValueError where two claims share an id or a repair names a claim that does not exist.
    """
    claims: dict[str, Claim] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        for claim in importlib.import_module(f"{__name__}.{module.name}").CLAIMS:
            if claim.id in claims:
                raise ValueError(f"two claims are called {claim.id}")
            claims[claim.id] = claim
    for claim in claims.values():
        if claim.repairs and claim.repairs not in claims:
            raise ValueError(f"claim {claim.id} repairs {claim.repairs}, which is not in the ledger")
    return claims


def section_of(claim: Claim) -> str:
    """The section of the paper that a claim's source names (`P §2.1.1 eq. 13` is in `P §2.1`), or "Other sources"."""
    match = re.match(r"([PD] (?:§\d+(?:\.\d+)?|App\. [A-Z]|Table \d+|Fig\.? ?\d+))", claim.source)
    paper = re.match(r"[PD](?=,)", claim.source)
    return match.group(1) if match else paper.group() if paper else "Other sources"


def by_section(claims: Iterable[Claim]) -> list[Claim]:
    """The claims in the order of the papers: P before D, sections before appendices, tables and figures."""

    def key(claim: Claim) -> tuple[int, int, str]:
        section = section_of(claim)
        paper = "PD".find(section[0]) if section[:2] in ("P ", "D ") or section in ("P", "D") else 2
        return paper, "§" not in section, section

    return sorted(claims, key=key)
