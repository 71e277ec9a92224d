"""The figures of the lemma: the numbers behind them say what the captions say."""

import json

import pytest

from verify.report.exhibits.lemma import EXHIBITS


@pytest.fixture(scope="module")
def computed():
    return {exhibit.id: exhibit.compute(True) for exhibit in EXHIBITS}


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.id)
def test_numbers_are_json_and_the_picture_is_drawn(exhibit, computed, tmp_path):
    numbers = json.loads(json.dumps(computed[exhibit.id]))
    exhibit.draw(numbers).savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_certified_keys_stay_below_a_half_and_random_ones_do_not(computed):
    windows = computed["lemma-windows"]
    certified, random = windows["keys"]["certified"], windows["keys"]["random"]
    for found in (certified, random):
        assert all(sum(counts) == windows["swaps"] for counts in found["counts"].values())
        assert found["margin"] == pytest.approx(0.5 - max(found["largest"].values()))
    assert certified["coherence"] < 0.125 < random["coherence"]
    assert certified["margin"] > 0 > random["margin"]


def test_margins_lie_between_the_two_lines(computed):
    series = computed["lemma-margin"]["series"]
    for name, points in series.items():
        unit = not name.startswith(("simplex, k", "certified"))
        for point in points:
            rounding = 0.002 if name.startswith("random") else 1e-12  # these keys are rounded to integers
            assert point["margin"] >= 0.5 - 4 * point["coherence"] - rounding
            assert not unit or point["margin"] <= 0.5 - 2 * point["coherence"] + rounding


def test_descent_on_the_condition_passes_the_best_guarantee(computed):
    points = computed["lemma-dimensions"]["points"]
    assert all(p["guarantee"] < p["margin"] < p["unit"] for p in points)
