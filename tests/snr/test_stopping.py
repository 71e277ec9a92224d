import pytest

from snr.estimate import Estimate
from snr.stopping import MaxSeconds, MinSamples, Progress, RelTol


def progress(half_width, samples, seconds):
    return Progress(Estimate(1.0, 1 - half_width, 1 + half_width, 0.99, samples, "test"), seconds)


@pytest.mark.parametrize(
    ("half_width", "samples", "seconds", "stops"),
    [(0.5, 10, 1, False), (0.01, 10, 1, False), (0.01, 100, 1, True), (0.5, 100, 1, False), (0.5, 10, 10, True)],
)
def test_rules_compose(half_width, samples, seconds, stops):
    rule = MaxSeconds(10) | (RelTol(0.02) & MinSamples(100))
    assert rule.reached(progress(half_width, samples, seconds)) is stops


def test_only_the_clock_makes_a_run_overdue():
    either = MaxSeconds(10) | (RelTol(0.02) & MinSamples(100))
    assert not either.overdue(9)
    assert either.overdue(10)
    assert not (MaxSeconds(10) & MinSamples(100)).overdue(11)


def test_an_open_interval_never_meets_a_tolerance():
    assert not RelTol(0.02).reached(Progress(Estimate(1.0, 0.01, float("inf"), 0.99, 10, "test"), 0))
