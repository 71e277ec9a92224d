"""Softmax scores at the ends of the range: the lowest finite ones count, −∞ does not, and the forms agree on it."""

import pytest
import torch

from kernels import deltaformer, triton_forward

FORMS = ["recurrent", "parallel", "chunked"]
if triton_forward.interpreted():
    FORMS.append("triton")
LENGTH = 70
# numpy, in which kernels are interpreted, remarks on infinities that a GPU takes as they come
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values():
    return torch.randn(1, LENGTH, 1, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", [-1.6e38, 1.6e38])
def test_scores_near_the_ends_of_float32_are_compared(form, tied, size):
    """Equal scores, whatever they are, mean the plain average."""
    k, v = torch.ones(1, LENGTH, 1, 1), values()
    q = torch.full_like(k, size)
    expected = deltaformer(torch.zeros_like(q), k, v, w=torch.zeros_like(k), return_u=True, form="recurrent")
    found = deltaformer(q, k, v, w=q if tied else q.clone(), scale=1.0, return_u=True, form=form)
    if form == "chunked" and tied:  # its gate knows the sum of weights by its logarithm, to 2e31 here
        found, expected = found[1:], expected[1:]
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tied", [True, False])
def test_rows_of_minus_infinity_are_empty(form, tied):
    k, v = torch.ones(1, LENGTH, 1, 1), values()
    q = torch.full_like(k, -torch.inf)
    o, u = deltaformer(q, k, v, w=q if tied else q.clone(), scale=1.0, return_u=True, form=form)
    assert torch.equal(u, v)
    assert not o.any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_score_of_minus_infinity_has_weight_zero(form, tied):
    """Scores of keys 3, 20, 21 and 66 leave the range; without them the same rows come out."""
    far = torch.zeros(LENGTH, dtype=torch.bool)
    far[[3, 20, 21, 66]] = True
    v = values()
    k = torch.where(far, 3e38, 1.0)[None, :, None, None]
    q = -torch.rand(1, LENGTH, 1, 1, generator=torch.Generator().manual_seed(1)) - 1.5
    o, u = deltaformer(q, k, v, w=q if tied else q.clone(), scale=1.0, return_u=True, form=form)
    rest = [x[:, ~far] for x in (q, k, v)]
    o_rest, u_rest = deltaformer(*rest, w=rest[0], scale=1.0, return_u=True, form="recurrent")
    torch.testing.assert_close(o[:, ~far], o_rest, rtol=0, atol=1e-5)
    torch.testing.assert_close(u[:, ~far], u_rest, rtol=0, atol=1e-5)
    assert o.isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_plus_infinity_and_nan_are_not_hidden(form):
    v = values()
    for bad in (torch.inf, torch.nan):
        k, q = torch.ones(1, LENGTH, 1, 1), torch.ones(1, LENGTH, 1, 1)
        q[:, 40] = bad
        o, u = deltaformer(q, k, v, w=q, scale=1.0, return_u=True, form=form)
        assert o[:, 40].isnan().all()
        assert u[:, 40:].isnan().all()
