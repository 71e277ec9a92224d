"""The torch forms against the float64 oracle, row by row, within the error model's bound."""

import itertools

import numpy as np
import pytest
import torch

from kernels import deltaformer, write_values
from kernels.error_model import measure
from kernels.similarity import SIMILARITIES

LENGTHS = (1, 2, 15, 16, 17, 63, 65, 127, 130, 257)
WIDTHS = ((3, 5), (16, 16), (64, 7), (80, 96), (128, 64))


def problem(length, width=16, value_width=8, kv_heads=2, group=1, batch=1, dtype=torch.float32, seed=0):
    """q, k, v and gates; β small enough that no similarity's (I + A)⁻¹ explodes, which has a test of its own."""
    draw = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, length, group * kv_heads, width, generator=draw).to(dtype)
    k = torch.randn(batch, length, kv_heads, width, generator=draw).to(dtype)
    w = torch.randn(batch, length, kv_heads, width, generator=draw).to(dtype)
    v = torch.randn(batch, length, kv_heads, value_width, generator=draw).to(dtype)
    alpha = torch.rand(batch, length, kv_heads, generator=draw).to(dtype)
    beta = torch.rand(batch, length, kv_heads, generator=draw).to(dtype)
    return {"q": q, "k": k, "v": v, "w": w, "alpha": alpha, "beta": beta / max(1, length) / 8}


