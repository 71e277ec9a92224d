"""(I + A)⁻¹ of a 64×64 diagonal block of a softmax's weights, on Hopper's tensor cores.

A is strictly lower triangular and the magnitudes in a row sum to at most |β| ≤ 1, so
(I + A)⁻¹ = (I − A)(I + A²)(I + A⁴)…(I + A³²). Leaving out the factors from I + A^p on changes u by at most
ρ^p max|u|, ρ the largest such sum: (I + A) times the shorter product is I − A^p, and all these commute. Far into a
sequence ρ is small, since a row's weights spread over all the keys before it, and most factors fall away.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from kernels.hopper_tiles import HALF, sync

# The largest ρ for which powers of A from the third, fourth, eighth on are at most 2⁻¹⁶
THIRD = gl.constexpr(2 ** (-16 / 3))
FOURTH = gl.constexpr(2**-4)
EIGHTH = gl.constexpr(2**-2)


@gluon.jit
def inverse(A, identity, scratch):
    """(I + A)⁻¹ by one warpgroup; scratch: shared memory for two 16-bit blocks side by side, free to be written."""
    X = identity - A
    size = gl.max(gl.sum(gl.abs(A), 1), 0)
    power = warpgroup_mma_wait(0, deps=[squared(hold(A, scratch, 0), A)])
    if size <= THIRD:
        X = X + power
    else:
        X = warpgroup_mma_wait(0, deps=[times(X, hold(power, scratch, 1))])
        if size > FOURTH:
            X = times_powers(X, scratch, 2, 3)
            if size > EIGHTH:
                X = times_powers(X, scratch, 3, 6)
    return X


@gluon.jit
def times_powers(X, scratch, FROM: gl.constexpr, TO: gl.constexpr):
    """X times (I + A^(2^l)) for FROM ≤ l < TO, after A^(2^(FROM − 1)) was held."""
    power = warpgroup_mma_wait(0, deps=[squared(place_of(scratch, FROM - 1), X)])
    for level in gl.static_range(FROM, TO):
        held = hold(power, scratch, level)
        if level + 1 < TO:
            power = squared(held, X)
        X = times(X, held)
        if level + 1 < TO:
            power = warpgroup_mma_wait(1, deps=[power])
        X = warpgroup_mma_wait(0, deps=[X])
    return X


@gluon.jit
def place_of(scratch, level: gl.constexpr):
    """Where A^(2^level) is held: two buffers, so that the power before may still be read."""
    return scratch.slice(HALF * (level % 2), HALF, dim=1)


@gluon.jit
def hold(power, scratch, level: gl.constexpr):
    """A^(2^level) put into shared memory."""
    held = place_of(scratch, level)
    held.store(power.to(scratch.dtype))
    fence_async_shared()
    sync()
    return held


@gluon.jit
def squared(held, like):
    """held² in the layout of `like`, begun and not awaited."""
    square: gl.constexpr = like.type.layout
    blank = gl.zeros([HALF, HALF], gl.float32, layout=square)
    return warpgroup_mma(held, held, blank, use_acc=False, is_async=True)


@gluon.jit
def times(X, held):
    """X + X·held, begun and not awaited."""
    left: gl.constexpr = gl.DotOperandLayout(0, X.type.layout, 2)
    return warpgroup_mma(gl.convert_layout(X.to(held.dtype), left), held, X, is_async=True)
