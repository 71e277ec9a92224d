import os

import pytest

from verify.records import Records
from verify.sweep import executor, grid, stream_key, sweep


def square(spec):
    return {"y": spec["x"] ** 2, "pid": os.getpid()}


def test_grid_is_the_product():
    assert grid({"a": [1, 2], "b": "xy"}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_stream_does_not_depend_on_the_place_in_the_grid():
    assert stream_key({"d": 8, "n": 4}) == stream_key({"n": 4, "d": 8})
    assert stream_key({"d": 8, "n": 4}) != stream_key({"d": 8, "n": 5})


@pytest.mark.parametrize("workers", [1, 2])
def test_every_point_once_whoever_computes(workers):
    with executor(workers) as pool:
        found = {spec["x"]: point for spec, point, _ in sweep(square, grid({"x": range(7)}), pool)}
    assert {x: p["y"] for x, p in found.items()} == {x: x * x for x in range(7)}
    assert (found[0]["pid"] == os.getpid()) == (workers == 1)


def test_an_interrupted_sweep_goes_on_where_it_stood(tmp_path):
    specs = grid({"x": range(5)})
    running = sweep(square, specs, None, Records(tmp_path / "p.jsonl", {"x": 5}, {}))
    for _ in range(3):
        next(running)
    running.close()
    again = list(sweep(square, specs, None, Records(tmp_path / "p.jsonl", {"x": 5}, {})))
    assert [reused for _, _, reused in again] == [True, True, True, False, False]
    assert len(Records(tmp_path / "p.jsonl", {"x": 5}, {})) == 5


def test_a_dask_cluster_gives_the_same_points():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        executor(1, cluster.scheduler_address) as pool,
    ):
        found = {spec["x"]: point["y"] for spec, point, _ in sweep(square, grid({"x": range(4)}), pool)}
    assert found == {0: 0, 1: 1, 2: 4, 3: 9}


def test_a_cluster_that_does_not_answer():
    pytest.importorskip("distributed")
    with pytest.raises(OSError, match=r"Timed out|refused|connect"), executor(1, "tcp://127.0.0.1:9"):
        pass
