"""The same replay through the kernels themselves: tokens as vectors, DeltaFormer's public function, any device.

Integer keys z, inner products z_i·z_j / scale, go in as the narrowest type in which everything is exact: bf16 on a GPU
where z_a, z_a − z_b and the values are integers up to 256, else float32, else float64. Products accumulate in fp32 and
are held to where f = round decides every one as exact arithmetic does (kernels.exactness). Every u is compared with the
difference of two elements that the permutation says it must be, every slot is asked for at the end, and slot 0 after
each swap; `first_wrong` is the first swap at which any of these is not exactly right.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from theorem.exchange import Checkpoint, Replay, binary_codes, wrong_slots
from theorem.swaps import Swaps, elements_exchanged, held_after_each, permutation_after

if TYPE_CHECKING:
    import torch

KERNELS = ("round", "linear", "relu")


def check_similarity(f: str) -> None:
    """Raise ValueError where the kernels have no such f."""
    if f not in KERNELS:
        raise ValueError(f"expected one of {', '.join(KERNELS)}: the kernels have no {f}")


def check_device(device: str) -> None:
    """Raise ValueError where torch sees no such device, ImportError where there is no torch, saying how to get it."""
    from kernels import deltaformer  # noqa: F401  # first: without torch it says how to install it
    from kernels.arguments import check_device as check

    check(device)


def type_holds(z: NDArray[np.integer], scale: int, values: NDArray[np.float64], dtype: str) -> bool:
    """Whether keys, their differences and those of values are integers of `dtype`, and products are rounded rightly."""
    import torch

    from kernels.exactness import INTEGERS, largest_key, largest_product, product_limit

    widest = max(largest_key(z), 2 * float(np.abs(values).max()))
    whole = bool((values == np.rint(values)).all())
    return whole and widest <= INTEGERS[getattr(torch, dtype)] and largest_product(z) < product_limit(scale)


def exact_type(z: NDArray[np.integer], scale: int, values: NDArray[np.float64], device: str) -> str:
    """The narrowest type that holds the replay; torch multiplies bf16 on a CPU no faster than float32."""
    narrow = ("float32",) if device == "cpu" else ("bfloat16", "float32")
    return next((name for name in narrow if type_holds(z, scale, values, name)), "float64")


def replay_on_device(
    z: NDArray[np.integer],
    scale: int,
    swaps: Swaps,
    f: str = "round",
    values: NDArray[np.float64] | None = None,
    *,
    device: str = "cuda",
    form: str = "auto",
    dtype: str | None = None,
) -> Replay:
    """Replay on `device` through `kernels.deltaformer` with κ₁ = κ₂ = f (round, linear or relu), in form `form`.

    z [n, d] are integer keys; `values` [n, d_v] integers (default `binary_codes`); `dtype` is "bfloat16", "float32",
    "float64" or None for the narrowest exact one. `integer` of the answer says that fp32 sums could not round.
    Raises ValueError for another f or a missing device, ImportError without torch.
    """
    check_similarity(f)
    check_device(device)
    import torch

    from kernels import deltaformer
    from kernels.exactness import EXACT_SUM, largest_product

    values = binary_codes(len(z)) if values is None else np.asarray(values, dtype=np.float64)
    z = z.astype(np.int64)
    n, steps = len(z), len(swaps)
    dtype = dtype or exact_type(z, scale, values, device)
    met = elements_exchanged(n, swaps)
    # writes, swaps, then n questions whose key is zero: f(0) = 0, so they write nothing
    keys = np.concatenate([z, z[swaps[:, 0]] - z[swaps[:, 1]], np.zeros_like(z)])
    queries = np.concatenate([np.broadcast_to(z[0], (n + steps, z.shape[1])), z])
    written = np.concatenate([values, np.zeros((steps + n, values.shape[1]))])

    def tensor(rows: NDArray[np.generic]) -> torch.Tensor:
        wide = np.float64 if dtype == "float64" else np.float32
        placed = torch.from_numpy(np.ascontiguousarray(rows, dtype=wide)).to(device, getattr(torch, dtype))
        return placed[None, :, None, :]

    with torch.no_grad():
        o, u = deltaformer(
            tensor(queries),
            tensor(keys),
            tensor(written),
            write=f,
            read=f,
            scale=1 / scale,
            form=form,
            return_u=True,
        )
        out, u_found = (x[0, :, 0].double().cpu().numpy() for x in (o, u))
    u_true = np.concatenate([values, values[met[:, 1]] - values[met[:, 0]]])
    u_right = (u_found[: n + steps] == u_true).all(axis=1)
    watched = values[held_after_each(n, swaps, 0)]
    step_right = u_right[n:] & (out[n : n + steps] == watched).all(axis=1)
    holds = permutation_after(n, swaps)
    final = out[n + steps :]
    error = float(np.abs(final - values[holds]).max())
    wrong = int(wrong_slots(final, values, holds).sum())
    first = 0 if not u_right[:n].all() else int(np.argmin(step_right)) + 1 if not step_right.all() else None
    largest = (largest_product(z) / scale + 0.5) * float(np.abs(u_found).max(axis=1).sum())
    sums = type_holds(z, scale, values, dtype) and largest < EXACT_SUM
    exact = first is None and error == 0
    return Replay(
        f,
        steps,
        (Checkpoint(steps, wrong, error if math.isfinite(error) else math.inf),),
        first if first is not None or not wrong else steps,
        exact,
        bool(sums) and f == "round",
        n + steps,
    )
