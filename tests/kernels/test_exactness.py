"""The exact mode certifies the right integers, and never wrong ones."""

import numpy as np
import pytest
import torch

from kernels import triton_forward
from kernels.exactness import largest_key, largest_product, not_certified, product_limit
from kernels.replay import check_exactness, write_exactly
from kernels.triton_forward import Tiling, forward, score_of

interpreted = pytest.mark.skipif(not triton_forward.interpreted(), reason="kernels are compiled here")
SMALL = Tiling(rows=32, keys=16, warps=4, stages=1)


def solve(keys, values, scale=1.0, write="round", dtype=torch.float32, beta=None):
    """u as a list of integers where it is whole, and how much of it is not certified."""
    k, v = (torch.tensor(x, dtype=torch.float64).to(dtype)[None, :, None] for x in (keys, values))
    gate = None if beta is None else torch.tensor(beta, dtype=dtype)[None, :, None]
    inexact = torch.zeros(1, dtype=torch.int32)
    scales = (scale, 1.0)
    _, u = forward(None, k, v, k, None, gate, write, "round", scales, False, None, True, False, SMALL, inexact)
    return u[0, :, 0].tolist(), int(inexact)


@interpreted
@pytest.mark.parametrize("write", ["round", "linear", "relu"])
def test_small_integers_are_certified(write):
    assert solve([[3, 4], [2, 1], [0, 5]], [[1], [20], [3]], write=write) == ([[1], [10], [3 - 20 - 50]], 0)
    assert solve([[3, 4], [2, 1]], [[1], [20]], 2.0, write=write) == ([[1], [0]], 0)
    assert solve([[3, 4], [2, 1]], [[1], [50]], write=write, beta=[0.0, 3.0]) == ([[1], [20]], 0)


WRONG = {
    "κ beyond float16": ([[45, 32], [45, 1]], [[1], [0]], {"dtype": torch.float16}),
    "κ beyond float32": ([[4097, 0], [4097, 1]], [[1], [0]], {}),
    "β κ beyond float16": ([[45, 0], [40, 0]], [[1], [0]], {"dtype": torch.float16, "beta": [1.0, 3.0]}),
    "u beyond float16": ([[45, 0], [45, 0], [1, 0]], [[2], [1], [0]], {"dtype": torch.float16}),
    "a sum beyond float32": ([[2000, 0], [2000, 0]], [[2**23 - 1], [1]], {}),
    "keys that are no integers": ([[0.5, 0.5], [1.0, 0.0]], [[1], [0]], {}),
    "values that are no integers": ([[1], [1]], [[0.5], [0]], {}),
    "gates that are no integers": ([[1], [1]], [[2], [0]], {"beta": [0.5, 0.5]}),
    "products that float32 rounds over a half": ([[2896, 0], [2896, 0]], [[1], [0]], {"scale": 1 / 3}),
}


@interpreted
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_proved_is_not_certified(case):
    keys, values, options = WRONG[case]
    assert solve(keys, values, **options)[1] > 0


@pytest.mark.parametrize(("length", "certified"), [(4000, True), (4097, False)])
def test_a_long_sum_that_could_be_rounded_is_not_certified(length, certified):
    """Terms of 2¹²: no κ, no u and no product is too large."""
    k, u = torch.ones(1, length, 1, 1), torch.full((1, length, 1, 1), 4096.0)
    assert int(not_certified(k, k, u, None, None, u, "round", 1.0)) == (not certified)


@interpreted
@pytest.mark.parametrize(("write", "scale"), [("softmax", 1.0), ("round", 0.3), ("linear", 0.5), ("exp", 1.0)])
def test_similarities_that_do_not_keep_integers_are_refused(write, scale):
    with pytest.raises(ValueError, match="does not keep integers"):
        solve([[1]], [[1]], scale, write)


@interpreted
@pytest.mark.parametrize(
    ("keys", "values", "dtype"),
    [
        ([[1.0]], [[4097.0]], torch.float16),
        ([[257.0]], [[1.0]], torch.bfloat16),
        ([[1.5]], [[1.0]], torch.float32),
        ([[1.0]], [[float("nan")]], torch.float32),
        ([[float("inf")]], [[1.0]], torch.float16),
    ],
)
def test_integers_that_the_type_does_not_hold_are_refused(keys, values, dtype):
    with pytest.raises(ValueError, match="are not all integers that"):
        write_exactly(torch.tensor(keys), torch.tensor(values), 1, dtype, torch.zeros(1, dtype=torch.int32))


def test_keys_themselves_must_be_held_not_only_their_differences():
    z = np.random.default_rng(0).integers(1001, 1004, (5, 200))
    with pytest.raises(ValueError, match="keys and their differences reach 1003; bf16 holds"):
        check_exactness(z, 1, 10, 1)
    with pytest.raises(ValueError, match="keys and their differences reach 300"):
        check_exactness(-np.full((2, 2), 300), 1, 10, 1)


def test_bounds_on_keys_and_products_hold():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = rng.integers(-rng.integers(1, 90), rng.integers(2, 90), (7, 5)) + rng.integers(-50, 50)
        both = np.concatenate([z, (z[:, None] - z).reshape(-1, 5)])
        assert largest_key(z) == np.abs(both).max()
        assert largest_product(z) >= (np.abs(both) @ np.abs(both).T).max()


@pytest.mark.parametrize("s", [3, 6, 7, 98, 1001, 4096, 97893, 131071])
def test_products_below_the_limit_are_rounded_as_in_exact_arithmetic(s):
    """The products nearest to halves, computed as the kernel does."""
    score = score_of("round", 1 / s, torch.float32)
    halves = np.arange(min(2**20, product_limit(s) // s)) + 0.5
    near = np.floor(halves * s)
    x = np.concatenate([near - 1, near, near + 1])
    x = x[(x >= 0) & (x < product_limit(s))]
    small = x.astype(np.float32)
    found = small / np.float32(score.factor) if score.divide else small * np.float32(score.factor)
    below, rest = np.divmod(x.astype(np.int64), s)
    expected = below + ((2 * rest > s) | ((2 * rest == s) & (below % 2 == 1)))
    assert (np.round(found).astype(np.int64) == expected).all()


def test_above_the_limit_they_are_not():
    s = 3
    x = np.arange(2**22, 2**24, dtype=np.int64)
    found = np.round(x.astype(np.float32) * np.float32(1 / s)).astype(np.int64)
    assert (found != (2 * x + s) // (2 * s)).any(), "the limit could be higher"
