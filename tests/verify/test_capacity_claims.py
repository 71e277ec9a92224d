from verify.claims.p2_1_capacity import CLAIMS
from verify.evidence import Verdict


def test_each_refuted_formula_has_a_confirmed_repair_and_every_repair_holds():
    rulings = {claim.id: claim.decided().ruling for claim in CLAIMS if claim.check}
    repaired = {claim.repairs for claim in CLAIMS if claim.repairs}
    for claim in CLAIMS:
        if claim.repairs:
            assert rulings[claim.id].verdict == Verdict.CONFIRMED, claim.id
            assert rulings[claim.repairs].verdict == Verdict.REFUTED, claim.repairs
    for name in ("P-2.1-eq7-linear", "P-2.1-eq13-exp", "P-2.1-eq15-relu", "P-2.1-eq17-solu"):
        assert name in repaired
    assert all("\n" not in ruling.detail for ruling in rulings.values())
    assert rulings["P-2.1-eq13-exp"].numbers["limit"] == "exp(4)"
    assert rulings["P-2.1-eq17-printed"].numbers["factor"] == "exp(2)"
