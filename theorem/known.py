"""The narrowest keys known for n slots: what a construction gives, what a search found and is on record, what is bound.

A record is a certificate in `theorem/recorded`, counted only where it is proved in integers when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from theorem.packings.keyset import KeySet, Offer

RECORDED = Path(__file__).with_name("recorded")
QUICK = 4096  # keys whose coherence the checker decides in a second


@dataclass(frozen=True)
class Record:
    """n integer keys in R^d that satisfy `claim` of `theorem.checker`."""

    n: int
    d: int
    claim: str
    construction: str

    @property
    def path(self) -> Path:
        return RECORDED / f"keys-{self.n}-{self.d}.npz"

    def keys(self, n: int) -> KeySet:
        """The first n of them. Raises ValueError where the claim does not hold for these.

        The checker decides, or for many keys, where it takes long, the same inequalities by exact BLAS products.
        """
        from theorem.checker import Certificate, read_certificate, violation

        stored, _ = read_certificate(self.path)
        keys = KeySet(stored.z[:n], self.construction, stored.scale)
        if n > QUICK and self.claim == "coherence":
            assert keys.coherence_squared is not None
            reason = None if 64 * keys.coherence_squared < 1 else f"coherence^2 = {keys.coherence_squared}"
        else:
            reason = violation(Certificate(keys.vectors, stored.scale, stored.rule, (self.claim,)))
        if reason:
            raise ValueError(f"{self.path.name}: {reason}")
        return keys


RECORDS = (  # docs/key-search.md has the commands that found them
    Record(128, 49, "coherence", "descent from random keys"),
    Record(512, 67, "coherence", "orbits from Kerdock"),
    Record(2048, 77, "coherence", "orbits from Kerdock"),
    Record(16384, 174, "coherence", "orbits from Gold and Reed–Muller"),
    Record(128, 42, "gram", "descent on the condition"),
    Record(512, 62, "gram", "descent on the condition"),
)


@dataclass(frozen=True)
class Narrowest:
    """The least d known for n keys below 1/8, by `offer` or `record` (neither: the unit vectors, d = n).

    The linear programme allows none below `bound`; `constructed` is the least d that a construction promises;
    `condition` is a record of keys that satisfy Theorem 1's own condition in fewer dimensions, if there is one.
    """

    n: int
    d: int
    bound: int
    constructed: int
    offer: Offer | None
    record: Record | None
    condition: Record | None

    @property
    def construction(self) -> str:
        if self.record is not None:
            return f"{self.record.construction}, recorded"
        return "unit vectors" if self.offer is None else self.offer.construction

    def keys(self) -> KeySet:
        """The keys, built now or read."""
        if self.record is not None:
            return self.record.keys(self.n)
        if self.offer is not None:
            return self.offer.make()
        import numpy as np

        return KeySet(np.eye(self.n, dtype=np.int8), self.construction, 1)


def narrowest(n: int) -> Narrowest:
    """The least d known for n keys of coherence below 1/8, n ≥ 2: promised by a construction or on record.

    Raises ValueError where a record does not hold.
    """
    from theorem.bounds import least_dimension
    from theorem.packings.constructions import offers

    bound = least_dimension(n, 1 / 8)["lp"]
    constructed, offer = n, None
    for d in range(bound, n):
        below = [candidate for candidate in offers(n, d) if candidate.coherence < 1 / 8]
        if below:
            constructed, offer = d, min(below, key=lambda candidate: candidate.coherence)
            break
    record = _record(n, "coherence", constructed)
    least = constructed if record is None else record.d
    return Narrowest(n, least, bound, constructed, offer, record, _record(n, "gram", least))


def _record(n: int, claim: str, below: int) -> Record | None:
    """The narrowest record of n or more keys in fewer than `below` dimensions, checked, or None."""
    fitting = [record for record in RECORDS if record.claim == claim and record.n >= n and record.d < below]
    if not fitting:
        return None
    least = min(fitting, key=lambda record: record.d)
    least.keys(n)
    return least
