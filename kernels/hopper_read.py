"""The read of untied softmax DeltaFormer on Hopper: causal attention over u, in the roles of kernels.hopper_tiles.

Nothing waits for another program here, so the longest row tiles go first.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.hopper_tiles import HALF, NO_SCORE, ROWS, load_block, next_claim, place, sync, weights


@gluon.jit
def load_read_tiles(
    q_desc, k_desc, u_desc, claim_ptr, buffers, tiling, q_head, k_head,
    SHARED: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The loading warp: q once a tile, then K and U blocks as their buffers fall free."""
    q_smem, k_smem, u_smem, claims, bars = buffers
    q_full, q_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty = bars
    T, H, lanes, tiles, order = tiling
    one: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    DV: gl.constexpr = u_desc.block_type.shape[1]
    total = tiles * lanes
    n = 0
    kt = 0
    index = gl.atomic_add(claim_ptr, 1)
    claims.index(0).store(gl.full([1], index, gl.int32, layout=one))
    mbarrier.arrive(claim_full.index(0), count=1)
    while index < total:
        shortest, lane = place(index, tiles, lanes, order)
        r = tiles - 1 - shortest
        row = (lane // H) * T
        head = lane % H
        source = head // SHARED
        mbarrier.wait(q_empty, (n & 1) ^ 1)
        mbarrier.expect(q_full, q_desc.block_type.nbytes)
        load_block(q_desc, [row + r * ROWS, head * q_head], q_full, q_smem)
        for j in range(0, r + 1):
            stage = kt % STAGES
            phase = ((kt // STAGES) & 1) ^ 1
            at = row + j * ROWS
            mbarrier.wait(k_empty.index(stage), phase)
            mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
            load_block(k_desc, [at, source * k_head], k_full.index(stage), k_smem.index(stage))
            mbarrier.wait(u_empty.index(stage), phase)
            mbarrier.expect(u_full.index(stage), u_desc.block_type.nbytes)
            load_block(u_desc, [at, source * DV], u_full.index(stage), u_smem.index(stage))
            kt += 1
        n += 1
        index = gl.atomic_add(claim_ptr, 1)
        mbarrier.wait(claim_empty.index(n & 1), ((n >> 1) & 1) ^ 1)
        claims.index(n & 1).store(gl.full([1], index, gl.int32, layout=one))
        mbarrier.arrive(claim_full.index(n & 1), count=1)


@gluon.jit
def compute_read_tiles(o_ptr, buffers, tiling, factor, LOWER: gl.constexpr, STAGES: gl.constexpr):
    """A computing warpgroup: the upper 64 rows of every tile, or the lower 64."""
    q_smem, k_smem, u_smem, claims, bars = buffers
    q_full, q_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty = bars
    T, H, lanes, tiles, order = tiling
    operand: gl.constexpr = q_smem.dtype
    DV: gl.constexpr = u_smem.shape[2]
    score: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    value: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DV, 16])
    left: gl.constexpr = gl.DotOperandLayout(0, value, 2)
    by_row: gl.constexpr = gl.SliceLayout(1, score)
    by_value_row: gl.constexpr = gl.SliceLayout(1, value)
    FIRST: gl.constexpr = HALF if LOWER else 0
    q = q_smem.slice(FIRST, HALF, dim=0)
    in_half = FIRST + gl.arange(0, HALF, layout=by_row)
    across = gl.arange(0, ROWS, layout=gl.SliceLayout(0, score))
    seen = gl.expand_dims(in_half, 1) >= gl.expand_dims(across, 0)
    blank = gl.zeros([HALF, ROWS], gl.float32, layout=score)
    total = tiles * lanes
    n = 0
    kt = 0
    ut = 0
    index = next_claim(claims, claim_full, claim_empty, n)
    while index < total:
        shortest, lane = place(index, tiles, lanes, order)
        r = tiles - 1 - shortest
        batch = (lane // H).to(gl.int64)
        head = (lane % H).to(gl.int64)
        acc = gl.zeros([HALF, DV], gl.float32, layout=value)
        m = gl.full([HALF], NO_SCORE, gl.float32, layout=by_row)
        l = gl.zeros([HALF], gl.float32, layout=by_row)
        mbarrier.wait(q_full, n & 1)
        stage = kt % STAGES
        mbarrier.wait(k_full.index(stage), (kt // STAGES) & 1)
        s = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), blank, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=[s])
        mbarrier.arrive(k_empty.index(stage), count=1)
        kt += 1
        if r == 0:
            s = gl.where(seen, s, float("-inf"))
        p, m, l, fix = weights(s, m, l, factor)
        weight = gl.convert_layout(p.to(operand), left)
        for j in range(1, r + 1):
            stage = kt % STAGES
            mbarrier.wait(k_full.index(stage), (kt // STAGES) & 1)
            s = warpgroup_mma(q, k_smem.index(stage).permute((1, 0)), blank, use_acc=False, is_async=True)
            u_stage = ut % STAGES
            mbarrier.wait(u_full.index(u_stage), (ut // STAGES) & 1)
            acc = warpgroup_mma(weight, u_smem.index(u_stage), acc, is_async=True)
            s = warpgroup_mma_wait(1, deps=[s])
            mbarrier.arrive(k_empty.index(stage), count=1)
            kt += 1
            if j == r:
                s = gl.where(seen, s, float("-inf"))
            p, m, l, fix = weights(s, m, l, factor)
            after = gl.convert_layout(p.to(operand), left)
            # ends a basic block, so that the wait for the product stays below the exponentials that cover it
            mbarrier.wait(u_full.index((ut + 1) % STAGES), ((ut + 1) // STAGES) & 1)
            acc, weight = warpgroup_mma_wait(0, deps=[acc, after])
            mbarrier.arrive(u_empty.index(u_stage), count=1)
            ut += 1
            acc = acc * gl.expand_dims(gl.convert_layout(fix, by_value_row), 1)
        mbarrier.arrive(q_empty, count=1)
        u_stage = ut % STAGES
        mbarrier.wait(u_full.index(u_stage), (ut // STAGES) & 1)
        acc = warpgroup_mma(weight, u_smem.index(u_stage), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(u_empty.index(u_stage), count=1)
        ut += 1
        share = gl.where(l > 0, 1.0 / l, l)  # 0 for a row of scores −∞, NaN where the sum is none
        out = acc * gl.expand_dims(gl.convert_layout(share, by_value_row), 1)
        rows = r * ROWS + FIRST + gl.arange(0, HALF, layout=by_value_row)
        columns = gl.arange(0, DV, layout=gl.SliceLayout(0, value))
        at = ((batch * T + rows.to(gl.int64)) * H + head) * DV
        inside = gl.expand_dims(rows < T, 1)
        gl.store(o_ptr + gl.expand_dims(at, 1) + gl.expand_dims(columns, 0), out.to(operand), mask=inside)
        n += 1
        index = next_claim(claims, claim_full, claim_empty, n)


@gluon.jit
def hopper_read_kernel(
    q_desc, k_desc, u_desc, o_ptr, claim_ptr, T, H, lanes, tiles, alone, together, q_head, k_head, factor,
    SHARED: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """o [B, T, H, DV], contiguous, from q behind a TMA descriptor and k, u of H/SHARED heads behind theirs."""
    D: gl.constexpr = k_desc.block_type.shape[1]
    DV: gl.constexpr = u_desc.block_type.shape[1]
    operand: gl.constexpr = k_desc.dtype
    q_smem = gl.allocate_shared_memory(operand, [ROWS, D], q_desc.layout)
    k_smem = gl.allocate_shared_memory(operand, [STAGES, ROWS, D], k_desc.layout)
    u_smem = gl.allocate_shared_memory(operand, [STAGES, ROWS, DV], u_desc.layout)
    claims = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    u_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    u_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    claim_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    claim_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=2)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=2)
        mbarrier.init(u_full.index(i), count=1)
        mbarrier.init(u_empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(claim_full.index(i), count=1)
        mbarrier.init(claim_empty.index(i), count=2)
    fence_async_shared()
    sync()
    bars = (q_full, q_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty)
    tiling = (T, H, lanes, tiles, (alone, together))
    buffers = (q_smem, k_smem, u_smem, claims, bars)
    gl.warp_specialize(
        [
            (compute_read_tiles, (o_ptr, buffers, tiling, factor, False, STAGES)),
            (compute_read_tiles, (o_ptr, buffers, tiling, factor, True, STAGES)),
            (load_read_tiles, (q_desc, k_desc, u_desc, claim_ptr, buffers, tiling, q_head, k_head, SHARED, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )
