"""The error model holds where it should, is not so wide that it would miss a fault, and notices one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kernels import attention, chunked, exact
from kernels.agreement import agreement, gaussian_problem, gentle_beta
from kernels.error_model import amplification, arithmetic, bound, measure
from kernels.similarity import SIMILARITIES

LENGTH = 130


def problem(dtype=torch.float32, **change):
    options = {"beta": 1 / LENGTH, "dtype": dtype} | change
    return gaussian_problem(LENGTH, 16, 8, **options)


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("beta", [0.0, 0.02, 0.5, -0.5])
def test_bounds_hold_for_every_gate(name, beta):
    errors = measure(**problem(beta=beta), write=name, read=name, form="chunked")
    assert errors.worst_ratio() <= 1


@pytest.mark.parametrize("name", ["softmax", "exp", "linear", "relu", "solu"])
def test_bounds_are_of_use(name):
    """A bound a thousand times float32's own roundoff would still find a key left out; it is not a licence."""
    result = agreement("chunked", name, name, problem(beta=gentle_beta(name, LENGTH)))
    assert result.agrees
    assert max(result.u_bound, result.o_bound) < 1e-3
    assert result.u_error < 2e-6


FAULTS = {
    "own token seen when writing": ("column < row", "column <= row"),
    "own token unseen when reading": ("column <= row", "column < row"),
    "past forgotten": ("from_past = kappa[..., :old] @ past", "from_past = 0 * kappa[..., :old] @ past"),
    "first key of the past dropped": ("from_past = kappa[..., :old] @ past",
                                     "from_past = kappa[..., 1:old] @ past[:, :, 1:]"),
    "beta on the past only": ("beta * within", "within"),
    "alpha left out": ("alpha * v", "v"),
    "scales exchanged": ("scaled(w @ k.mT, scale[0])", "scaled(w @ k.mT, scale[1])"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_faults_are_found(fault, name, monkeypatch):
    if name == "linear" and fault == "own token seen when writing":
        pytest.skip("no fault: the unit triangular solve does not read the diagonal")
    right, wrong = FAULTS[fault]
    source = Path(chunked.__file__).read_text()
    assert right in source
    module = {"__name__": "faulty"}
    exec(source.replace(right, wrong), module)
    arguments = problem(beta=0.3 if name == "softmax" else 0.01)
    arguments["alpha"] = torch.full_like(arguments["beta"], 0.9)
    arguments |= {"write": name, "read": name, "scale": (0.2, 0.3), "form": "chunked"}
    assert measure(**arguments).worst_ratio() <= 1
    monkeypatch.setitem(attention.TORCH_FORMS, "chunked", module["forward"])
    assert not measure(**arguments).worst_ratio() <= 1


def test_the_tied_path_is_under_the_same_watch(monkeypatch):
    source = Path(chunked.__file__).read_text()
    module = {"__name__": "faulty"}
    exec(source.replace("own - log_sum_exp", "own - 1e-3 - log_sum_exp"), module)
    arguments = problem(beta=0.5) | {"tied": True}
    assert measure(**arguments).worst_ratio() <= 1
    monkeypatch.setitem(attention.TORCH_FORMS, "chunked", module["forward"])
    assert measure(**arguments).worst_ratio() > 1


def test_a_nan_never_agrees(monkeypatch):
    def poisoned(q, k, v, *rest):
        o, u = chunked.forward(q, k, v, *rest)
        o[..., 3, 2] = float("nan")
        return o, u

    monkeypatch.setitem(attention.TORCH_FORMS, "chunked", poisoned)
    assert not agreement("chunked", "softmax", "softmax", problem(beta=1.0)).agrees


def test_round_near_a_tie_may_jump_and_elsewhere_may_not():
    k = torch.tensor([[0.5], [1.0], [1.25]])[None, :, None].double()
    coarse = arithmetic("chunked", torch.float32)
    _, u = bound(k, k, torch.ones_like(k), write="round", read="round", arithmetic=coarse)
    assert u[0, 1, 0] >= 1  # 0.5 · 1.0 is a tie
    assert u[0, 0, 0] < 1e-5
    k[0, 1] = 1.5
    _, u = bound(k, k, torch.ones_like(k), write="round", read="round", arithmetic=coarse)
    assert u.max() < 1e-5


def test_amplification_against_the_exact_inverse():
    length = 20
    k = torch.ones(1, length, 1, 2)
    u_norm, o_norm = amplification(k, k, k, write="linear", read="softmax", scale=(1.5, 1.0))
    a = [[3 * (i < t) for i in range(length)] for t in range(length)]
    inverse = exact.substitution_inverse(np.array(a, dtype=object))
    assert u_norm == max(abs(inverse).sum(1))
    averages = [abs(inverse[: t + 1].sum(0)).sum() / (t + 1) for t in range(length)]
    assert o_norm == pytest.approx(max(averages), rel=1e-12)


def test_empty_sequences_have_nothing_to_bound():
    empty = gaussian_problem(0, 4, 3, beta=1.0)
    assert measure(**empty).worst_ratio() == 0
    assert amplification(**empty) == (0, 0)
    assert agreement("parallel", "exp", "exp", empty).agrees
