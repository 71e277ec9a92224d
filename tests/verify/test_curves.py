import pytest

from verify.capacity_point import measure_point
from verify.report.curves import draw_curves, draw_ratios, draw_residuals
from verify.report.exhibits.against_prediction import SHARED
from verify.report.svg import inline_svg


@pytest.fixture(scope="module")
def points():
    """Where the mean exists and where it diverges (exp at tau = 0.5 has no finite prediction to divide by)."""
    spec = SHARED | {"kernel": "exp", "n": 8, "rel_tol": 0.3}
    return [measure_point({**spec, "d": d, "d_v": d, "tau": tau}) for d, tau in ((4, "sqrt"), (8, "sqrt"), (8, "0.5"))]


@pytest.mark.parametrize("draw", [draw_curves, draw_ratios, draw_residuals])
@pytest.mark.parametrize("some", [slice(0, 1), slice(0, 2), slice(1, 3)])
def test_any_set_of_points_is_drawn_and_named(points, draw, some):
    text = inline_svg(draw(points[some]), "p", "alt")
    assert text.startswith("<svg")
    assert "exp at" in text  # the markers tell their values


def test_a_residual_is_counted_in_half_widths(points):
    figure = draw_residuals(points[:1])
    ratio = next(j["ratio"] for j in points[0]["judged"] if j["name"] == "exact")
    (height,) = figure.axes[0].lines[-1].get_ydata()
    assert height == pytest.approx((ratio["value"] - 1) / ((ratio["high"] - ratio["low"]) / 2))
    assert (abs(height) <= 1) == (ratio["low"] <= 1 <= ratio["high"])
