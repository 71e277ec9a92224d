import numpy as np
import pytest
import torch

from kernels.similarity import SIMILARITIES, default_scale, log_sum_exp, scaled, weights

X = np.array([-2.5, -1.5, -0.5, 0.0, 0.3, 0.5, 1.5, 2.5, 3.2])
FORMULAS = {
    "exp": np.exp,
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(0, x),
    "round": np.rint,
    "solu": lambda x: x * np.exp(x),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(),
}
ALL = torch.ones(len(X), dtype=torch.bool)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_each_similarity_is_its_formula(name):
    got = weights(name, torch.tensor(X), ALL).numpy()
    np.testing.assert_allclose(got, FORMULAS[name](X), rtol=1e-15, atol=0)


def test_halves_are_rounded_to_even():
    got = weights("round", torch.tensor(X), ALL)
    assert got.tolist() == [-2, -2, 0, 0, 0, 0, 2, 2, 3]


@pytest.mark.parametrize("name", SIMILARITIES)
def test_unseen_scores_count_for_nothing_not_even_in_the_gradient(name):
    visible = torch.tensor([[False] * 4, [True, False, False, False], [True, True, False, False]])
    seen = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for unseen in (1e4, -1e4, float("inf"), float("nan")):
        scores = torch.where(visible, seen, unseen).requires_grad_()
        kappa = weights(name, scores, visible)
        kappa.square().sum().backward()
        assert torch.isfinite(kappa).all()
        assert torch.isfinite(scores.grad).all()
        assert (kappa[~visible] == 0).all()
        assert (scores.grad[~visible] == 0).all()
        np.testing.assert_allclose(kappa[2, :2].detach(), FORMULAS[name](seen[2, :2].numpy()), rtol=1e-14)


def test_log_sum_exp_of_nothing_is_the_lowest_number_and_has_no_gradient():
    scores = torch.tensor([[3.0, 4.0], [3.0, 4.0]], requires_grad=True)
    total = log_sum_exp(scores, torch.tensor([[False, False], [True, True]]))
    total[0].sum().backward()
    assert total[0].item() == pytest.approx(torch.finfo(torch.float32).min)
    assert total[1].item() == pytest.approx(np.log(np.exp(3) + np.exp(4)))
    assert (scores.grad == 0).all()


def test_only_functions_with_an_exponential_are_scaled_by_the_width():
    scaled = {name for name in SIMILARITIES if default_scale(name, 64) == 1 / 8}
    assert scaled == {"softmax", "exp", "solu"}
    assert all(default_scale(name, 64) == 1 for name in SIMILARITIES if name not in scaled)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_a_quotient_of_integers_has_its_ties(dtype):
    x = torch.arange(-2000, 2001)
    for s in (*range(2, 200), 294):
        whole = torch.div(2 * x + s, 2 * s, rounding_mode="floor")  # x/s + ½ rounded down, in integers
        tie = (2 * x + s) % (2 * s) == 0
        expected = torch.where(tie & (whole % 2 == 1), whole - 1, whole)
        assert torch.equal(torch.round(scaled(x.to(dtype), 1 / s)).long(), expected), s
    assert scaled(torch.tensor(3.0), 0.3).item() == pytest.approx(0.9)
