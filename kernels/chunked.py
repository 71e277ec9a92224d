"""The chunk-wise form: T/C serial steps of matrix products, any device, differentiable by autograd.

A chunk of C tokens sees the u of the past through one matrix product; within the chunk, (I + diag(β) A) u = rhs with A
strictly lower triangular is solved by substitution. Substitution is backward stable for every similarity: its error is
|(I+A)⁻¹|·|A|·|u| times a few units of roundoff (Higham, Accuracy and Stability, thm 8.5), also where powers of A, which
the product form ∏(I + (−A)^{2^m}) needs, overflow or cancel.

Masked weights are zeros in a matrix product, so a u that overflows to infinity makes o of its whole chunk NaN.

Scores of one chunk take C × T numbers a head; under autograd all chunks' scores are kept, T²/2 a head.
"""

import torch
from torch import Tensor

from kernels.similarity import log_sum_exp, scaled, weights

CHUNK = 64


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
    u = v[:, :, :0]
    outputs = []
    for start in range(0, k.shape[2], CHUNK):
        rows = slice(start, min(start + CHUNK, k.shape[2]))
        q_rows = None if q is None else q[:, :, :, rows]
        arguments = (v[:, :, rows], w[:, :, rows], alpha[:, :, rows], beta[:, :, rows])
        o_rows, u_rows = step(q_rows, k[:, :, : rows.stop], u, *arguments, write, read, scale, tied)
        u = torch.cat((u, u_rows), 2)
        outputs.append(o_rows)
    return (None if q is None else torch.cat([o for o in outputs if o is not None], 3)), u


def step(
    q: Tensor | None,
    k: Tensor,
    past: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor,
    beta: Tensor,
    write: str,
    read: str,
    scale: tuple[float, float],
    tied: bool,
) -> tuple[Tensor | None, Tensor]:
    """(o, u) of C new tokens after S old ones, whose u is `past` [B, H, S, Dv].

    k [B, H, S + C, D] holds old and new keys; all else is of the new tokens: q [B, H, G, C, D], v [B, H, C, Dv],
    w [B, H, C, D], alpha, beta [B, H, C, 1].
    """
    old = past.shape[2]
    column = torch.arange(k.shape[2], device=k.device)
    row = column[old:, None]
    scores = scaled(w @ k.mT, scale[0])  # [B, H, C, S + C]
    kappa = weights(write, scores, column < row)
    from_past = kappa[..., :old] @ past
    within = kappa[..., old:]
    u = torch.linalg.solve_triangular(beta * within, alpha * v - beta * from_past, upper=False, unitriangular=True)
    if q is None:
        return None, u
    if tied and write == read == "softmax" and scale[0] == scale[1]:
        # the strict average that u needed, and the diagonal term, are all that o needs: no second pass over the keys
        strict = from_past + within @ u
        own = scores.diagonal(old, -2, -1).unsqueeze(-1)
        gate = torch.sigmoid(own - log_sum_exp(scores, column < row))
        return torch.lerp(strict, u, gate).unsqueeze(2), u
    kappa = weights(read, scaled(q @ k.unsqueeze(2).mT, scale[1]), column <= row)
    return kappa @ torch.cat((past, u), 2).unsqueeze(2), u
