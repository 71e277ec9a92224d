"""Softmax DeltaFormer on Hopper's own units, in Gluon: 16-bit operands, heads of 64 or 128, compute capability 9.0.

The mathematics is that of kernels.triton_tiles; what differs is who does what. A program stays on its multiprocessor
and runs four roles at once:
  - one loading warp claims tiles, waits for the progress of other programs, and keeps TMA copies of K and U in flight.
    It alone waits for u: the others only ever wait for shared memory to fill, so waiting never drains the pipeline,
    and the next tile's loads run under this tile's epilogue;
  - two computing warpgroups own 64 rows each. While one is in its exponentials the other has the matrix units; inside
    one, the scores of block j are computed under the product with u of block j − 1;
  - one publishing warp stores finished u by TMA and raises the progress counter when it has arrived, while the
    computing warpgroups are already at o.
A tile is 128 rows and so is a block of keys. Its diagonal block is solved as two of 64×64, the second after the first:
the lower warpgroup takes the upper one's u from shared memory.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
)

NO_SCORE = gl.constexpr(-3.4028234663852886e38)  # the lowest of all finite numbers
ROWS = gl.constexpr(128)
HALF = gl.constexpr(64)
# the same things under the names that Triton 3.6 and later gave them
sync = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
load_block = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
store_block = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


@gluon.jit
def finished_tiles(counter):
    """The counter, with everything written before it was raised made visible to TMA loads that follow."""
    return gl.inline_asm_elementwise(
        "ld.acquire.gpu.global.s32 $0, [$1]; fence.proxy.async.global;",
        "=r,l", [counter], dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def await_tma_stores(x):
    """Return x once this thread's TMA stores have arrived in global memory, not only left shared memory."""
    return gl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0; fence.proxy.async.global; mov.b32 $0, $1;",
        "=r,r", [x], dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def place(index, tiles, lanes, order):
    """(row tile, sequence·head) of the index-th claim.

    Row tiles of one head that run side by side read the same blocks of K and U at nearly the same time, once from
    memory and then from the L2 cache; but each must start a link of the dependency chain after the one before it, or
    it waits at its end. So rows go in bands, each as long as all before it: a few heads' rows of a band are claimed row
    by row, then those of the next few heads, `together` tiles for every half band. The longer the rows, the fewer heads
    it takes until the next row's turn comes late enough. The first band is `alone` rows and takes all heads at once.
    """
    alone, together = order
    first = 0
    rows = alone
    heads = lanes
    left = index
    while left >= rows * lanes:
        left -= rows * lanes
        first += rows
        rows = first
        heads = min(lanes, max(2 * together // rows, 1))
    rows = min(rows, tiles - first)
    head = left // (heads * rows) * heads
    left -= head * rows
    heads = min(heads, lanes - head)
    return first + left // heads, head + left % heads


@gluon.jit
def load_tiles(
    q_desc, k_desc, v_desc, u_desc, claim_ptr, progress_ptr, buffers, claims, bars, tiling, q_head, k_head, v_head,
    STAGES: gl.constexpr,
):  # fmt: skip
    """The loading warp."""
    q_smem, k_smem, u_smem, v_smem = buffers
    T, H, lanes, tiles, order = tiling
    q_full, q_empty, v_full, v_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty = bars
    one: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    DV: gl.constexpr = u_desc.block_type.shape[1]
    total = tiles * lanes
    n = 0
    kt = 0
    ut = 0
    index = gl.atomic_add(claim_ptr, 1)
    claims.index(0).store(gl.full([1], index, gl.int32, layout=one))
    mbarrier.arrive(claim_full.index(0), count=1)
    while index < total:
        r, lane = place(index, tiles, lanes, order)
        row = (lane // H) * T
        head = lane % H
        counter = progress_ptr + lane
        done = 0
        mbarrier.wait(q_empty, (n & 1) ^ 1)
        mbarrier.expect(q_full, q_desc.block_type.nbytes)
        load_block(q_desc, [row + r * ROWS, head * q_head], q_full, q_smem)
        for j in range(0, r):
            stage = kt % STAGES
            mbarrier.wait(k_empty.index(stage), ((kt // STAGES) & 1) ^ 1)
            mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
            load_block(k_desc, [row + j * ROWS, head * k_head], k_full.index(stage), k_smem.index(stage))
            kt += 1
            if j > 0:
                while done < j:
                    done = finished_tiles(counter)
                stage = ut % STAGES
                mbarrier.wait(u_empty.index(stage), ((ut // STAGES) & 1) ^ 1)
                mbarrier.expect(u_full.index(stage), u_desc.block_type.nbytes)
                load_block(u_desc, [row + (j - 1) * ROWS, head * DV], u_full.index(stage), u_smem.index(stage))
                ut += 1
        stage = kt % STAGES
        mbarrier.wait(k_empty.index(stage), ((kt // STAGES) & 1) ^ 1)
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        load_block(k_desc, [row + r * ROWS, head * k_head], k_full.index(stage), k_smem.index(stage))
        kt += 1
        mbarrier.wait(v_empty, (n & 1) ^ 1)
        mbarrier.expect(v_full, v_desc.block_type.nbytes)
        load_block(v_desc, [row + r * ROWS, head * v_head], v_full, v_smem)
        if r > 0:
            while done < r:
                done = finished_tiles(counter)
            stage = ut % STAGES
            mbarrier.wait(u_empty.index(stage), ((ut // STAGES) & 1) ^ 1)
            mbarrier.expect(u_full.index(stage), u_desc.block_type.nbytes)
            load_block(u_desc, [row + (r - 1) * ROWS, head * DV], u_full.index(stage), u_smem.index(stage))
            ut += 1
        n += 1
        index = gl.atomic_add(claim_ptr, 1)
        mbarrier.wait(claim_empty.index(n & 1), ((n >> 1) & 1) ^ 1)
        claims.index(n & 1).store(gl.full([1], index, gl.int32, layout=one))
        mbarrier.arrive(claim_full.index(n & 1), count=1)


@gluon.jit
def publish_tiles(u_half_desc, progress_ptr, v_smem, claims, claim_bars, done_bars, v_empty, tiling):
    """The publishing warp. Nobody waits for a partial tile, the last of its sequence: its owners store it, masked."""
    T, H, lanes, tiles, order = tiling
    claim_full, claim_empty = claim_bars
    upper_done, lower_done = done_bars
    DV: gl.constexpr = v_smem.shape[1]
    total = tiles * lanes
    n = 0
    index = next_claim(claims, claim_full, claim_empty, n)
    while index < total:
        r, lane = place(index, tiles, lanes, order)
        row = (lane // H) * T + r * ROWS
        column = (lane % H) * DV
        mbarrier.wait(upper_done, n & 1)
        if (r + 1) * ROWS <= T:
            store_block(u_half_desc, [row, column], v_smem.slice(0, HALF, dim=0))
        mbarrier.wait(lower_done, n & 1)
        if (r + 1) * ROWS <= T:
            store_block(u_half_desc, [row + HALF, column], v_smem.slice(HALF, HALF, dim=0))
            await_tma_stores(index)
            sync()
            gl.atomic_add(progress_ptr + lane, 1, sem="release", scope="gpu")
        mbarrier.arrive(v_empty, count=1)
        n += 1
        index = next_claim(claims, claim_full, claim_empty, n)


@gluon.jit
def next_claim(claims, claim_full, claim_empty, n):
    """The tile that the loading warp claimed, told to the other roles."""
    every: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    mbarrier.wait(claim_full.index(n & 1), (n >> 1) & 1)
    index = gl.max(claims.index(n & 1).load(every), 0)
    sync()
    mbarrier.arrive(claim_empty.index(n & 1), count=1)
    return index


@gluon.jit
def weights(s, m, l, factor):
    """One step of an online softmax in log2: weights, maximum, sum, correction."""
    top = gl.maximum(m, gl.max(s, 1) * factor)
    p = gl.exp2(s * factor - gl.expand_dims(top, 1))
    fix = gl.exp2(m - top)
    return p, top, l * fix + gl.sum(p, 1), fix


@gluon.jit
def scores(q, keys, blank):
    """q keysᵀ, begun and not awaited."""
    return warpgroup_mma(q, keys.permute((1, 0)), blank, use_acc=False, is_async=True)
