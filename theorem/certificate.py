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

__all__ = ["write_certificate"]


def write_certificate(
    path: str | Path, z: NDArray[np.integer], scale: int, rule: str, claims: Sequence[str]
) -> Certificate:
    """Write integer keys z [n, d] with inner products z_i . z_j / scale as an .npz file, whole or not at all.

    Keys that fit int8 are written so, others as int16. Nothing is proved here: what is claimed is for
    `theorem.checker.violation` to decide. Raises ValueError on keys outside int16 or anything else that no certificate
    can hold, OSError where `path` cannot be written.
    """
    keys = np.asarray(z)
    if not np.issubdtype(keys.dtype, np.integer) or keys.size == 0 or keys.min() < -32768 or keys.max() > 32767:
        raise ValueError(f"keys of type {keys.dtype}: expected integers from -32768 to 32767")
    narrow = "|i1" if keys.min() >= -128 and keys.max() <= 127 else "<i2"
    narrowed: NDArray[np.int16] = np.ascontiguousarray(keys, dtype=narrow)
    certificate = Certificate(narrowed, int(scale), rule, tuple(claims))
    content = io.BytesIO()
    np.savez(
        content,
        z=certificate.z,
        scale=np.array(certificate.scale, dtype="<i8"),
        rule=np.array(certificate.rule, dtype="<U"),
        claims=np.array(certificate.claims, dtype="<U"),
        sha256=np.array(certificate.sha256(), dtype="<U"),
    )
    target = Path(path)
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
