"""Strides, packed sequences and gradients: what must not change an answer does not."""

from itertools import pairwise

import pytest
import torch

from kernels import chunked, deltaformer, write_values
from kernels.similarity import SIMILARITIES

FORMS = ("recurrent", "parallel", "chunked")


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("form", FORMS)
def test_strides_do_not_matter(form):
    packed = draw(2, 70, 3, 2, 8, seed=1)
    q, k, v = packed.unbind(2)
    w = draw(2, 2, 8, 70, seed=2).permute(0, 3, 1, 2)
    beta = (draw(70, 2, 2, seed=3) / 70).transpose(0, 1)
    expanded = draw(1, 70, 1, 8, seed=4).expand(2, 70, 2, 8)
    for value in (v, expanded, v.flip(1)[..., ::2]):
        tensors = {"q": q, "k": k, "v": value, "w": w, "beta": beta}
        assert not any(x.is_contiguous() for name, x in tensors.items() if name != "v")
        plain = {name: x.contiguous() for name, x in tensors.items()}
        got, expected = (deltaformer(**x, form=form, return_u=True) for x in (tensors, plain))
        for one, other in zip(got, expected):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_packed_sequences_do_not_see_each_other(form, dtype):
    cuts = [0, 1, 1, 66, 67, 130, 130]
    q, k, v = draw(1, 130, 4, 8, seed=1), draw(1, 130, 2, 8, seed=2), draw(1, 130, 2, 5, seed=3)
    beta = draw(1, 130, 2, seed=4)
    packed = torch.tensor(cuts, dtype=dtype)
    o, u = deltaformer(q, k, v, beta=beta, form=form, cu_seqlens=packed, return_u=True)
    assert torch.equal(u, write_values(k, v, beta=beta, form=form, cu_seqlens=packed))
    for start, stop in pairwise(cuts):
        rows = slice(start, stop)
        alone = deltaformer(q[:, rows], k[:, rows], v[:, rows], beta=beta[:, rows], form=form, return_u=True)
        assert torch.equal(o[:, rows], alone[0])
        assert torch.equal(u[:, rows], alone[1])


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("tied", [False, True])
def test_chunked_gradients_are_right(name, tied, monkeypatch):
    """gradcheck in float64 across chunk borders. Round is left to its own: its gradient through κ is zero."""
    monkeypatch.setattr(chunked, "CHUNK", 4)
    k, v, w = draw(1, 6, 1, 3, seed=2), draw(1, 6, 1, 2, seed=3), draw(1, 6, 1, 3, seed=4)
    q = draw(1, 6, 1 if tied else 2, 3, seed=1)
    alpha, beta = draw(1, 6, 1, seed=5), draw(1, 6, 1, seed=6) / 3
    inputs = [x.requires_grad_() for x in (q, k, v, w, alpha, beta)]

    def both(q, k, v, w, alpha, beta):
        w = q if tied else w
        return deltaformer(q, k, v, w=w, alpha=alpha, beta=beta, write=name, read=name, return_u=True)

    if name != "round":
        assert torch.autograd.gradcheck(both, inputs)
        return
    o, u = both(*inputs)
    (o.sum() + u.square().sum()).backward()
    used = [q, k, *([] if tied else [w])]
    assert all((x.grad == 0).all() for x in used)
    assert torch.autograd.gradcheck(lambda v, alpha, beta: both(q, k, v, w, alpha, beta), (v, alpha, beta))


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("tied", [False, True])
def test_chunked_and_parallel_have_the_same_gradient_at_length(name, tied):
    inputs = [draw(1, 130, 2, 8, seed=i) for i in range(4)] + [draw(1, 130, 2, seed=4), draw(1, 130, 2, seed=5) / 400]
    target = draw(1, 130, 2, 8, seed=7)
    gradients = []
    for form in ("parallel", "chunked"):
        q, k, v, w, alpha, beta = (x.clone().requires_grad_() for x in inputs)
        arguments = {"w": q if tied else w, "alpha": alpha, "beta": beta, "write": name, "read": name, "form": form}
        (deltaformer(q, k, v, **arguments) * target).sum().backward()
        gradients.append([x.grad for x in (q, k, v, alpha, beta)])
    for one, other in zip(*gradients):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * float(one.abs().max()))


def test_gradients_stay_finite_where_future_scores_would_overflow():
    """exp of a score that a row does not see may be inf; neither it nor its gradient may leak in."""
    k, v, w = draw(1, 70, 1, 4, seed=1), draw(1, 70, 1, 3, seed=2), draw(1, 70, 1, 4, seed=3)
    k[:, 69] *= 3000
    assert torch.exp(w[0, :69, 0] @ k[0, 69, 0]).isinf().any(), "the case would test nothing"
    inputs = [x.requires_grad_() for x in (k, v, w)]
    beta = torch.full((1, 70, 1), 1e-3, dtype=torch.float64)
    u = write_values(k, v, w=w, beta=beta, write="exp", scale=1.0, form="chunked")
    u.sum().backward()
    assert torch.isfinite(u).all()
    assert all(torch.isfinite(x.grad).all() for x in inputs)
