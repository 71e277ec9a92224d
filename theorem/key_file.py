"""Keys from a file, and float keys as the integers that proofs and exact replays need."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from theorem.exchange import gram_of, unit_rows
from theorem.packings.keyset import KeySet, quantise

FINE = 14  # bits after the point where int8 is too coarse


def read_keys(path: str | Path) -> KeySet:
    """Keys [n, d] of a .npz file with integers `z` and their `scale`, or with `keys`, or of a .npy file.

    Float rows need not have unit norm. Raises ValueError for anything else and for keys that are none (not finite,
    zero, fewer than two, all on one line), OSError where the file cannot be read.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {"keys": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError("is no whole .npz or .npy file of numbers") from error
    integers = [name for name, array in arrays.items() if array.dtype.kind in "iu"]
    if "z" in integers and "scale" in integers and arrays["scale"].ndim == 0:
        z, scale = arrays["z"], int(arrays["scale"])
        gram_of(z, scale)
        peak = np.abs(z.astype(np.float64)).max()
        return KeySet(
            z.astype(np.int8 if peak <= 127 else np.int16 if peak < 2**15 else np.int64), Path(path).name, scale
        )
    if "keys" in arrays and arrays["keys"].dtype.kind in "iuf":
        keys = arrays["keys"].astype(np.float64)
        gram_of(keys)
        return KeySet(unit_rows(keys), Path(path).name)
    raise ValueError(f"holds {', '.join(arrays) or 'nothing'}; expected integers z with one scale, or real keys")


def coarse(keys: KeySet) -> KeySet:
    """The keys in int8, as certificates hold them; integer keys stay as they are."""
    if keys.exact:
        return keys
    z, scale = quantise(keys.unit())
    return KeySet(z, f"{keys.construction}, rounded to int8", scale)


def fine(keys: KeySet) -> KeySet:
    """The keys as int16 multiples of 2^−14, for those that int8 changes too much; integer keys stay as they are."""
    if keys.exact:
        return keys
    z = np.rint(keys.unit() * 2**FINE).astype(np.int16)
    return KeySet(z, f"{keys.construction}, rounded to 2^-{FINE}", 4**FINE)
