"""Check a certificate of Theorem 1: integers only, and none of the code that builds keys or writes certificates.

A certificate says: slot i has the key z_i / sqrt(scale), with z int8 or int16
[n, d], and

    gram        every product of two keys that swaps can write rounds, under `rule`, to what it is for one-hot keys; so
                with f = round Theorem 1 holds for these keys and every sequence of swaps (P App. E)
    coherence   64 (z_i . z_j)^2 < (z_i . z_i)(z_j . z_j): the normalised keys satisfy Assumption 1, |cos| < 1/8

LIMITS bound the work; that no integer leaves int64 is checked for the largest entry there is.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RULES = ("half-even", "half-away")
CLAIMS = ("gram", "coherence")
LIMITS = {"n": 1 << 16, "n for gram": 1 << 12, "d": 1 << 13, "entries": 1 << 24, "scale": 1 << 40}
MEMBERS = {"z": ("|i1", "<i2"), "scale": ("<i8",), "rule": ("<U",), "claims": ("<U",), "sha256": ("<U",)}


@dataclass(frozen=True)
class Certificate:
    """Keys z [n, d], int8 or int16, with products z_i . z_j / scale, the rounding rule, and what is claimed."""

    z: NDArray[np.int8] | NDArray[np.int16]
    scale: int
    rule: str
    claims: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises ValueError on anything that cannot be decided exactly and in bounded time."""
        if self.z.dtype.str not in MEMBERS["z"] or self.z.ndim != 2:
            raise ValueError(f"keys of type {self.z.dtype} and shape {self.z.shape}: expected int8 or int16 [n, d]")
        (n, d), most = self.z.shape, LIMITS["n for gram" if "gram" in self.claims else "n"]
        if not (2 <= n <= most and 1 <= d <= LIMITS["d"] and n * d <= LIMITS["entries"]):
            raise ValueError(f"{n} keys of width {d}: expected 2 to {most} keys, width 1 to {LIMITS['d']}")
        if type(self.scale) is not int or not 1 <= self.scale <= LIMITS["scale"]:
            raise ValueError(f"scale {self.scale}: expected an integer from 1 to {LIMITS['scale']}")
        norm = max(int(z @ z) for z in self.z.astype(np.int64))  # at least every |z_i . z_j| (Cauchy and Schwarz)
        if 64 * norm * norm >= 1 << 63 or 8 * norm + 5 * self.scale >= 1 << 62:
            raise ValueError(
                f"entries so large (the largest squared norm is {norm}) that int64 cannot hold what is checked"
            )
        if self.rule not in RULES:
            raise ValueError(f"rounding rule {self.rule!r}: expected one of {', '.join(RULES)}")
        if not self.claims or self.claims != tuple(c for c in CLAIMS if c in self.claims):
            raise ValueError(f"claims {self.claims}: expected one or both of {', '.join(CLAIMS)}, in this order")

    def sha256(self) -> str:
        """The hash of all fields, in hexadecimal digits."""
        fields = [*self.z.shape, self.z.dtype.str, self.scale, self.rule, *self.claims]
        return hashlib.sha256(json.dumps(fields).encode() + b"\n" + self.z.tobytes()).hexdigest()


def read_certificate(path: str | Path) -> tuple[Certificate, str]:
    """The certificate in the .npz file at `path`, and the hash it carries.

    Raises OSError where there is no file to read, ValueError where it is not a whole, small certificate of integers.
    """
    most = 2 * LIMITS["entries"] + (1 << 16)
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("is no regular file")
    if status.st_size > most:
        raise ValueError(f"expected a file of at most {most} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(Path(path).read_bytes())) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(members) != len(archive.infolist()) or set(members) != set(MEMBERS):
                raise ValueError(f"not a certificate: expected the arrays {', '.join(MEMBERS)} and no others")
            if max(info.file_size for info in members.values()) > most:
                raise ValueError(f"an array of more than {most} bytes")
            if {info.compress_type for info in members.values()} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ValueError("expected arrays stored or deflated")
            z, scale, rule, claims, sha256 = (
                _array(archive.open(members[name]).read(most), name, kinds) for name, kinds in MEMBERS.items()
            )
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"not a whole .npz file: {error}") from error
    if any(array.shape != () for array in (scale, rule, sha256)) or claims.ndim != 1:
        raise ValueError("not a certificate: expected one scale, one rule, one hash and a list of claims")
    return Certificate(z, scale.item(), rule.item(), tuple(claims.tolist())), sha256.item()


