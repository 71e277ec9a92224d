"""`verify snr` as a user meets it. Statistical assertions use 99 % intervals at a fixed seed: each may fail by
chance with probability 1 % when the seed or a stream changes, and never at the same seed."""

import json
import math

import pytest

from verify import cli

QUICK = ("--max-seconds", "20", "--rel-tol", "0.1", "--n", "32", "--dk", "8")


def run(capsys, *argv):
    status = cli.main(["snr", *argv])
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def measured(capsys, *argv):
    status, out, err = run(capsys, *QUICK, *argv, "--json", "-")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("kernel", ["linear", "relu", "exp", "solu", "x**3"])
def test_a_point_keeps_the_contract(capsys, kernel):
    found = measured(capsys, "--kernel", kernel)
    (point,) = found["points"]
    assert {"kernel", "d", "n", "tau", "keys", "predicted", "measured"} <= set(point)
    assert {"paper", "exact", "fixed_probe", "typical"} <= set(point["predicted"])
    for name in ("mean", "importance", "median"):
        assert {"value", "low", "high", "confidence", "samples", "method"} <= set(point["measured"][name])
    assert (point["predicted"]["paper"] is None) == (kernel == "x**3")
    best = point["measured"]["importance"]
    assert best["low"] <= point["predicted"]["exact"] <= best["high"]
    for claim in found["claims"]:
        assert {"id", "source", "statement", "verdict", "evidence", "detail", "numbers"} <= set(claim)


def test_same_seed_same_digits_other_seed_others(capsys):
    first, again, other = (measured(capsys, "--seed", seed)["points"] for seed in ("1", "1", "2"))
    assert first == again
    assert first[0]["measured"] != other[0]["measured"]


def test_a_point_does_not_depend_on_its_neighbours(capsys):
    alone = measured(capsys, "--kernel", "relu")["points"]
    among = measured(capsys, "--kernel", "linear", "relu", "--tau", "2", "sqrt")["points"]
    assert alone[0] in among


def test_two_processes_give_the_same_digits(capsys):
    argv = ("--kernel", "linear", "relu")
    assert measured(capsys, *argv)["points"] == measured(capsys, *argv, "--workers", "2")["points"]


def test_where_the_mean_diverges_the_formula_is_refuted_and_the_median_stands(capsys):
    found = measured(capsys, "--kernel", "exp", "--tau", "0.8")
    (point,) = found["points"]
    assert point["predicted"]["exact"] == "inf"
    assert math.isfinite(point["predicted"]["paper"])
    verdicts = {c["id"]: c for c in found["claims"]}
    assert verdicts["snr:paper"]["verdict"] == "refuted"
    assert verdicts["snr:paper"]["evidence"] == "proof"
    assert "diverges" in point["flags"]
    median = point["measured"]["median"]
    assert median["low"] <= point["predicted"]["typical"] <= median["high"]


@pytest.mark.parametrize("kernel", ["x**-1", "log(abs(x))", "exp(exp(x))"])
@pytest.mark.parametrize("where", ["mean", "fixed-probe", "median", "sphere"])
def test_a_pole_is_no_warning_and_no_finite_interval(capsys, kernel, where):
    """g is infinite at x = 0, or beyond what floats hold: a warning would fail the test."""
    law = ("--keys", "sphere") if where == "sphere" else ("--statistic", where)
    found = measured(capsys, "--kernel", kernel, *law, "--max-seconds", "0.3")["points"][0]
    if kernel != "exp(exp(x))" or where != "sphere":  # bounded by ‖k‖² = d, the last one has a mean
        assert found["measured"]["importance"] is None
        assert found["measured"]["mean"]["high"] == "inf"
    assert where == "median" or found["flags"]


def test_an_infinite_signal_has_no_prediction(capsys):
    (point,) = measured(capsys, "--kernel", "1/(d - x)", "--keys", "sphere", "--max-seconds", "0.3")["points"]
    assert point["predicted"]["exact"] is None
    assert "infinite" in point["reasons"]["exact"]


