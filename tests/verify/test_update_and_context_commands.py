"""`verify update` and `verify context` as a user meets them."""

import json

import pytest

from verify import cli


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def test_one_rule_is_explained_and_its_point_is_complete(capsys):
    status, out, _ = run(capsys, "update", "--rule", "deltanet", "--json", "-")
    found = json.loads(out)
    assert status == 0
    (point,) = found["points"]
    assert point["rule"] == "deltanet"
    assert point["gradient_identity"] is True
    assert point["bounded_below"] is True
    assert point["spectrum"] == [["1", "d_v*(d - 1)"], ["1 - beta*norm2(k)", "d_v"]]
    (claim,) = found["claims"]
    assert (claim["id"], claim["verdict"], claim["evidence"]) == ("P-2.2-rule-deltanet", "confirmed", "proof")
    status, out, _ = run(capsys, "update", "--rule", "rwkv7")
    assert "obstruction" in out
    assert "diag(a)" in out


def test_a_users_rule_with_a_potential_prints_it(capsys):
    status, out, _ = run(capsys, "update", "--B", "I - beta*k*k.T", "--C", "beta*v*k.T")
    assert status == 0
    assert "norm2(S)/2 - tr(" in out
    assert "exists" in out


def test_a_users_rule_without_one_prints_the_obstruction_and_fails_strict(capsys):
    status, out, _ = run(capsys, "update", "--B", "I - beta*k*k2.T", "--strict")
    assert status == 1
    assert "(J - Jᵀ)/2" in out
    status, out, _ = run(capsys, "update", "--B", "I - beta*k*k2.T", "--json", "-")
    (point,) = json.loads(out)["points"]
    assert point["potential_exists"] is False
    assert point["obstruction"][0][1] != "0"


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("update", "--rule", "nonsense"), "--rule nonsense"),
        (("update", "--rule", "deltanet", "--A", "I"), "either --rule or --A"),
        (("update", "--A", "__import__('os')"), "A = __import__('os')"),
        (("update", "--B", "k"), "B = k"),
        (("update", "--C", "1e400*S"), "C = 1e400*S"),
        (("update", "--A", " "), "--A"),
        (("update", "--A", ""), "--A: '': empty"),
        (("update", "--B", "I/0"), "division by zero"),
        (("update", "--B", "I/(norm2(k) - norm2(k))"), "division by zero"),
        (("update", "--B", "sqrt(0-1)*I"), "sqrt of a negative number"),
        (("update", "--B", "inv(k*k.T)"), "singular"),
        (("claims", "--only", ""), "--only: '': empty"),
        (("claims", "--list", "--markdown", "x.md"), "--markdown x.md"),
        (("update", "--C", "norm2(S)**8*S"), "degree at most 4"),
        (("context", "--d", "0"), "--d"),
        (("context", "--tokens", "4", "--d", "8"), "--tokens 4"),
        (("context", "--beta", "nan"), "--beta"),
        (("context", "--beta", "-1"), "--beta"),
        (("context", "--t", "0"), "--t"),
        (("context", "--runs", "11"), "--runs"),
        (("context", "--runs", "10000", "--t", "100000"), "--runs 10000"),
        (("context", "--step", "other"), "--step"),
        (("context", "--condition", "0.5"), "--condition"),
        (("context", "--seed", "-1"), "--seed"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, argv, names):
    status, out, err = run(capsys, *argv)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err


def test_context_reports_every_step_and_memory(capsys):
    argv = ("context", "--d", "4", "--tokens", "6", "--runs", "12", "--t", "8", "40", "--change", "32", "--json", "-")
    status, out, err = run(capsys, *argv)
    assert (status, err) == (0, "")
    points = json.loads(out)["points"]
    steps = [p for p in points if "beta" in p and p["beta"] is not None]
    assert {(p["step"], p["beta"], p["t"]) for p in steps} == {
        (s, b, t) for s in ("raw", "normalised", "key") for b in (1.0, 0.05) for t in (8, 40)
    }
    raw = next(p for p in steps if p["step"] == "raw" and p["beta"] == 1.0)
    assert raw["limit_rms"] == "inf"  # above 2/(d+2)
    assert next(p for p in steps if p["step"] == "raw" and p["beta"] == 0.05)["limit_rms"] > 0
    assert all(p["distance"]["low"] <= p["distance"]["value"] <= p["distance"]["high"] for p in steps if p["t"] == 8)
    assert [p["t"] for p in points if p.get("step") == "least squares"] == [8, 40]
    assert {p["t0"] for p in points if p.get("recovery") == "softmax"} == {64, 256, 1024}
    assert len([p for p in points if "memory" in p]) == 9


def test_context_says_where_a_square_projection_leads(capsys):
    status, out, _ = run(capsys, "context", "--d", "3", "--runs", "12", "--t", "8", "--change", "16", "--step", "raw")
    assert status == 0
    assert "whatever the context" in out


def test_a_rule_too_large_to_expand_is_undecided_in_time(capsys, monkeypatch):
    from theorem import user_rule

    monkeypatch.setattr(user_rule.examine, "__defaults__", (0, 0.2))
    argv = ("update", "--B", "(M*M*M*M*M*M*M*M)*(M.T*M*M*M*M*M)", "--json", "-", "--strict")
    status, out, _ = run(capsys, *argv)
    (claim,) = json.loads(out)["claims"]
    assert status == 3
    assert claim["verdict"] == "inconclusive"
    assert "no symmetric Jacobian" in claim["detail"]


def test_time_limit_leaves_no_alarm_behind():
    import signal

    from theorem.user_rule import time_limit

    with time_limit(100.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(TimeoutError), time_limit(0.05):
        signal.pause()


def test_summary_counts_the_rules_without_an_objective(capsys):
    _, out, _ = run(capsys, "update", "--rule", "linear", "deltaproduct", "rwkv7")
    assert "of 3 rules 2 are gradient steps" in out
    assert "1 of these preconditioned, and 1 of none" in out.replace("\n", " ")


def test_context_at_a_width_where_the_delta_rule_is_slow(capsys):
    argv = ("context", "--d", "128", "--t", "4", "--runs", "12", "--change", "16", "--beta", "0.5", "--json", "-")
    status, out, err = run(capsys, *argv)
    points = json.loads(out)["points"]
    assert status == 0
    assert "Warning" not in err
    assert all(p["half_time"]["low"] <= p["half_time"]["value"] for p in points if "recovery" in p)
    assert all(p["end"]["low"] >= 0 for p in points if "memory" in p)
    moved = [p["moved"] for p in points if "moved" in p]
    assert moved[0] < 1e-9 < 0.01 < min(moved[1:])


def test_ledger_shows_the_command_of_each_row_and_lists_as_json(capsys):
    _, out, _ = run(capsys, "claims", "--only", "P-slip-curriculum")
    assert "python -m verify claims --only" in out
    _, out, _ = run(capsys, "claims", "--only", "D-T6", "--list", "--json", "-")
    found = json.loads(out)
    assert {p["id"]: p["command"] for p in found["points"]}["D-T6-one-launch"] == "python -m kernels.bench"
    assert found["claims"] == []
