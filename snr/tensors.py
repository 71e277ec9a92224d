"""Float tensors in files: .npy and .npz through numpy without pickle, .safetensors by its header.

A .safetensors file is eight bytes (the header's length, little endian), the header (JSON: name → dtype, shape, byte
range) and the bytes of all tensors; the tensor asked for is mapped, never the whole file read.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SUFFIXES = (".npy", ".npz", ".safetensors")
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_tensor(spec: str) -> Array:
    """The float tensor of FILE or FILE:TENSOR; bfloat16 comes as float32.

    Raises OSError where the file cannot be opened and ValueError, in one line, for anything else that is wrong with it.
    """
    path, tensor = _split(spec)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"expected a file ending in {', '.join(SUFFIXES)}, with :TENSOR where it holds several")
    with path.open("rb"):  # missing, a directory, not readable: the system's own words
        pass
    if path.suffix == ".npy" and tensor:
        raise ValueError(f"a .npy file holds one unnamed array; leave out :{tensor}")
    reader = {".npy": _read_npy, ".npz": _read_npz, ".safetensors": _read_safetensors}[path.suffix]
    array = reader(path, tensor)
    if array.dtype.kind != "f":
        raise ValueError(f"holds {array.dtype}; expected floating-point keys")
    return array


def tensor_names(path: Path) -> list[str]:
    """The names of the tensors in a .npz or .safetensors file."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    return sorted(_header(path)[0])


def _split(spec: str) -> tuple[Path, str]:
    """FILE and TENSOR; a colon belongs to the file's name if no known ending stands before it."""
    for suffix in SUFFIXES:
        head, mark, tensor = spec.partition(suffix + ":")
        if mark:
            return Path(head + suffix), tensor
    return Path(spec), ""


def _pick(names: list[str], tensor: str) -> str:
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    if not names:
        raise ValueError("holds no tensor")
    if not tensor and len(names) > 1:
        raise ValueError(f"holds several tensors; add :TENSOR with one of {listed}")
    if tensor and tensor not in names:
        raise ValueError(f"has no tensor {tensor}; it holds {listed}")
    return tensor or names[0]


def _read_npy(path: Path, tensor: str) -> Array:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, OverflowError) as error:
        raise ValueError(_why(error)) from None


def _read_npz(path: Path, tensor: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("is a .npy file with another ending")
            name = _pick(list(archive.files), tensor)
            return np.asarray(archive[name])
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, KeyError, SyntaxError, OSError, OverflowError) as error:
        raise ValueError(_why(error)) from None
    except ValueError as error:
        raise ValueError(_why(error) if "pickle" in str(error).lower() else " ".join(str(error).split())) from None


def _why(error: Exception) -> str:
    text = str(error).lower()
    if "pickle" in text or "python objects" in text:
        return "holds pickled objects (or is no numpy file); pickle is never loaded, save the keys as a float array"
    return f"is truncated or no numpy file ({' '.join(str(error).split()) or type(error).__name__})"


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The tensors' entries and the offset of their bytes."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError("is truncated or no safetensors file: its header does not fit in it")
        try:
            header = json.loads(stream.read(length))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise ValueError("is no safetensors file: its header is not JSON") from None
    if not isinstance(header, dict):
        raise ValueError("is no safetensors file: its header is not a JSON object")
    header.pop("__metadata__", None)
    return header, 8 + length


def _read_safetensors(path: Path, tensor: str) -> Array:
    header, base = _header(path)
    entry = header[_pick(sorted(header), tensor)]
    try:
        kind, shape, (begin, end) = entry["dtype"], tuple(int(n) for n in entry["shape"]), entry["data_offsets"]
        begin, end = int(begin), int(end)
    except (TypeError, KeyError, ValueError):
        raise ValueError("is no safetensors file: an entry of its header is malformed") from None
    if kind not in _DTYPES:
        raise ValueError(f"holds {kind}; expected floating-point keys, one of {', '.join(_DTYPES)}")
    dtype = np.dtype(_DTYPES[kind])
    count = math.prod(shape)
    if any(n < 0 for n in shape) or begin < 0 or end - begin != count * dtype.itemsize:
        raise ValueError("is no safetensors file: shape and bytes of the tensor do not match")
    if base + end > path.stat().st_size:
        raise ValueError("is truncated: the tensor's bytes are not all there")
    if count == 0:
        return np.zeros(shape, dtype=np.float32)
    mapped = np.memmap(path, dtype=dtype, mode="r", offset=base + begin, shape=shape)
    if kind != "BF16":
        return mapped
    return (mapped.astype(np.uint32) << 16).view(np.float32)  # bfloat16 is the upper half of a float32
