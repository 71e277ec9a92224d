"""Do the forms agree? One random problem, every form beside the float64 oracle, row by row against the error model.

A problem is one of CASES, which between them reach every branch of the kernels: with β and without are other code, and
so are w = q, grouped heads and packed sequences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from kernels.error_model import amplification, measure, sequences
from kernels.similarity import default_scale

# what is not named is left out: w = k, one query head to a key head, no gates
CASES = ("ungated", "tied", "separate", "alpha", "beta", "tied-gated", "grouped", "packed")
WITH_BETA = ("beta", "tied-gated")


@dataclass(frozen=True)
class Agreement:
    """One form on one problem. Errors are the worst row's, relative to the largest entry of the true u or o.

    `ratio` is the largest error of any row over that row's bound: the form agrees where it is at most 1. `unbounded`
    rows may have overflowed, and count neither for nor against it.
    `u_bound`, `o_bound` are the largest bounds, relative like the errors; `amplification` is ‖∂u/∂v‖∞ and
    `o_amplification` ‖∂o/∂v‖∞.
    """

    form: str
    case: str
    write: str
    read: str
    length: int
    ratio: float
    unbounded: int
    u_error: float
    o_error: float
    u_bound: float
    o_bound: float
    amplification: float
    o_amplification: float

    @property
    def agrees(self) -> bool:
        return self.ratio <= 1  # and so not where it is NaN

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"agrees": self.agrees}


def gaussian_problem(
    length: int,
    width: int,
    value_width: int,
    *,
    beta: float,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Tensor]:
    """q, k, v [1, T, 2, ·] with standard normal entries and constant gates beta; the same numbers on every device."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, length, 2, width, generator=draw) for _ in range(2))
    v = torch.randn(1, length, 2, value_width, generator=draw)
    gates = torch.full((1, length, 2), beta)
    return {name: x.to(dtype).to(device) for name, x in {"q": q, "k": k, "v": v, "beta": gates}.items()}


def gentle_beta(write: str, length: int) -> float:
    """1 for softmax, whose rows sum to 1 already; 1/T for the others, whose u would grow exponentially in T."""
    return 1.0 if write == "softmax" else 1 / max(1, length)


def gentle_size(write: str, length: int, width: int) -> float:
    """What to multiply Gaussian queries and keys by, so that without β too the weights in a row sum to a few at most.

    Scaled scores then have standard deviation 1/T; for round the one at which one in T of them reaches a half.
    """
    if write == "softmax":
        return 1.0
    length = max(2, length)
    deviation = 0.5 / NormalDist().inv_cdf(1 - 1 / (2 * length)) if write == "round" else 1 / length
    return (deviation / (width**0.5 * default_scale(write, width))) ** 0.5


def case_problem(
    case: str,
    write: str,
    length: int,
    width: int,
    value_width: int,
    *,
    beta: float | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """Arguments of `measure` for one of CASES; β, where there is one, is `beta` or the gentle one for `write`."""
    constant = gentle_beta(write, length) if beta is None else beta
    problem: dict[str, Any] = gaussian_problem(
        length, width, value_width, beta=constant, dtype=dtype, device=device, seed=seed
    )
    if case not in WITH_BETA:
        del problem["beta"]
    draw = torch.Generator().manual_seed(seed + 1)
    heads = problem["k"].shape[2]

    def more(*shape: int) -> Tensor:
        return torch.randn(1, length, *shape, generator=draw).to(dtype).to(device)

    if case == "separate":
        problem["w"] = more(heads, width)
    if case == "grouped":
        problem["q"] = more(4 * heads, width)
    if case in ("alpha", "tied-gated"):
        problem["alpha"] = torch.rand(1, length, heads, generator=draw).to(dtype).to(device)
    if case not in WITH_BETA:
        size = gentle_size(write, length, width)
        problem |= {name: size * problem[name] for name in ("q", "k", "w") if name in problem}
    if case.startswith("tied"):
        problem["w"] = problem["q"]
    if case == "packed":  # the second of four sequences is empty
        ends = [0, length // 3, length // 3, length // 2, length]
        problem["cu_seqlens"] = torch.tensor(ends, dtype=torch.int32, device=device)
    return problem


def agreement(form: str, write: str, read: str, problem: dict[str, Any], case: str = "beta") -> Agreement:
    """Run `form` on a problem of `gaussian_problem`, or of `case_problem` for this case."""
    errors = measure(**problem, write=write, read=read, form=form)
    u_size, o_size = (float(x.max()) if x.numel() else 1.0 for x in (errors.u_size, errors.o_size))
    tensors = {name: x for name, x in problem.items() if name != "cu_seqlens"}
    parts = sequences(tensors, problem.get("cu_seqlens"))
    norms = [amplification(**part, write=write, read=read) for part in parts]
    u_norm, o_norm = (max(x) for x in zip(*norms))

    def worst(x: Tensor, size: float) -> float:
        return float(x.max()) / size if x.numel() else 0.0

    return Agreement(
        form=form,
        case=case,
        write=write,
        read=read,
        length=problem["k"].shape[1],
        ratio=errors.worst_ratio(),
        unbounded=errors.unbounded,
        u_error=worst(errors.u, u_size),
        o_error=worst(errors.o, o_size),
        u_bound=worst(errors.u_bound, u_size),
        o_bound=worst(errors.o_bound, o_size),
        amplification=u_norm,
        o_amplification=o_norm,
    )
