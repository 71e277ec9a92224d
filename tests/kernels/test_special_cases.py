"""Cases whose answer is known otherwise: causal attention, DeltaNet, integers, and systems that amplify."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from kernels import deltaformer, write_values
from kernels.error_model import amplification, measure

FORMS = ("recurrent", "parallel", "chunked")


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("group", [1, 4])
def test_beta_zero_is_causal_attention(form, group):
    q, k, v = draw(2, 130, 2 * group, 16, seed=1), draw(2, 130, 2, 16, seed=2), draw(2, 130, 2, 16, seed=3)
    o, u = deltaformer(q, k, v, beta=torch.zeros(2, 130, 2).double(), form=form, return_u=True)
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    expected = scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True).transpose(1, 2)
    assert torch.equal(u, v)
    torch.testing.assert_close(o, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_linear_with_w_equal_to_k_is_deltanet(form):
    length, width = 130, 12
    q, k, v = draw(1, length, 1, width, seed=1), draw(1, length, 1, width, seed=2), draw(1, length, 1, 5, seed=3)
    k = k / k.norm(dim=-1, keepdim=True)
    beta = torch.rand(1, length, 1, generator=torch.Generator().manual_seed(4)).double()
    # DeltaNet writes β(v − S k) at k; P eq. 41 carries α v with α = β
    o = deltaformer(q, k, v, alpha=beta, beta=beta, write="linear", read="linear", form=form)
    state = np.zeros((5, width))
    for t in range(length):
        k_t, v_t, b = k[0, t, 0].numpy(), v[0, t, 0].numpy(), float(beta[0, t, 0])
        state = state @ (np.eye(width) - b * np.outer(k_t, k_t)) + b * np.outer(v_t, k_t)
        np.testing.assert_allclose(o[0, t, 0], state @ q[0, t, 0].numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gates_scale_what_they_say(form):
    k, v, w = draw(1, 70, 1, 8, seed=1), draw(1, 70, 1, 4, seed=2), draw(1, 70, 1, 8, seed=3)
    alpha, beta = draw(1, 70, 1, seed=4), draw(1, 70, 1, seed=5) / 70
    u = write_values(k, v, w=w, alpha=alpha, beta=beta, write="relu", form=form)
    for t in (0, 1, 33, 64, 69):
        kappa = torch.relu(k[0, :t, 0] @ w[0, t, 0])
        expected = alpha[0, t, 0] * v[0, t, 0] - beta[0, t, 0] * (kappa @ u[0, :t, 0])
        torch.testing.assert_close(u[0, t, 0], expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_row_has_nothing_to_subtract(form):
    q, k, v = draw(1, 3, 1, 8, seed=1), draw(1, 3, 1, 8, seed=2), draw(1, 3, 1, 4, seed=3)
    for w in (k, q):
        o, u = deltaformer(q, k, v, w=w, form=form, return_u=True)
        assert torch.equal(u[:, 0], v[:, 0])
        assert torch.equal(o[:, 0], v[:, 0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_integer_keys_exchange_states_exactly(form, dtype):
    """P App. E with integer keys: n writes, then swaps k_i − k_j of value 0; each slot recalls the permuted value."""
    slots, steps = 30, 100
    draw = np.random.default_rng(1)
    keys = np.hstack(
        (4 * np.eye(slots, dtype=np.int64), np.eye(6, dtype=np.int64)[np.arange(slots) % 6])
    )  # products 0, 1
    values = draw.integers(-100, 101, (slots, 5))
    written, truth = [*keys], values.copy()
    for _ in range(steps):
        low, high = sorted(draw.choice(slots, 2, replace=False))
        written.append(keys[high] - keys[low])
        truth[[low, high]] = truth[[high, low]]
    written.extend(np.zeros_like(keys))  # tokens that only read: no key, no value, and every slot as query once
    queries = np.zeros((len(written), keys.shape[1]))
    queries[-slots:] = keys
    v = np.zeros((len(written), 5))
    v[:slots] = values
    k, q, v = (torch.tensor(np.array(x), dtype=dtype)[None, :, None] for x in (written, queries, v))
    o, u = deltaformer(q, k, v, write="round", read="round", scale=1 / 17, form=form, return_u=True)
    exact = values.tolist()
    kappa = np.rint(np.array(written) @ np.array(written).T / 17).astype(np.int64)
    for t in range(slots, len(written)):
        exact.append((-kappa[t, :t] @ np.array(exact)).tolist())
    assert np.array_equal(u[0, :, 0].double().numpy(), exact)
    assert np.array_equal(o[0, -slots:, 0].double().numpy(), truth)
    assert not np.array_equal(truth, values)


@pytest.mark.parametrize("form", FORMS)
def test_softmax_writing_grows_at_most_like_the_length_and_can(form):
    """|u_t| ≤ t max|v| for softmax κ₁, 0 ≤ β ≤ 1; alternating v reach it when each row sees only its predecessor."""
    length = 66
    angle = torch.arange(length).double() * (2 * torch.pi / length)
    k = torch.stack((angle.cos(), angle.sin()), -1)[None, :, None]
    w = k.roll(1, 1)
    v = torch.tensor([(-1.0) ** t for t in range(length)], dtype=torch.float64)[None, :, None, None]
    u = write_values(k, v, w=w, scale=1e6, form=form)
    expected = torch.arange(1, length + 1).double()[None, :, None, None]
    torch.testing.assert_close(u.abs(), expected, rtol=1e-12, atol=0)
    gentle = write_values(k, v, w=w, scale=10.0, form=form)
    assert (gentle.abs() <= expected).all()


@pytest.mark.parametrize("form", ["parallel", "chunked"])
def test_three_times_ones_at_64_amplifies_by_3e19_and_stays_within_its_bound(form):
    length = 64
    k = torch.ones(1, length, 1, 3)
    u_norm, _ = amplification(k, k, k, write="linear")
    first = np.array([3 * 2.0 ** (t - 1) for t in range(1, length)])  # |u_t| for v = e_0: 3, 6, 12, …
    assert u_norm == pytest.approx(1 + first.sum(), rel=1e-12)
    k = torch.ones(1, length, 1, 3)
    for v in (
        draw(1, length, 1, 4, dtype=torch.float32),
        (3 * torch.arange(length).float() + 1)[None, :, None, None] / 3,
    ):
        errors = measure(k, k, v, write="linear", read="softmax", form=form)
        assert errors.worst_ratio() <= 1
        assert errors.u.max() > 1e9  # what is bounded is not small
    # values along the growing direction lose nothing relative to u; those whose u is small lose everything
    growing = measure(k, k, draw(1, length, 1, 4, dtype=torch.float32), write="linear", form=form)
    assert float((growing.u / growing.u_size).max()) < 1e-5
