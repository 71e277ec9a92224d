"""Where keys and values come from: laws to draw from, and keys stored in a file or a trained model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from snr.tensors import read_tensor

Array = NDArray[Any]
LEAST_SQUARE = 1e-290  # of a key's norm: below, squares of its entries lose digits


class KeyLaw(Protocol):
    """A law of independent keys in R^d."""

    @property
    def name(self) -> str: ...

    def draw(self, rng: np.random.Generator, m: int, n: int, d: int, dtype: type) -> Array:
        """m independent sets of n keys, [m, n, d]."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Keys N(0, I_d): the law of P §2.1.1."""

    name: str = "gaussian"

    def draw(self, rng: np.random.Generator, m: int, n: int, d: int, dtype: type) -> Array:
        return rng.standard_normal((m, n, d), dtype=dtype)


@dataclass(frozen=True)
class Sphere:
    """Keys uniform on ‖k‖ = √d."""

    name: str = "sphere"

    def draw(self, rng: np.random.Generator, m: int, n: int, d: int, dtype: type) -> Array:
        return to_sphere(rng.standard_normal((m, n, d), dtype=dtype))


@dataclass(frozen=True)
class Anisotropic:
    """Keys N(0, C). The inner products depend on C's eigenvalues only: `spectrum` [d], nonnegative and not all zero."""

    spectrum: tuple[float, ...]
    name: str = "anisotropic"

    def __post_init__(self) -> None:
        values = np.asarray(self.spectrum, dtype=float)
        if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0) or not np.any(values > 0):
            raise ValueError("a spectrum is a list of finite nonnegative eigenvalues, not all zero")

    def draw(self, rng: np.random.Generator, m: int, n: int, d: int, dtype: type) -> Array:
        if d != len(self.spectrum):
            raise ValueError(f"the spectrum has {len(self.spectrum)} eigenvalues; expected d = {d}")
        return rng.standard_normal((m, n, d), dtype=dtype) * np.sqrt(np.asarray(self.spectrum)).astype(dtype)


@dataclass(frozen=True)
class Stored:
    """Keys that are given, not drawn: array [heads, N, d] float32 or float64, all finite, no key zero."""

    array: Array
    name: str

    @property
    def heads(self) -> int:
        return int(self.array.shape[0])

    @property
    def n(self) -> int:
        return int(self.array.shape[1])

    @property
    def d(self) -> int:
        return int(self.array.shape[2])

    def normalised(self) -> Stored:
        """The same directions, every key scaled to ‖k‖ = √d."""
        return Stored(to_sphere(self.array), f"{self.name}, normalised")


def to_sphere(keys: Array) -> Array:
    """keys [..., d] scaled to norm √d."""
    squares = np.einsum("...d,...d->...", keys, keys, dtype=np.float64)
    return keys * np.sqrt(keys.shape[-1] / squares)[..., None].astype(keys.dtype)


def read_keys(spec: str, normalise: bool = False) -> Stored:
    """Keys from FILE or FILE:TENSOR, a .npy, .npz or .safetensors holding floats [N, d] or [heads, N, d].

    bfloat16 and float16 become float32, float64 stays. Raises OSError where the file cannot be opened, and ValueError,
    in one line, for every other fault: pickled, truncated, wrong rank or type, an absent tensor (listing those there),
    fewer than two keys, NaN or infinity, keys that are zero.
    """
    array = read_tensor(spec)
    if array.ndim not in (2, 3):
        raise ValueError(f"has shape {array.shape}; expected keys [N, d] or [heads, N, d]")
    if array.ndim == 2:
        array = array[None]
    if array.shape[1] < 2 or 0 in array.shape:
        raise ValueError(f"has shape {array.shape[1:]}; expected at least two keys of at least one dimension")
    array = np.ascontiguousarray(array, dtype=np.float64 if array.dtype.itemsize > 4 else np.float32)
    _check(array)
    keys = Stored(array, Path(spec).name)
    return keys.normalised() if normalise else keys


def _check(array: Array) -> None:
    for start in range(0, array.shape[1], 65536):
        part = array[:, start : start + 65536]
        squares = np.einsum("hnd,hnd->hn", part, part, dtype=np.float64)
        if not np.all(np.isfinite(squares)):
            head, row = (int(i) for i in np.argwhere(~np.isfinite(squares))[0])
            raise ValueError(f"key {start + row} of head {head} holds NaN or infinity, or its norm overflows")
        if np.any(squares < LEAST_SQUARE):
            head, row = (int(i) for i in np.argwhere(squares < LEAST_SQUARE)[0])
            largest = float(np.abs(part[head, row]).max())
            if largest > 0:
                raise ValueError(
                    f"key {start + row} of head {head} is too small for its square in float64 (largest entry "
                    f"{largest:.3g}); expected keys scaled up"
                )
            raise ValueError(f"key {start + row} of head {head} is zero; a zero key cannot be recalled")


VALUES = ("gaussian", "unit", "signs")


def draw_values(kind: str, rng: np.random.Generator, m: int, n: int, d_v: int, dtype: type) -> Array:
    """Values [m, n, d_v], independent with mean 0: N(0, I), uniform on the unit sphere, or ±1 entries."""
    if kind == "signs":
        signs = rng.integers(0, 2, size=(m, n, d_v), dtype=np.int8)
        return (2 * signs - 1).astype(dtype)
    values = rng.standard_normal((m, n, d_v), dtype=dtype)
    if kind == "gaussian":
        return values
    if kind == "unit":
        return values / np.linalg.norm(values, axis=2, keepdims=True)
    raise ValueError(f"values {kind!r}; expected one of {', '.join(VALUES)}")


def value_power(kind: str, d_v: int) -> float:
    """E‖v‖²."""
    return 1.0 if kind == "unit" else float(d_v)


def effective_dimension(keys: Array) -> float:
    """d_eff = tr(C)²/tr(C²) of the second moment C of the law that keys [N, d] were drawn from.

    tr(C²) = E(k_i·k_j)² for two independent keys is estimated from pairs i ≠ j. The plug-in tr(Ĉ²) of Ĉ = Σ k kᵀ/N also
    counts the pairs i = i, which adds about 1/N to 1/d_eff: at N = d it turns d into d/2. At least 1; above d
    where few keys happen to be nearer to orthogonal than the law's are on average, and inf for orthogonal ones.
    """
    wide = keys.astype(np.float64)
    n = len(wide)
    squares = np.einsum("nd,nd->n", wide, wide)
    gram = wide.T @ wide
    pairs = (np.sum(gram * gram) - np.sum(squares**2)) / (n * (n - 1))
    # what rounding leaves of orthogonal keys is no product
    return float(np.mean(squares) ** 2 / pairs) if pairs > 1e-14 * np.mean(squares) ** 2 else math.inf
