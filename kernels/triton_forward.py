"""DeltaFormer's forward on a GPU: what the Triton kernels are given, and which of them run."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
from triton.runtime.interpreter import InterpretedFunction

from kernels.exactness import INTEGERS, check_exact_score, not_certified
from kernels.similarity import whole_divisor
from kernels.triton_tiles import SUBBLOCK, read_kernel, write_kernel

if TYPE_CHECKING:
    from kernels.hopper_forward import Call

# Heads that advance together through the sequence.
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


@lru_cache
def score_of(kind: str, scale: float, dtype: torch.dtype) -> Score:
    """How to compute κ so that round(x·scale) with scale = 1/s, s a whole number, is round(x/s), ties included.

    In float32 x·(1/s) rounds twice and can miss a tie; x is divided only where that happens to some half, as far as
    `dtype` holds the integers that come out and |x| is below 2²².
    """
    if kind == "round":
        s = whole_divisor(scale)
        if s is not None:
            halves = np.arange(min(INTEGERS[dtype], 2**22 // s), dtype=np.float64) + 0.5
            multiplied = (halves * s).astype(np.float32) * np.float32(scale)
            # an odd s has no ties, and products below 2²² are otherwise too far from a half to be rounded across it
            if s % 2 == 0 and not np.array_equal(multiplied, halves.astype(np.float32)):
                return Score(kind, float(s), True)
    return Score(kind, scale, False)


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
    def of(
        cls, batch: int, time: int, heads: int, rows: int, cu_seqlens: torch.Tensor | None, device: torch.device
    ) -> Schedule:
        """Dense sequences of one length, or packed ones; lengths are never read on the host.

        Nor are they trusted: bounds are pulled into 0 … time and made to rise, so that no address leaves the tensors
        and no two sequences share a row.
        """
        if cu_seqlens is None:
            none = torch.empty(1, dtype=torch.int32, device=device)
            tiles = triton.cdiv(time, rows)
            return cls(tiles * batch * heads, tiles, batch, none, none, none)
        sequences = cu_seqlens.numel() - 1
        tiles = time // rows + sequences  # an upper bound: every sequence may end in a partial tile
        first_tile = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
        bounds = cu_seqlens.clamp(0, time).cummax(0).values
        lengths = bounds[1:] - bounds[:-1]
        first_tile[1:] = torch.cumsum((lengths + rows - 1) // rows, 0)
        every = torch.arange(tiles, device=device, dtype=torch.int32)
        tile_sequence = torch.searchsorted(first_tile[1:].contiguous(), every, right=True).to(torch.int32)
        return cls(tiles * heads, tiles, sequences, first_tile, tile_sequence, bounds)


def forward(
    q: torch.Tensor | None,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    write: str,
    read: str,
    scale: tuple[float, float],
    tied: bool,
    cu_seqlens: torch.Tensor | None,
    want_u: bool,
    want_o: bool,
    tiling: Tiling | None = None,
    inexact: torch.Tensor | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(o, u) of P eq. 41-42, each None unless wanted, for arguments that kernels.attention has validated.

    q [B, T, Hq, D], k and w [B, T, H, D], v [B, T, H, DV], alpha and beta [B, T, H], one dtype, one device.
    Rows that no sequence of `cu_seqlens` covers are zero.
    `inexact`, one int32 on the device, is raised by the number of entries of u that do not solve their integer system
    exactly, and once more where that they do would prove nothing (kernels.exactness.not_certified): u is certified
    where it stays as it was. Inputs must then be integers. `scale` is one number for write and one for read.
    """
    if inexact is not None:
        check_exact_score(write, scale[0])
    if not (k.is_cuda or interpreted()):
        raise ValueError("form='triton' needs CUDA tensors, or TRITON_INTERPRET=1 in the environment for CPU tensors")
    batch, time, heads, _ = k.shape
    value_width = v.shape[-1]
    room = torch.empty if cu_seqlens is None else torch.zeros
    u = room(batch, time, heads, value_width, dtype=v.dtype, device=v.device)
    o = None
    if want_o and q is not None:
        o = room(batch, time, q.shape[2], value_width, dtype=v.dtype, device=v.device)
    if min(batch, time, heads) == 0:
        return o, (u if want_u else None)
    one_pass = tied and write == read and scale[0] == scale[1]
    # Triton launches on the current device, wherever its arguments are
    with torch.cuda.device(k.device) if k.is_cuda else nullcontext():
        hopper = None if interpreted() or tiling is not None else hopper_kernels(k.device)
        score = score_of(write, scale[0], k.dtype)
        if hopper and write == "softmax" and inexact is None and hopper.suits(w, k, v, cu_seqlens):
            hopper.Write(w, k, v, alpha, beta, scale[0], one_pass)(w, k, v, alpha, beta, u, o if one_pass else None)
        else:
            gates = (alpha, beta)
            launch_write(w, k, v, gates, u, o if one_pass else None, score, tiling, cu_seqlens, inexact)
            if inexact is not None:
                inexact += not_certified(w, k, v, alpha, beta, u, write, scale[0])
        if q is None or o is None or one_pass:
            return o, (u if want_u else None)
        score = score_of(read, scale[1], k.dtype)
        if hopper and read == "softmax" and hopper.suits(q, k, u, cu_seqlens):
            hopper.Read(q, k, u, scale[1])(q, k, u, o)
        else:
            launch_read(q, k, u, o, score, tiling, cu_seqlens)
    return o, (u if want_u else None)


