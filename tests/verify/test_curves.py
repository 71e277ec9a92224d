from functools import lru_cache

import matplotlib.colors
import pytest

from verify.capacity_point import measure_point
from verify.report.curves import draw_curves, draw_ratios, draw_residuals
from verify.report.exhibits.against_prediction import SHARED
from verify.report.exhibits.capacity import draw_capacity, draw_temperatures
from verify.report.style import kernel_looks, series_looks
from verify.report.svg import inline_svg


@lru_cache
def measured(**values):
    spec = SHARED | {"kernel": "exp", "n": 8, "d": 8, "tau": "sqrt", "rel_tol": 0.3, "max_seconds": 0.05} | values
    return measure_point({**spec, "d_v": spec["d"]})


@pytest.fixture(scope="module")
def points():
    """Where the mean exists and where it diverges (exp at tau = 0.5 has no finite prediction to divide by)."""
    return [measured(d=d, tau=tau) for d, tau in ((4, "sqrt"), (8, "sqrt"), (8, "0.5"))]


@pytest.fixture(scope="module")
def grid():
    return [measured(n=n, d=d, tau=tau) for n in (8, 16) for d in (4, 8) for tau in ("2", "4")]


@pytest.mark.parametrize("draw", [draw_curves, draw_ratios, draw_residuals])
@pytest.mark.parametrize("some", [slice(0, 1), slice(0, 2), slice(1, 3)])
def test_any_set_of_points_is_drawn_and_named(points, draw, some):
    text = inline_svg(draw(points[some]), "p", "alt")
    assert text.startswith("<svg")
    assert "exp at" in text or "τ = " in text  # the markers tell their values


def test_a_residual_is_counted_in_half_widths(points):
    figure = draw_residuals(points[:1])
    ratio = next(j["ratio"] for j in points[0]["judged"] if j["name"] == "exact")
    (height,) = figure.axes[0].lines[-1].get_ydata()
    assert height == pytest.approx((ratio["value"] - 1) / ((ratio["high"] - ratio["low"]) / 2))
    assert (abs(height) <= 1) == (ratio["low"] <= 1 <= ratio["high"])


@pytest.mark.parametrize("axis", ["d", "n"])
def test_each_series_has_its_own_colour_and_marker_on_lines_and_measurements(grid, axis):
    """Four series over d, two over N; a line goes through one point an abscissa, and its series' marks are alike."""
    points = grid if axis == "d" else [p for p in grid if p["d"] == 8]
    figure = draw_curves(points)
    drawn = figure.axes[0].lines
    lines = [line for line in drawn if len(line.get_xdata()) == 2 and line.get_linestyle() != "None"]
    middles = [line for line in drawn if line.get_markersize() == 3]
    assert [line.get_color() for line in middles] == [line.get_color() for line in lines]
    looks = {(line.get_color(), line.get_marker()) for line in middles}
    assert len(looks) == (4 if axis == "d" else 2)
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == len(looks)
    assert all(len(set(line.get_xdata())) == 2 for line in lines)  # no zigzag between temperatures
    marks = {(line.get_color(), line.get_marker()) for line in drawn}
    assert {look for look in marks if look[1] not in ("_", "None", "|", "")} == looks


def test_the_legend_shows_the_looks_that_are_drawn(grid):
    figure = draw_curves([p for p in grid if p["d"] == 8])
    legend = figure.axes[0].get_legend()
    drawn = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines if line.get_markersize() == 3}
    shown = {
        (handle.get_color(), handle.get_marker())
        for handle, text in zip(legend.legend_handles, legend.get_texts())
        if text.get_text().startswith("τ = ")
    }
    assert shown == drawn


def test_a_single_point_stands_beside_its_labelled_predictions():
    p = measured(predict=("N/d",))
    axes = draw_curves([p]).axes[0]
    told = " ".join(text.get_text() for text in axes.texts)
    for label in ("P's formula: ", "exact mean: ", "typical: ", "N/d: 1"):
        assert label in told
    assert [tick.get_text().split(",")[0] for tick in axes.get_xticklabels()] == ["mean", "mean", "median"]