@pytest.mark.parametrize(
    ("formula", "verdict"),
    [("(N-1)/(d-2)", "confirmed"), ("1.2*(N-1)/(d-2)", "refuted"), ("0.8*(N-1)/(d-2)", "refuted")],
)
def test_a_user_formula_is_judged(capsys, formula, verdict):
    found = measured(capsys, "--kernel", "linear", "--predict", formula, "--within", "0.05", "--rel-tol", "0.01")
    (claim,) = [c for c in found["claims"] if c["id"] == f"snr:{formula}"]
    assert claim["verdict"] == verdict


def test_inconclusive_says_what_would_decide(capsys):
    found = measured(capsys, "--kernel", "linear", "--predict", "(N-1)/(d-2)", "--within", "0.001")
    (claim,) = [c for c in found["claims"] if c["id"].startswith("snr:(")]
    assert claim["verdict"] == "inconclusive"
    assert "--rel-tol" in claim["detail"]


@pytest.mark.parametrize("statistic", ["fixed-probe", "ratio-of-means", "median"])
def test_each_statistic_meets_its_own_prediction(capsys, statistic):
    found = measured(capsys, "--kernel", "linear", "--statistic", statistic)
    name = "snr:typical" if statistic == "median" else "snr:exact"
    ratio = next(c for c in found["claims"] if c["id"] == name)["numbers"]["ratio"]
    assert ratio["low"] <= 1 <= ratio["high"]


def test_finished_points_are_kept_and_reused(capsys, tmp_path, monkeypatch):
    path = tmp_path / "p.jsonl"
    first = measured(capsys, "--kernel", "linear", "relu", "--records", str(path))
    assert len(path.read_text().splitlines()) == 2
    monkeypatch.setattr("verify.capacity_point.measure_point", lambda *a: pytest.fail("computed again"))
    assert measured(capsys, "--kernel", "linear", "relu", "--records", str(path))["points"] == first["points"]
    status, _, err = run(capsys, *QUICK, "--kernel", "linear", "--records", str(path))
    assert status == 2
    assert "another spec" in err


