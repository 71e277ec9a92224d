"""The obligations: all decided as stated, none vacuous, none that the solver could not have refuted."""

import dataclasses
import json
from fractions import Fraction
from itertools import product

import pytest

from theorem import smt
from theorem.obligations import FOUR_SLOTS, Obligation, _rounded, obligations, patterns
from theorem.rounding import RULES, round_fraction
from theorem.sharpness import every_two_swaps, keys_of
from theorem.smt import SolverMissing, counterexample, decide, prove, read_proof
from verify import cli
from verify.claims.pE_lemma import CLAIMS, RECORDED_PROOF
from verify.evidence import Evidence, Verdict

pytest.importorskip("z3")


def test_every_obligation_is_decided_as_stated_and_none_is_vacuous():
    proof = prove()
    assert proof.failures == ()
    assert proof.complete
    assert {a.hypotheses for a in proof.answers} == {"sat"}
    assert len(proof.answers) == len(obligations()) > 100


def test_patterns_are_all_ways_in_which_slots_coincide():
    """Any two swaps over many slots look, up to renaming, like (i, j) and exactly one of the patterns."""
    names = {0: "i", 1: "j", 2: "l", 3: "m"}
    expected = set()
    for first, second in product(product(range(4), repeat=2), repeat=2):
        if first[0] == first[1] or second[0] == second[1]:
            continue
        label = {first[0]: "i", first[1]: "j"}
        fresh = [s for s in second if s not in label]
        label |= {s: "lm"[second.index(s)] for s in fresh}
        expected.add(tuple(label[s] for s in second))
    assert expected == {key for key in patterns(ordered=False).values() if len(key) == 2}
    assert {key for key in patterns(ordered=False).values() if len(key) == 1} == {(names[k],) for k in range(3)}
    reversed_only = set(patterns(ordered=False)) - set(patterns(ordered=True))
    assert reversed_only == {"swap j i"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("x", [Fraction(k, 4) for k in range(-11, 12)])
def test_rounding_in_the_obligations_is_rounding(rule, x):
    """Spelt out for the solver, the rule has exactly one value, that of `round_fraction`."""
    ratio = f"(/ {abs(x.numerator)}.0 {x.denominator}.0)"
    argument = ratio if x >= 0 else f"(- {ratio})"
    lines = f"(set-logic ALL)\n(declare-const r Int)\n(assert {_rounded(argument, 'r', rule)})\n"
    value = round_fraction(x, rule)
    conclusion = f"(= r {value})" if value >= 0 else f"(= r (- {-value}))"
    answer = decide(Obligation("rounding", "", "unsat", lines, conclusion))
    assert answer.as_expected


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("lemma-1/distinct", "(< eps 0.125)", "(< eps 0.126)"),
        ("lemma-1/swap i m", "(< eps 0.125)", "(< eps 0.17)"),
        ("lemma-1/swap i j", "(< eps 0.125)", "(< eps 0.26)"),
        ("lemma-1/slot l", "(< eps 0.125)", "(< eps 0.26)"),
        ("three-slots/swap i m", "(/ 1.0 6.0)", "(/ 1.0 5.9)"),
        ("assumption-2/swap i j", "(* 2 eps)", "(* 1.9 eps)"),
        ("assumption-2/distinct", "(* 4 eps)", "(* 3.9 eps)"),
        ("gram-from-assumption-1/distinct", "(< eps 0.125)", "(<= eps 0.125)"),
        ("gram-sufficient-half-even/distinct", "(- 0.5)", "(- 0.51)"),
        ("necessary/two swaps, distinct", "(not (= u1 0))", "true"),
        ("induction/swap, slot i", "(- a b)", "(- b a)"),
        ("induction/sum", "(- f_i f_j)", "(+ f_i f_j)"),
        ("necessary/one swap", "(>= (- d_i d_j) 0)", "true"),
    ],
)
def test_a_weaker_hypothesis_is_refuted(name, old, new):
    """The proofs can fail: each of these statements is false, and the solver says so."""
    obligation = obligations()[name]
    assert old in obligation.hypotheses
    false = dataclasses.replace(obligation, hypotheses=obligation.hypotheses.replace(old, new))
    assert decide(false).result == "sat"


@pytest.mark.parametrize(
    ("name", "rules", "coherence"),
    [
        ("above-eighth/eps = 0.126", RULES, Fraction(63, 500)),
        ("eighth-half-away/distinct", ("half-away",), Fraction(1, 8)),
    ],
)
def test_models_become_four_explicit_keys_that_fail(name, rules, coherence):
    gram = counterexample(obligations()[name])
    keys = keys_of(gram)
    slots = "ijlm"
    for (a, b), value in gram.items():
        assert Fraction(int(keys.z[slots.index(a)] @ keys.z[slots.index(b)]), keys.scale) == value
    assert keys.coherence_squared == coherence**2
    for rule in rules:
        assert every_two_swaps(keys, rule) is not None