@pytest.mark.parametrize("form", ["parallel", "chunked"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_row_is_within_its_bound_at_every_length(form, name):
    for index, length in enumerate(LENGTHS):
        width, value_width = WIDTHS[index % len(WIDTHS)]
        arguments = problem(length, width, value_width, kv_heads=1 + index % 2, group=(1, 4)[index // 2 % 2])
        if name == "softmax":
            arguments["beta"] = None
        errors = measure(**arguments, write=name, read=name, form=form)
        assert errors.worst_ratio() <= 1, (length, width)


@pytest.mark.parametrize("form", ["parallel", "chunked"])
def test_every_width_and_grouping_with_every_pair_of_similarities(form):
    shapes = itertools.cycle(itertools.product(WIDTHS, (1, 4)))
    for (write, read), ((width, value_width), group) in zip(itertools.product(SIMILARITIES, repeat=2), shapes):
        arguments = problem(65, width, value_width, kv_heads=2, group=group, seed=3)
        errors = measure(**arguments, write=write, read=read, form=form)
        assert errors.worst_ratio() <= 1, (write, read, width, group)


@pytest.mark.parametrize("form", ["parallel", "chunked"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["softmax", "solu"])
def test_other_precisions(form, dtype, name):
    errors = measure(**problem(130, 64, 32, group=2, dtype=dtype), write=name, read=name, form=form)
    assert errors.worst_ratio() <= 1
    if dtype == torch.float64:
        assert (errors.o / errors.o_size).max() < 1e-13


@pytest.mark.parametrize("name", SIMILARITIES)
def test_tied_equals_a_copy_of_q_as_write_queries(name):
    arguments = problem(130, 16, 8, batch=2, dtype=torch.float64)
    q = arguments["q"]
    del arguments["w"]
    for form in ("recurrent", "parallel", "chunked"):
        same = deltaformer(**arguments, w=q, write=name, read=name, form=form, return_u=True)
        flag = deltaformer(**arguments, tied=True, write=name, read=name, form=form, return_u=True)
        copy = deltaformer(**arguments, w=q.clone(), write=name, read=name, form=form, return_u=True)
        for one, other, plain in zip(same, flag, copy):
            assert torch.equal(one, other)
            torch.testing.assert_close(one, plain, rtol=0, atol=1e-12 * float(plain.abs().max()))


def test_tied_softmax_with_two_scales_is_not_taken_for_one_pass():
    arguments = problem(70, 16, 8, dtype=torch.float64)
    del arguments["w"]
    expected = deltaformer(**arguments, tied=True, scale=(0.3, 0.7), form="recurrent")
    torch.testing.assert_close(deltaformer(**arguments, tied=True, scale=(0.3, 0.7), form="chunked"), expected)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_oracle_is_the_solution_of_the_linear_system(name):
    arguments = problem(12, 4, 3, kv_heads=1, dtype=torch.float64, seed=5)
    arguments["beta"] *= 50
    o, u = deltaformer(**arguments, write=name, read=name, form="recurrent", return_u=True, scale=(0.5, 0.25))
    q, k, v, w = (arguments[x][0, :, 0].numpy() for x in ("q", "k", "v", "w"))
    alpha, beta = (arguments[x][0, :, 0].numpy() for x in ("alpha", "beta"))
    kappa = {
        "softmax": np.exp,
        "exp": np.exp,
        "linear": lambda x: x,
        "relu": lambda x: x * (x > 0),
        "round": np.round,
        "solu": lambda x: x * np.exp(x),
    }[name]
    a, b = np.tril(kappa(0.5 * w @ k.T), -1), np.tril(kappa(0.25 * q @ k.T))
    if name == "softmax":
        a[1:] /= a[1:].sum(1, keepdims=True)
        b /= b.sum(1, keepdims=True)
    expected = np.linalg.solve(np.eye(12) + beta[:, None] * a, alpha[:, None] * v)
    np.testing.assert_allclose(u[0, :, 0], expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(o[0, :, 0], b @ expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_has_a_gradient_of_zero(form, shape):
    q, k, v, w = (torch.randn(*shape, 2, 4, requires_grad=True) for _ in range(4))
    alpha, beta = (torch.rand(*shape, 2, requires_grad=True) for _ in range(2))
    o, u = deltaformer(q, k, v, w=w, alpha=alpha, beta=beta, form=form, return_u=True)
    for output, inputs in ((o, (q, k, v, w, alpha, beta)), (u, (k, v, w, alpha, beta))):
        for x, gradient in zip(inputs, torch.autograd.grad(output.sum(), inputs)):
            assert gradient.shape == x.shape


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_batches_and_sequences(form, shape):
    batch, length = shape
    q, k, v = torch.randn(batch, length, 4, 6), torch.randn(batch, length, 2, 6), torch.randn(batch, length, 2, 5)
    o, u = deltaformer(q, k, v, form=form, return_u=True)
    assert o.shape == (batch, length, 4, 5)
    assert u.shape == (batch, length, 2, 5)
    assert write_values(k, v, form=form).shape == u.shape


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
def test_the_first_stage_alone_is_the_same_u(form):
    arguments = problem(70)
    _, u = deltaformer(**arguments, write="relu", read="exp", form=form, return_u=True, scale=(0.5, None))
    del arguments["q"]
    assert torch.equal(write_values(**arguments, write="relu", form=form, scale=0.5), u)


def test_nothing_depends_on_later_tokens():
    arguments = problem(130, dtype=torch.float64)
    other = {
        name: torch.cat((x[:, :77], problem(130, seed=9)[name][:, 77:].double()), 1) for name, x in arguments.items()
    }
    for form in ("recurrent", "parallel", "chunked"):
        for name in SIMILARITIES:
            one = deltaformer(**arguments, write=name, read=name, form=form)[:, :77]
            two = deltaformer(**other, write=name, read=name, form=form)[:, :77]
            torch.testing.assert_close(one, two, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("form", "first_spoilt"), [("recurrent", 100), ("chunked", 64), ("parallel", 0)])
def test_a_nan_spoils_rows_before_it_only_as_far_as_documented(form, first_spoilt):
    arguments = problem(130, dtype=torch.float64)
    clean = deltaformer(**arguments, form=form, return_u=True)
    arguments["v"][:, 100] = torch.nan
    for good, spoilt in zip(clean, deltaformer(**arguments, form=form, return_u=True)):
        torch.testing.assert_close(spoilt[:, :first_spoilt], good[:, :first_spoilt], rtol=1e-13, atol=1e-13)
        assert spoilt[:, 100:].isnan().all()


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_torch_forms_on_a_gpu(form, name):
    arguments = {key: x.cuda() for key, x in problem(257, 80, 96, group=4).items()}
    assert measure(**arguments, write=name, read=name, form=form).worst_ratio() <= 1
