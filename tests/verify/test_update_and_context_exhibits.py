"""Figures on updates and context: numbers that JSON can hold, and pictures drawn from what JSON gives back."""

import json

import pytest
from matplotlib.figure import Figure

from verify.records import jsonable
from verify.report.exhibits import context, updates


@pytest.mark.parametrize("exhibit", [*updates.EXHIBITS, *context.EXHIBITS], ids=lambda e: e.id)
def test_exhibit_computes_and_draws(exhibit):
    numbers = json.loads(json.dumps(jsonable(exhibit.compute(True)), allow_nan=False))
    for draw in (exhibit.draw, *(view for _, view in exhibit.views)):
        assert isinstance(draw(numbers), Figure)
    if exhibit.headline:
        assert exhibit.headline(numbers).endswith(".")


def test_exhibit_numbers_are_a_pure_function():
    for exhibit in (updates.EXHIBITS[1], context.EXHIBITS[2]):
        assert exhibit.compute(True) == exhibit.compute(True)


def test_landscape_step_goes_down():
    import numpy as np

    numbers = updates.landscapes(True)
    for name in updates.LANDSCAPES:
        levels, grid = np.array(numbers[name]["objective"]), np.array(numbers["grid"])
        at = lambda point: levels[np.abs(grid - point[1]).argmin(), np.abs(grid - point[0]).argmin()]  # noqa: B023, E731
        assert at(numbers[name]["step"]) < at(numbers["start"])