def test_one_place_and_several_kernels_is_a_column_each():
    points = [measured(kernel=kernel) for kernel in ("linear", "exp")]
    axes = draw_curves(points).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["linear", "exp"]


def test_what_is_infinite_is_said(points):
    told = " ".join(text.get_text() for text in draw_curves(points[2:]).axes[0].texts)
    assert "infinite: exact mean" in told


def test_a_picture_without_a_value_says_so(points):
    nothing = dict.fromkeys(points[0]["predicted"])
    none = {"value": 0.0, "low": 0.0, "high": 0.0}
    empty = points[0] | {
        "predicted": nothing,
        "judged": [],
        "measured": dict.fromkeys(("mean", "importance", "median"), none),
    }
    for some in ([empty], [empty, empty | {"d": 99}]):
        assert "no value" in draw_curves(some).axes[0].texts[-1].get_text()


def test_the_solid_line_is_exact_for_the_statistic_that_was_measured():
    points = [measured(kernel="linear", d=d, statistic="fixed-probe") for d in (4, 8)]
    figure = draw_curves(points)
    (solid,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    assert list(solid.get_ydata()) == [p["predicted"]["fixed_probe"] for p in points]
    assert "exact, probe of norm √d" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_series_can_be_told_apart_without_colour():
    assert len({look.marker for look in series_looks(9)}) == 9
    assert len({(look.colour, look.marker) for look in series_looks(63)}) == 63
    grey = [matplotlib.colors.rgb_to_hsv(matplotlib.colors.to_rgb(look.colour))[2] for look in series_looks(7)]
    assert max(grey) > min(grey)
    looks = kernel_looks(["linear", "x**3", "exp", "x**4", "linear"])
    assert len({look.marker for look in looks.values()}) == len({look.colour for look in looks.values()}) == 4


def test_the_legend_of_capacities_has_the_markers_of_the_curves():
    rows = [
        {"kernel": k, "statistic": s, "d": d, "log_n": d / 8 + i}
        for i, k in enumerate(("exp", "x**2"))
        for s in ("exact", "typical")
        for d in (8, 16)
    ]
    axes = draw_capacity({"rows": rows, "level": 1.0}).axes[0]
    shown = {(h.get_color(), h.get_marker()) for h in axes.get_legend().legend_handles[:2]}
    assert shown == {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert "no finite number" in draw_capacity({"rows": [], "level": 1.0}).axes[0].texts[0].get_text()


def columns_of(legend):
    """The entries of a legend of two columns, as it is drawn: the blanks that fill a column up left out."""
    texts = [text.get_text() for text in legend.get_texts()]
    half = (len(texts) + 1) // 2
    return [[text for text in part if text] for part in (texts[:half], texts[half:])]


@pytest.mark.parametrize("kernels", [["exp"], ["linear", "exp"], ["linear", "exp", "relu", "solu", "x**2"]])
def test_kernels_and_statistics_have_a_column_each_in_the_legend(kernels):
    statistics = ("paper", "exact", "typical")
    rows = [{"kernel": k, "statistic": s, "d": 8, "log_n": 1.0} for k in kernels for s in statistics]
    legend = draw_capacity({"rows": rows, "level": 1.0}).axes[0].get_legend()
    assert columns_of(legend) == [kernels, ["P's formula", "exact mean", "typical (median)"]]
    points = [measured(kernel="linear", d=d) for d in (4, 8)]
    found = columns_of(draw_curves(points).axes[0].get_legend())
    assert found[0] == ["linear"]
    assert found[1][:3] == ["P's formula", "exact mean", "typical"]


def test_what_is_shaded_is_in_the_legend():
    rows = [{"statistic": "s", "tau": tau, "log_n/d": 0.5} for tau in (1.0, 2.0)]
    for axes in (
        draw_temperatures({"rows": rows, "d": 64}).axes[0],
        draw_residuals([measured(kernel="linear", d=d) for d in (4, 8)]).axes[0],
    ):
        shaded = [patch.get_label() for patch in (*axes.collections, *axes.patches)]
        assert set(shaded) & {text.get_text() for text in axes.get_legend().get_texts()}
