"""The bench on a small memory: what it reports belongs together. Its times are judged by nobody here."""

import pytest

from snr.bench import bench
from snr.similarity import similarity


@pytest.mark.parametrize("kernel", ["linear", "exp"])
def test_ratios_are_those_of_the_times(kernel):
    found = bench(similarity(kernel), n=40, d=8, memories=3)
    times = (found.seconds, found.products, found.floor, found.literal, found.tight)
    assert min(times) > 0
    record = found.to_json()
    assert record["over_products"] == found.seconds / found.products
    assert record["speedup"] == found.literal / found.seconds
    assert record["speedup_tight"] == found.tight / found.seconds
    assert record["possible"] == found.tight / found.floor
    assert record["cores"] >= 1
