import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from theorem.activations import activation
from theorem.device_replay import exact_type, replay_on_device
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


@pytest.mark.parametrize(
    ("shift", "values", "expected"),
    [
        (0, None, "bfloat16"),  # were it on a GPU
        (300, None, "float32"),  # the keys themselves, not only their differences
        (2000, None, "float64"),  # 8 · 2000² is beyond what float32 rounds rightly
        (0, np.eye(6) * 129, "float32"),
        (0, np.eye(6) * 0.1, "float64"),
    ],
)
def test_the_type_is_the_narrowest_that_holds_all(monkeypatch, shift, values, expected):
    z = np.eye(6, 8, dtype=np.int64) + shift
    used = []

    def seen(q, k, v, **options):
        used.append(str(k.dtype).removeprefix("torch."))
        raise RuntimeError("seen")

    monkeypatch.setattr("kernels.deltaformer", seen, raising=False)
    swaps = random_swaps(6, 3, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="seen"):
        replay_on_device(z, 3, swaps, values=values, device="cpu")
    assert used == ["float32" if expected == "bfloat16" else expected]
    assert exact_type(z, 3, values if values is not None else np.ones((6, 1)), "cuda") == expected


def test_keys_beyond_float32_are_replayed_in_float64():
    """Orthogonal keys of 2²⁵ + 1: float32 holds neither them nor their products."""
    z = (2**25 + 1) * np.eye(6, dtype=np.int64)
    found = replay_on_device(z, (2**25 + 1) ** 2, random_swaps(6, 30, np.random.default_rng(1)), device="cpu")
    assert found.exact
    assert not found.integer


def test_integers_are_claimed_only_where_float32_could_not_round():
    z, swaps = keys_of(64), random_swaps(128, 20, np.random.default_rng(1))
    assert replay_on_device(z, 64, swaps, device="cpu", dtype="float32").integer
    assert not replay_on_device(1000 * z, 64 * 1000**2, swaps, device="cpu", dtype="float32").integer
    assert not replay_on_device(z, 64, swaps, values=np.eye(128) / 2, device="cpu").integer


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
