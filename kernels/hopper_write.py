"""The write of softmax DeltaFormer on Hopper, with the tied read: what a computing warpgroup does, and the kernel.

The roles and their meeting points are described in kernels.hopper_tiles, the mathematics in kernels.triton_tiles.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.hopper_inverse import inverse
from kernels.hopper_tiles import (
    HALF,
    NO_SCORE,
    ROWS,
    load_tiles,
    next_claim,
    place,
    publish_tiles,
    scores,
    store_block,
    sync,
    weights,
)


@gluon.jit
def compute_tiles(
    alpha_ptr, beta_ptr, u_ptr, o_ptr, o_half_desc, buffers, claims, bars, done_bars, tiling, factor, strides,
    LOWER: gl.constexpr, TIED: gl.constexpr, HAS_ALPHA: gl.constexpr, HAS_BETA: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """A computing warpgroup: the upper 64 rows of every tile, or the lower 64."""
    q_smem, k_smem, u_smem, v_smem, wait_smem, scratch = buffers
    q_full, q_empty, v_full, v_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty = bars
    upper_done, lower_done = done_bars
    T, H, lanes, tiles, order = tiling
    a_batch, a_time, a_head, b_batch, b_time, b_head = strides
    operand: gl.constexpr = q_smem.dtype
    DV: gl.constexpr = v_smem.shape[1]
    score: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    square: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    value: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DV, 16])
    left: gl.constexpr = gl.DotOperandLayout(0, value, 2)
    by_row: gl.constexpr = gl.SliceLayout(1, score)
    by_square_row: gl.constexpr = gl.SliceLayout(1, square)
    by_value_row: gl.constexpr = gl.SliceLayout(1, value)
    FIRST: gl.constexpr = HALF if LOWER else 0
    SHARES_Q: gl.constexpr = q_smem.shape[1] == ROWS
    # with β the block's own weights are needed for o as they are, without it A, which is solved with, will do
    OWN_PASS: gl.constexpr = TIED and HAS_BETA

    q = q_smem.slice(FIRST, HALF, dim=0)
    waiting = wait_smem.slice(FIRST, HALF, dim=0)
    mine = v_smem.slice(FIRST, HALF, dim=0)
    upper = v_smem.slice(0, HALF, dim=0)
    own_smem = scratch.slice(0, HALF, dim=1)
    out_smem = scratch.slice(0, DV, dim=1)
    blank_scores = gl.zeros([HALF, ROWS], gl.float32, layout=score)
    blank_square = gl.zeros([HALF, HALF], gl.float32, layout=square)
    blank_values = gl.zeros([HALF, DV], gl.float32, layout=value)
    in_half = gl.arange(0, HALF, layout=by_square_row)
    across = gl.arange(0, HALF, layout=gl.SliceLayout(0, square))
    strict = gl.expand_dims(in_half, 1) > gl.expand_dims(across, 0)
    same = gl.expand_dims(in_half, 1) == gl.expand_dims(across, 0)
    value_columns = gl.arange(0, DV, layout=gl.SliceLayout(0, value))
    total = tiles * lanes
    n = 0
    kt = 0
    ut = 0
    index = next_claim(claims, claim_full, claim_empty, n)
    while index < total:
        r, lane = place(index, tiles, lanes, order)
        batch = (lane // H).to(gl.int64)
        head = (lane % H).to(gl.int64)
        start = r * ROWS + FIRST
        acc = blank_values
        m = gl.full([HALF], NO_SCORE, gl.float32, layout=by_row)
        l = gl.zeros([HALF], gl.float32, layout=by_row)
        weight = gl.zeros([HALF, ROWS], operand, layout=left)
        mbarrier.wait(q_full, n & 1)
        mbarrier.wait(k_full.index(kt % STAGES), (kt // STAGES) & 1)
        if r > 0:
            stage = kt % STAGES
            s = scores(q, k_smem.index(stage), blank_scores)
            s = warpgroup_mma_wait(0, deps=[s])
            mbarrier.arrive(k_empty.index(stage), count=1)
            kt += 1
            p, m, l, fix = weights(s, m, l, factor)
            weight = gl.convert_layout(p.to(operand), left)
            mbarrier.wait(k_full.index(kt % STAGES), (kt // STAGES) & 1)
            for _ in range(1, r):
                stage = kt % STAGES
                s = scores(q, k_smem.index(stage), blank_scores)
                u_stage = ut % STAGES
                mbarrier.wait(u_full.index(u_stage), (ut // STAGES) & 1)
                acc = warpgroup_mma(weight, u_smem.index(u_stage), acc, is_async=True)
                s = warpgroup_mma_wait(1, deps=[s])
                mbarrier.arrive(k_empty.index(stage), count=1)
                kt += 1
                p, m, l, fix = weights(s, m, l, factor)
                after = gl.convert_layout(p.to(operand), left)
                # The next scores' keys are awaited here, and the new weights named as a dependency, to end a basic
                # block: otherwise the assembler moves the wait for the product above the exponentials that cover it.
                mbarrier.wait(k_full.index(kt % STAGES), (kt // STAGES) & 1)
                acc, weight = warpgroup_mma_wait(0, deps=[acc, after])
                mbarrier.arrive(u_empty.index(u_stage), count=1)
                ut += 1
                acc = acc * gl.expand_dims(gl.convert_layout(fix, by_value_row), 1)

        # the block of its own rows: all that does not need u
        stage = kt % STAGES
        s_own = scores(q, k_smem.index(stage).slice(FIRST, HALF, dim=0), blank_square)
        if LOWER:
            s_up = scores(q, k_smem.index(stage).slice(0, HALF, dim=0), blank_square)
            s_own, s_up = warpgroup_mma_wait(0, deps=[s_own, s_up])
        else:
            s_own = warpgroup_mma_wait(0, deps=[s_own])
        mbarrier.arrive(k_empty.index(stage), count=1)
        kt += 1
        # registers are short from here on: the weights that still wait for u go to shared memory, where q was if that
        # is the only room
        waiting.store(weight)
        if not SHARES_Q:
            mbarrier.arrive(q_empty, count=1)
        self_score = gl.sum(gl.where(same, s_own, 0.0), 1) * factor
        top = gl.convert_layout(m, by_square_row)
        l_all = gl.convert_layout(l, by_square_row)
        if LOWER:
            p_up, top, l_all, fix_up = weights(s_up, top, l_all, factor)
        p_own, top, l_all, fix = weights(gl.where(strict, s_own, float("-inf")), top, l_all, factor)
        share = gl.where(l_all > 0, 1.0 / l_all, 0.0)
        inside = start + in_half < T
        gain = share
        if HAS_BETA:
            beta_at = beta_ptr + batch * b_batch + (start + in_half).to(gl.int64) * b_time + head * b_head
            gain = gain * gl.load(beta_at, mask=inside, other=0.0).to(gl.float32)
        # rows past the end of the sequence are kept out of A
        A = gl.where(gl.expand_dims(inside, 1), p_own * gl.expand_dims(gain, 1), 0.0)
        if OWN_PASS:
            w_own = p_own.to(operand)
        if LOWER:
            w_up = gl.convert_layout((p_up * gl.expand_dims(fix, 1)).to(operand), left)
            fix = fix * fix_up
        tma.store_wait(0)  # the scratch buffer may still be on its way out as the last tile's o
        sync()
        identity = gl.where(same, 1.0, 0.0)
        # applied as rhs + ((I + A)⁻¹ − I) rhs, so that rhs itself enters unrounded
        solve = gl.convert_layout((inverse(A, identity, scratch) - identity).to(operand), left)
        if OWN_PASS:
            sync()
            own_smem.store(w_own)

        value_rows = start + gl.arange(0, HALF, layout=by_value_row)
        value_inside = gl.expand_dims(value_rows < T, 1)
        loss_v = gl.convert_layout(-gain, by_value_row)
        fix_v = gl.convert_layout(fix, by_value_row)
        if HAS_ALPHA:
            alpha_at = alpha_ptr + batch * a_batch + value_rows.to(gl.int64) * a_time + head * a_head
            alpha = gl.load(alpha_at, mask=value_rows < T, other=0.0).to(gl.float32)
        mbarrier.wait(v_full, n & 1)
        fence_async_shared()
        sync()
        # the dependency chain starts here
        if r > 0:
            u_stage = ut % STAGES
            mbarrier.wait(u_full.index(u_stage), (ut // STAGES) & 1)
            acc = warpgroup_mma(waiting, u_smem.index(u_stage), acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=[acc])
            mbarrier.arrive(u_empty.index(u_stage), count=1)
            ut += 1
        if SHARES_Q:
            mbarrier.arrive(q_empty, count=1)
        acc = acc * gl.expand_dims(fix_v, 1)
        if LOWER:
            mbarrier.wait(upper_done, n & 1)
            acc = warpgroup_mma(w_up, upper, acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=[acc])
        given = mine.load(value)
        rhs = given.to(gl.float32)
        if HAS_ALPHA:
            rhs = rhs * gl.expand_dims(alpha, 1)
        rhs = gl.where(value_inside, rhs + acc * gl.expand_dims(loss_v, 1), 0.0)
        sync()
        mine.store(rhs.to(operand))
        fence_async_shared()
        sync()
        u = warpgroup_mma(solve, mine, rhs, is_async=True)
        u = warpgroup_mma_wait(0, deps=[u])
        sync()
        mine.store(u.to(operand))
        fence_async_shared()
        sync()
        if LOWER:
            mbarrier.arrive(lower_done, count=1)
        else:
            mbarrier.arrive(upper_done, count=1)
        # off the chain: o with the same weights
        at = ((batch * T + value_rows.to(gl.int64)) * H + head) * DV
        if OWN_PASS:
            acc = warpgroup_mma(own_smem, mine, acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=[acc])
        if TIED:
            own_weight = 1.0 / (1.0 + l_all * gl.exp2(top - self_score))
            own_weight = gl.where(l_all > 0, own_weight, gl.where(self_score == float("-inf"), 0.0, 1.0))
            present = gl.convert_layout(own_weight, by_value_row)
        sync()
        mbarrier.arrive(v_empty, count=1)
        if (r + 1) * ROWS > T:
            gl.store(u_ptr + gl.expand_dims(at, 1) + gl.expand_dims(value_columns, 0), u.to(operand), mask=value_inside)
        if TIED:
            if OWN_PASS:
                past = gl.convert_layout(share * (1.0 - own_weight), by_value_row)
                out = acc * gl.expand_dims(past, 1)
            else:
                # with β = 1 the average over i < t is α v − u
                past = 1.0 - present
                if HAS_ALPHA:
                    past = past * alpha
                present = 2.0 * present - 1.0
                out = given.to(gl.float32) * gl.expand_dims(past, 1)
            out = out + u * gl.expand_dims(present, 1)
            out = out.to(operand)
            if (r + 1) * ROWS > T:
                gl.store(o_ptr + gl.expand_dims(at, 1) + gl.expand_dims(value_columns, 0), out, mask=value_inside)
            else:
                out_smem.store(out)
                fence_async_shared()
                sync()
                row = (lane // H) * T + start
                store_block(o_half_desc, [row, (lane % H) * DV], out_smem)
        n += 1
        index = next_claim(claims, claim_full, claim_empty, n)
    tma.store_wait(0)


@gluon.jit
def hopper_write_kernel(
    q_desc, k_desc, v_desc, u_desc, u_half_desc, o_half_desc, alpha_ptr, beta_ptr, u_ptr, o_ptr, counters_ptr, T, H,
    lanes, tiles, alone, together, q_head, k_head, v_head, factor, a_batch, a_time, a_head, b_batch, b_time, b_head,
    TIED: gl.constexpr, HAS_ALPHA: gl.constexpr, HAS_BETA: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """u [B, T, H, DV], and with TIED o, for w = q [B·T, H·D] and k, v behind TMA descriptors; contiguous u and o.

    Counters, all zero: the tiles claimed, then the tiles finished of each sequence and head.
    """
    D: gl.constexpr = k_desc.block_type.shape[1]
    DV: gl.constexpr = v_desc.block_type.shape[1]
    operand: gl.constexpr = k_desc.dtype
    wide: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    q_smem = gl.allocate_shared_memory(operand, [ROWS, D], q_desc.layout)
    v_smem = gl.allocate_shared_memory(operand, [ROWS, DV], v_desc.layout)
    k_smem = gl.allocate_shared_memory(operand, [STAGES, ROWS, D], k_desc.layout)
    u_smem = gl.allocate_shared_memory(operand, [STAGES, ROWS, DV], u_desc.layout)
    scratch = gl.allocate_shared_memory(operand, [2, HALF, ROWS], wide)
    if D == ROWS:
        wait_smem = q_smem
    else:
        wait_smem = gl.allocate_shared_memory(operand, [ROWS, ROWS], wide)
    claims = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    upper_done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    lower_done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    u_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    u_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    claim_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    claim_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=2)
    mbarrier.init(v_full, count=1)
    mbarrier.init(v_empty, count=3)
    mbarrier.init(upper_done, count=1)
    mbarrier.init(lower_done, count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=2)
        mbarrier.init(u_full.index(i), count=1)
        mbarrier.init(u_empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(claim_full.index(i), count=1)
        mbarrier.init(claim_empty.index(i), count=3)
    fence_async_shared()
    sync()
    bars = (q_full, q_empty, v_full, v_empty, k_full, k_empty, u_full, u_empty, claim_full, claim_empty)
    done_bars = (upper_done, lower_done)
    claim_bars = (claim_full, claim_empty)
    tiling = (T, H, lanes, tiles, (alone, together))
    progress_ptr = counters_ptr + 1
    strides = (a_batch, a_time, a_head, b_batch, b_time, b_head)
    upper_buffers = (q_smem, k_smem, u_smem, v_smem, wait_smem, scratch.index(0))
    lower_buffers = (q_smem, k_smem, u_smem, v_smem, wait_smem, scratch.index(1))
    gl.warp_specialize(
        [
            (
                compute_tiles,
                (
                    alpha_ptr, beta_ptr, u_ptr, o_ptr, o_half_desc, upper_buffers, claims, bars, done_bars, tiling,
                    factor, strides, False, TIED, HAS_ALPHA, HAS_BETA, STAGES,
                ),
            ),
            (
                compute_tiles,
                (
                    alpha_ptr, beta_ptr, u_ptr, o_ptr, o_half_desc, lower_buffers, claims, bars, done_bars, tiling,
                    factor, strides, True, TIED, HAS_ALPHA, HAS_BETA, STAGES,
                ),
            ),
            (
                load_tiles,
                (
                    q_desc, k_desc, v_desc, u_desc, counters_ptr, progress_ptr, (q_smem, k_smem, u_smem, v_smem),
                    claims, bars, tiling, q_head, k_head, v_head, STAGES,
                ),
            ),
            (
                publish_tiles,
                (u_half_desc, progress_ptr, v_smem, claims, claim_bars, done_bars, v_empty, tiling),
            ),
        ],
        [4, 1, 1],
        [240, 24, 24],
    )  # fmt: skip
