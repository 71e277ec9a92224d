import json
import math

import pytest

from snr.predictions import predict
from verify.cli import main
from verify.report.exhibits import capacity


def _run(capsys, *arguments):
    status = main(["capacity", *arguments])
    return status, capsys.readouterr()


def test_capacities_and_fits(capsys):
    status, out = _run(
        capsys, "--kernel", "exp", "x**2", "--dk", "16", "64", "256", "--statistic", "paper", "exact", "--json", "-"
    )
    points = {(p["kernel"], p["d"]): p["log_n"] for p in json.loads(out.out)["points"]}
    assert status == 0
    assert points["exp", 64]["paper"] == pytest.approx(14)
    assert points["exp", 64]["exact"] < 14
    assert points["x**2", 64]["paper"] is None
    # g = x²: E X⁴/s⁴ = 3/((d−2)(d−4)) per other pair
    assert points["x**2", 64]["exact"] == pytest.approx(math.log(1 + 62 * 60 / 3))


def test_widths(capsys):
    status, out = _run(capsys, "--kernel", "linear", "--n", "100", "--statistic", "paper", "exact", "--json", "-")
    assert status == 0
    assert json.loads(out.out)["points"][0]["d"] == {"paper": 100, "exact": 101}


def test_a_pole_has_no_capacity(capsys):
    status, out = _run(capsys, "--kernel", "x**-1", "--dk", "16", "--statistic", "exact", "typical", "--json", "-")
    assert status == 0
    assert json.loads(out.out)["points"][0]["log_n"] == {"exact": None, "typical": None}


def test_a_table_and_a_picture(capsys, tmp_path):
    picture = tmp_path / "n.svg"
    status, out = _run(
        capsys, "--kernel", "exp", "--dk", "8", "16", "32", "--statistic", "exact", "--plot", str(picture)
    )
    assert status == 0
    assert "√d against" in out.out
    assert picture.read_text().startswith("<?xml")


def test_simulated_capacity_holds_the_level(capsys):
    # the interval covers with 99 %; at fixed seed and a tolerance on the half-width the run is a function of the seed
    pytest.importorskip("snr.estimators")
    status, out = _run(
        capsys, "--kernel", "exp", "--dk", "24", "--statistic", "exact", "--simulate", "--rel-tol", "0.1", "--json", "-"
    )
    measured = json.loads(out.out)["points"][0]["measured"]
    assert status == 0
    assert measured["snr"]["low"] < 1 < measured["snr"]["high"]


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--kernel", "__import__('os')", "unknown function"),
        ("--kernel", "log(x)", "not a real number"),
        ("--dk", "0", "expected an integer"),
        ("--level", "nan", "expected a finite number"),
        ("--level", "0", "expected a finite number"),
        ("--tau", "-1", "expected"),
        ("--tau", "d - 64", "expected"),
        ("--n", "1", "expected an integer"),
        ("--keys", "cube", "expected one of"),
        ("--plot", "n.pdf", "expected a name"),
        ("--plot", "/nowhere/n.svg", "No such file"),
    ],
)
def test_bad_input_gets_one_line(capsys, option, value, why):
    status, out = _run(capsys, f"{option}={value}")
    assert status == 2
    assert len(out.err.splitlines()) == 1
    assert option in out.err
    assert why in out.err


def test_the_temperature_is_drawn_with_the_condensation_line(capsys, tmp_path, monkeypatch):
    drawn = []
    draw = capacity.draw_temperatures
    monkeypatch.setattr(capacity, "draw_temperatures", lambda numbers: drawn.extend(numbers["rows"]) or draw(numbers))
    path = tmp_path / "t.svg"
    argv = ["capacity", "--kernel", "exp", "--dk", "16", "--temperature", "--statistic", "paper", "--plot", str(path)]
    assert main(argv) == 0
    assert "condensation line" in path.read_text()
    assert min(row["log_n/d"] for row in drawn) * 16 > math.log(2)  # a bound is not drawn as a value


def test_a_level_below_two_pairs_is_said_and_not_fitted(capsys):
    status, out = _run(capsys, "--kernel", "linear", "exp", "--dk", "16", "64", "256", "--level", "1e-300")
    assert status == 0
    assert "≤ 2" in out.out
    assert "Scaling" not in out.out


def test_small_memories_have_a_typical_number_of_pairs(capsys):
    # beyond two pairs and below three the sum has no law to invert; the median is taken to be linear there
    argv = ("--kernel", "linear", "abs(x)", "--dk", "64", "--level", "0.01", "--statistic", "typical", "--json", "-")
    _, out = _run(capsys, *argv)
    two, three = (predict("linear", n, 64, 8.0).typical.value for n in (2, 3))
    for p in json.loads(out.out)["points"]:
        assert p["reasons"] == p["bounds"] == {}
        assert math.exp(p["log_n"]["typical"]) == pytest.approx(2 + (0.01 - two) / (three - two), rel=2e-3)


def test_a_typical_value_that_cannot_be_had_says_why_itself(capsys, monkeypatch):
    def refuse(g, n, *rest):
        raise ArithmeticError(f"no law of {n - 1:g} terms")

    monkeypatch.setattr("snr.capacity.recall_law", refuse)
    _, out = _run(capsys, "--kernel", "linear", "--dk", "16", "--statistic", "typical")
    assert "linear, N typical: none at d = 16: no law of 1 terms" in out.out
    _, out = _run(capsys, "--kernel", "linear", "--n", "9", "--statistic", "typical")
    assert "linear, d typical: none for N = 9: no law of 1 terms" in out.out


def test_a_width_that_is_not_found_says_what_the_widest_holds(capsys):
    _, out = _run(capsys, "--kernel", "linear", "x**2", "--n", "1000000", "--statistic", "paper")
    assert "linear, d paper: none for N = 1000000: d = 16384 holds only N = 1.638e+04" in out.out
    assert "x**2, d paper: none for N = 1000000: P has no formula" in out.out


def test_bounds_are_marked_and_a_measurement_says_its_whole_n(capsys):
    argv = ("--dk", "64", "--level", "0.01", "--simulate", "--rel-tol", "0.5", "--statistic", "paper", "exact")
    _, out = _run(capsys, *argv, "--kernel", "linear")
    assert "at N = 2: " in out.out
    _, out = _run(capsys, *argv, "--kernel", "linear", "relu", "--json", "-")
    points = json.loads(out.out)["points"]
    for p in points:
        assert p["bounds"]["paper"] == "at most"
        assert p["measured"]["n"] == 2
        assert all(p["log_n"][name] == pytest.approx(math.log(2)) for name in p["bounds"])
    assert points[-1]["log_n"]["exact"] == pytest.approx(math.log(2.24))
    assert "exact" not in points[-1]["bounds"]


def test_what_is_not_simulated_says_why(capsys):
    argv = (
        "--kernel",
        "exp",
        "--dk",
        "4096",
        "--tau",
        "0.5",
        "--statistic",
        "typical",
        "--keys",
        "sphere",
        "--simulate",
    )
    _, out = _run(capsys, *argv)
    assert "not simulated: N above 200,000" in out.out
    assert "> e^599" in out.out
    _, out = _run(capsys, "--kernel", "linear", "--dk", "2", "--statistic", "paper", "--simulate")
    assert "not simulated: no N exact" in out.out
