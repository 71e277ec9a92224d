from fractions import Fraction

import mpmath
import pytest

from snr.predictions import predict
from verify.claims import p2_1_capacity, p2_1_scaling, p2_1_trained_keys
from verify.evidence import Verdict

CLAIMS = (*p2_1_capacity.CLAIMS, *p2_1_scaling.CLAIMS)


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


def test_a_wrong_repair_is_refuted():
    assert p2_1_capacity._repaired_mean("linear", "1/(d - 2)").verdict == Verdict.CONFIRMED
    assert p2_1_capacity._repaired_mean("linear", "1/(d - 1)").verdict == Verdict.REFUTED
    assert p2_1_capacity._repaired_mean("exp", "(1 + 4/tau - 4/tau**2)**(-(d + 1)/2)").verdict == Verdict.REFUTED


@pytest.mark.parametrize(("d", "tau"), [(64, 2.0), (64, 0.5), (7, 1.0), (1, 1.0)])
def test_rational_bounds_on_the_pairs_held_enclose_the_bessel_function(d, tau):
    low, high = p2_1_scaling.sphere_pairs_bounds(d, 1 / Fraction(tau))
    assert low < high < low * (1 + Fraction(1, 10**20))
    direct = mpmath.exp(2 * d / tau) / mpmath.hyp0f1(d / 2, (d / tau) ** 2)
    assert float(low) == pytest.approx(float(direct), rel=1e-12)


def test_the_best_temperature_would_stand_if_colder_were_worse(monkeypatch):
    monkeypatch.setattr(p2_1_scaling, "sphere_pairs_bounds", lambda d, x: (1 / x, 1 / x))
    assert p2_1_scaling.best_temperature().verdict == Verdict.CONFIRMED


@pytest.mark.parametrize("name", ["linear", "exp"])
def test_heads_over_one_head_as_predicted_for_each_statistic(name):
    one, eight = predict(name, 100, 64, 8.0, typical=False), predict(name, 100, 64, 8**0.5, heads=8, typical=False)
    for statistic, field, formulas in (
        ("mean", "exact", p2_1_capacity.HEADS_MEAN),
        ("fixed_probe", "fixed_probe", p2_1_capacity.HEADS),
    ):
        found = p2_1_capacity.multi_head(statistic, formulas).numbers[name]["d = 64, H = 8"]
        assert found == pytest.approx(getattr(eight, field).value / getattr(one, field).value, rel=1e-12)
    assert p2_1_capacity.multi_head("fixed_probe", p2_1_capacity.HEADS_MEAN).verdict == Verdict.REFUTED


def test_every_row_on_the_inverse_snr_names_its_statistic():
    for claim in (*CLAIMS, *p2_1_trained_keys.CLAIMS):
        if "SNR⁻¹" in claim.statement:
            assert any(word in claim.statement for word in ("mean", "fixed probe", "probe of norm", "any recall")), (
                claim
            )
