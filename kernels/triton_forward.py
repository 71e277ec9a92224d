"""DeltaFormer's forward on a GPU: what the Triton kernels are given, and which of them run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
from triton.runtime.interpreter import InterpretedFunction

from kernels.triton_tiles import SUBBLOCK, read_kernel, write_kernel

# Heads that advance together through a long sequence: more of them hide the dependency chain, fewer keep K and U in L2.
HEADS_TOGETHER = 64


@dataclass(frozen=True)
class Tiling:
    """Rows and keys of a tile, warps of a program, tiles in flight (`num_stages`)."""

    rows: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Score:
    """κ(scale·x) as the kernels take it. `divide`: x is divided by `factor` and rounded once, for exact ties."""

    kind: str
    factor: float
    divide: bool


def interpreted() -> bool:
    """Whether Triton was imported with TRITON_INTERPRET=1, so that kernels run on CPU tensors."""
    return isinstance(write_kernel, InterpretedFunction)


def default_scale(kind: str, width: int) -> float:
    """1/√D where the exponential needs it, 1 elsewhere."""
    return 1 / math.sqrt(width) if kind in ("softmax", "exp", "solu") else 1.0


def score_of(kind: str, scale: float | None, width: int) -> Score:
    """How to compute κ so that round(x·scale) with scale = 1/s, s a whole number, is round(x/s) also at ties."""
    factor = default_scale(kind, width) if scale is None else float(scale)
    if kind == "round" and factor > 0:
        s = round(1 / factor)
        # a power of two divides exactly by multiplication; an odd s has no ties, but 1/s is rounded
        if s > 1 and 1 / s == factor and s & (s - 1):
            return Score(kind, float(s), True)
    return Score(kind, factor, False)


def tiling_for(dtype: torch.dtype, width: int, value_width: int) -> Tiling:
    """Tiles that fit a Hopper multiprocessor's registers and shared memory, and smaller ones for wide heads."""
    widest = max(width, value_width)
    if interpreted():
        return Tiling(32, 16, 4, 1)
    if dtype == torch.float32:
        return Tiling(32, 32, 4, 1) if widest <= 128 else Tiling(16, 16, 4, 1)
    if widest <= 64:
        return Tiling(64, 64, 4, 3)
    if widest <= 128:
        return Tiling(128, 64, 8, 3)
    return Tiling(64, 32, 4, 2)


