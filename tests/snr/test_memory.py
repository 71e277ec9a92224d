"""The memory against loops over recalls, and what must not change it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from snr.bench import as_typed, literal_loop, tight_loop
from snr.keys import draw_values, to_sphere
from snr.memory import Route, recall, recall_stored, route
from snr.similarity import BUILTIN, Similarity, similarity

KERNELS = ("linear", "relu", "exp", "solu", "softplus", "gelu", "cubic", "cosexp", "x**2 + x")
WIDE = Route(np.float64, plain=True)
LOGS = Route(np.float64, plain=False)


def pairs(seed, m, n, d, d_v=None, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n, d)).astype(dtype), rng.standard_normal((m, n, d_v or d)).astype(dtype)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "d", "tau"), [(37, 16, 1.5), (53, 64, 8.0), (2, 3, 1.0)])
def test_every_route_agrees_with_one_recall_at_a_time(kernel, n, d, tau):
    g = similarity(kernel)
    keys, values = pairs(1, 3, n, d, d_v=7)
    fast = route(g, tau, d, (d / 4, 3.0 * d))
    for way, tolerance in ((WIDE, 1e-9), (LOGS, 1e-9), (fast, 3e-4 if fast.dtype is np.float32 else 1e-9)):
        written = keys.astype(way.dtype), values.astype(way.dtype)
        ratio = recall_stored(g, *written, tau, power=7, way=way).log_ratio
        for m in range(3):
            used = to_sphere(keys[m]) if g.cosine else keys[m]
            with np.errstate(divide="ignore"):
                expected = np.log(literal_loop(lambda x: g.value(x, tau, d), used, values[m]))
            np.testing.assert_allclose(ratio[m], expected, rtol=0, atol=tolerance)  # the worst recall


def recalled_one_by_one(g, keys, values, tau):
    """ln ‖r‖²/(c² d_v) of each recall of one memory in float64, from logarithms that sympy's expression gives."""
    n, d = keys.shape
    keys, values = (to_sphere(keys.astype(float)) if g.cosine else keys.astype(float)), values.astype(float)
    derived, found = Similarity(g.text, g.text), np.empty(n)
    for i in range(n):
        sign, log = derived.sign_and_log(keys @ keys[i], tau, d)
        others = np.arange(n) != i
        top = log[others].max()
        noise = (sign[others] * np.exp(log[others] - top)) @ values[others] if np.isfinite(top) else np.zeros(1)
        with np.errstate(divide="ignore"):
            found[i] = np.log(noise @ noise / values.shape[1]) + 2 * (top if np.isfinite(top) else 0) - 2 * log[i]
    return found


@pytest.mark.parametrize("kernel", [*BUILTIN, "x**5 + x", "exp(x/tau) - 1"])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (64, 16), (300, 16), (203, 64), (300, 256)])
def test_worst_recall_of_the_fastest_route(kernel, n, d):
    """No N here is a whole number of blocks; the third to fifth take several, and linear its state where N ≥ 2d."""
    g = similarity(kernel)
    spread = 9 * math.sqrt(2 * d)
    for tau in (0.9, 1.5, math.sqrt(d), 3 * math.sqrt(d)):
        way = route(g, tau, d, (max(d - spread, d / 100), d + spread + 18))
        keys, values = pairs(5, 2, n, d, d_v=7, dtype=way.dtype)
        found = recall_stored(g, keys, values, tau, power=7, way=way).log_ratio
        for m in range(2):
            exact = recalled_one_by_one(g, keys[m], values[m], tau)
            tolerance = 5e-5 if way.dtype is np.float32 else 1e-11
            np.testing.assert_allclose(found[m], exact, rtol=0, atol=tolerance)


def test_a_linear_memory_is_its_state():
    """Sᵀ k − c v against the sum over pairs: all keys, some probes, stretched probes, N = 2d and far more."""
    g = similarity("linear")
    for n, d in ((32, 16), (700, 9)):
        keys, values = pairs(11, 2, n, d, d_v=5)
        probes = np.arange(0, n, 2)
        squares = np.random.default_rng(1).uniform(1, 90, (2, len(probes)))
        for asked in ({}, {"probes": probes}, {"probes": probes, "squares": squares}):
            by_state = recall_stored(g, keys, values, 1.0, power=5, way=WIDE, **asked).log_ratio
            by_pairs = recall_stored(g, keys, values, 1.0, power=5, way=LOGS, **asked).log_ratio
            np.testing.assert_allclose(by_state, by_pairs, rtol=0, atol=1e-11)


