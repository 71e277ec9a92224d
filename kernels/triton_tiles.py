"""The tiles of DeltaFormer's forward in Triton: any similarity, any width up to 256, any GPU, and the CPU interpreter.

A write tile owns M rows of one sequence and one head. Its rows need u of every earlier row, so tiles are claimed from
an atomic counter in an order in which what a tile waits for was always claimed before it: whoever waits, waits for a
program that runs. One counter per sequence and head says how many tiles are finished.

What a tile does, in the order that keeps the dependency chain short:
  1. all blocks before the previous one, as soon as they are finished, like an attention's inner loop;
  2. scores of the previous block and of its own, hence every normaliser, hence the inverse of its diagonal block:
     none of this needs u;
  3. wait for the previous block; one product with it, one with the inverse; store u; raise the counter.
So the chain holds two products, a store and a load for every M rows, and nothing else.

Diagonal block: (I + A) u = rhs, A strictly lower triangular. Its 16×16 blocks X are inverted by substitution; with
N = X (A minus those blocks), nilpotent of order M/16, (I + A)⁻¹ = (I + N)⁻¹ X. For softmax with β = 1 the rows of A
sum to at most 1 and the product form (I − N)(I + N²)(I + N⁴)… is safe in low precision; for any other similarity, and
for a β that nobody has bounded, the powers of N can overflow, so blocks are substituted one after the other.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
# Stands for "no score yet": the lowest of all finite numbers, so that every finite score is above it, and finite, so
# that exp2(−∞ − m) is 0 and never NaN.
NO_SCORE = tl.constexpr(-3.4028234663852886e38)
SUBBLOCK = tl.constexpr(16)
# Adding and taking away 2²³ rounds a float32 below 2²³ to the nearest integer, ties to even.
ROUNDER = tl.constexpr(8388608.0)


@triton.jit
def similarity(s, scale, KIND: tl.constexpr, DIVIDE: tl.constexpr):
    """κ of the inner products s (fp32), applied to scale·s; to s/scale, rounded once, where DIVIDE is set."""
    if KIND == "exp":
        return tl.exp2(s * (scale * LOG2E))
    if DIVIDE:
        x = tl.div_rn(s, scale + tl.zeros_like(s))
    else:
        x = s * scale
    if KIND == "relu":
        return tl.maximum(x, 0.0)
    if KIND == "solu":
        return x * tl.exp2(x * LOG2E)
    if KIND == "round":
        size = tl.abs(x)
        whole = tl.where(size < ROUNDER, (size + ROUNDER) - ROUNDER, size)
        return tl.where(x < 0, -whole, whole)
    return x


@triton.jit
def load_rows(base, rows, stride, columns, limit, D: tl.constexpr, BLOCK_D: tl.constexpr, MASK_ROWS: tl.constexpr):
    """[rows, BLOCK_D] of a matrix with unit column stride; zero outside `limit` rows and D columns.

    Past L1, where rows that another program has written since would be stale.
    """
    at = base + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    if MASK_ROWS:
        if BLOCK_D != D:
            return tl.load(
                at,
                mask=((rows >= 0) & (rows < limit))[:, None] & (columns < D)[None, :],
                other=0.0,
                cache_modifier=".cg",
            )
        return tl.load(at, mask=((rows >= 0) & (rows < limit))[:, None], other=0.0, cache_modifier=".cg")
    if BLOCK_D != D:
        return tl.load(at, mask=(columns < D)[None, :], other=0.0, cache_modifier=".cg")
    return tl.load(at, cache_modifier=".cg")


@triton.jit
def diagonal_inverse(A, M: tl.constexpr, S: tl.constexpr):
    """(I + a)⁻¹ for every S×S block a on the diagonal of the strictly lower A [M, M], and zero elsewhere."""
    BLOCKS: tl.constexpr = M // S
    block = tl.arange(0, BLOCKS)
    same = block[:, None, None, None] == block[None, None, :, None]
    a = tl.sum(tl.where(same, tl.reshape(A, (BLOCKS, S, BLOCKS, S)), 0.0), axis=2)
    rows = tl.arange(0, S)[None, :, None]
    columns = tl.arange(0, S)[None, None, :]
    X = tl.where((rows == columns) & (block >= 0)[:, None, None], 1.0, 0.0)
    # column by column, so that neither factor of the outer product has to change its layout
    for i in range(S - 1):
        column = tl.sum(tl.where(columns == i, a, 0.0), axis=2)
        row = tl.sum(tl.where(rows == i, X, 0.0), axis=1)
        X -= column[:, :, None] * row[:, None, :]
    return tl.reshape(tl.where(same, X[:, :, None, :], 0.0), (M, M))


@triton.jit
def block_strict(A, M: tl.constexpr, S: tl.constexpr):
    """A without its S×S diagonal blocks."""
    at = tl.arange(0, M)
    return tl.where((at // S)[:, None] > (at // S)[None, :], A, 0.0)


@triton.jit
def await_tiles(progress, count):
    """Return once `count` tiles are finished, with how many are."""
    done = tl.atomic_add(progress, 0, sem="acquire", scope="gpu")
    while done < count:
        done = tl.atomic_add(progress, 0, sem="acquire", scope="gpu")
    return done


@triton.jit
def softmax_step(s, m, l, scale):
    """Weights of one more score tile, and the running maximum, sum and correction of an online softmax.

    Scores are scaled after the maximum is taken away: s·scale − m·scale in one rounding is not zero where s = m, and
    for scores beyond 10⁹ far from it.
    """
    top = tl.maximum(m, tl.max(s, 1))
    p = tl.exp2((s - top[:, None]) * scale)
    fix = tl.exp2((m - top) * scale)
    return p, top, l * fix + tl.sum(p, 1), fix


@triton.jit
def place(index, tiles, heads_total, GROUP: tl.constexpr):
    """(row tile, sequence·head) of the index-th claim: GROUP heads advance together, row tile after row tile."""
    group = index // (GROUP * tiles)
    offset = index - group * GROUP * tiles
    width = tl.minimum(GROUP, heads_total - group * GROUP)
    return offset // width, group * GROUP + offset % width


@triton.jit
def write_kernel(
    w_ptr, k_ptr, v_ptr, alpha_ptr, beta_ptr, u_ptr, o_ptr,
    claim_ptr, progress_ptr, inexact_ptr, bounds_ptr, first_tile_ptr, tile_sequence_ptr,
    w_batch, w_time, w_head, k_batch, k_time, k_head, v_batch, v_time, v_head,
    a_batch, a_time, a_head, b_batch, b_time, b_head, u_batch, u_time, u_head, o_batch, o_time, o_head,
    T, H, sequences_heads, tiles, scale,
    KIND: tl.constexpr, DIVIDE: tl.constexpr, TIED: tl.constexpr, EXACT: tl.constexpr,
    HAS_ALPHA: tl.constexpr, HAS_BETA: tl.constexpr, VARLEN: tl.constexpr, GROUP: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, DOUBLINGS: tl.constexpr,
):  # fmt: skip
    """u [B, T, H, DV] from w, k [B, T, H, D] and v [B, T, H, DV]; with TIED also o, the read with q = w.

    One program, one tile of M rows. `bounds` are cu_seqlens (VARLEN), `first_tile` and `tile_sequence` the tile table
    that goes with them; `inexact` counts entries of u that do not solve their integer system exactly (EXACT).
    """
    index = tl.atomic_add(claim_ptr, 1)
    if VARLEN:
        tile = index // H
        if tile >= tl.load(first_tile_ptr + sequences_heads // H):
            return
        head = index % H
        batch = tl.load(tile_sequence_ptr + tile)
        begin = tl.load(bounds_ptr + batch).to(tl.int64)
        length = (tl.load(bounds_ptr + batch + 1).to(tl.int64) - begin).to(tl.int32)
        r = (tile - tl.load(first_tile_ptr + batch)).to(tl.int32)
        counter = progress_ptr + batch * H + head
        batch = batch * 0
    else:
        r, lane = place(index, tiles, sequences_heads, GROUP)
        head = lane % H
        batch = lane // H
        begin = tl.zeros((), tl.int64)
        length = T
        counter = progress_ptr + lane
    batch = batch.to(tl.int64)
    head = head.to(tl.int64)
    w_ptr += batch * w_batch + begin * w_time + head * w_head
    k_ptr += batch * k_batch + begin * k_time + head * k_head
    v_ptr += batch * v_batch + begin * v_time + head * v_head
    u_ptr += batch * u_batch + begin * u_time + head * u_head

    SOFTMAX: tl.constexpr = KIND == "softmax"
    in_tile = tl.arange(0, M)
    in_block = tl.arange(0, N)
    d = tl.arange(0, BLOCK_D)
    e = tl.arange(0, BLOCK_DV)
    start = r * M
    rows = start + in_tile
    w = load_rows(w_ptr, rows, w_time, d, length, D, BLOCK_D, True)
    acc = tl.zeros((M, BLOCK_DV), tl.float32)
    m = tl.full((M,), NO_SCORE, tl.float32)
    l = tl.zeros((M,), tl.float32)
    # exp2 instead of exp: the factor goes into the scale
    factor = scale * LOG2E if SOFTMAX else scale

    done = 0
    target = tl.maximum(r - 1, 0)
    while done < target:
        ready = tl.minimum(await_tiles(counter, done + 1), target)
        for at in range(done * M, ready * M, N):
            k = load_rows(k_ptr, at + in_block, k_time, d, length, D, BLOCK_D, False)
            u = load_rows(u_ptr, at + in_block, u_time, e, length, DV, BLOCK_DV, False)
            s = tl.dot(w, tl.trans(k), input_precision="ieee")
            if SOFTMAX:
                p, m, l, fix = softmax_step(s, m, l, factor)
                acc = acc * fix[:, None]
            else:
                p = similarity(s, factor, KIND, DIVIDE)
            acc = tl.dot(p.to(u.dtype), u, acc, input_precision="ieee")
        done = ready

    # Previous and own block: everything that does not need u.
    before = load_rows(k_ptr, start - M + in_tile, k_time, d, length, D, BLOCK_D, True)
    s = tl.dot(w, tl.trans(before), input_precision="ieee")
    own = load_rows(k_ptr, rows, k_time, d, length, D, BLOCK_D, True)
    s_own = tl.dot(w, tl.trans(own), input_precision="ieee")
    strict = in_tile[:, None] > in_tile[None, :]
    beta = tl.full((M,), 1.0, tl.float32)
    if HAS_BETA:
        beta_at = beta_ptr + batch * b_batch + (begin + rows) * b_time + head * b_head
        beta = tl.load(beta_at, mask=rows < length, other=0.0).to(tl.float32)
    self_score = tl.sum(tl.where(in_tile[:, None] == in_tile[None, :], s_own, 0.0), 1)
    if SOFTMAX:
        s = tl.where((start - M + in_tile)[None, :] >= 0, s, float("-inf"))
        s_own = tl.where(strict, s_own, float("-inf"))
        top = tl.maximum(m, tl.maximum(tl.max(s, 1), tl.max(s_own, 1)))
        p = tl.exp2((s - top[:, None]) * factor)
        p_own = tl.exp2((s_own - top[:, None]) * factor)
        fix = tl.exp2((m - top) * factor)
        l = l * fix + tl.sum(p, 1) + tl.sum(p_own, 1)
        m = top
        acc = acc * fix[:, None]
        share = tl.where(l > 0, 1.0, 0.0) / tl.where(l > 0, l, 1.0)
    else:
        p = tl.where((start - M + in_tile)[None, :] >= 0, similarity(s, factor, KIND, DIVIDE), 0.0)
        p_own = tl.where(strict, similarity(s_own, factor, KIND, DIVIDE), 0.0)
        share = tl.full((M,), 1.0, tl.float32)
    gain = beta * share
    A = p_own * gain[:, None]
    operand = u_ptr.dtype.element_ty
    X = diagonal_inverse(A, M, SUBBLOCK)
    PRODUCTS: tl.constexpr = SOFTMAX and not HAS_BETA
    N_block = block_strict(tl.dot(X.to(operand), A.to(operand), input_precision="ieee"), M, SUBBLOCK)
    if PRODUCTS:
        # (I + N)⁻¹ X by the product form, factors applied from the right
        power = N_block
        X -= tl.dot(power.to(operand), X.to(operand), input_precision="ieee")
        for _ in tl.static_range(DOUBLINGS):
            power = tl.dot(power.to(operand), power.to(operand), input_precision="ieee")
            X += tl.dot(power.to(operand), X.to(operand), input_precision="ieee")
    v = load_rows(v_ptr, rows, v_time, e, length, DV, BLOCK_DV, True).to(tl.float32)
    if HAS_ALPHA:
        alpha_at = alpha_ptr + batch * a_batch + (begin + rows) * a_time + head * a_head
        v *= tl.load(alpha_at, mask=rows < length, other=0.0).to(tl.float32)[:, None]

    await_tiles(counter, r)
    u = load_rows(u_ptr, start - M + in_tile, u_time, e, length, DV, BLOCK_DV, True)
    acc = tl.dot(p.to(operand), u, acc, input_precision="ieee")
    # not v − gain·acc: the assembler of Triton 3.6 loses products whose first use is a change of sign
    rhs = v + acc * (-gain)[:, None]
    # A right-hand side, unlike a weight, can be small and exact: it keeps its rounding error out by not being rounded
    # before the sum, (I + N)⁻¹ X = I − (I − (I + N)⁻¹ X).
    identity = tl.where(in_tile[:, None] == in_tile[None, :], 1.0, 0.0)
    if PRODUCTS:
        new = rhs - tl.dot((identity - X).to(operand), rhs.to(operand), input_precision="ieee")
    else:
        first = rhs - tl.dot((identity - X).to(operand), rhs.to(operand), input_precision="ieee")
        new = tl.where((in_tile // SUBBLOCK)[:, None] == 0, first, 0.0)
        for b in range(1, M // SUBBLOCK):
            next_block = first - tl.dot(N_block.to(operand), new.to(operand), input_precision="ieee")
            new = tl.where((in_tile // SUBBLOCK)[:, None] == b, next_block, new)
    stored = new.to(operand)
    inside = (rows < length)[:, None] & (e < DV)[None, :]
    tl.store(u_ptr + rows.to(tl.int64)[:, None] * u_time + e[None, :], stored, mask=inside)
    # every thread's part of u is written before the counter says so
    tl.debug_barrier()
    tl.atomic_xchg(counter, r + 1, sem="release", scope="gpu")

    if EXACT:
        # (I + A) u = rhs has one solution, so a zero residual proves u whatever way it was found, if nothing on the way
        # to the residual was rounded: kernels.exactness
        residual = rhs - stored.to(tl.float32) - tl.dot(A.to(operand), stored, input_precision="ieee")
        wrong = tl.sum(tl.sum(tl.where(inside & (residual != 0), 1, 0), 1), 0)
        tl.atomic_add(inexact_ptr, wrong)
    if TIED:
        acc = tl.dot(p_own.to(operand), stored, acc, input_precision="ieee")
        if SOFTMAX:
            # σ of own score minus lse; a row with nothing before it reads itself
            own_weight = 1.0 / (1.0 + l * tl.exp2((m - self_score) * factor))
            own_weight = tl.where(l > 0, own_weight, tl.where(self_score == float("-inf"), 0.0, 1.0))
            out = (acc * share[:, None]) * (1.0 - own_weight)[:, None] + own_weight[:, None] * new
        else:
            out = acc + similarity(self_score, factor, KIND, DIVIDE)[:, None] * new
        o_at = o_ptr + batch * o_batch + (begin + rows)[:, None] * o_time + head * o_head + e[None, :]
        tl.store(o_at, out.to(o_ptr.dtype.element_ty), mask=inside)


@triton.jit
def read_kernel(
    q_ptr, k_ptr, u_ptr, o_ptr, bounds_ptr, first_tile_ptr, tile_sequence_ptr,
    q_batch, q_time, q_head, k_batch, k_time, k_head, u_batch, u_time, u_head, o_batch, o_time, o_head,
    T, H, sequences_heads, tiles, scale,
    KIND: tl.constexpr, DIVIDE: tl.constexpr, VARLEN: tl.constexpr, SHARED: tl.constexpr,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """o_t = Σ_{i≤t} κ(k_i, q_t) u_i: o [B, T, H, DV] from q [B, T, H, D]; SHARED query heads to a head of k and u.

    One program, one tile of M rows, the longest rows first.
    """
    index = tl.program_id(0)
    if VARLEN:
        tile = index // H
        if tile >= tl.load(first_tile_ptr + sequences_heads // H):
            return
        head = index % H
        batch = tl.load(tile_sequence_ptr + tile)
        begin = tl.load(bounds_ptr + batch).to(tl.int64)
        length = (tl.load(bounds_ptr + batch + 1).to(tl.int64) - begin).to(tl.int32)
        r = (tile - tl.load(first_tile_ptr + batch)).to(tl.int32)
        batch = batch * 0
    else:
        r = tiles - 1 - index // sequences_heads
        head = index % sequences_heads % H
        batch = index % sequences_heads // H
        begin = tl.zeros((), tl.int64)
        length = T
    batch = batch.to(tl.int64)
    head = head.to(tl.int64)
    q_ptr += batch * q_batch + begin * q_time + head * q_head
    k_ptr += batch * k_batch + begin * k_time + (head // SHARED) * k_head
    u_ptr += batch * u_batch + begin * u_time + (head // SHARED) * u_head
    o_ptr += batch * o_batch + begin * o_time + head * o_head

    SOFTMAX: tl.constexpr = KIND == "softmax"
    in_block = tl.arange(0, N)
    d = tl.arange(0, BLOCK_D)
    e = tl.arange(0, BLOCK_DV)
    start = r * M
    rows = start + tl.arange(0, M)
    q = load_rows(q_ptr, rows, q_time, d, length, D, BLOCK_D, True)
    acc = tl.zeros((M, BLOCK_DV), tl.float32)
    m = tl.full((M,), NO_SCORE, tl.float32)
    l = tl.zeros((M,), tl.float32)
    factor = scale * LOG2E if SOFTMAX else scale
    for at in range(0, start, N):
        k = load_rows(k_ptr, at + in_block, k_time, d, length, D, BLOCK_D, False)
        u = load_rows(u_ptr, at + in_block, u_time, e, length, DV, BLOCK_DV, False)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        if SOFTMAX:
            p, m, l, fix = softmax_step(s, m, l, factor)
            acc = acc * fix[:, None]
        else:
            p = similarity(s, factor, KIND, DIVIDE)
        acc = tl.dot(p.to(u.dtype), u, acc, input_precision="ieee")
    for at in range(start, start + M, N):
        k = load_rows(k_ptr, at + in_block, k_time, d, length, D, BLOCK_D, True)
        u = load_rows(u_ptr, at + in_block, u_time, e, length, DV, BLOCK_DV, True)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        seen = rows[:, None] >= (at + in_block)[None, :]
        if SOFTMAX:
            p, m, l, fix = softmax_step(tl.where(seen, s, float("-inf")), m, l, factor)
            acc = acc * fix[:, None]
        else:
            p = tl.where(seen, similarity(s, factor, KIND, DIVIDE), 0.0)
        acc = tl.dot(p.to(u.dtype), u, acc, input_precision="ieee")
    if SOFTMAX:
        acc = acc / tl.where(l == 0, 1.0, l)[:, None]
    inside = (rows < length)[:, None] & (e < DV)[None, :]
    o_at = o_ptr + rows.to(tl.int64)[:, None] * o_time + e[None, :]
    tl.store(o_at, acc.to(o_ptr.dtype.element_ty), mask=inside)
