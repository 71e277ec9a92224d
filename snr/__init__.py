"""Capacity: how much noise does recall from an associative memory carry? (P §2.1, App. A)

`from snr import predict` loads its module when the name is first asked for, not when this package is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snr.derivation import derive
    from snr.estimators import measure
    from snr.keys import read_keys
    from snr.predictions import predict
    from snr.stopping import MaxSeconds, MinSamples, RelTol
    from snr.stored import predict_stored

__all__ = ["MaxSeconds", "MinSamples", "RelTol", "derive", "measure", "predict", "predict_stored", "read_keys"]

_HOME = {
    "derive": "snr.derivation",
    "measure": "snr.estimators",
    "read_keys": "snr.keys",
    "predict": "snr.predictions",
    "MaxSeconds": "snr.stopping",
    "MinSamples": "snr.stopping",
    "RelTol": "snr.stopping",
    "predict_stored": "snr.stored",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