@dataclass(frozen=True)
class Schedule:
    """Which program computes which rows: `tiles` a sequence, or a tile table on the device for cu_seqlens."""

    programs: int
    tiles: int
    sequences: int
    first_tile: torch.Tensor
    tile_sequence: torch.Tensor
    bounds: torch.Tensor

    @classmethod
    def of(cls, batch: int, time: int, heads: int, rows: int, cu_seqlens: torch.Tensor | None, device: torch.device) -> Schedule:
        """Dense sequences of one length, or packed ones; lengths are never read on the host."""
        if cu_seqlens is None:
            none = torch.empty(1, dtype=torch.int32, device=device)
            tiles = triton.cdiv(time, rows)
            return cls(tiles * batch * heads, tiles, batch, none, none, none)
        sequences = cu_seqlens.numel() - 1
        tiles = time // rows + sequences  # an upper bound: every sequence may end in a partial tile
        first_tile = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
        lengths = cu_seqlens[1:] - cu_seqlens[:-1]
        first_tile[1:] = torch.cumsum((lengths + rows - 1) // rows, 0)
        every = torch.arange(tiles, device=device, dtype=torch.int32)
        tile_sequence = torch.searchsorted(first_tile[1:].contiguous(), every, right=True).to(torch.int32)
        return cls(tiles * heads, tiles, sequences, first_tile, tile_sequence, cu_seqlens.contiguous())


def forward(
    q: torch.Tensor | None,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    write: str,
    read: str,
    scale: float | None,
    tied: bool,
    cu_seqlens: torch.Tensor | None,
    want_u: bool,
    want_o: bool,
    tiling: Tiling | None = None,
    inexact: torch.Tensor | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(o, u) of P eq. 41-42, each None unless wanted, for arguments that kernels.attention has validated.

    q [B, T, Hq, D], k and w [B, T, H, D], v [B, T, H, DV], alpha and beta [B, T, H], one dtype, one device.
    `inexact`, one int32 on the device, is raised by the number of entries of u that do not solve their integer system
    exactly; give it for integer keys and values only.
    """
    if not (k.is_cuda or interpreted()):
        raise ValueError("form='triton' needs CUDA tensors, or TRITON_INTERPRET=1 in the environment for CPU tensors")
    batch, time, heads, width = k.shape
    value_width = v.shape[-1]
    u = torch.empty(batch, time, heads, value_width, dtype=v.dtype, device=v.device)
    want_o = want_o and q is not None
    one_pass = tied and want_o and write == read
    o = None
    if want_o:
        assert q is not None
        o = torch.empty(batch, time, q.shape[2], value_width, dtype=v.dtype, device=v.device)
    if min(batch, time, heads) == 0:
        return o, (u if want_u else None)
    if scale is not None and scale < 0:
        # every similarity is a function of scale·(x·y)
        k, scale = -k, -scale
    if write == "softmax" and tiling is None and not interpreted():
        from kernels import hopper_forward

        if hopper_forward.suits(w, k, v, cu_seqlens):
            factor = score_of(write, scale, width).factor
            hopper_forward.launch_write(w, k, v, alpha, beta, u, o if one_pass else None, factor, HEADS_TOGETHER)
            return o, (u if want_u else None)
    k, v, w = (unit_columns(x) for x in (k, v, w))
    tiling = tiling or tiling_for(v.dtype, width, value_width)
    schedule = Schedule.of(batch, time, heads, tiling.rows, cu_seqlens, k.device)
    launch_write(w, k, v, alpha, beta, u, o if one_pass else None, score_of(write, scale, width), tiling, schedule, inexact)
    if want_o and not one_pass:
        assert q is not None
        assert o is not None
        schedule = Schedule.of(batch, time, q.shape[2], tiling.rows, cu_seqlens, k.device)
        launch_read(unit_columns(q), k, u, o, score_of(read, scale, width), tiling, schedule)
    return o, (u if want_u else None)


def unit_columns(x: torch.Tensor) -> torch.Tensor:
    """x, copied only if its last axis is not contiguous or its rows lie too far apart for 32-bit steps in a tile."""
    return x if x.stride(-1) == 1 and x.stride(1) < 2**22 else x.contiguous()


def launch_write(
    w: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    u: torch.Tensor,
    o: torch.Tensor | None,
    score: Score,
    tiling: Tiling,
    schedule: Schedule,
    inexact: torch.Tensor | None,
) -> None:
    """u, and with o the tied read too, in one launch."""
    heads, width = k.shape[2:]
    lanes = schedule.sequences * heads
    # the claim counter, then one progress counter a sequence and head
    counters = torch.zeros(1 + lanes, dtype=torch.int32, device=k.device)
    gates = [counters.view(1, 1, -1) if g is None else g for g in (alpha, beta)]
    out = u if o is None else o
    write_kernel[(schedule.programs,)](
        w, k, v, *gates, u, out, counters, counters[1:], counters if inexact is None else inexact,
        schedule.bounds, schedule.first_tile, schedule.tile_sequence,
        *w.stride()[:3], *k.stride()[:3], *v.stride()[:3], *gates[0].stride()[:3], *gates[1].stride()[:3],
        *u.stride()[:3], *out.stride()[:3],
        k.shape[1], heads, lanes, schedule.tiles, score.factor,
        KIND=score.kind, DIVIDE=score.divide, TIED=o is not None, EXACT=inexact is not None,
        HAS_ALPHA=alpha is not None, HAS_BETA=beta is not None, VARLEN=schedule.bounds.numel() > 1,
        GROUP=min(HEADS_TOGETHER, lanes), D=width, DV=v.shape[-1],
        BLOCK_D=block_width(width), BLOCK_DV=block_width(v.shape[-1]), M=tiling.rows, N=tiling.keys,
        DOUBLINGS=max(0, (tiling.rows // SUBBLOCK.value).bit_length() - 2),
        num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


def launch_read(
    q: torch.Tensor, k: torch.Tensor, u: torch.Tensor, o: torch.Tensor, score: Score, tiling: Tiling, schedule: Schedule
) -> None:
    """o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i."""
    heads, width = q.shape[2:]
    read_kernel[(schedule.programs,)](
        q, k, u, o, schedule.bounds, schedule.first_tile, schedule.tile_sequence,
        *q.stride()[:3], *k.stride()[:3], *u.stride()[:3], *o.stride()[:3],
        k.shape[1], heads, schedule.sequences * heads, schedule.tiles, score.factor,
        KIND=score.kind, DIVIDE=score.divide, VARLEN=schedule.bounds.numel() > 1, SHARED=heads // k.shape[2],
        D=width, DV=u.shape[-1], BLOCK_D=block_width(width), BLOCK_DV=block_width(u.shape[-1]),
        M=tiling.rows, N=tiling.keys, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


def block_width(width: int) -> int:
    """The power of two that holds a row, at least 16 for the matrix units."""
    return max(16, triton.next_power_of_2(width))
