"""Grids of points: which are still to do, who computes them, and where the finished ones go."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from verify.records import Records, spec_hash

Spec = Mapping[str, Any]
Point = dict[str, Any]


def grid(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def stream_key(spec: Spec) -> int:
    """The point's part of a `SeedSequence` spawn key: 32 bits of its spec's hash.

    A point's draws then depend on its own spec alone, not on its place in a grid, so that a grid may grow or be
    reordered without changing a digit of the points it had before.
    """
    return int(spec_hash(spec)[:8], 16)


@contextmanager
def executor(workers: int, scheduler: str = "") -> Iterator[Executor | None]:
    """Who computes: None for this process, a pool of `workers` processes, or the dask cluster at `scheduler`.

    Raises ValueError where dask is not installed, OSError where the cluster does not answer.
    """
    if scheduler:
        try:
            from distributed import Client
        except ImportError:
            raise ValueError("needs dask: pip install 'associative-memory-verify[distributed]'") from None
        with Client(scheduler, timeout="10s") as client:
            yield client.get_executor()
    elif workers > 1:
        with ProcessPoolExecutor(workers) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    else:
        yield None


def sweep(
    compute: Callable[[Spec], Point], specs: Sequence[Spec], pool: Executor | None, records: Records | None = None
) -> Iterator[tuple[Spec, Point, bool]]:
    """Yield (spec, point, reused) for every spec as it is finished, each appended to `records` before it is yielded.

    Points that `records` holds come first and are not computed. `compute` is a module-level function, pure in its spec.
    """
    todo: list[Spec] = []
    for spec in specs:
        found = records.get(spec_hash(spec)) if records else None
        if found is None:
            todo.append(spec)
        else:
            yield spec, found, True
    for spec, point in _computed(compute, todo, pool):
        if records is not None:
            records.append(spec_hash(spec), point)
        yield spec, point, False


def _computed(
    compute: Callable[[Spec], Point], specs: Sequence[Spec], pool: Executor | None
) -> Iterator[tuple[Spec, Point]]:
    if pool is None:
        yield from ((spec, compute(spec)) for spec in specs)
        return
    running: dict[Future[Point], Spec] = {pool.submit(compute, spec): spec for spec in specs}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future.result()
