"""Write a certificate of Theorem 1 for one key set; `theorem.checker` says what it means and checks it."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from theorem.checker import Certificate

__all__ = ["as_certificate", "write_certificate"]


def as_certificate(z: NDArray[np.integer], scale: int, rule: str, claims: Sequence[str]) -> Certificate:
    """Integer keys z [n, d] with inner products z_i . z_j / scale as a certificate: int8 where they fit, else int16.

    Raises ValueError on keys outside int16 or anything else that no certificate can hold.
    """
    keys = np.asarray(z)
    if not np.issubdtype(keys.dtype, np.integer) or keys.size == 0:
        raise ValueError(f"keys of type {keys.dtype} and shape {keys.shape}: expected integers")
    if keys.min() < -32768 or keys.max() > 32767:
        raise ValueError(f"entries from {keys.min()} to {keys.max()}: certificates hold -32768 to 32767 (int16)")
    narrow = "|i1" if keys.min() >= -128 and keys.max() <= 127 else "<i2"
    narrowed: NDArray[np.int16] = np.ascontiguousarray(keys, dtype=narrow)
    return Certificate(narrowed, int(scale), rule, tuple(claims))


def write_certificate(
    path: str | Path, z: NDArray[np.integer], scale: int, rule: str, claims: Sequence[str]
) -> Certificate:
    """Write integer keys z [n, d] with inner products z_i . z_j / scale as an .npz file, whole or not at all.

    Nothing is proved here: what is claimed is for
    `theorem.checker.violation` to decide. Raises ValueError as `as_certificate` does, OSError where `path` cannot be
    written.
    """
    certificate = as_certificate(z, scale, rule, claims)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        z=certificate.z,
        scale=np.array(certificate.scale, dtype="<i8"),
        rule=np.array(certificate.rule, dtype="<U"),
        claims=np.array(certificate.claims, dtype="<U"),
        sha256=np.array(certificate.sha256(), dtype="<U"),
    )
    target = Path(path).resolve()  # through a link to what it names
    if target.exists() and not target.is_file():  # a device or a pipe is written into, never replaced
        target.write_bytes(content.getvalue())
        return certificate
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.getvalue())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return certificate
