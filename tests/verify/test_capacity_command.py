import json
import math

import pytest

from verify.cli import main


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


def test_the_temperature_is_drawn_with_the_condensation_line(capsys, tmp_path):
    path = tmp_path / "t.svg"
    argv = ["capacity", "--kernel", "exp", "--dk", "16", "--temperature", "--statistic", "paper", "--plot", str(path)]
    assert main(argv) == 0
    assert "condensation line" in path.read_text()


def test_a_level_below_two_pairs_is_said_and_not_fitted(capsys):
    status, out = _run(capsys, "--kernel", "linear", "exp", "--dk", "16", "64", "256", "--level", "1e-300")
    assert status == 0
    assert "≤ 2" in out.out
    assert "Scaling" not in out.out
