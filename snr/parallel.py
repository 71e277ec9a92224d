"""Batches on all cores, in order.

A batch is generated, multiplied and exponentiated by one thread (numpy releases the interpreter's lock), and each core
works on its own batch. That uses the cores in all stages, where a threaded BLAS would in the products only, and the
products here are too small for it: on a machine with other work its threads wait for each other.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def in_order(task: Callable[[int], Result], workers: int | None = None) -> Iterator[Iterator[Result]]:
    """An endless iterator over task(0), task(1), …, computed ahead by `workers` threads (default one a core).

    Which thread computes what has no influence on the results; those computed ahead and not taken are dropped.
    """
    workers = cores() if workers is None else workers
    with blas_threads(1), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque(pool.submit(task, k) for k in range(workers))

        def results() -> Iterator[Result]:
            batch = workers
            while True:
                done = waiting.popleft().result()
                waiting.append(pool.submit(task, batch))
                batch += 1
                yield done

        try:
            yield results()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """So many BLAS threads a call inside; no effect where numpy's BLAS is not the OpenBLAS of its wheels."""
    library = _openblas()
    if library is None:
        yield
        return
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(count)
    try:
        yield
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@lru_cache(maxsize=1)
def _openblas() -> Any:
    import numpy

    for path in sorted((Path(numpy.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*")):
        library = ctypes.CDLL(str(path))  # already loaded by numpy: the same one
        if hasattr(library, "scipy_openblas_set_num_threads64_"):
            return library
    return None
