"""DeltaFormer: u_t = α_t v_t − β_t Σ_{i<t} κ₁(k_i, w_t) u_i,  o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i (P eq. 41-42).

`from kernels import deltaformer` loads torch when the name is first asked for, not when this package is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.attention import deltaformer, write_values
    from kernels.cache import Cache
    from kernels.layer import DeltaFormer

__all__ = ["Cache", "DeltaFormer", "deltaformer", "write_values"]

_HOME = {
    "deltaformer": "kernels.attention",
    "write_values": "kernels.attention",
    "DeltaFormer": "kernels.layer",
    "Cache": "kernels.cache",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError(
            f"kernels.{name} needs torch; install it with: pip install 'associative-memory-verify[kernels]'"
        ) from error
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
