"""What a person reads of `verify snr`: rows, reasons, notes. Points are made quickly; no assertion is about their luck,
except where a seed is said to be fixed."""

import json
import math
import re
from functools import lru_cache

import numpy as np
import pytest

from snr.intervals import Tail
from snr.measured import Measured
from verify import cli
from verify.capacity_notes import sentences
from verify.capacity_point import measure_point, measured_json, point_claims, ruling_on
from verify.capacity_tables import NAMES, curve_tables, point_tables
from verify.evidence import Estimate, Evidence, Ruling, Verdict, judge
from verify.report.exhibits.against_prediction import SHARED

QUICK = ("--max-seconds", "0.05", "--n", "16", "--dk", "8")


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


@lru_cache
def point(kernel, **values):
    spec = SHARED | {"kernel": kernel, "d": 8, "n": 8, "tau": "sqrt", "rel_tol": 0.3, "max_seconds": 0.05} | values
    return measure_point({**spec, "d_v": spec["d"]})


def judged(*points):
    return [(p, point_claims(p, 0.01)) for p in points]


@pytest.fixture(scope="module")
def failed():
    """A point of which no prediction came out, whatever kernel that may happen to."""
    p = point("x**-1")
    nothing = dict.fromkeys(p["predicted"])
    why = {
        name: f"the quadrature of {name} did not settle" for name in NAMES if name not in ("printed", "recall_error")
    }
    return p | {"kernel": "abs(x)**-0.3", "predicted": nothing, "predicted_log": nothing, "reasons": why, "judged": []}


def test_a_prediction_that_fails_is_a_row_with_its_reason(failed):
    (table,) = point_tables(*judged(failed)[0])
    rows = {row[0]: row for row in table.rows}
    for name in ("exact", "fixed_probe", "typical"):
        assert rows[NAMES[name]][1] == "none"
        assert rows[NAMES[name]][-1] == failed["reasons"][name] != ""


def test_that_nothing_was_judged_is_said_with_the_reason(failed):
    text = sentences(judged(failed), NAMES)
    assert text.startswith("No prediction was judged: there is none of the mean here (for the reasons in the table).")
    assert "Of 0" not in text


def test_in_a_sweep_the_reason_names_its_kernel(failed):
    text = sentences(judged(failed, point("linear")), NAMES)
    assert f"abs(x)**-0.3: {NAMES['exact']}: none, {failed['reasons']['exact']}." in text.splitlines()


def test_notes_of_a_sweep_name_their_points_and_equal_ones_are_one(failed):
    other = failed | {"n": 99}
    lines = sentences(judged(failed, other, point("linear")), NAMES).splitlines()
    for note in failed["notes"]:
        assert [line for line in lines if note in line] == [f"abs(x)**-0.3: {note}"]
    few = sentences(judged(failed, other | {"notes": []}), NAMES).splitlines()
    assert f"d = 8, N = 8, τ = 2.828: {failed['notes'][0]}" in few


def test_many_notes_that_differ_in_their_numbers_are_counted():
    p = point("linear")
    many = [p | {"n": n, "flags": ["condensed"], "notes": [f"ln N = {n} is low."]} for n in range(2, 22)]
    lines = [line for line in sentences(judged(*many), NAMES).splitlines() if "ondensed" in line or "is low" in line]
    assert len(lines) == 4
    assert lines[-1] == "condensed: likewise at 17 more points."


@pytest.mark.parametrize("widths", [(8,), (8, 16)])
def test_a_users_formula_is_shown_with_its_value_beside_what_was_measured(widths):
    formulas = ("N/d", "(N-1)/(d-2)")
    found = judged(*(point("linear", d=d, predict=formulas) for d in widths))
    table = (point_tables(*found[0]) if len(widths) == 1 else curve_tables(found))[-1]
    assert len(table.rows) == len(formulas) * len(widths)
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    for row, (d, formula) in zip(rows, ((d, f) for d in widths for f in formulas)):
        assert row["formula"] == formula
        assert float(row["predicted"]) == pytest.approx(8 / d if formula == "N/d" else 7 / (d - 2), rel=1e-3)
        value, low, high = (float(x) for x in re.findall(r"[\d.e+-]+", row["measured"]))
        assert low <= value <= high
        ratio = float(row["measured/predicted"].split()[0])
        assert ratio == pytest.approx(value / float(row["predicted"]), rel=2e-3)
        assert (row["would decide it"] != "") == (row["verdict"] == "inconclusive")


