"""What the simulation costs beside its floor and beside loops over recalls: measured in one run, for `verify bench`.

Times are wall clock, for one memory of many, as a user waits for them: the simulation and its bare products run as
`verify snr` runs them, a memory on each core with one BLAS thread; a loop over recalls runs as numpy runs it, in
float64, with one BLAS thread or as many as there are cores, whichever is faster. Memory is the peak resident set.
"""

from __future__ import annotations

import math
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from snr.keys import Gaussian, draw_values
from snr.memory import recall_stored, route
from snr.parallel import blas_threads, cores, in_order
from snr.similarity import Similarity

Array = NDArray[Any]
Kernel = Callable[[Array], Array]

MEMORIES = 8  # that the timed tasks take in turn


def as_typed(name: str, tau: float) -> Kernel:
    """A built-in similarity as a line of numpy, which is what a loop over recalls would call."""
    return {
        "linear": lambda x: x,
        "relu": lambda x: np.maximum(x, 0),
        "exp": lambda x: np.exp(x / tau),
        "solu": lambda x: x * np.exp(x / tau),
        "softplus": lambda x: np.log1p(np.exp(x / tau)),
        "gelu": lambda x: x * ndtr(x),
        "relu2": lambda x: np.maximum(x, 0) ** 2,
        "cubic": lambda x: x * x * x,
        "cosexp": lambda x: np.exp(x / tau),
    }[name]


@dataclass(frozen=True)
class Bench:
    """Wall-clock seconds for one memory of n pairs, all of them recalled.

    seconds: the simulation; products: its scores K Kᵀ and answers W V; floor: the products that cannot be left out, the
    half of the scores that symmetry leaves and the answers, or Kᵀ V and K S for a linear memory; literal, tight: the
    loops of the functions of that name. over_products is seconds/products, speedup and speedup_tight are the loops'
    seconds over `seconds`, and possible those of the tight loop over the floor: what no simulation by these products
    exceeds on this machine.
    """

    kernel: str
    n: int
    d: int
    dtype: str
    cores: int
    seconds: float
    products: float
    floor: float
    literal: float
    tight: float

    @property
    def over_products(self) -> float:
        return self.seconds / self.products

    @property
    def speedup(self) -> float:
        return self.literal / self.seconds

    @property
    def speedup_tight(self) -> float:
        return self.tight / self.seconds

    @property
    def possible(self) -> float:
        return self.tight / self.floor

    def to_json(self) -> dict[str, object]:
        ratios = ("over_products", "speedup", "speedup_tight", "possible")
        return asdict(self) | {name: getattr(self, name) for name in ratios}


def bench(similarity: Similarity, n: int = 1024, d: int = 64, memories: int = 48) -> Bench:
    """Recall all n stored keys of a memory by a built-in similarity: the simulation, its products, and the loops."""
    tau = math.sqrt(d)
    way = route(similarity, tau, d, (d / 4, 4.0 * d))
    rng = np.random.default_rng(0)
    keys = Gaussian().draw(rng, MEMORIES, n, d, way.dtype)
    values = draw_values("gaussian", rng, MEMORIES, n, d, way.dtype)
    transposed = np.ascontiguousarray(keys.transpose(0, 2, 1))  # numpy is slower at a matrix times its own transpose
    own = threading.local()

    def scratch() -> Array:
        if not hasattr(own, "scores"):
            own.scores = np.ones((n, n), way.dtype)
        return own.scores  # type: ignore[no-any-return]

    def simulation(k: int) -> None:
        at = slice(k % MEMORIES, k % MEMORIES + 1)
        recall_stored(similarity, keys[at], values[at], tau, power=d, way=way)

    def scores(k: int) -> None:
        np.matmul(keys[k % MEMORIES], transposed[k % MEMORIES], out=scratch())

    def answers(k: int) -> None:
        np.matmul(scratch(), values[k % MEMORIES])

    def state(k: int) -> None:
        np.matmul(keys[k % MEMORIES], np.matmul(transposed[k % MEMORIES], values[k % MEMORIES]))

    seconds, half, rest = (for_one(task, memories) for task in (simulation, scores, answers))
    floor = for_one(state, memories) if similarity.linear else half / 2 + rest
    g, wide = as_typed(similarity.name, tau), (keys[0].astype(float), values[0].astype(float))
    literal, tight = (_of_a_loop(partial(loop, g, *wide)) for loop in (literal_loop, tight_loop))
    dtype = np.dtype(way.dtype).name
    return Bench(similarity.name, n, d, dtype, cores(), seconds, half + rest, floor, literal, tight)


def for_one(task: Callable[[int], object], memories: int, repeats: int = 5) -> float:
    """Seconds between two results when every core works on tasks: the least of several runs over `memories` of them."""
    times = []
    with in_order(task) as results:
        for _ in range(repeats):
            for _ in range(2 * cores()):
                next(results)
            start = time.perf_counter()
            for _ in range(memories):
                next(results)
            times.append((time.perf_counter() - start) / memories)
    return min(times)


def _of_a_loop(run: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the faster of one BLAS thread and one for each core, the least of several runs each."""
    times = []
    for threads in {1, cores()}:
        with blas_threads(threads):
            for _ in range(repeats):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
    return min(times)


def literal_loop(g: Kernel, keys: Array, values: Array) -> Array:
    """The inverse SNR of each recall [N] as the formula reads: signal g(k_i·k_i), noise Σ_{j≠i} g(k_j·k_i) v_j."""
    n = len(keys)
    ratios = np.empty(n)
    for i in range(n):
        signal = g(keys[i : i + 1] @ keys[i])[0]
        noise = g(np.delete(keys, i, 0) @ keys[i]) @ np.delete(values, i, 0)
        ratios[i] = noise @ noise / (signal**2 * values.shape[1])
    return ratios


def tight_loop(g: Kernel, keys: Array, values: Array) -> Array:
    """The same without a copy of the others: the best that a loop over recalls can do."""
    n = len(keys)
    ratios = np.empty(n)
    for i in range(n):
        weights = g(keys @ keys[i])
        signal, weights[i] = weights[i], 0
        noise = weights @ values
        ratios[i] = noise @ noise / (signal**2 * values.shape[1])
    return ratios


def peak_memory(similarity: Similarity, n: int = 200_000, d: int = 64, probes: int = 256) -> dict[str, float]:
    """Peak resident bytes of this process after recalling some keys of a memory of n pairs, and the seconds it took."""
    tau = math.sqrt(d)
    way = route(similarity, tau, d, (d / 4, 4.0 * d))
    rng = np.random.default_rng(0)
    start = time.process_time()
    keys = Gaussian().draw(rng, 1, n, d, way.dtype)
    values = draw_values("gaussian", rng, 1, n, d, way.dtype)
    with blas_threads(1):
        recall_stored(similarity, keys, values, tau, power=d, way=way, probes=np.arange(probes))
    seconds = time.process_time() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"n": n, "d": d, "probes": probes, "peak_bytes": peak, "seconds": seconds}
