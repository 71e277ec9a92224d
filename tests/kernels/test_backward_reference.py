import pytest
import torch

from kernels import deltaformer
from kernels.backward_reference import tied_softmax_backward


@pytest.mark.parametrize("length", [1, 2, 17, 65])
@pytest.mark.parametrize(("gated", "with_u"), [(False, False), (True, True)])
def test_the_closed_form_is_autograds_gradient(length, gated, with_u):
    draw = torch.Generator().manual_seed(length)
    shapes = [(2, length, 2, 6), (2, length, 2, 6), (2, length, 2, 4), (2, length, 2), (2, length, 2)]
    inputs = [torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]
    do, du = (torch.randn(2, length, 2, 4, generator=draw, dtype=torch.float64) for _ in range(2))
    q, k, v, alpha, beta = inputs
    gates = {"alpha": alpha, "beta": beta} if gated else {}
    o, u = deltaformer(q, k, v, tied=True, **gates, scale=0.7, form="parallel", return_u=True)
    ((o * do).sum() + (u * du).sum() * with_u).backward()
    found = tied_softmax_backward(q, k, v, do, du=du if with_u else None, **gates, scale=0.7)
    for name, x in zip(("q", "k", "v", "alpha", "beta"), inputs):
        if x.grad is not None:
            mine = getattr(found, name)
            assert (mine - x.grad).abs().max() <= 1e-12 * max(1.0, float(x.grad.abs().max())), name


def test_shapes_are_checked():
    q, v = torch.zeros(1, 3, 2, 4), torch.zeros(1, 3, 2, 5)
    with pytest.raises(ValueError, match=r"do has shape \[1, 3, 2, 4\]; expected v's \[1, 3, 2, 5\]"):
        tied_softmax_backward(q, q, v, q)
