"""Memory updates and state exchange: keys, proofs, replays (P §2.2, App. B-F).

`from theorem import gram_condition` loads its module when the name is first asked for, not when this package is
imported. Keys are built by `theorem.packings`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theorem.activations import activation
    from theorem.bounds import coherence_bounds, least_dimension
    from theorem.certificate import write_certificate
    from theorem.checker import read_certificate, violation
    from theorem.exchange import gram_of, replay
    from theorem.key_file import coarse, read_keys
    from theorem.lemma import gram_condition
    from theorem.swaps import ordered, random_swaps

__all__ = [
    "activation",
    "coarse",
    "coherence_bounds",
    "gram_condition",
    "gram_of",
    "least_dimension",
    "ordered",
    "random_swaps",
    "read_certificate",
    "read_keys",
    "replay",
    "violation",
    "write_certificate",
]

_HOME = {
    "activation": "theorem.activations",
    "coherence_bounds": "theorem.bounds",
    "least_dimension": "theorem.bounds",
    "write_certificate": "theorem.certificate",
    "read_certificate": "theorem.checker",
    "violation": "theorem.checker",
    "gram_of": "theorem.exchange",
    "replay": "theorem.exchange",
    "coarse": "theorem.key_file",
    "read_keys": "theorem.key_file",
    "gram_condition": "theorem.lemma",
    "ordered": "theorem.swaps",
    "random_swaps": "theorem.swaps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
