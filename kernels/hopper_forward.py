"""The Hopper kernels made ready for tensors of one geometry, and launched.

On a short sequence the way from Python to the device takes longer than the kernel. So everything that does not depend
on where the tensors lie is worked out once: block shapes, strides, the grid, and the compiled kernel itself, which
Triton otherwise looks up at each launch from the types and divisors of some thirty arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    near = (x.shape[2] - 1) * head + x.shape[3] < 2**31  # columns are counted in 32 bits
    return even and near and unit == 1 and time % 8 == 0 and head % 8 == 0 and x.data_ptr() % 16 == 0


@lru_cache
def multiprocessors(device: torch.device) -> int:
    """How many programs run at once, one a multiprocessor."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def geometry(x: torch.Tensor, block_rows: int = ROWS.value) -> dict[str, Any]:
    """A TMA descriptor of x [B, T, H, D] as [B·T, …] without its address; for x that `rows_in_a_plane`.

    It moves blocks of `block_rows` rows of one head.
    """
    batch, length, heads, width = x.shape
    _, time, head, _ = x.stride()
    shape, block = [batch * length, (heads - 1) * head + width], [block_rows, width]
    return {"shape": shape, "strides": [time, 1], "block_shape": block, "layout": ROW_BLOCKS, "padding": "zero"}


def descriptor(x: torch.Tensor, known: dict[str, Any]) -> TensorDescriptor:
    """x's TMA descriptor, past the constructor and its checks, which `rows_in_a_plane` has made."""
    made = TensorDescriptor.__new__(TensorDescriptor)
    made.__dict__ = {"base": x, **known}
    return made


class Stage:
    """One kernel for tensors of one geometry, one program a multiprocessor.

    A launch gives what the geometry leaves open: the tensors behind descriptors and the other pointers, in the kernel's
    order; integers and constants follow. Pointers' alignment, which Triton compiles for, must not change between them.
    """

    def __init__(self, kernel: Any, lanes: int, length: int, planes: tuple[dict[str, Any], ...]) -> None:
        self.kernel, self.planes, self.lanes = kernel, planes, lanes
        self.tiles = -(-length // ROWS.value)
        self.numbers: tuple[int | float, ...] = ()
        self.constants: dict[str, Any] = {}
        self._ready: Any = None

    def launch(self, tensors: tuple[torch.Tensor, ...], pointers: tuple[torch.Tensor, ...]) -> None:
        """Launch on the current device, which must be that of the tensors."""
        described = [descriptor(x, known) for x, known in zip(tensors, self.planes, strict=True)]
        if self._ready is None:
            grid = (min(multiprocessors(tensors[0].device), self.tiles * self.lanes), 1, 1)
            arguments = *described, *pointers, *self.numbers
            self._ready = self.kernel[grid](*arguments, **self.constants, num_warps=4, maxnreg=REGISTERS)[grid]
        else:
            self._ready(*described, *pointers, *self.numbers, *self.constants.values())


class Write(Stage):
    """u, and if `tied` o too, of softmax DeltaFormer in one launch; 0 ≤ β ≤ 1."""

    def __init__(
        self,
        w: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        alpha: torch.Tensor | None,
        beta: torch.Tensor | None,
        scale: float,
        tied: bool,
    ) -> None:
        batch, length, heads, width = k.shape
        halves = geometry(contiguous_like(v), HALF.value)
        planes = geometry(w), geometry(k), geometry(v), geometry(contiguous_like(v)), halves, halves
        super().__init__(hopper_write_kernel, batch * heads, length, planes)
        gates = (g.stride() if g is not None else (0, 0, 0) for g in (alpha, beta))
        together = 16384 // width  # at a width of 128 one tile a multiprocessor; half as wide are half as long
        sizes = length, heads, self.lanes, self.tiles, 8, together
        self.numbers = *sizes, w.stride(2), k.stride(2), v.stride(2), scale * LOG2E, *next(gates), *next(gates)
        gated = {"HAS_ALPHA": alpha is not None, "HAS_BETA": beta is not None}
        self.constants = {"TIED": tied, **gated, "STAGES": blocks_in_flight(width)}

    def __call__(
        self,
        w: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        alpha: torch.Tensor | None,
        beta: torch.Tensor | None,
        u: torch.Tensor,
        o: torch.Tensor | None,
    ) -> None:
        """Fill u and o, contiguous."""
        # the claim counter, then one progress counter a sequence and head
        counters = torch.zeros(1 + self.lanes, dtype=torch.int32, device=k.device)
        out = u if o is None else o
        a, b = (counters if g is None else g for g in (alpha, beta))
        self.launch((w, k, v, u, u, out), (a, b, u, out, counters))


class Read(Stage):
    """o_t = Σ_{i≤t} softmax(scale·k_i·q_t) u_i; q may have several heads to one of k and u."""

    def __init__(self, q: torch.Tensor, k: torch.Tensor, u: torch.Tensor, scale: float) -> None:
        batch, length, heads, width = q.shape
        planes = geometry(q), geometry(k), geometry(contiguous_like(u))
        super().__init__(hopper_read_kernel, batch * heads, length, planes)
        sizes = length, heads, self.lanes, self.tiles, 1, 1  # no tile waits for another: one head at a time
        self.numbers = *sizes, q.stride(2), k.stride(2), scale * LOG2E
        self.constants = {"SHARED": heads // k.shape[2], "STAGES": blocks_in_flight(width)}

    def __call__(self, q: torch.Tensor, k: torch.Tensor, u: torch.Tensor, o: torch.Tensor) -> None:
        """Fill o from u, both contiguous."""
        claimed = torch.zeros(1, dtype=torch.int32, device=k.device)
        self.launch((q, k, u), (o, claimed))


@dataclass(frozen=True)
class Call:
    """Both stages for arguments of one geometry and alignment; without `read` the write computes o as well."""

    write: Write
    read: Read | None

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        w: torch.Tensor,
        alpha: torch.Tensor | None,
        beta: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(o, u)."""
        device = k.device
        if torch.cuda.current_device() != device.index:
            with torch.cuda.device(device):
                return self(q, k, v, w, alpha, beta)
        u = torch.empty(v.shape, dtype=v.dtype, device=device)
        o = torch.empty(q.shape, dtype=v.dtype, device=device)
        self.write(w, k, v, alpha, beta, u, o if self.read is None else None)
        if self.read is not None:
            self.read(q, k, u, o)
        return o, u


def contiguous_like(x: torch.Tensor) -> torch.Tensor:
    """A tensor of x's shape and type as torch.empty lays it out, without memory of its own."""
    return torch.empty(x.shape, dtype=x.dtype, device="meta")


def blocks_in_flight(width: int) -> int:
    """Blocks of K and of U that are being loaded or used: as many as shared memory holds."""
    return 2 if width == 128 else 3
