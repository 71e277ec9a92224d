"""The tied softmax's gradient in closed form: what a fused backward kernel has to compute, and nothing more.

With w = q and one softmax, p̃ = κ₁ (over i < t), p = κ₂ (over i ≤ t), a = p̃ u, u = α v − β a, o = p u. Writing λ for the
gradient of u,

    (I + diag(β) p̃)ᵀ λ = pᵀ do + du                                   one triangular solve, in reverse order
    dS = p ∘ (do uᵀ − do·o) − β p̃ ∘ (λ uᵀ − λ·a)                      do·o and λ·a one number a row
    dq = scale dS k,  dk = scale dSᵀ q,  dv = α λ,  dα = λ·v,  dβ = −λ·a.

p = E/Z' and p̃ = E/Z share E = e^S, so off the diagonal g = do/Z' − β λ/Z turns pairs of products into one: a tile takes
five, as in attention's backward (S, Eᵀ g, g uᵀ, dq, dk). Saved are q, k, u, o, a and both normalisers: nothing T × T.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.arguments import check, heads_first, one_scale
from kernels.similarity import scaled, weights


@dataclass(frozen=True)
class Gradients:
    """Of q, k [B, T, H, D], v [B, T, H, Dv], alpha and beta [B, T, H], in the inputs' layout and float64."""

    q: Tensor
    k: Tensor
    v: Tensor
    alpha: Tensor
    beta: Tensor


@torch.no_grad()
def tied_softmax_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    *,
    du: Tensor | None = None,
    alpha: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
) -> Gradients:
    """Gradients of Σ o·do + Σ u·du for (o, u) = deltaformer(q, k, v, tied=True, return_u=True).

    q, k [B, T, H, D]; v, do, du [B, T, H, Dv]; alpha, beta [B, T, H]. Dense T × T in float64: the reference to test a
    kernel by. Raises ValueError where shapes do not fit.
    """
    check(q, k, v, q, alpha, beta, None)
    for name, x in (("do", do), ("du", du)):
        if x is not None and x.shape != v.shape:
            raise ValueError(f"{name} has shape {list(x.shape)}; expected v's {list(v.shape)}")
    factor = one_scale(scale, "softmax", "read", k)
    wide = (k.double(), v.double(), q.double())
    gates = (None if x is None else x.double() for x in (alpha, beta))
    _, k_, v_, q_, alpha_, beta_ = heads_first(None, *wide, *gates)
    do_ = do.double().transpose(1, 2)
    du_ = torch.zeros_like(do_) if du is None else du.double().transpose(1, 2)

    causal = torch.ones(k.shape[1], k.shape[1], dtype=torch.bool, device=k.device).tril()
    scores = scaled(q_ @ k_.mT, factor)
    strict, inclusive = weights("softmax", scores, causal.tril(-1)), weights("softmax", scores, causal)
    u = torch.linalg.solve_triangular(beta_ * strict, alpha_ * v_, upper=False, unitriangular=True)
    a, o = strict @ u, inclusive @ u

    adjoint = torch.linalg.solve_triangular(
        (beta_ * strict).mT, inclusive.mT @ do_ + du_, upper=True, unitriangular=True
    )
    row = {name: x.sum(-1, keepdim=True) for name, x in {"o": do_ * o, "a": adjoint * a, "v": adjoint * v_}.items()}
    d_scores = inclusive * (do_ @ u.mT - row["o"]) - beta_ * strict * (adjoint @ u.mT - row["a"])
    return Gradients(
        q=(factor * d_scores @ k_).transpose(1, 2),
        k=(factor * d_scores.mT @ q_).transpose(1, 2),
        v=(alpha_ * adjoint).transpose(1, 2),
        alpha=row["v"].squeeze(-1).transpose(1, 2),
        beta=-row["a"].squeeze(-1).transpose(1, 2),
    )
