"""The public function: checks its arguments, chooses a form, brings tensors to that form's layout and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from kernels import chunked, parallel, recurrent
from kernels.arguments import Number, Scale, both_scales, check, choose_write_query, cuts, heads_first, one_scale

TORCH_FORMS: dict[str, Callable[..., tuple[Tensor | None, Tensor]]] = {
    "recurrent": recurrent.forward,
    "parallel": parallel.forward,
    "chunked": chunked.forward,
}
FORMS = ("auto", *TORCH_FORMS, "triton")
TRITON_WIDTH = 256
REMEMBERED = 4096

_remembered: dict[Any, Any] = {}  # what _description gave: a kernels.hopper_forward.Call


def deltaformer(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    w: Tensor | None = None,
    alpha: Tensor | None = None,
    beta: Tensor | None = None,
    write: str = "softmax",
    read: str = "softmax",
    scale: Scale = None,
    tied: bool | None = None,
    form: str = "auto",
    cu_seqlens: Tensor | None = None,
    return_u: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """DeltaFormer (P eq. 41-42): u_t = α_t v_t − β_t Σ_{i<t} κ₁(k_i, w_t) u_i and o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i.

    Shapes, T ≥ 0: q [B, T, H_q, D]; k [B, T, H, D]; v [B, T, H, Dv]; w [B, T, H, D]; alpha, beta [B, T, H]. H_q is a
    multiple of H, and query head h reads key head h // (H_q / H). Returns o [B, T, H_q, Dv] in v's dtype, and with
    `return_u` also u [B, T, H, Dv].

    w: the write queries; k by default (D App. E). w = q, given as the same tensor or by `tied=True`, is the tied case
      of flash-linear-attention; with softmax twice and one scale its o costs no second pass.
    alpha, beta: gates, 1 by default. beta = 0 with alpha = 1 is causal attention. Softmax writes are accurate for
      |beta| ≤ 1; beyond, the Hopper kernel's product form loses digits (docs/kernel-notes.md), the others do not.
    write, read: κ₁, κ₂, each one of softmax, exp, linear, relu, round, solu, taken of scale·(x·y). Softmax is over
      i < t for writing, i ≤ t for reading; an empty row is zero.
      In a softmax a score of −∞ has weight zero, so that a row of nothing else is empty; +∞ makes its row NaN. A
      score whose product x·y leaves the range of the form's precision is infinite.
    scale: one positive number for both, or a pair (write, read); None means, for each of the two by itself, 1/√D for
      softmax, exp and solu, 1 for linear, relu and round. A scale of 1/s for whole s divides by s, so that round has
      its ties where x/s has them. Any kind of real number from 2⁻¹⁰⁰ to 2¹⁰⁰, for float64 from 2⁻¹⁰⁰⁰ to 2¹⁰⁰⁰, since
      scores need room as well; a tensor of one number is waited for.
    form: recurrent (float64 whatever the inputs, the oracle), parallel, chunked, triton; auto is triton where tensors
      are on a CUDA device, triton supports their dtype and widths, and no gradient is asked for, else chunked. Forms
      other than recurrent compute in float32, or float64 for float64 inputs (on CUDA, TF32 only if torch is told to:
      torch.backends.cuda.matmul). Only the torch forms have gradients.
    cu_seqlens: [N + 1] integers rising from 0 to T that cut the one row of a batch (B = 1) into N sequences. Torch
      forms fetch and check them, and so does triton on a CPU. On a GPU triton does not wait for them: it pulls each
      into 0 … T and up to the largest before it, and rows before the first or after the last are zero in u and o.

    No row's value depends on later tokens, while all are finite. Forms other than recurrent mask by multiplying by
    zero: an infinity or NaN in a token, or one that u grows to, makes rows before it NaN too, as far back as its block
    of 128 rows or fewer goes, in the parallel form all.

    Raises ValueError where shapes, dtypes, devices, names or numbers do not fit, saying what would.
    """
    write_query = choose_write_query(q, k, w, tied)
    # q may also be the write query because it is k: the shapes alone do not tell which stages there are
    options = (write_query is q, write, read, scale, form)
    key = _description((q, k, v, write_query, alpha, beta), options, cu_seqlens)
    call = None if key is None else _remembered.get(key)
    if call is not None:
        o, u = call(q, k, v, write_query, alpha, beta)
        return (o, u) if return_u else o
    check(q, k, v, write_query, alpha, beta, cu_seqlens)
    scales = both_scales(scale, write, read, k)
    if key is not None and len(_remembered) < REMEMBERED and _choose(form, [q, k, v]) == "triton":
        from kernels.triton_forward import hopper_call

        call = hopper_call(q, k, v, write_query, alpha, beta, write, read, scales)
        if call is not None:
            _remembered[key] = call
    o, u = _run(q, k, v, write_query, alpha, beta, write, read, scales, form, cu_seqlens, return_u)
    assert o is not None
    if not return_u:
        return o
    assert u is not None
    return o, u


def write_values(
    k: Tensor,
    v: Tensor,
    *,
    w: Tensor | None = None,
    alpha: Tensor | None = None,
    beta: Tensor | None = None,
    write: str = "softmax",
    scale: Number | None = None,
    form: str = "auto",
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """The first stage alone, u [B, T, H, Dv] (P eq. 41); arguments as for `deltaformer`."""
    write_query = k if w is None else w
    check(None, k, v, write_query, alpha, beta, cu_seqlens)
    scales = (one_scale(scale, write, "write", k), 1.0)
    _, u = _run(None, k, v, write_query, alpha, beta, write, "linear", scales, form, cu_seqlens, True)
    assert u is not None
    return u


def _run(
    q: Tensor | None,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    alpha: Tensor | None,
    beta: Tensor | None,
    write: str,
    read: str,
    scale: tuple[float, float],
    form: str,
    cu_seqlens: Tensor | None,
    want_u: bool,
) -> tuple[Tensor | None, Tensor | None]:
    tensors = [x for x in (q, k, v, w, alpha, beta) if x is not None]
    form = _choose(form, tensors)
    bounds = [0, k.shape[1]] if cu_seqlens is None or (form == "triton" and k.is_cuda) else cuts(cu_seqlens, k.shape[1])
    if not k.shape[0] or not k.shape[1]:
        nothing = torch.stack([x.sum().to(v.dtype) for x in tensors]).sum()  # zero, with every input in its graph
        return (None if q is None else v.new_zeros(*q.shape[:3], v.shape[3]) + nothing), torch.zeros_like(v) + nothing
    tied = w is q
    if form == "triton":
        from kernels import triton_forward

        return triton_forward.forward(
            q, k, v, w, alpha, beta, write, read, scale, tied, cu_seqlens, want_u=want_u, want_o=q is not None
        )
    outputs: list[tuple[Tensor | None, Tensor]] = []
    for start, stop in pairwise(bounds):
        if stop > start:
            part = [None if x is None else x[:, start:stop] for x in (q, k, v, w, alpha, beta)]
            outputs.append(TORCH_FORMS[form](*heads_first(*part), write, read, scale, tied))  # type: ignore[arg-type]
    u = torch.cat([u for _, u in outputs], 2).transpose(1, 2).to(v.dtype)
    if q is None:
        return None, u
    o = torch.cat([o for o, _ in outputs if o is not None], 3)  # [B, H, G, T, Dv]
    return o.flatten(1, 2).transpose(1, 2).to(v.dtype), u


def _description(
    tensors: tuple[Tensor | None, ...], options: tuple[Any, ...], cu_seqlens: Tensor | None
) -> tuple[Any, ...] | None:
    """All that the checks, the choice of a form and the making ready of Hopper's kernels depend on.

    On a short sequence they would take longer than the kernels. None where something must be looked at each time.
    """
    if cu_seqlens is not None:
        return None
    wants_gradients = torch.is_grad_enabled()
    key: list[Any] = [*options]
    for x in tensors:
        if x is None:
            key.append(None)
        elif type(x) is Tensor and x.is_cuda and not (wants_gradients and x.requires_grad):
            key.append((x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16))
        else:
            return None
    scale = options[3]
    if any(isinstance(x, Tensor) for x in (scale if isinstance(scale, tuple) else (scale,))):
        return None  # it can change in place
    try:
        hash(options)
    except TypeError:
        return None
    return tuple(key)


def _choose(form: str, tensors: Sequence[Tensor]) -> str:
    """The form to run; raises ValueError where it is unknown or cannot take these tensors."""
    if form not in FORMS:
        raise ValueError(f"form {form!r} is unknown; expected one of {', '.join(FORMS)}")
    if form == "auto":
        return "triton" if tensors[0].is_cuda and obstacle(tensors) is None else "chunked"
    reason = obstacle(tensors) if form == "triton" else None
    if reason is not None:
        raise ValueError(f"form 'triton' {reason}; use form='chunked'")
    return form


def obstacle(tensors: Sequence[Tensor]) -> str | None:
    """Why the Triton kernel cannot take these tensors, or None."""
    first = tensors[0]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return "has no gradient"
    if first.dtype == torch.float64:
        return "does not compute in float64"
    widest = max(x.shape[3] for x in tensors if x.ndim == 4)
    if widest > TRITON_WIDTH:
        return f"takes widths up to {TRITON_WIDTH}, not {widest}"
    if first.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return "needs a CUDA device, or TRITON_INTERPRET=1 in the environment to interpret it on a CPU"
    if first.device.type == "cpu" and first.dtype == torch.bfloat16:
        return "cannot be interpreted in bfloat16, whose products Triton's interpreter computes wrongly"
    if first.device.type not in ("cpu", "cuda"):
        return f"does not run on {first.device.type}"
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError:
        return "needs triton, which is not installed"
    return None
