"""Measuring the inverse SNR: direct simulation, importance sampling, medians; all with intervals.

Randomness: batch b of point p draws from SeedSequence(seed, spawn_key=(p, b)) (direct) or (p, b, 1) (importance), and
batches have the same size whatever happens: stopped by tolerance, a result is a function of (spec, seed), to rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from snr.direct import Direct, direct_batch
from snr.estimate import Estimate
from snr.importance import Weighted, make_sampler
from snr.intervals import Tail
from snr.keys import Gaussian, KeyLaw, Stored
from snr.measured import Measured, Scaled
from snr.parallel import in_order
from snr.reach import reach_of
from snr.similarity import Similarity, as_similarity
from snr.spec import STATISTICS, make_spec
from snr.stopping import Progress, Stop

__all__ = ["STATISTICS", "measure"]


def measure(
    similarity: Similarity | str,
    n: int,
    d: int,
    tau: float,
    keys: KeyLaw | Stored | None = None,
    statistic: str = "mean",
    *,
    stop: Stop,
    cross_check: Stop | None = None,
    seed: int = 0,
    point: int = 0,
    progress: Callable[[Estimate], None] | None = None,
    confidence: float = 0.99,
    values: str = "gaussian",
    d_v: int | None = None,
    probes: int | None = None,
    heads: int = 1,
) -> Measured:
    """Measure the inverse SNR of a memory of n pairs with keys of width d.

    similarity: a Similarity, or its name or expression in x, tau, d. keys: a law (default Gaussian) or stored keys,
    whose n and d must be the ones given. heads: split the width into that many memories of width d/heads and average
    over them. probes: recall only that many stored keys of each memory (default all up to 8192, else 1024). d_v: width
    of the values (default the keys' width). stop: see snr.stopping, timed from the start; half of its seconds goes to
    the importance-sampled estimate. cross_check: stops the direct estimate where there is an importance-sampled one
    that it only checks (default: the same rule); the check is given up where the mean's tail does not settle. progress
    is called with the current estimate.

    Raises ValueError for values out of range.
    """
    keys = Gaussian() if keys is None else keys
    spec = make_spec(as_similarity(similarity), n, d, tau, keys, statistic, confidence, values, d_v, probes, heads)
    start = time.monotonic()
    flags: dict[str, str] = {}
    scaled: dict[str, Scaled] = {}
    tails: dict[str, Tail] = {}
    reach = reach_of(spec, flags)
    hopeless = not flags.keys().isdisjoint(("diverges", "pole"))
    if spec.weighable and not hopeless:
        weighted = Weighted(spec, make_sampler(spec))
        with in_order(lambda batch: weighted.batch(seed, point, batch)) as batches:
            for drawn in batches:
                weighted.add(drawn)
                late = stop.overdue(2 * (time.monotonic() - start))
                if not weighted.looks.due(last=late):
                    continue
                scaled["importance"], tails["importance"] = weighted.estimate()
                if progress and not late:  # a look that the clock caused is no part of the run that others can repeat
                    progress(scaled["importance"].plain)
                if late or stop.reached(Progress(scaled["importance"].estimate, 2 * (time.monotonic() - start))):
                    break
        if math.isinf(scaled["importance"].estimate.high):
            flags["self-check"] = (
                "The importance weights failed their own check (effective size, tail) or the time was too short: that "
                "interval is Markov's bound."
            )
    checks = cross_check is not None and "importance" in scaled
    if cross_check is not None and checks:
        stop = cross_check
    direct = Direct(spec, reach, hopeless="unreached" in flags or hopeless)
    with in_order(direct_batch(spec, seed, point)) as batches:
        for recalled in batches:
            direct.add(recalled)
            late = stop.overdue(time.monotonic() - start)
            if not direct.looks.due(last=late):
                continue
            resigned = checks and math.isfinite(scaled["importance"].estimate.high) and direct.resigned()
            tracked = direct.tracked()
            if progress and not late:
                progress(tracked.plain)
            if late or resigned or stop.reached(Progress(tracked.estimate, time.monotonic() - start)):
                break
    scaled["mean"], scaled["median"] = direct.mean(), direct.median()
    tails["mean"] = direct.tail()
    if math.isinf(scaled["mean"].estimate.high) and "unreached" not in flags:
        flags["unreached"] = direct.why()
    return Measured(statistic, scaled, tuple(flags), tuple(flags.values()), tails)
