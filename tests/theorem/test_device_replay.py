import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from theorem.activations import activation
from theorem.device_replay import replay_on_device
from theorem.exchange import gram_of, replay
from theorem.swaps import random_swaps

torch = pytest.importorskip("torch")


def keys_of(d):
    return np.vstack([math.isqrt(d) * np.eye(d, dtype=np.int64), hadamard(d, dtype=np.int64)])


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
@pytest.mark.parametrize("values", [None, np.eye(128)])
def test_the_kernels_agree_with_the_exact_replay(form, values):
    z, swaps = keys_of(64), random_swaps(128, 300, np.random.default_rng(1))
    found = replay_on_device(z, 64, swaps, values=values, device="cpu", form=form)
    assert found.exact
    assert found.integer
    assert found.first_wrong is None
    assert found.wrong_slots == 0


@pytest.mark.parametrize("f", ["round", "linear", "relu"])
def test_the_kernels_fail_where_the_replay_fails(f):
    rows = np.random.default_rng(2).normal(size=(40, 9))
    z = np.rint(60 * rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.int64)
    swaps = random_swaps(40, 30, np.random.default_rng(3))
    found = replay_on_device(z, 3600, swaps, f, device="cpu", form="recurrent")
    expected = replay(gram_of(z, 3600), swaps, activation(f))
    assert not found.exact
    assert not expected.exact
    assert found.wrong_slots == expected.wrong_slots
    assert found.first_wrong == expected.first_wrong == 0


def test_what_the_kernels_do_not_have():
    with pytest.raises(ValueError, match="the kernels have no exp4"):
        replay_on_device(np.eye(3, dtype=np.int64), 1, random_swaps(3, 2, np.random.default_rng(0)), "exp4")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no CUDA device"):
            replay_on_device(np.eye(3, dtype=np.int64), 1, random_swaps(3, 2, np.random.default_rng(0)))


@pytest.mark.gpu
@pytest.mark.parametrize("d", [64, 256])
def test_a_gpu_replays_exactly(d):
    z, swaps = keys_of(d), random_swaps(2 * d, 20_000, np.random.default_rng(4))
    found = replay_on_device(z, d, swaps, device="cuda")
    assert found.exact
    assert found.integer