def _array(raw: bytes, name: str, kinds: tuple[str, ...]) -> NDArray[Any]:
    """The array of one .npy member, its header checked against its length before anything is allocated."""
    stream = io.BytesIO(raw)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"array {name}: expected version 1.0 of the .npy format")
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    body = raw[stream.tell() :]
    if not dtype.str.startswith(kinds) or columns_first:
        raise ValueError(f"array {name} of type {dtype.str}: expected {' or '.join(kinds)}, rows first")
    if min(shape, default=0) < 0 or dtype.itemsize * math.prod(shape) != len(body):
        raise ValueError(f"array {name} of shape {shape} does not fit its {len(body)} bytes")
    return np.frombuffer(body, dtype).reshape(shape) if body else np.empty(shape, dtype)


def violation(certificate: Certificate) -> str | None:
    """Why a claim fails, with the keys it fails for; None where every claim is proved."""
    z, s = certificate.z.astype(np.int64), certificate.scale
    n, norms = len(z), (z * z).sum(axis=1)
    for i in range(n if "coherence" in certificate.claims else 0):
        products = z[:i] @ z[i]
        for j in np.flatnonzero(64 * products**2 >= norms[i] * norms[:i]):
            return f"coherence: 64 ({products[j]})^2 >= {norms[i]} * {norms[j]} for keys {i} and {j}"
    if "gram" not in certificate.claims:
        return None
    gram = z @ z.T
    for i in range(n):
        apart = np.delete(gram[i], i)
        swaps, rows = gram[i] - gram[:i], np.arange(i)  # [j, l]: (k_i - k_j) . k_l
        at_i, at_j = swaps[:, i].copy(), -swaps[rows, rows]
        swaps[:, i] = swaps[rows, rows] = 0  # the rest should round to 0, as 0 itself does
        low, high = swaps.min(axis=1, initial=0), swaps.max(axis=1, initial=0)
        for target, least, greatest in (
            (1, norms[i : i + 1], norms[i : i + 1]),  # k_i . k_i
            (0, apart, apart),  # k_i . k_l
            (0, low - high, high - low),  # (k_i - k_j) . k_l and (k_i - k_j) . (k_l - k_m)
            (1, at_i - high, at_i - low),  # (k_i - k_j) . k_i and (k_i - k_j) . (k_i - k_m)
            (1, at_j + low, at_j + high),  # (k_j - k_i) . k_j and (k_j - k_i) . (k_j - k_m)
            (2, at_i + at_j, at_i + at_j),  # (k_i - k_j) . (k_i - k_j)
        ):
            for j in np.flatnonzero(~_round_to(target, least, greatest, s, certificate.rule)):
                return f"gram: products {least[j]}/{s} to {greatest[j]}/{s} of k_{i} (- k_{j}) should round to {target}"
    return None


def _round_to(target: int, least: NDArray, greatest: NDArray, scale: int, rule: str) -> NDArray[np.bool_]:
    """Whether all of least/scale to greatest/scale round to target >= 0. Ties: half-even rounds both ends of an even
    target to it, half-away the end nearer to zero of a positive one."""
    low_tie = target % 2 == 0 if rule == "half-even" else target > 0
    high_tie = target % 2 == 0 if rule == "half-even" else False
    low, high = 2 * least - (2 * target - 1) * scale, (2 * target + 1) * scale - 2 * greatest
    return (low >= 0 if low_tie else low > 0) & (high >= 0 if high_tie else high > 0)
