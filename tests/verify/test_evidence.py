import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.claims import ledger
from verify.evidence import Claim, Estimate, Evidence, Ruling, Verdict, judge


def interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 0.99, 100, "test")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.995, 1.005, Verdict.CONFIRMED),
        (0.99, 1.01, Verdict.CONFIRMED),
        (0.98, 1.005, Verdict.INCONCLUSIVE),  # the middle is inside, the interval is not
        (0.5, 2.0, Verdict.INCONCLUSIVE),  # a wide interval confirms nothing
        (1.011, 1.02, Verdict.REFUTED),
        (0.9, 0.989, Verdict.REFUTED),
        (1.005, 1.02, Verdict.INCONCLUSIVE),
    ],
)
def test_judged_by_the_whole_interval(low, high, expected):
    assert judge(interval(low, high), 0.01) == expected


@given(st.floats(0, 3), st.floats(0, 3), st.floats(0, 1), st.floats(1e-6, 1))
def test_narrowing_never_turns_confirmed_into_refuted(a, b, shrink, within):
    low, high = min(a, b), max(a, b)
    middle = (low + high) / 2
    inner = interval(middle - (middle - low) * shrink, middle + (high - middle) * shrink)
    before, after = judge(interval(low, high), within), judge(inner, within)
    assert before == Verdict.INCONCLUSIVE or before == after


@pytest.mark.parametrize("within", [0, -0.1, float("nan"), float("inf")])
def test_a_tolerance_must_be_declared(within):
    with pytest.raises(ValueError, match="within"):
        judge(interval(1, 1), within)


def test_claim_is_decided_by_its_check():
    ruling = Ruling(Verdict.REFUTED, Evidence.PROOF, "off by a factor 2", {"factor": 2})
    claim = Claim("x", "P eq. 1", "a = 2a", check=lambda: ruling).decided()
    assert claim.to_json()["verdict"] == "refuted"
    assert claim.to_json()["command"] == "python -m verify claims --only x"


def test_undecided_claim_has_no_json():
    with pytest.raises(ValueError, match="not been decided"):
        Claim("x", "P", "s").to_json()


def test_ledger_is_well_formed():
    for name, claim in ledger().items():
        assert claim.id == name
        assert claim.check is not None
        assert claim.source.strip()
        assert claim.statement.strip()