def hopper_call(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    write: str,
    read: str,
    scale: tuple[float, float],
) -> Call | None:
    """What serves every call with arguments of this geometry and alignment, where Hopper's kernels do both stages."""
    hopper = None if interpreted() else hopper_kernels(k.device)
    if hopper is None or (write, read) != ("softmax", "softmax") or not k.shape[0] * k.shape[1]:
        return None
    if not (hopper.suits(w, k, v, None) and hopper.suits(q, k, v, None)):
        return None
    one_pass = w is q and scale[0] == scale[1]
    second = None if one_pass else hopper.Read(q, k, v, scale[1])
    return hopper.Call(hopper.Write(w, k, v, alpha, beta, scale[0], one_pass), second)  # type: ignore[no-any-return]


@lru_cache
def hopper_kernels(device: torch.device) -> ModuleType | None:
    """kernels.hopper_forward on a Hopper GPU, None elsewhere."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        return None
    from kernels import hopper_forward

    return hopper_forward


def unit_columns(x: torch.Tensor) -> torch.Tensor:
    """x, copied only if its last axis is not contiguous or its rows lie too far apart for 32-bit steps in a tile."""
    return x if x.stride(-1) == 1 and x.stride(1) < 2**22 else x.contiguous()


def launch_write(
    w: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gates: tuple[torch.Tensor | None, torch.Tensor | None],
    u: torch.Tensor,
    o: torch.Tensor | None,
    score: Score,
    tiling: Tiling | None,
    cu_seqlens: torch.Tensor | None,
    inexact: torch.Tensor | None,
) -> None:
    """u, and with o the tied read too, in one launch."""
    w, k, v = (unit_columns(x) for x in (w, k, v))
    batch, time, heads, width = k.shape
    tiling = tiling or tiling_for(v.dtype, width, v.shape[-1])
    schedule = Schedule.of(batch, time, heads, tiling.rows, cu_seqlens, k.device)
    lanes = schedule.sequences * heads
    # the claim counter, then one progress counter a sequence and head
    counters = torch.zeros(1 + lanes, dtype=torch.int32, device=k.device)
    alpha, beta = (counters.view(1, 1, -1) if g is None else g for g in gates)
    out = u if o is None else o
    # Where a 128-byte line of u holds rows of several heads, a load pipelined through L1 could bring in a neighbour's
    # rows before they are written and find them stale later: such loads go to L2, one at a time.
    stages = tiling.stages if v.shape[-1] * v.element_size() % 128 == 0 else 1
    write_kernel[(schedule.programs,)](
        w, k, v, alpha, beta, u, out, counters, counters[1:], counters if inexact is None else inexact,
        schedule.bounds, schedule.first_tile, schedule.tile_sequence,
        *w.stride()[:3], *k.stride()[:3], *v.stride()[:3], *alpha.stride()[:3], *beta.stride()[:3],
        *u.stride()[:3], *out.stride()[:3],
        time, heads, lanes, schedule.tiles, score.factor,
        KIND=score.kind, DIVIDE=score.divide, TIED=o is not None, EXACT=inexact is not None,
        HAS_ALPHA=gates[0] is not None, HAS_BETA=gates[1] is not None, VARLEN=cu_seqlens is not None,
        GROUP=min(HEADS_TOGETHER, lanes), D=width, DV=v.shape[-1],
        BLOCK_D=block_width(width), BLOCK_DV=value_block(v), M=tiling.rows, N=tiling.keys,
        DOUBLINGS=max(0, (tiling.rows // SUBBLOCK.value).bit_length() - 2),
        num_warps=tiling.warps, num_stages=stages,
    )  # fmt: skip


def launch_read(
    q: torch.Tensor,
    k: torch.Tensor,
    u: torch.Tensor,
    o: torch.Tensor,
    score: Score,
    tiling: Tiling | None,
    cu_seqlens: torch.Tensor | None,
) -> None:
    """o_t = Σ_{i≤t} κ₂(k_i, q_t) u_i."""
    q, k = unit_columns(q), unit_columns(k)
    batch, time, heads, width = q.shape
    tiling = tiling or tiling_for(u.dtype, width, u.shape[-1])
    schedule = Schedule.of(batch, time, heads, tiling.rows, cu_seqlens, k.device)
    read_kernel[(schedule.programs,)](
        q, k, u, o, schedule.bounds, schedule.first_tile, schedule.tile_sequence,
        *q.stride()[:3], *k.stride()[:3], *u.stride()[:3], *o.stride()[:3],
        time, heads, schedule.sequences * heads, schedule.tiles, score.factor,
        KIND=score.kind, DIVIDE=score.divide, VARLEN=cu_seqlens is not None, SHARED=heads // k.shape[2],
        D=width, DV=u.shape[-1], BLOCK_D=block_width(width), BLOCK_DV=value_block(u),
        M=tiling.rows, N=tiling.keys, num_warps=tiling.warps, num_stages=tiling.stages,
    )  # fmt: skip


def block_width(width: int) -> int:
    """The power of two that holds a row, at least 16 for the matrix units."""
    return max(16, triton.next_power_of_2(width))


def value_block(x: torch.Tensor) -> int:
    """block_width of rows of v or u; on a GPU at least 128 bytes.

    Triton 3.6 multiplies narrower 16-bit rows wrongly where they are a product's right operand: every 16 rows but the
    first 16 of a block are off (seen at 16 and 32 columns, w = k, on an H200).
    """
    least = 64 if x.is_cuda and x.element_size() == 2 else 16
    return max(least, block_width(x.shape[-1]))
