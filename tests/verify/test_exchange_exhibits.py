import json
import math

import pytest

from verify.records import jsonable
from verify.report.exhibits.exchange import EXHIBITS


def numbers_of(exhibit):
    return json.loads(json.dumps(jsonable(exhibit.compute(True))))


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.id)
def test_an_exhibit_draws_its_own_numbers(exhibit):
    numbers = numbers_of(exhibit)
    for draw in (exhibit.draw, *(draw for _, draw in exhibit.views)):
        axes = draw(numbers).axes[0]
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert len(axes.lines) >= 3
    if exhibit.headline is not None:
        assert exhibit.headline(numbers).endswith(".")


def test_rounding_never_errs_and_the_fit_stays_under_its_bound():
    numbers = numbers_of(EXHIBITS[0])
    assert {row["largest error"] for row in numbers["rows"] if row["f"] == "round"} == {0.0}
    bound = {row["swaps"]: row["bound"] for row in numbers["bound for exp24"]}
    fitted = [row for row in numbers["rows"] if row["f"] == "exp24"]
    assert len(fitted) > 10
    for row in fitted:
        limit = bound[row["swaps"]]
        assert row["largest error"] <= (math.inf if limit == "inf" else limit)
