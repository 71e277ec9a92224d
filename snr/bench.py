"""What the simulation costs beside its floor: ratios measured in one run, for `verify bench`.

Times are CPU seconds of this process (wall clock lies on a busy machine), the smallest of several runs, with one BLAS
thread on both sides; memory is the growth of the peak resident set.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snr.keys import Gaussian, draw_values
from snr.memory import recall_stored, route
from snr.parallel import single_threaded_blas
from snr.similarity import Similarity

Array = NDArray[Any]


@dataclass(frozen=True)
class Bench:
    """CPU seconds for one memory of n pairs: the simulation, its bare matrix products, two loops over recalls.

    over_products: seconds/products, what everything but the two products costs. speedup: literal/seconds, against the
    sum Σ_{j≠i} g(k_j·k_i) v_j written down as it stands; speedup_matvec: against a loop of matrix-vector products.
    """

    kernel: str
    n: int
    d: int
    dtype: str
    seconds: float
    products: float
    literal: float
    matvec: float
    over_products: float
    speedup: float
    speedup_matvec: float

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def bench(similarity: Similarity, n: int = 1024, d: int = 64, repeats: int = 7) -> Bench:
    """Recall all n stored keys of one memory, against the two products of the same shapes and type, and a loop."""
    tau = math.sqrt(d)
    way = route(similarity, tau, d, (d / 4, 4.0 * d))
    rng = np.random.default_rng(0)
    keys = Gaussian().draw(rng, 1, n, d, way.dtype)
    values = draw_values("gaussian", rng, 1, n, d, way.dtype)
    scores: Array = np.empty((1, n, n), way.dtype)
    answers: Array = np.empty((1, n, d), way.dtype)
    transposed = keys.copy().transpose(0, 2, 1)  # a copy: a matrix times its own transpose takes a slower routine

    def products() -> None:
        np.matmul(keys, transposed, out=scores)
        np.matmul(scores, values, out=answers)

    def simulation() -> None:
        recall_stored(similarity, keys, values, tau, power=d, way=way)

    with single_threaded_blas():
        floor = fastest(products, repeats)
        seconds = fastest(simulation, repeats)
        wide = keys[0].astype(float), values[0].astype(float)
        literal = fastest(lambda: literal_loop(similarity, *wide, tau), 1)
        matvec = fastest(lambda: matvec_loop(similarity, *wide, tau), 1)
    ratios = seconds / floor, literal / seconds, matvec / seconds
    return Bench(similarity.name, n, d, np.dtype(way.dtype).name, seconds, floor, literal, matvec, *ratios)


def fastest(run: Callable[[], object], repeats: int) -> float:
    """The smallest CPU time of several runs after a first one that is not counted (unless only one is asked for)."""
    if repeats > 1:
        run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def literal_loop(similarity: Similarity, keys: Array, values: Array, tau: float) -> Array:
    """The inverse SNR of each recall [N] as the formula reads: signal g(k_i·k_i), noise Σ_{j≠i} g(k_j·k_i) v_j."""
    n, d = keys.shape
    ratios = np.empty(n)
    for i in range(n):
        g = similarity.value((keys * keys[i]).sum(axis=1), tau, d)
        others = np.arange(n) != i
        noise = (g[others, None] * values[others]).sum(axis=0)
        ratios[i] = (noise**2).sum() / (g[i] ** 2 * values.shape[1])
    return ratios


def matvec_loop(similarity: Similarity, keys: Array, values: Array, tau: float) -> Array:
    """The same with matrix-vector products and the noise as o − c v_i."""
    n, d = keys.shape
    ratios = np.empty(n)
    for i in range(n):
        g = similarity.value(keys @ keys[i], tau, d)
        noise = g @ values - g[i] * values[i]
        ratios[i] = noise @ noise / (g[i] ** 2 * values.shape[1])
    return ratios


def peak_memory(similarity: Similarity, n: int = 200_000, d: int = 64, probes: int = 256) -> dict[str, float]:
    """Peak resident bytes of this process after recalling some keys of a memory of n pairs, and the seconds it took."""
    tau = math.sqrt(d)
    way = route(similarity, tau, d, (d / 4, 4.0 * d))
    rng = np.random.default_rng(0)
    start = time.process_time()
    keys = Gaussian().draw(rng, 1, n, d, way.dtype)
    values = draw_values("gaussian", rng, 1, n, d, way.dtype)
    with single_threaded_blas():
        recall_stored(similarity, keys, values, tau, power=d, way=way, probes=np.arange(probes))
    seconds = time.process_time() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"n": n, "d": d, "probes": probes, "peak_bytes": peak, "seconds": seconds}
