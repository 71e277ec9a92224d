"""Random keys: n independent uniform directions, the union bound's keys."""

from __future__ import annotations

import numpy as np

from theorem.packings.keyset import KeySet


def random_keys(n: int, d: int, seed: int = 0) -> KeySet:
    """n independent keys, uniform on the unit sphere of R^d."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return KeySet(rows / np.linalg.norm(rows, axis=1, keepdims=True), "random")