def test_an_interrupt_keeps_the_finished_points(capsys, tmp_path, monkeypatch):
    from verify import capacity_point

    real, calls = capacity_point.measure_point, []

    def interrupted(spec, progress=None):
        calls.append(spec["kernel"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(spec, progress)

    monkeypatch.setattr(capacity_point, "measure_point", interrupted)
    path = tmp_path / "p.jsonl"
    status, _, err = run(capsys, *QUICK, "--kernel", "linear", "relu", "--records", str(path))
    assert (status, err) == (130, "interrupted\n")
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_curves_are_drawn(capsys, tmp_path, kind):
    path = tmp_path / f"c.{kind}"
    status, out, _ = run(capsys, *QUICK, "--kernel", "linear", "--dk", "4", "8", "--plot", str(path))
    assert status == 0
    assert f"wrote {path}" in out
    assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_derivation_is_shown(capsys):
    status, out, _ = run(capsys, "--kernel", "exp", "--derive")
    assert status == 0
    for shown in ("R_P = ", "R_fixed = ", "R_mean = ", "R_ratio = ", "R_sphere = ", "R_typical", "typical"):
        assert shown in out


def test_the_derivation_for_stored_keys_shows_the_effective_dimension(capsys, tmp_path):
    import numpy as np

    np.save(tmp_path / "keys.npy", np.random.default_rng(0).standard_normal((30, 4)))
    at = ("--derive", "--keys", str(tmp_path / "keys.npy"))
    for kernel, formula in (("linear", "(N - 1)/d_eff"), ("relu", "(N/2 - 1/2)/d_eff")):
        status, out, _ = run(capsys, *at, "--kernel", kernel)
        assert status == 0
        assert f"R_effective = {formula}" in out
        assert "d_eff = tr(C)**2/tr(C^2)" in out
        assert "for a law between 1 (one" in out
        assert "d_eff is above d" in " ".join(out.split())
    assert run(capsys, "--derive", "--keys", str(tmp_path / "none.npy"))[0] == 2


@pytest.mark.parametrize(("heads", "told"), [((1.0,), True), ((1.0, 0.0), True), ((0.0,), False)])
def test_an_effective_dimension_above_the_width_is_noted(capsys, tmp_path, heads, told):
    """Two keys of d = 3 at a cosine of 1/4 in a head (d_eff = 16), or of 1 (d_eff = 1)."""
    import numpy as np

    apart = [[1.0, 0.0, 0.0], [0.25, math.sqrt(15) / 4, 0.0]]
    np.save(tmp_path / "keys.npy", np.array([apart if h else [apart[0]] * 2 for h in heads]))
    argv = ("--kernel", "linear", "--keys", str(tmp_path / "keys.npy"), "--rel-tol", "0.5", "--json", "-")
    _, out, _ = run(capsys, *argv)
    (point,) = json.loads(out)["points"]
    notes = [note for note in point["notes"] if "exceeds d = 3" in note]
    assert len(notes) == told
    assert all("d_eff = 16 " in note for note in notes)
    assert all(("in 1 of 2 heads" in note) == (len(heads) > 1) for note in notes)


@pytest.mark.parametrize("kernel", ["max(0,x-300)", "exp(exp(x))", "tanh(x-20)+1", "abs(x)**-0.49", "exp(-exp(x))"])
def test_no_warning_reaches_a_user(kernel):
    """In a process of its own: of the thread that computes predictions, pytest does not see the warnings."""
    import subprocess
    import sys

    argv = ("--kernel", kernel, "--n", "8", "--dk", "32", "--max-seconds", "0.2", "--quiet")
    done = subprocess.run([sys.executable, "-m", "verify", "snr", *argv], capture_output=True, text=True, check=False)
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        *((("--dk", x), "--dk") for x in ("0", "-1", "nan", "inf", "1e400", "", "1.5")),
        *((("--n", x), "--n") for x in ("0", "1", "-1", "nan", "")),
        *((("--tau", x), "--tau") for x in ("0", "-1", "nan", "inf", "1e400", "", "x", "d - 64")),
        *((("--rel-tol", x), "--rel-tol") for x in ("0", "-1", "nan", "inf", "")),
        *((("--within", x), "--within") for x in ("0", "-1", "nan", "inf", "")),
        *((("--max-seconds", x), "--max-seconds") for x in ("0", "-1", "nan", "1e400")),
        *((("--seed", x), "--seed") for x in ("-1", "x", "1e3", "")),
        *((("--confidence", x), "--confidence") for x in ("0", "1", "nan", "")),
        *(
            (("--kernel", x), "--kernel")
            for x in ("", "__import__('os')", "y", "x +", "1", "open('f')", "x.real", "9**9**9")
        ),
        *((("--predict", x), "--predict") for x in ("", "x", "__import__('os')", "N/(d-64)", "-N", "log(0)")),
        *((("--kernel", x), "--kernel") for x in ("log(x)", "sqrt(x)", "x**0.5")),
        *((("--tau", x), "--tau") for x in ("1e-300", "1e300")),
        (("--normalise",), "--normalise"),
        (("--kernel", "linear", "--statistic", "recall-error"), "--kernel"),
        (("--heads", "3"), "--heads"),
        (("--values", "cauchy"), "--values"),
        (("--statistic", "mode"), "--statistic"),
        (("--plot", "c.pdf"), "--plot"),
        (("--plot", "/nonexistent/c.svg"), "--plot"),
        (("--records", "/nonexistent/p.jsonl"), "--records"),
        (("--keys", "/nonexistent/k.npy"), "--keys"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(capsys, argv, names):
    status, out, err = run(capsys, "--max-seconds", "5", *argv)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err


def test_a_number_beyond_the_floats_is_no_divergence(capsys):
    """exp at d = 16384, tau = 0.9: the mean is about 10^2424 and finite."""
    status, out, _ = run(
        capsys, "--dk", "16384", "--n", "8", "--tau", "0.9", "--max-seconds", "2", "--within", "0.5", "--json", "-"
    )
    found = json.loads(out)
    assert status == 0
    assert found["points"][0]["predicted"]["exact"] is None
    assert found["points"][0]["predicted_log"]["exact"] > 709
    exact = next(c for c in found["claims"] if c["id"] == "snr:exact")
    assert exact["evidence"] == "statistical"
    assert "diverges" not in exact["detail"]


@pytest.mark.parametrize("statistic", ["fixed-probe", "ratio-of-means"])
def test_a_verdict_stands_beside_the_value_that_it_judges(capsys, statistic):
    row = {"fixed-probe": "exact, probe of norm", "ratio-of-means": "exact ratio of means"}[statistic]
    status, out, _ = run(capsys, *QUICK, "--kernel", "linear", "--statistic", statistic, "--within", "0.5")
    judged = [line for line in out.splitlines() if "confirmed" in line and line.strip().startswith("exact")]
    assert status == 0
    assert len(judged) == 1
    assert row in judged[0]


@pytest.mark.parametrize("keys", ["gaussian", "sphere"])
def test_recall_error_meets_its_exact_value(capsys, keys):
    found = measured(capsys, "--statistic", "recall-error", "--keys", keys)
    (claim,) = found["claims"]
    ratio = claim["numbers"]["ratio"]
    assert ratio["low"] <= 1 <= ratio["high"]
    assert found["points"][0]["predicted"]["recall_error"] < 1


def test_values_of_fixed_norm_and_small_width_have_no_typical_value_to_judge(capsys):
    found = measured(capsys, "--kernel", "relu", "--values", "unit", "--dv", "3")
    assert "snr:typical" not in {c["id"] for c in found["claims"]}


def test_values_of_fixed_norm_have_their_own_typical_value(capsys):
    found = measured(capsys, "--kernel", "linear", "--values", "signs", "--statistic", "median", "--within", "0.1")
    (typical,) = (c for c in found["claims"] if c["id"] == "snr:typical")
    assert typical["numbers"]["ratio"]["low"] <= 1 <= typical["numbers"]["ratio"]["high"]


def test_a_claim_names_the_command_that_decides_it(capsys):
    found = measured(capsys, "--kernel", "linear", "--predict", "N/d")
    assert all(c["command"].startswith("python -m verify snr ") for c in found["claims"])
    assert "--predict N/d" in found["claims"][0]["command"]


@pytest.mark.parametrize("options", [("--kernel", "exp", "--keys", "sphere"), ("--kernel", "cosexp")])
def test_the_ratio_of_means_of_keys_of_one_norm_is_divided_by_their_signal(capsys, options):
    found = measured(capsys, *options, "--statistic", "ratio-of-means")
    (point,) = found["points"]
    for name in ("mean", "importance"):
        assert point["measured"][name]["low"] <= point["predicted"]["ratio_of_means"] <= point["measured"][name]["high"]


def test_a_divergence_found_by_quadrature_is_no_proof_for_an_expression(capsys):
    """For exp the divergence is derived; of |x|^{−1/2} the quadrature only says that it finds no finite mean."""
    verdicts = {}
    for kernel in ("abs(x)**-0.5", "exp"):
        found = measured(capsys, "--kernel", kernel, "--tau", "0.5")
        verdicts[kernel] = {c["id"]: c["verdict"] for c in found["claims"]}["snr:exact"]
    assert verdicts == {"abs(x)**-0.5": "inconclusive", "exp": "confirmed"}


def test_the_exact_sum_is_left_out_for_very_many_keys(capsys, monkeypatch, tmp_path):
    import numpy as np

    from verify import stored_keys

    monkeypatch.setattr(stored_keys, "MOST_PAIRS", 99)
    np.save(tmp_path / "two:b.npy", np.random.default_rng(0).standard_normal((10, 4)))
    status, out, _ = run(capsys, "--keys", str(tmp_path / "two:b.npy"), "--kernel", "linear", "--max-seconds", "5")
    assert status == 0
    (row,) = [line for line in out.splitlines() if "these very keys" in line]
    assert "none" in row
    assert "more than 99 pairs of keys to sum over" in row


def test_records_that_cannot_be_read_again_are_refused(capsys):
    status, out, err = run(capsys, *QUICK, "--kernel", "linear", "--records", "/dev/null")
    assert (status, out) == (2, "")
    assert "is no regular file" in err
