"""DeltaFormer's algebra: derivation and counted operations."""

from fractions import Fraction

import numpy as np
import pytest

from theorem import operation_counts, recurrence


@pytest.mark.parametrize("length", [1, 2, 4])
def test_derivation_and_gradient_step(length):
    assert recurrence.derived_equals_recurrence(length)
    assert recurrence.kernel_delta_rule_is_a_gradient_step(length, 2)


@pytest.mark.parametrize(("length", "width", "chunk"), [(24, 3, 4), (23, 5, 6), (7, 2, 8), (1, 1, 1)])
def test_all_forms_compute_the_same(length, width, chunk):
    sequence = operation_counts.draw(length, width, chunk, seed=3)
    results = [form(sequence, operation_counts.Counter()) for form in operation_counts.FORMS.values()]
    for u, o in results[1:]:
        assert np.abs(u - results[0][0]).max() < 1e-11
        assert np.abs(o - results[0][1]).max() < 1e-11


def test_counts_of_one_small_run_by_hand():
    # recurrent, T = 2, d = 3: one past key scored and mixed (2·3), then one and two keys for o (2·3·3)
    assert operation_counts.counted("recurrent", 2, 3, 1).operations == 6 + 18


def test_coefficients_are_the_polynomials_of_the_ledger():
    found = operation_counts.coefficients("chunk-wise, substitution")
    assert found == {"T²d": 2, "TCd": 2, "TC²": Fraction(1, 6), "Td": 0, "T": Fraction(-1, 6)}
    with pytest.raises(ValueError, match="not a combination"):
        operation_counts.coefficients("chunk-wise, nilpotent product")
