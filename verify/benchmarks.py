"""The project's speed goals, each a measurement in this run and the limit that it is held against."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snr.bench import Bench


@dataclass(frozen=True)
class Goal:
    """`measure` returns a number in `unit`; the goal holds if it is at most `limit` (at least, with `more`).

    Without a limit it is a measurement that others are read beside.
    """

    id: str
    what: str
    unit: str
    limit: float | None
    measure: Callable[[], float]
    more: bool = False

    def holds(self, value: float) -> bool | None:
        if self.limit is None:
            return None
        return value >= self.limit if self.more else value <= self.limit


@dataclass(frozen=True)
class Process:
    """A finished command: wall-clock seconds, CPU seconds and the peak resident set in megabytes."""

    wall: float
    cpu: float
    megabytes: float


def run(arguments: Sequence[str], repeats: int = 1) -> Process:
    """The quickest of several runs of `python -m verify ARGUMENTS`. Raises CalledProcessError where one fails."""
    done = []
    for _ in range(repeats):
        start = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "verify", *arguments], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, arguments)
        unit = 1 / 1e6 if sys.platform == "darwin" else 1024 / 1e6
        wall = time.perf_counter() - start
        done.append(Process(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit))
    return min(done, key=lambda p: p.wall)


DEFAULT = ("snr", "--kernel", "exp", "--dk", "64", "--quiet")


def default_half_width() -> float:
    """Relative half-width of the importance-sampled 99 % interval at the defaults, in percent."""
    import json

    command = [sys.executable, "-m", "verify", *DEFAULT[:-1], "--json", "-"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    estimate = found["points"][0]["measured"]["importance"]
    return float(50 * (estimate["high"] - estimate["low"]) / estimate["value"])


def _resolving(kernel: str) -> Callable[[], float]:
    return lambda: resolving_seconds(kernel)


def resolving_seconds(kernel: str) -> float:
    """Seconds until the exact formula is confirmed within 1 % and one that is 2 % off is refuted, at d = 64, N = 1024.

    inf where the run ends without both verdicts.
    """
    import json

    from snr.predictions import predict
    from snr.similarity import similarity

    exact = predict(similarity(kernel), 1024, 64, 8.0, typical=False).exact.value
    assert exact is not None
    formulas = [repr(exact), repr(1.02 * exact), repr(exact / 1.02)]
    argv = ["snr", "--kernel", kernel, "--rel-tol", "0.0055", "--predict", *formulas, "--json", "-"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "verify", *argv], capture_output=True, check=True)
    seconds = time.perf_counter() - start
    claims = {c["id"].removeprefix("snr:"): c["verdict"] for c in json.loads(done.stdout)["claims"]}
    decided = [claims[f] for f in formulas] == ["confirmed", "refuted", "refuted"]
    return seconds if decided else float("inf")


@lru_cache
def _bench(kernel: str) -> Bench:
    from snr.bench import bench
    from snr.similarity import similarity

    return bench(similarity(kernel))


def _simulation(kernel: str, ratio: str) -> Callable[[], float]:
    return lambda: float(getattr(_bench(kernel), ratio))


def simulation_goals() -> list[Goal]:
    """The direct simulation at d = 64, N = 1024 beside its products and beside loops over recalls.

    The goal is against a loop as the formula reads, two products of a matrix and a vector over the pairs j ≠ i. Beside
    it, without a goal, the tightest such loop, and how much over it is there to be had: its two products, run as blocks
    in float32 on all cores, the scores halved by their symmetry.
    """
    built_in = ("linear", "relu", "exp", "solu", "softplus", "gelu", "relu2", "cubic", "cosexp")
    words = "direct simulation of {}"
    rows: list[tuple[str, str, str, float | None, str]]
    rows = [(k, f"products-{k}", words + " over its bare matrix products", 3.0, "over_products") for k in built_in]
    for k in built_in[:4]:
        rows += [
            (k, f"loop-{k}", words + ", speed over a loop over recalls", 20.0, "speedup"),
            (k, f"tight-{k}", "the same, over a loop that copies nothing", None, "speedup_tight"),
            (k, f"possible-{k}", "the most that there is to gain over that one", None, "possible"),
        ]
    return [
        Goal(name, what.format(k), "×", limit, _simulation(k, ratio), more=ratio != "over_products")
        for k, name, what, limit, ratio in rows
    ]


def _large_memory() -> float:
    """Peak megabytes of a process of its own that recalls from a memory of 200,000 pairs."""
    code = (
        "from snr.bench import peak_memory; from snr.similarity import similarity\n"
        "print(peak_memory(similarity('exp'))['peak_bytes'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) / 1e6


def goals() -> list[Goal]:
    """Every goal in the order in which it is measured."""
    four = ("linear", "relu", "exp", "solu")
    return [
        Goal("help", "verify --help", "s", 0.35, lambda: run(["--help"], 5).wall),
        Goal("snr-wall", "verify snr --kernel exp --dk 64", "s", 3, lambda: run(DEFAULT, 3).wall),
        Goal("snr-memory", "the same, peak memory", "MB", 300, lambda: run(DEFAULT).megabytes),
        Goal("snr-width", "the same, importance-sampled 99 % half-width", "%", 2, default_half_width),
        *simulation_goals(),
        Goal("large-memory", "N = 200,000, d = 64, peak memory", "MB", 1000, _large_memory),
        *(Goal(f"resolve-{k}", f"{k}: ±1 % confirmed and 2 % off refuted", "s", 10, _resolving(k)) for k in four),
    ]
