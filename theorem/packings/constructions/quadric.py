"""q³ nearly equiangular keys of R^(q² + q − 1) from a quadric with its vertex line, q = 2^t: all products ±1/(q + 1).

The signs (−1)^{Tr(a w) + Tr(u x) + Tr(v y)}, (a, u, v) in GF(q)³, at the q² points (w, x, y) = (xy, x, y) are q
mutually unbiased bases, with products 0 and ±q; the q points (t, 0, 0) add q inside a basis and nothing across. The
point 0 counts twice, so one coordinate √2 stands for both. Two keys fewer dimensions than bases lifted by bases.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from theorem.packings.fields import field
from theorem.packings.keyset import KeySet, Offer, fitted

ROOT = (12, 17)  # 17/12 is √2 within 0.2%: products are −1151/10369 … 1153/10369 instead of ±1/9 at q = 8


def quadric(q: int) -> KeySet:
    """The q³ integer keys of R^(q² + q − 1); row (a q + u) q + v belongs to basis a."""
    if q < 2 or q & (q - 1) or q > 32:
        raise ValueError(f"expected q = 2, 4, 8, 16 or 32, got {q}")
    f = field(q)
    bits = f.trace[f.multiply]  # [a, t]
    index = np.arange(q**3)
    a, u, v = index // (q * q), index // q % q, index % q
    x, y = np.divmod(np.arange(q * q), q)
    signs = bits[a][:, f.multiply[x, y]] + bits[u][:, x] + bits[v][:, y]
    tail = bits[a][:, 1:]
    rows = ROOT[0] * (1 - 2 * (np.concatenate([signs, tail], axis=1) % 2))
    rows[:, 0] = ROOT[1]  # the point 0, where every sign is +
    return KeySet(rows.astype(np.int8), f"quadric q = {q}", int(rows[0] @ rows[0]), a)


def _coherence(q: int) -> float:
    a2, b2 = ROOT[0] ** 2, ROOT[1] ** 2
    return max((q - 2) * a2 + b2, abs(b2 - (q + 2) * a2)) / ((q * q + q - 2) * a2 + b2)


def offers(n: int, d: int) -> Iterator[Offer]:
    for q in (32, 16, 8, 4, 2):
        if q * q + q - 1 <= d and n <= q**3:
            yield Offer(f"quadric q = {q}", _coherence(q), True, fitted(quadric, n, d, q))
            return
