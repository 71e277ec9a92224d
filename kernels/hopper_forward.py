"""What the Hopper kernels are given: TMA descriptors, counters, one program a multiprocessor; and their launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

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
    """x [B, T, H, D] as [B·T, …], moved in blocks of `block_rows` rows of one head; x as `rows_in_a_plane` wants it."""
    batch, length, heads, width = x.shape
    _, time, head, _ = x.stride()
    # past the constructor, which would check once more what `rows_in_a_plane` has, 2 µs a descriptor
    made = TensorDescriptor.__new__(TensorDescriptor)
    made.base = x
    made.shape = [batch * length, (heads - 1) * head + width]
    made.strides = [time, 1]
    made.block_shape = [block_rows, width]
    made.layout = ROW_BLOCKS
    made.padding = "zero"
    return made


@lru_cache
def multiprocessors(device: torch.device) -> int:
    """How many programs run at once, one a multiprocessor."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


Bundling = tuple[int, int]  # how many row tiles are claimed alone, and how many at most together: hopper_tiles.place

WRITE_BUNDLING = (16, 16)
READ_BUNDLING = (1, 8)

_ready: dict[tuple[Any, ...], tuple[Any, tuple[int, int, int], tuple[Any, ...]]] = {}


def launch(
    kernel: Any,
    key: tuple[Any, ...],
    pointers: tuple[Any, ...],
    lanes: int,
    tiles: int,
    numbers: Callable[[], tuple[int | float, ...]],
    **constants: Any,
) -> None:
    """kernel(*pointers, *numbers(), **constants), a program a multiprocessor; `constants` in the kernel's order.

    Triton's own way from arguments to the compiled kernel takes longer than a short sequence's kernel runs. What it
    finds depends on types, on numbers that are 1 or multiples of 16, and on the alignment of pointers, so that it is
    gone once for each `key`, which determines all these and the numbers themselves.
    """
    key = (kernel, pointers[0].base.device, *constants.values(), *key)
    found = _ready.get(key)
    if found is None:
        if len(_ready) >= 4096:
            _ready.clear()
        grid = (min(multiprocessors(pointers[0].base.device), tiles * lanes), 1, 1)
        rest = numbers()
        compiled = kernel[grid](*pointers, *rest, **constants, num_warps=4, maxnreg=REGISTERS)
        _ready[key] = compiled, grid, (*rest, *constants.values())
    else:
        compiled, grid, rest = found
        compiled[grid](*pointers, *rest)


def launch_write(
    w: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alpha: torch.Tensor | None,
    beta: torch.Tensor | None,
    u: torch.Tensor,
    o: torch.Tensor | None,
    scale: float,
    bundling: Bundling = WRITE_BUNDLING,
) -> None:
    """u, and with o the tied read too, of softmax DeltaFormer in one launch; 0 ≤ β ≤ 1, u and o contiguous."""
    batch, time, heads, width = k.shape
    lanes, tiles = batch * heads, -(-time // ROWS.value)
    counters = torch.zeros(1 + lanes, dtype=torch.int32, device=k.device)
    gates = [counters.view(1, 1, -1) if g is None else g for g in (alpha, beta)]
    out = u if o is None else o

    def numbers() -> tuple[int | float, ...]:
        heads_apart = w.stride(2), k.stride(2), v.stride(2)
        gate_strides = *gates[0].stride(), *gates[1].stride()
        return time, heads, lanes, tiles, *bundling, *heads_apart, scale * LOG2E, *gate_strides

    launch(
        hopper_write_kernel,
        (k.dtype, k.shape, *(x.stride() for x in (w, k, v)), *(_kind(g) for g in gates), scale, bundling),
        (
            *(plane(x) for x in (w, k, v, u)), plane(u, HALF.value), plane(out, HALF.value),
            *gates, u, out, counters, counters[1:],
        ),
        lanes, tiles, numbers,
        TIED=o is not None, HAS_ALPHA=alpha is not None, HAS_BETA=beta is not None, STAGES=stages(width),
    )  # fmt: skip


def launch_read(
    q: torch.Tensor,
    k: torch.Tensor,
    u: torch.Tensor,
    o: torch.Tensor,
    scale: float,
    bundling: Bundling = READ_BUNDLING,
) -> None:
    """o_t = Σ_{i≤t} softmax(scale·k_i·q_t) u_i; q may have several heads to one of k and u, which are contiguous."""
    batch, time, heads, width = q.shape
    lanes, tiles = batch * heads, -(-time // ROWS.value)
    claimed = torch.zeros(1, dtype=torch.int32, device=k.device)

    def numbers() -> tuple[int | float, ...]:
        return time, heads, lanes, tiles, *bundling, q.stride(2), k.stride(2), scale * LOG2E

    launch(
        hopper_read_kernel,
        (k.dtype, q.shape, q.stride(), k.stride(), u.stride(), scale, bundling),
        (plane(q), plane(k), plane(u), o, claimed),
        lanes, tiles, numbers,
        SHARED=heads // k.shape[2], STAGES=stages(width),
    )  # fmt: skip


def stages(width: int) -> int:
    """Blocks of K and of U in flight: as many as shared memory holds."""
    return 2 if width == 128 else 3


def _kind(x: torch.Tensor) -> tuple[Any, ...]:
    return x.dtype, x.stride(), x.data_ptr() % 16
