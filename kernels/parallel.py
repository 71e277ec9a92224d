"""The parallel form: U = (I + diag(β) A₁)⁻¹ diag(α) V by one triangular solve, O = A₂ U. T × T buffers."""

import torch
from torch import Tensor

from kernels.similarity import scaled, weights


def forward(
    q: Tensor | None,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor,
    beta: Tensor,
    write: str,
    read: str,
    scale: tuple[float, float],
    tied: bool,
) -> tuple[Tensor | None, Tensor]:
    """(o, u) of one batch of whole sequences; o is None without q. Shapes as in `kernels.recurrent.forward`."""
    causal = torch.ones(k.shape[2], k.shape[2], dtype=torch.bool, device=k.device).tril()
    strict = causal.tril(-1)
    a = beta * weights(write, scaled(w @ k.mT, scale[0]), strict)  # [B, H, T, T]
    u = torch.linalg.solve_triangular(a, alpha * v, upper=False, unitriangular=True)
    if q is None:
        return None, u
    return weights(read, scaled(q @ k.unsqueeze(2).mT, scale[1]), causal) @ u.unsqueeze(2), u