@pytest.mark.parametrize("within", [0.001, 0.01, 0.3, 1.9])
@pytest.mark.parametrize("place", [-1.7, -1.02, -0.9, 0.0, 0.4, 0.99, 1.3])
@pytest.mark.parametrize("width", [1.8, 30])
def test_the_budget_decides(within, place, width):
    """An interval as narrow as the budget says, about the same ratio, leaves the question no more open.

    From a wide interval, not if the ratio turns out to lie as near to an edge as the budget says.
    """
    value = 1 + place * within
    if value <= 0:
        return
    wide = Estimate(value, value - width * within, value + width * within, 0.99, 100, "test")
    ruled = ruling_on({"ratio": vars(wide), "statistic": "mean", "name": "user", "log": 0.0}, {"predicted": {}}, within)
    assert ruled.verdict is Verdict.INCONCLUSIVE
    budget = ruled.numbers["budget"]
    assert ("unless measured/predicted" in budget) == (width > 2)
    if width > 2 and abs(abs(place) - 1) <= 0.5:
        return
    half = value * float(re.match(r"--rel-tol ([\d.e-]+)", budget).group(1))
    narrow = Estimate(value, value - half, value + half, 0.99, 10_000, "test")
    assert judge(narrow, within) is (Verdict.CONFIRMED if abs(place) < 1 else Verdict.REFUTED)


@pytest.mark.parametrize(("kernel", "rate"), [("exp(-x)", -1), ("x*exp(2*x/tau)", 2.5)])
def test_a_divergence_is_explained_by_the_kernel_that_was_given(kernel, rate):
    found = point(kernel, tau="0.8")
    assert found["predicted"]["exact"] == "inf" or found["predicted"]["exact"] == math.inf
    assert "tau" not in found["reasons"]["exact"]
    assert f"b = {rate}" in found["reasons"]["exact"]
    (exact,) = [c.ruling for c in point_claims(found, 0.01) if c.id == "snr:exact"]
    assert (exact.verdict, exact.evidence) == (Verdict.CONFIRMED, Evidence.PROOF)  # a closed form, not a quadrature


def test_a_small_sample_is_not_said_to_have_a_heavy_tail(capsys, tmp_path):
    np.save(tmp_path / "k.npy", np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32))
    argv = ("snr", "--keys", str(tmp_path / "k.npy"), "--kernel", "exp", "--tau", "2", "--max-seconds", "0.05")
    _, out, _ = run(capsys, *argv)
    assert "nan" not in out
    assert re.search(r"wrote only \d+ memories, too few to tell how heavy its tail is", out)


def test_a_heavy_tail_is_still_said_to_be_heavy():
    note = "The direct simulation's tail is too heavy for the central limit theorem (Pareto k 0.93, …)"
    scaled = {"mean": _scaled(200), "median": _scaled(200)}
    measured = Measured("mean", scaled, ("unreached",), (note,), {"mean": Tail(5.0, 0.4, 0.93)})
    assert measured_json(measured)["notes"] == [note]


def _scaled(samples):
    from snr.estimate import Estimate
    from snr.measured import Scaled

    return Scaled(Estimate(1.0, 0.01, math.inf, 0.99, samples, "direct simulation"), 0.0)


def test_the_shown_measurement_is_the_one_that_judges():
    p = point("linear", statistic="median")
    assert p["best"] == "median"
    for statistic, label in (("fixed-probe", "measured mean for a fixed probe"), ("ratio-of-means", "ratio of means")):
        (table,) = point_tables(*judged(point("linear", statistic=statistic))[0])
        assert any(label in row[0] for row in table.rows)


def test_a_sweep_shows_the_exact_value_of_its_own_statistic():
    points = [point("linear", d=d, statistic="fixed-probe") for d in (8, 16)]
    table = curve_tables(judged(*points))[0]
    shown = [float(dict(zip(table.columns, row))["exact"]) for row in table.rows]
    assert shown == pytest.approx([p["predicted"]["fixed_probe"] for p in points], rel=1e-3)


