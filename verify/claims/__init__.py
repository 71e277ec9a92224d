"""The ledger: one file per section of the paper, each a tuple `CLAIMS`; a new claim is one new entry.

A file here imports nothing heavy at its top: checks import what they need when they run.
"""

import importlib
import pkgutil

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
