"""The best keys within reach: every construction's promise, then descent from symmetric and random starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from theorem.bounds import closed, least_dimension
from theorem.packings.constructions import offers
from theorem.packings.constructions.lifting import bases
from theorem.packings.descent import descend, steps_in
from theorem.packings.keyset import KeySet
from theorem.packings.orbits import lowered_orbits, orbit_steps
from theorem.packings.random import random_keys

FEWEST_STEPS = 200  # a shorter descent than this ends above the algebraic constructions
MOST_RANDOM = 10_000  # beyond it random keys are measured only when asked for, and not descended from
LARGEST_ARRAY = 2**31  # bytes of float64 keys that `build` agrees to make
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Attempt:
    """One construction that was weighed; `measured` says whether its coherence was measured or is its theorem's."""

    construction: str
    coherence: float
    exact: bool
    measured: bool


@dataclass(frozen=True)
class Built:
    """The keys that won, and everything that was weighed, best first."""

    keys: KeySet
    tried: tuple[Attempt, ...]


def build(
    n: int,
    d: int,
    max_seconds: float = 20.0,
    seed: int = 0,
    *,
    only: str = "",
    enough: float = 0.0,
    progress: Progress = lambda message: None,
) -> Built:
    """n keys in R^d of the least coherence that the known constructions and descent reach in `max_seconds`.

    `only` keeps the constructions whose name begins with it; below a coherence of `enough` no more is tried. The answer
    is a function of the arguments alone on every machine fast enough to finish its schedules in time. Raises ValueError
    for n or d below 1, for keys that would take more than 2 GiB, and for an `only` that fits nothing.
    """
    if n < 1 or d < 1:
        raise ValueError(f"n and d must be at least 1, got n = {n}, d = {d}")
    if 8 * n * d > LARGEST_ARRAY:
        raise ValueError(f"{n} keys in R^{d} take {8 * n * d / 2**30:.1f} GiB in float64; the limit is 2 GiB")
    promised = sorted(
        (o for o in offers(n, d) if o.construction.startswith(only)), key=lambda o: (o.coherence, not o.exact)
    )
    found: list[KeySet] = [promised[0].make()] if promised else []
    if "random".startswith(only) and (only or n <= MOST_RANDOM):
        found.append(random_keys(n, d, seed))
    floor = closed(n, d) * (1 + 1e-9)
    for name, lower in _descents(n, d, max_seconds, seed):
        reached = min((keys.coherence for keys in found), default=1.0)
        if reached <= floor or reached < enough:
            break
        if name.startswith(only):
            progress(f"n = {n}, d = {d}: {name}, best so far {reached:.4f}")
            found.append(lower())
    if not found:
        raise ValueError(f"no construction called {only!r} gives {n} keys in R^{d}")
    tried = [Attempt(k.construction, k.coherence, k.exact, True) for k in found]
    tried += [Attempt(o.construction, o.coherence, o.exact, False) for o in promised[1:]]
    best = min(found, key=lambda keys: (keys.coherence, not keys.exact))
    return Built(best.turned(seed), tuple(sorted(tried, key=lambda a: a.coherence)))


def _descents(n: int, d: int, max_seconds: float, seed: int) -> Iterator[tuple[str, Callable[[], KeySet]]]:
    """Each descent that has time for enough steps, the cheap ones first; together they take 0.9 of `max_seconds`."""
    spent = 0.0
    for base in bases(d):
        count, k = -(-n // base.size), d - base.d
        share = 0.5 * max_seconds
        worth = base.orbit and count >= 2 and n <= base.most and k < count and closed(n, d) < base.across
        if worth and orbit_steps(share, count, base.d.bit_length() - 1, d) >= FEWEST_STEPS:
            spent += share
            yield f"orbits from {base.name} d = {base.d}", partial(lowered_orbits, base, n, d, share, seed)
    share = 0.9 * max_seconds - spent
    if share > 0 and d < n <= MOST_RANDOM and steps_in(share, n, d) >= FEWEST_STEPS:
        name = "descent from random keys"
        yield name, lambda: KeySet(descend(random_keys(n, d, seed).vectors, share), name)


def smallest(
    n: int,
    epsilon: float = 1 / 8,
    max_seconds: float = 60.0,
    seed: int = 0,
    *,
    progress: Progress = lambda message: None,
) -> tuple[KeySet, list[tuple[int, float, str]]]:
    """Keys of coherence < ε in the smallest d found, and what was tried: (d, coherence, construction), in order.

    The algebraic constructions first (by bisection, a larger d is never worse), then about ten shorter `build`s below.
    """
    if n < 2 or not 0 < epsilon < 1:
        raise ValueError(f"expected n ≥ 2 and 0 < ε < 1, got n = {n}, ε = {epsilon}")
    bound = least_dimension(n, epsilon)["lp"]
    low, high = bound - 1, n
    while high - low > 1:
        middle = (low + high) // 2
        if any(offer.coherence < epsilon for offer in offers(n, middle)):
            high = middle
        else:
            low = middle
    best = min(offers(n, high), key=lambda o: o.coherence).make()
    while best.coherence >= epsilon:  # a promise just below ε can be lost to rounding
        high += 1
        best = min(offers(n, high), key=lambda o: o.coherence).make()
    log = [(high, best.coherence, best.construction)]
    low, step = bound - 1, max(1, (high - bound) // 4)
    for _ in range(10):
        d = high - step
        if next(_descents(n, d, max_seconds / 10, seed), None) is None:
            break  # too little time for any descent on so many keys
        if d > low:
            progress(f"n = {n}: d = {high} works, trying {d}")
            keys = build(n, d, max_seconds / 10, seed, enough=epsilon, progress=progress).keys
            log.append((d, keys.coherence, keys.construction))
            if keys.coherence < epsilon:
                best, high = keys, d
                continue
            low = d
        if high - low <= 1:
            break
        step = max(1, (high - low) // 2)
    return best, log


def most_offered(d: int, epsilon: float = 1 / 8) -> int:
    """The most keys of coherence < ε in R^d that an algebraic construction promises; at least d."""
    low, high = d, 2 * d
    while any(offer.coherence < epsilon for offer in offers(high, d)):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if any(o.coherence < epsilon for o in offers(middle, d)) else (low, middle)
    return low
