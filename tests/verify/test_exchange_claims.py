import pytest

from verify.claims import pE_complexity, pE_exchange
from verify.evidence import Evidence, Verdict

OTHERWISE = {
    "P-E2-four-exponentials": Verdict.REFUTED,
    "P-E2-eight-flat-exponentials": Verdict.REFUTED,
    "P-E-surpasses-tc0": Verdict.CONDITIONAL,
}
CLAIMS = (*pE_exchange.CLAIMS, *pE_complexity.CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_ruling_is_what_was_derived(claim):
    ruling = claim.decided().ruling
    assert ruling.verdict == OTHERWISE.get(claim.id, Verdict.CONFIRMED)
    assert ruling.detail
    assert "\n" not in ruling.detail


def test_a_separation_of_circuit_classes_is_never_confirmed():
    ruling = pE_complexity._surpasses_tc0()
    assert ruling.evidence == Evidence.LITERATURE
    assert "TC⁰ ≠ NC¹" in ruling.detail


def test_a_check_can_fail(monkeypatch):
    # negative control: with linear in place of round the replay's row is refuted
    from theorem import activations

    monkeypatch.setattr(activations, "activation", lambda name: activations.PLAIN["linear"])
    assert pE_exchange._replay().verdict == Verdict.REFUTED
    assert pE_exchange._rewriting().verdict == Verdict.REFUTED
