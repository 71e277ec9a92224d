"""The oracle: P eq. 41-42 read aloud, one token at a time, in float64. T serial steps, O(T² D) work."""

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
    """(o, u) of one batch of whole sequences, in float64; o is None without q.

    q [B, H, G, T, D] with G query heads to a key head; k, w [B, H, T, D]; v [B, H, T, Dv]; alpha, beta [B, H, T, 1].
    """
    k, v, w, alpha, beta = (x.double() for x in (k, v, w, alpha, beta))
    written: list[Tensor] = []  # u_0 … u_{t−1}, each [B, H, Dv]
    for t in range(k.shape[2]):
        u_t = alpha[:, :, t] * v[:, :, t]
        if t > 0:
            scores = scaled((k[:, :, :t] * w[:, :, t : t + 1]).sum(-1), scale[0])  # [B, H, t]
            kappa = weights(write, scores, torch.ones_like(scores, dtype=torch.bool))
            u_t = u_t - beta[:, :, t] * (kappa.unsqueeze(-1) * torch.stack(written, 2)).sum(2)
        written.append(u_t)
    u = torch.stack(written, 2)
    if q is None:
        return None, u
    q = q.double()
    recalled = []
    for t in range(k.shape[2]):
        scores = scaled((k[:, :, None, : t + 1] * q[:, :, :, t : t + 1]).sum(-1), scale[1])  # [B, H, G, t+1]
        kappa = weights(read, scores, torch.ones_like(scores, dtype=torch.bool))
        recalled.append((kappa.unsqueeze(-1) * u[:, :, None, : t + 1]).sum(3))
    return torch.stack(recalled, 3), u
