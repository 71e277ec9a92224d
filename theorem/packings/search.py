"""The best keys within reach: every construction's offer, then descent from the best of them and from chance."""

from __future__ import annotations

from dataclasses import dataclass

from theorem.packings.constructions import offers
from theorem.packings.descent import descend, steps_in
from theorem.packings.keyset import KeySet
from theorem.packings.random import random_keys


@dataclass(frozen=True)
class Attempt:
    """One construction that was weighed: its coherence, promised by its theorem or measured on its keys."""

    construction: str
    coherence: float
    exact: bool


@dataclass(frozen=True)
class Built:
    """The keys that won, and everything that was weighed, best first."""

    keys: KeySet
    tried: tuple[Attempt, ...]


def build(n: int, d: int, max_seconds: float = 20.0, seed: int = 0) -> Built:
    """n keys in R^d of the least coherence that the known constructions and descent reach in `max_seconds`.

    The answer depends on (n, d, max_seconds, seed) alone on every machine fast enough to finish its schedule.
    Raises ValueError for n or d below 1.
    """
    if n < 1 or d < 1:
        raise ValueError(f"n and d must be at least 1, got n = {n}, d = {d}")
    promised = sorted(offers(n, d), key=lambda offer: (offer.coherence, not offer.exact))
    tried = [Attempt(o.construction, o.coherence, o.exact) for o in promised]
    chance = random_keys(n, d, seed)
    found = [chance]
    if promised:
        found.append(promised[0].make())
    tried += [Attempt(chance.construction, chance.coherence, False)]
    schedule = 0.8 * max_seconds
    if min(k.coherence for k in found) > 0 and steps_in(schedule, n, d) >= 50:
        lowered = KeySet(descend(chance.vectors, schedule), "descent from random keys")
        found.append(lowered)
        tried.append(Attempt(lowered.construction, lowered.coherence, False))
    best = min(found, key=lambda keys: (keys.coherence, not keys.exact))
    return Built(best, tuple(sorted(tried, key=lambda a: a.coherence)))
