"""What the Hopper kernels are given: TMA descriptors, counters, one program a multiprocessor."""

from __future__ import annotations

from functools import lru_cache

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.hopper_read import hopper_read_kernel
from kernels.hopper_tiles import HALF, ROWS
from kernels.hopper_write import hopper_write_kernel

# 168 registers a thread are all there are for three warpgroups; the loading warps give most of theirs to the others.
REGISTERS = 168
ROW_BLOCKS = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
LOG2E = 1.4426950408889634


def suits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None) -> bool:
    """Whether the Hopper kernels compute this: 16-bit dense sequences, keys and values of one width, 64 or 128."""
    return (
        k.dtype in (torch.bfloat16, torch.float16)
        and cu_seqlens is None
        and k.shape[-1] in (64, 128)
        and v.shape[-1] == k.shape[-1]
        and k.shape[0] * k.shape[1] < 2**31
        and all(rows_in_a_plane(x) for x in (q, k, v))
    )


def rows_in_a_plane(x: torch.Tensor) -> bool:
    """Whether x [B, T, H, D] is a matrix of B·T evenly spaced rows that TMA can address."""
    batch, time, head, unit = x.stride()
    even = x.shape[0] == 1 or batch == x.shape[1] * time
    return even and unit == 1 and time % 8 == 0 and head % 8 == 0 and x.data_ptr() % 16 == 0


def plane(x: torch.Tensor, block_rows: int = ROWS.value) -> TensorDescriptor:
    """x [B, T, H, D] as [B·T, …], moved in blocks of `block_rows` rows of one head."""
    _, time, head, _ = x.stride()
    width = x.shape[-1]
    block = [block_rows, width]
    rows, columns = x.shape[0] * x.shape[1], (x.shape[2] - 1) * head + width
    return TensorDescriptor(x, [rows, columns], [time, 1], block, ROW_BLOCKS)


@lru_cache
def multiprocessors(device: torch.device) -> int:
    """How many programs run at once, one a multiprocessor."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def write_bundle(tiles: int) -> int:
    """Row tiles of a head that are claimed together: more of them read K and U from memory less often, but each waits
    for the one before it, which weighs less the longer a tile is. Measured on an H200 (docs/kernel-notes.md).
    """
    return 1 if tiles < 32 else 3 if tiles < 192 else 8


def read_bundle(tiles: int) -> int:
    """The same for the read, where nobody waits and a short sequence has few tiles to balance."""
    return 2 if tiles < 192 else 8


def launch_write(
    w: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    u: torch.Tensor,
    o: torch.Tensor | None,
    scale: float,
    bundle: int | None = None,
) -> None:
    """u, and with o the tied read too, of softmax DeltaFormer in one launch; 0 ≤ β ≤ 1.

    `bundle` row tiles of a head are claimed together (write_bundle by default).
    """
    batch, time, heads, width = k.shape
    lanes = batch * heads
    tiles = -(-time // ROWS.value)
    counters = torch.zeros(1 + lanes, dtype=torch.int32, device=k.device)
    gates = [counters.view(1, 1, -1) if g is None else g for g in (alpha, beta)]
    out = u if o is None else o
    programs = min(multiprocessors(k.device), tiles * lanes)
    hopper_write_kernel[(programs,)](
        plane(w), plane(k), plane(v), plane(u), plane(u, HALF.value), plane(out, HALF.value), *gates, u, out,
        counters, counters[1:], time, heads, lanes, tiles, bundle or write_bundle(tiles),
        w.stride(2), k.stride(2), v.stride(2), scale * LOG2E,
        *gates[0].stride()[:3], *gates[1].stride()[:3],
        TIED=o is not None, HAS_ALPHA=alpha is not None, HAS_BETA=beta is not None,
        STAGES=2 if width == 128 else 3, num_warps=4, maxnreg=REGISTERS,
    )  # fmt: skip


def launch_read(
    q: torch.Tensor, k: torch.Tensor, u: torch.Tensor, o: torch.Tensor, scale: float, bundle: int | None = None
) -> None:
    """o_t = Σ_{i≤t} softmax(scale·k_i·q_t) u_i; q may have several heads to one of k and u."""
    batch, time, heads, width = q.shape
    lanes = batch * heads
    tiles = -(-time // ROWS.value)
    claimed = torch.zeros(1, dtype=torch.int32, device=k.device)
    programs = min(multiprocessors(k.device), tiles * lanes)
    hopper_read_kernel[(programs,)](
        plane(q), plane(k), plane(u), o, claimed, time, heads, lanes, tiles,
        bundle or read_bundle(tiles), q.stride(2), k.stride(2), scale * LOG2E,
        SHARED=heads // k.shape[2], STAGES=2 if width == 128 else 3,
        num_warps=4, maxnreg=REGISTERS,
    )  # fmt: skip
