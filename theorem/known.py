"""The narrowest keys below 1/8 that a construction gives for n slots, beside the least width that bounds allow."""

from __future__ import annotations

from dataclasses import dataclass

from theorem.packings.keyset import KeySet, Offer


@dataclass(frozen=True)
class Narrowest:
    """n keys in R^d by `offer` (None: the unit vectors, d = n); the linear programme allows none below `bound`."""

    n: int
    d: int
    bound: int
    offer: Offer | None

    @property
    def construction(self) -> str:
        return "unit vectors" if self.offer is None else self.offer.construction

    def keys(self) -> KeySet:
        """The keys, built now."""
        if self.offer is not None:
            return self.offer.make()
        import numpy as np

        return KeySet(np.eye(self.n, dtype=np.int8), self.construction, 1)


def narrowest(n: int) -> Narrowest:
    """The least d for which a construction promises n keys of coherence below 1/8, n ≥ 2.

    Descent, which promises nothing, may reach fewer dimensions (`verify keys --n`).
    """
    from theorem.bounds import least_dimension
    from theorem.packings.constructions import offers

    bound = least_dimension(n, 1 / 8)["lp"]
    for d in range(bound, n):
        below = [offer for offer in offers(n, d) if offer.coherence < 1 / 8]
        if below:
            return Narrowest(n, d, bound, min(below, key=lambda offer: offer.coherence))
    return Narrowest(n, n, bound, None)