@pytest.mark.parametrize(
    ("ruling", "words"),
    [
        (Ruling(Verdict.CONFIRMED, Evidence.STATISTICAL, "", {"within": 0.2}), "confirmed ±20 %"),
        (Ruling(Verdict.CONFIRMED, Evidence.STATISTICAL, "", {"within": 0.01}), "confirmed"),
        (Ruling(Verdict.CONFIRMED, Evidence.PROOF, ""), "confirmed"),
        (Ruling(Verdict.REFUTED, Evidence.STATISTICAL, "", {"within": 0.2}), "refuted"),
    ],
)
def test_a_coarse_confirmation_says_how_coarse(ruling, words):
    assert ruling.words == words


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        *((("snr", "--seed", s), "from 0 to 9223372036854775807") for s in ("1e30", str(2**200), "-1", "1.5")),
        (("snr", "--keys", "k.npy", "--heads", "5"), "--heads 5: the file says"),
        (("snr", "--keys", "k.npy", "--n", "9"), "--n 9: the file says"),
        (("snr", "--derive", "--plot", "a.svg"), "measures nothing to draw"),
        (("snr", "--plot", "a.svg", "--records", "./a.svg"), "the same file as --records"),
        (("snr", "--records", "a.jsonl", "--json", "./a.jsonl"), "the same file as --records"),
        (("capacity", "--kernel", "linear", "--temperature"), "with tau in it"),
        (("capacity", "--n", "5", "--simulate"), "without --n"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(capsys, tmp_path, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_formulas_and_temperatures_for_keys_from_a_file_are_judged_at_the_files_width(capsys, tmp_path):
    path = tmp_path / "k.npy"
    np.save(path, np.random.default_rng(0).standard_normal((8, 16)))
    argv = ("snr", "--keys", str(path), "--kernel", "linear", "--max-seconds", "0.1")
    assert run(capsys, *argv, "--predict", "N/(65-d)")[0] == 0
    status, _, err = run(capsys, *argv, "--predict", "N/(d-16)")
    assert status == 2
    assert "d = 16" in err


def test_options_given_twice_add_up_and_values_given_twice_are_one(capsys):
    status, out, _ = run(
        capsys, "snr", *QUICK, "--kernel", "linear", "--kernel", "relu", "linear", "--dk", "8", "--json", "-"
    )
    assert status == 0
    assert [p["kernel"] for p in json.loads(out)["points"]] == ["linear", "relu"]


def test_json_is_one_document_of_numbers(capsys, tmp_path):
    def refuse(name):
        raise AssertionError(name)

    np.save(tmp_path / "k.npy", np.random.default_rng(0).standard_normal((2, 8, 4)))
    stored = ("--keys", str(tmp_path / "k.npy"), "--max-seconds", "0.1")
    for argv in (
        (*QUICK, "--kernel", "x**-1", "exp(-x)", "--predict", "N/d"),
        (*QUICK, "--kernel", "exp", "--tau", "0.01"),
        (*stored, "--kernel", "exp", "x**-1", "--tau", "0.01"),
    ):
        _, out, _ = run(capsys, "snr", *argv, "--json", "-")
        found = json.loads(out, parse_constant=refuse)
        for claim in found["claims"]:
            at = {name: claim["numbers"][name] for name in ("kernel", "d", "n", "tau")}
            assert any(at.items() <= p.items() for p in found["points"])


def test_capacity_says_why_there_is_no_number(capsys):
    argv = ("--kernel", "x**2", "exp(-x)", "--dk", "4", "8", "--statistic", "exact")
    _, out, _ = run(capsys, "capacity", *argv)
    assert "x**2, N exact: none at d = 4: the mean diverges for d ≤ 4" in out
    assert "exp(-x), N exact: none at d = 4, 8: g(x) grows like e^(bx) with b = -1" in out


def test_records_say_what_differs_and_which_line_is_broken(capsys, tmp_path):
    path = tmp_path / "p.jsonl"
    argv = ("snr", *QUICK, "--kernel", "linear", "--records", str(path))
    assert run(capsys, *argv)[0] == 0
    _, _, err = run(capsys, *argv, "--within", "0.5")
    assert "another spec (other within)" in err
    path.write_text(path.read_text() + "[1]\n")
    _, _, err = run(capsys, *argv)
    assert "line 2 is no finished point" in err