def test_no_counterexample_to_what_is_proved():
    with pytest.raises(ValueError, match="has no model"):
        counterexample(obligations()[f"lemma-1/{FOUR_SLOTS}"])


def test_the_recorded_proof_is_of_the_statements_as_they_are():
    recorded = read_proof(RECORDED_PROOF)
    assert {a.sha256 for a in recorded.answers} == {o.sha256 for o in obligations().values()}
    assert recorded.complete
    assert recorded.solver == "z3"
    assert recorded.version


def without_z3(monkeypatch):
    def absent():
        raise SolverMissing(smt.INSTALL)

    monkeypatch.setattr(smt, "_z3", absent)


def test_without_z3_the_record_answers_for_the_same_text_only(monkeypatch, tmp_path):
    without_z3(monkeypatch)
    proof = prove("lemma-1", record=RECORDED_PROOF)
    assert proof.complete
    assert proof.origin == RECORDED_PROOF.name
    with pytest.raises(SolverMissing, match="pip install"):
        prove("lemma-1", record=tmp_path / "none.json")
    with pytest.raises(SolverMissing, match="pip install"):
        prove()
    fields = json.loads(RECORDED_PROOF.read_text())
    for answer in fields["answers"]:
        answer["sha256"] = answer["sha256"][::-1]
    stale = tmp_path / "stale.json"
    stale.write_text(json.dumps(fields))
    with pytest.raises(SolverMissing, match="as it is stated now"):
        prove("lemma-1", record=stale)
    stale.write_text("[]")
    with pytest.raises(ValueError, match="not a recorded proof"):
        prove("lemma-1", record=stale)


def test_ledger_rows_name_the_record_without_z3(monkeypatch):
    without_z3(monkeypatch)
    row = {claim.id: claim for claim in CLAIMS}["P-E-lemma-1"].decided()
    assert row.ruling.verdict == Verdict.CONFIRMED
    assert "recorded in smt.json" in row.ruling.detail
    assert row.ruling.numbers["version"]


def test_ledger_rows_say_how_to_install_without_z3_and_record(monkeypatch, tmp_path):
    without_z3(monkeypatch)
    monkeypatch.setattr("verify.claims.pE_lemma.RECORDED_PROOF", tmp_path / "none.json")
    ruling = {claim.id: claim for claim in CLAIMS}["P-E-theorem-1"].decided().ruling
    assert ruling.verdict == Verdict.INCONCLUSIVE
    assert "pip install" in ruling.detail


def test_unknown_is_inconclusive_and_a_model_refutes(monkeypatch):
    claim = {claim.id: claim for claim in CLAIMS}["P-E-lemma-1"]
    monkeypatch.setattr(smt, "_check", lambda text: "unknown")
    assert claim.decided().ruling.verdict == Verdict.INCONCLUSIVE
    monkeypatch.setattr(smt, "_check", lambda text: "sat")
    assert claim.decided().ruling.verdict == Verdict.REFUTED


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_ledger_rows_are_confirmed_by_proof(claim):
    ruling = claim.decided().ruling
    assert (ruling.verdict, ruling.evidence) == (Verdict.CONFIRMED, Evidence.PROOF), ruling.detail
    assert ruling.numbers


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def test_verify_prove_writes_record_and_scripts(capsys, tmp_path):
    record, scripts = tmp_path / "smt.json", tmp_path / "smt2"
    argv = ("prove", "--only", "induction", "--record", str(record), "--smtlib", str(scripts))
    status, out, _ = run(capsys, *argv)
    assert status == 0
    assert "all decided as stated" in out
    assert read_proof(record).complete
    names = [name for name in obligations() if name.startswith("induction")]
    assert len(list(scripts.iterdir())) == len(names)
    assert all("; expected: unsat" in path.read_text() for path in scripts.iterdir())


def test_verify_prove_shows_models_as_keys_that_fail(capsys):
    status, out, _ = run(capsys, "prove", "--only", "above-eighth", "eighth-half-away", "--json", "-")
    points = {p["name"]: p for p in json.loads(out)["points"]}
    assert status == 0
    for name, coherence in (("above-eighth/eps = 0.126", 0.126), ("eighth-half-away/distinct", 0.125)):
        found = points[name]["counterexample"]
        assert found["coherence"] == pytest.approx(coherence)
        assert len(found["keys"]) == 4
        assert found["wrong"]["step"] == 2
    assert points["above-eighth/every eps"]["counterexample"] is None


def test_verify_prove_answers_bad_input_in_one_line(capsys, monkeypatch):
    status, _, err = run(capsys, "prove", "--only", "nonsense")
    assert (status, err.count("\n")) == (2, 1)
    assert "--only nonsense" in err
    without_z3(monkeypatch)
    status, _, err = run(capsys, "prove")
    assert (status, err.count("\n")) == (2, 1)
    assert "pip install z3-solver" in err