def test_one_long_key_keeps_its_digits_in_a_linear_memory():
    """Its c is 10⁵ times r: o − c v_i would leave two of float32's seven digits."""
    g = similarity("linear")
    keys, values = pairs(15, 1, 400, 4, dtype=np.float32)
    keys[0, 7] *= 1e6
    found = recall_stored(g, keys, values, 1.0, power=4, way=Route(np.float32, plain=True)).log_ratio[0]
    assert found[7] < -20
    np.testing.assert_allclose(found, recalled_one_by_one(g, keys[0], values[0], 1.0), rtol=0, atol=5e-5)


def test_orthogonal_keys_interfere_with_nothing():
    """N = d is where o − c v would leave rounding errors for the noise: there the pairs are summed."""
    keys = np.eye(8)[None] * 3
    found = recall_stored(similarity("linear"), keys, np.ones((1, 8, 2)), 1.0, power=2, way=WIDE)
    assert np.all(found.log_noise == -np.inf)


def test_a_formula_that_cancels_is_taken_by_its_logarithm():
    """1 + e^{x − 60} is 1 in floats for every likely x, and the logarithm of it is not 0."""
    g, d = similarity("log(1 + exp(x - 60))"), 16
    way = route(g, 4.0, d, (d / 4, 3.0 * d))
    assert not way.plain
    keys, values = pairs(12, 1, 30, d)
    found = recall_stored(g, keys, values, 4.0, power=d, way=way).log_ratio[0]
    np.testing.assert_allclose(found, recalled_one_by_one(g, keys[0], values[0], 4.0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", BUILTIN)
def test_the_loops_that_the_bench_races_compute_the_same(kernel):
    g, tau, d = similarity(kernel), 4.0, 16
    keys, values = pairs(14, 1, 41, d)
    used = to_sphere(keys[0]) if g.cosine else keys[0]
    ours = recall_stored(g, keys, values, tau, power=d, way=WIDE).log_ratio[0]
    for loop in (literal_loop, tight_loop):
        np.testing.assert_allclose(np.log(loop(as_typed(kernel, tau), used, values[0])), ours, rtol=0, atol=1e-9)


def test_single_precision_is_good_to_1e_5_on_average():
    """Entries' rounding errors are independent; the worst recall is within 1e-4, their mean within 1e-5."""
    for kernel in ("linear", "relu", "exp", "solu"):
        g = similarity(kernel)
        for d, tau in ((64, 8.0), (512, 22.6), (16, 0.9)):
            keys, values = pairs(2, 1, 300, d, dtype=np.float32)
            way = route(g, tau, d, (d / 4, 3.0 * d))
            single = recall_stored(g, keys.astype(way.dtype), values.astype(way.dtype), tau, power=d, way=way)
            double = recall_stored(g, keys.astype(float), values.astype(float), tau, power=d, way=LOGS)
            error = single.log_ratio - double.log_ratio
            assert np.abs(error).max() < 1e-4
            assert abs(error.mean()) < 1e-5


def test_noise_is_what_the_plain_recall_leaves_over():
    g, tau = similarity("exp"), 4.0
    keys, values = pairs(3, 1, 40, 16)
    found = recall_stored(g, keys, values, tau, power=16, way=WIDE)
    signal = g.value((keys[0] ** 2).sum(axis=1), tau, 16)
    rest = recall(g, keys[0], values[0], keys[0], tau) - signal[:, None] * values[0]
    np.testing.assert_allclose(found.log_noise[0], np.log((rest**2).sum(axis=1) / 16), atol=1e-9)
    np.testing.assert_allclose(found.log_signal[0], 2 * np.log(signal), atol=1e-12)


def test_noise_below_the_rounding_of_the_signal_keeps_its_digits():
    """At c/r = e^40 the difference o − c v_i holds no digit of r."""
    g, tau = similarity("exp"), 0.5
    keys, values = pairs(4, 1, 20, 64)
    found = recall_stored(g, keys, values, tau, power=64, way=LOGS).log_ratio[0]
    assert found.max() < -80
    kernel = as_typed("exp", tau)
    signal = kernel((keys[0] ** 2).sum(axis=1))
    rest = recall(g, keys[0], values[0], keys[0], tau) - signal[:, None] * values[0]
    lost = (rest**2).sum(axis=1) / (signal**2 * 64)
    assert np.abs(lost / np.exp(found) - 1).min() > 0.5
    exact = np.log(literal_loop(kernel, keys[0], values[0]))
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_neither_signal_nor_noise_needs_to_be_a_float():
    g, tau, d = similarity("exp"), 0.9, 4096
    keys, values = pairs(5, 1, 12, d, d_v=4)
    way = route(g, tau, d, (d / 2, 2.0 * d))
    assert not way.plain
    found = recall_stored(g, keys, None, tau, way=way)
    products = keys[0] @ keys[0].T / tau
    assert found.log_signal.min() > 2 * 709
    for i in range(12):
        others = np.delete(products[i], i)
        assert found.log_noise[0, i] == pytest.approx(logsumexp(2 * others), abs=1e-9)
    assert np.isfinite(recall_stored(g, keys, values, tau, power=4, way=way).log_ratio).all()


@pytest.mark.parametrize("way", [WIDE, LOGS])
def test_normalising_leaves_the_ratio_and_not_the_recall_error(way):
    """Softmax over the stored keys, done plainly: o/Z, its signal c/Z and its noise r/Z."""
    g, tau, d = similarity("exp"), 3.0, 9
    keys, values = pairs(6, 2, 25, d, d_v=5)
    found = recall_stored(g, keys, values, tau, power=5, way=way, errors=True)
    for m in range(2):
        weights = np.exp(keys[m] @ keys[m].T / tau)
        weights /= weights.sum(axis=1, keepdims=True)
        own = np.diag(weights)
        recalled = weights @ values[m]
        noise = recalled - own[:, None] * values[m]
        ratio = (noise**2).sum(axis=1) / (own**2 * 5)
        error = ((recalled - values[m]) ** 2).sum(axis=1) / 5
        np.testing.assert_allclose(found.log_ratio[m], np.log(ratio), atol=1e-9)
        np.testing.assert_allclose(found.log_error[m], np.log(error), atol=1e-9)


def test_normalisation_needs_a_positive_similarity():
    keys, values = pairs(7, 1, 10, 4)
    with pytest.raises(ValueError, match="nowhere negative"):
        recall_stored(similarity("linear"), keys, values, 1.0, power=4, way=WIDE, errors=True)


def test_probes_and_blocks_change_nothing(monkeypatch):
    g, tau = similarity("solu"), 4.0
    keys, values = pairs(8, 2, 101, 16)
    whole = recall_stored(g, keys, values, tau, power=16, way=WIDE).log_ratio
    chosen = np.array([3, 50, 100])
    some = recall_stored(g, keys, values, tau, power=16, way=WIDE, probes=chosen).log_ratio
    np.testing.assert_allclose(some, whole[:, chosen], atol=1e-12)
    softmax = recall_stored(similarity("exp"), keys, values, tau, power=16, way=WIDE, errors=True).log_error
    monkeypatch.setattr("snr.memory.BLOCK", 1000)
    monkeypatch.setattr("snr.memory.PIECE", 300)
    monkeypatch.setattr("snr.memory.MIN_ROWS", 7)
    for way in (WIDE, LOGS):
        np.testing.assert_allclose(recall_stored(g, keys, values, tau, power=16, way=way).log_ratio, whole, atol=1e-10)
    again = recall_stored(similarity("exp"), keys, values, tau, power=16, way=WIDE, errors=True).log_error
    np.testing.assert_allclose(again, softmax, atol=1e-10)


def test_stretched_probes_are_memories_of_their_own():
    """`squares` stretches one key of a memory: the same as writing that memory and recalling that key."""
    g, tau = similarity("exp"), 4.0
    keys, values = pairs(9, 1, 15, 16)
    squares = np.random.default_rng(0).uniform(5, 30, (1, 15))
    found = recall_stored(g, keys, values, tau, power=16, way=WIDE, squares=squares).log_ratio[0]
    for i in range(15):
        written = keys[0].copy()
        written[i] *= math.sqrt(squares[0, i]) / np.linalg.norm(written[i])
        assert found[i] == pytest.approx(math.log(literal_loop(as_typed("exp", tau), written, values[0])[i]), abs=1e-10)


def test_without_values_the_noise_is_its_mean_over_values():
    g, tau = similarity("relu"), 1.0
    keys, _ = pairs(10, 1, 30, 8)
    exact = np.exp(recall_stored(g, keys, None, tau, way=WIDE).log_ratio[0])
    rng = np.random.default_rng(0)
    for kind, power in (("gaussian", 6), ("signs", 6), ("unit", 1)):
        values = draw_values(kind, rng, 4000, 30, 6, np.float64)
        many = recall_stored(g, np.broadcast_to(keys, (4000, 30, 8)), values, tau, power=power, way=WIDE)
        simulated = np.exp(many.log_ratio)
        error = simulated.std(axis=0) / math.sqrt(4000)
        assert np.all(np.abs(simulated.mean(axis=0) - exact) < 5.5 * error)  # 90 means: a false alarm in 3e-6


@pytest.mark.parametrize("kernel", ["linear", "exp"])
def test_groups_average_over_memories_with_flipped_values(kernel):
    """All 2³ of them written and recalled, for three groups of 13 pairs; all routes."""
    g, tau = similarity(kernel), 3.0
    keys, values = pairs(13, 2, 13, 4)
    squares = np.random.default_rng(1).uniform(1, 9, (2, 13))
    for way in (WIDE, LOGS):
        found = recall_stored(g, keys, values, tau, power=4, way=way, squares=squares, groups=3).log_ratio
        ratios = []
        for signs in itertools.product((-1, 1), repeat=3):
            flipped = values * np.repeat(signs, (4, 4, 5))[:, None]
            again = recall_stored(g, keys, flipped, tau, power=4, way=way, squares=squares).log_ratio
            ratios.append(np.exp(again))
        np.testing.assert_allclose(found, np.log(np.mean(ratios, axis=0)), rtol=0, atol=1e-11)
    with pytest.raises(ValueError, match="groups"):
        recall_stored(similarity("exp"), keys, values, tau, power=4, way=WIDE, errors=True, groups=3)


def test_a_pair_that_nothing_interferes_with():
    g = similarity("relu")
    keys = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    found = recall_stored(g, keys, np.ones((1, 2, 3)), 1.0, power=3, way=WIDE)
    assert np.all(found.log_ratio == -np.inf)


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.sampled_from(("linear", "relu", "exp", "solu")),
    seed=st.integers(0, 10**6),
    n=st.integers(2, 20),
    d=st.integers(1, 12),
    scale=st.floats(1e-3, 1e3),
)
def test_rotations_permutations_and_the_scale_of_values(kernel, seed, n, d, scale):
    g, tau = similarity(kernel), 2.0
    keys, values = pairs(seed, 1, n, d, d_v=3)
    ratio = recall_stored(g, keys, values, tau, power=3, way=LOGS).log_ratio[0]
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    order = rng.permutation(n)

    def again(k, v, power=3.0):
        return recall_stored(g, k, v, tau, power=power, way=LOGS).log_ratio[0]

    # a recall whose contributions nearly cancel is sensitive to rounding, whatever computes it
    tolerance = 1e-7
    np.testing.assert_allclose(np.exp(again(keys @ rotation, values)), np.exp(ratio), rtol=tolerance, atol=1e-12)
    np.testing.assert_allclose(np.exp(again(keys[:, order], values[:, order])), np.exp(ratio[order]), rtol=tolerance)
    np.testing.assert_allclose(again(keys, scale * values, power=3 * scale**2), ratio, rtol=tolerance, atol=1e-9)
