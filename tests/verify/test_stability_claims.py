"""Rulings of D App. F and of the exact growth rows: they hold, and turn when what they check is broken."""

import pytest

from kernels import exact
from theorem import stability
from verify.claims import d_kernels, dF_stability
from verify.evidence import Evidence, Verdict


def test_condition_row_has_intervals_and_follows_its_limit(monkeypatch):
    monkeypatch.setattr(dF_stability, "COUNTS", (64,))
    monkeypatch.setattr(dF_stability, "WIDTHS", (32,))
    table = dF_stability.condition_table()
    assert all(
        e.low < e.value < e.high and e.samples == dF_stability.RUNS for row in table.values() for e in row.values()
    )
    ruling = dF_stability._condition()
    assert (ruling.verdict, ruling.evidence) == (Verdict.CONFIRMED, Evidence.STATISTICAL)
    monkeypatch.setattr(dF_stability, "LIMIT", 1.5)
    assert dF_stability._condition().verdict == Verdict.REFUTED
    monkeypatch.setattr(dF_stability, "LIMIT", 1e9)
    assert dF_stability._condition().verdict == Verdict.REFUTED


def test_rounding_row_is_refuted_by_a_larger_error(monkeypatch):
    assert dF_stability._growth().verdict == Verdict.CONFIRMED
    monkeypatch.setattr(stability, "_relative", lambda changed, true: 1.0)
    assert dF_stability._growth().verdict == Verdict.REFUTED


def test_many_intervals_hold_at_once_by_the_union_of_their_errors():
    # the least and the largest of n draws miss the median with probability 2^(1-n)
    assert "all 72 at once at 96.5 %" in dF_stability._simultaneous(72)


def test_growth_is_approached_and_never_attained_by_a_softmax():
    write, read = d_kernels._predecessor_softmax(5, 1000)
    assert [sum(row) for row in write] == [0, 1, 1, 1, 1]
    assert [sum(row) for row in read] == [1] * 5
    assert 4.9 < exact.row_sum_norm(exact.substitution_inverse(write)) < 5
    assert d_kernels.softmax_growth().verdict == Verdict.CONFIRMED


@pytest.mark.parametrize("name", ["softmax_growth", "o_is_no_less_stable"])
def test_exact_rows_turn_when_rows_do_not_sum_to_one(monkeypatch, name):
    def broken(length, odds):
        write, read = d_kernels._softmax_pair(d_kernels_weights(length))
        return 2 * write, 2 * read

    def d_kernels_weights(length):
        return [[1] * length] * length

    monkeypatch.setattr(d_kernels, "_predecessor_softmax", broken)
    assert getattr(d_kernels, name)().verdict == Verdict.REFUTED
