"""Do the forms agree? One random problem, every form beside the float64 oracle, row by row against the error model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from kernels.error_model import amplification, measure


@dataclass(frozen=True)
class Agreement:
    """One form on one problem. Errors are the worst row's, relative to the largest entry of the true u or o.

    `ratio` is the largest error of any row over that row's bound: the form agrees where it is at most 1. `unbounded`
    rows may have overflowed, and count neither for nor against it.
    `u_bound`, `o_bound` are the largest bounds, relative like the errors; `amplification` is ‖∂u/∂v‖∞ and
    `o_amplification` ‖∂o/∂v‖∞.
    """

    form: str
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


def agreement(form: str, write: str, read: str, problem: dict[str, Any]) -> Agreement:
    """Run `form` on a problem of `gaussian_problem`."""
    errors = measure(**problem, write=write, read=read, form=form)
    u_size, o_size = (float(x.max()) if x.numel() else 1.0 for x in (errors.u_size, errors.o_size))
    u_norm, o_norm = amplification(**problem, write=write, read=read)

    def worst(x: Tensor, size: float) -> float:
        return float(x.max()) / size if x.numel() else 0.0

    return Agreement(
        form=form,
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
