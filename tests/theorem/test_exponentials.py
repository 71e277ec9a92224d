import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from theorem.activations import Activation, activation, fitted_terms
from theorem.exchange import Gram, replay, signed_gram
from theorem.exponentials import (
    RADII,
    TARGETS,
    ExponentialSum,
    accumulated_error,
    best,
    interpolating,
    least_terms,
    longest_summable,
    summation_error,
)
from theorem.swaps import random_swaps


def rng(seed=0):
    return np.random.default_rng(seed)


def near(epsilon, count, seed=0):
    """Points of the neighbourhoods, ends included, and what f should be there."""
    inside = rng(seed).uniform(-1, 1, size=(4, count))
    inside[:, :2] = -1, 1
    x = np.array(TARGETS)[:, None] + epsilon * np.array(RADII)[:, None] * inside
    return x, np.repeat(np.array(TARGETS, dtype=float)[:, None], count, axis=1)


def test_the_radii_are_attained_and_never_exceeded():
    # every pattern of two written keys over up to four slots, products ±ε: the deviation from the one-hot value
    epsilon, worst = 0.1, dict.fromkeys(TARGETS, 0.0)
    written = [(i,) for i in range(4)] + [(i, j) for i in range(4) for j in range(i)]
    signs = rng(1).choice([-1.0, 1.0], size=(400, 4, 4))
    for s in np.concatenate([signs, np.ones((1, 4, 4)), -np.ones((1, 4, 4))]):
        gram = np.eye(4) + epsilon * (np.triu(s, 1) + np.triu(s, 1).T)
        for a in written:
            for b in written:
                product = sum((-1) ** p * (-1) ** q * gram[x, y] for p, x in enumerate(a) for q, y in enumerate(b))
                target = round(sum((-1) ** p * (-1) ** q * (x == y) for p, x in enumerate(a) for q, y in enumerate(b)))
                assert target in TARGETS  # the later slot first keeps −2 out
                worst[target] = max(worst[target], abs(product - target))
    assert worst == pytest.approx({c: r * epsilon for c, r in zip(TARGETS, RADII)})


def test_four_exponentials_interpolate_and_are_steep():
    four = interpolating(4)
    assert four(np.array(TARGETS, dtype=float)) == pytest.approx(TARGETS, abs=four.rounding(1e-12))
    matrix = np.exp(np.outer(TARGETS, np.arange(1, 5)))
    assert [float(a) for a in four.coefficients] == pytest.approx(np.linalg.solve(matrix, TARGETS), rel=1e-9)
    h = 1e-6
    for slope, x in zip(four.slopes(), TARGETS):
        ends = four(np.array([x - h, x + h]))
        assert slope == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-6)
    assert four.slopes()[3] > 300


def test_eight_exponentials_are_flat_at_the_points_and_curved_around_them():
    eight = interpolating(8)
    assert eight(np.array(TARGETS, dtype=float)) == pytest.approx(TARGETS, abs=1e-10)
    assert max(map(abs, eight.slopes())) < 1e-8
    quarter = eight.certified_error(1e-4) / eight.certified_error(2e-4)
    assert quarter == pytest.approx(1 / 4, rel=0.05)  # the error is quadratic in ε
    assert eight.certified_error(0.05) > interpolating(4).certified_error(0.05)
    with pytest.raises(ValueError, match="4 exponentials, or 8"):
        interpolating(5)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([2, 3, 5, 8, 13, 21, 34]),
    st.sampled_from([1 / 8, 0.09, 0.03, 0.01]),
    st.sampled_from([1.0, 0.4, 0.25]),
    st.integers(0, 2**32 - 1),
)
def test_no_point_errs_by_more_than_the_certified_error(terms, epsilon, rate, seed):
    fit = best(terms, epsilon, rate)
    x, target = near(epsilon, 500, seed)
    assert np.abs(fit.sum(x) - target).max() <= fit.upper + fit.sum.rounding(epsilon)
    assert 0.9 * fit.upper < fit.lower <= fit.upper


@pytest.mark.parametrize(("terms", "epsilon", "rate"), [(4, 0.125, 1.0), (7, 0.05, 1.0), (10, 0.09, 0.25)])
def test_the_fit_is_what_a_linear_programme_finds(terms, epsilon, rate):
    x, target = near(epsilon, 400)
    x, target = x.ravel(), target.ravel()
    y = np.exp(rate * x)
    s = 2 * (y - y.min()) / np.ptp(y) - 1
    basis = y[:, None] * np.polynomial.chebyshev.chebvander(s, terms - 1)
    rows = np.block([[basis, -np.ones((len(x), 1))], [-basis, -np.ones((len(x), 1))]])
    answer = linprog(
        np.r_[np.zeros(terms), 1.0],
        A_ub=rows,
        b_ub=np.r_[target, -target],
        bounds=[(None, None)] * terms + [(0, None)],
        method="highs",
    )
    fit = best(terms, epsilon, rate)
    assert answer.fun <= fit.upper
    assert answer.fun == pytest.approx(
        fit.lower, rel=0.02
    )  # 400 random points a neighbourhood miss the extrema a little


def test_the_certified_error_would_notice_a_narrow_bump():
    # negative control: the certificate must see an error that grows between the points of a coarse grid
    fit = best(6, 0.05)
    bumped = ExponentialSum(1.0, fit.sum.nodes, (*fit.sum.newton[:-1], fit.sum.newton[-1] * 1.05))
    x, target = near(0.05, 4000)
    assert bumped.certified_error(0.05) >= np.abs(bumped(x) - target).max() > fit.upper


def test_printed_coefficients_are_the_same_function():
    fit = best(12, 0.03)
    for x in (-1.05, 0.1, 1.0, 2.02):
        y = Fraction(math.exp(x))
        printed = float(sum(a * y**j for j, a in enumerate(fit.sum.coefficients, 1)))
        assert fit.sum(np.array([x]))[0] == pytest.approx(printed, abs=1e-11)


def test_cancellation_predicts_what_adding_the_terms_loses():
    fit = best(16, 0.05)
    x, target = near(0.05, 200)
    a = np.array([float(c) for c in fit.sum.coefficients])
    terms = a * np.exp(x.ravel()[:, None] * np.arange(1, 17))
    single = np.cumsum(terms.astype(np.float32), axis=1, dtype=np.float32)[:, -1]
    lost = np.abs(single - target.ravel()).max()
    assert fit.bits() > 24
    assert 1 < lost < 16 * 2.0**-24 * fit.sum.cancellation(0.05) * 2
    double = np.abs(terms.sum(axis=1) - target.ravel()).max()
    assert double < fit.upper + 32 * 2.0**-53 * fit.sum.cancellation(0.05)


def test_the_longest_summable_fit_is_where_more_terms_stop_helping():
    single = longest_summable(0.05, "fp32")
    assert single.bits() <= 24 < best(len(single.sum) + 1, 0.05).bits()
    double = longest_summable(0.05, "fp64")
    assert len(double.sum) > len(single.sum)
    assert double.upper < single.upper
    with pytest.raises(ValueError, match="fp8"):
        longest_summable(0.05, "fp8")


def test_least_terms_is_least():
    fit = least_terms(0.03, 0.005)
    assert fit.upper <= 0.005
    assert best(len(fit.sum) - 1, 0.03).lower > 0.005
    assert least_terms(1 / 8, 1e-3, most=20) is None


@pytest.mark.parametrize(
    ("terms", "epsilon", "rate", "words"),
    [
        (4, 0.0, 1.0, "coherence"),
        (4, 0.2, 1.0, "coherence"),
        (4, math.nan, 1.0, "coherence"),
        (0, 0.1, 1.0, "1 to 80"),
        (81, 0.1, 1.0, "1 to 80"),
        (4, 0.1, 0.0, "rate"),
        (4, 0.1, math.inf, "rate"),
        (60, 1e-3, 1.0, "does not resolve"),
    ],
)
def test_fits_that_cannot_be(terms, epsilon, rate, words):
    with pytest.raises(ValueError, match=words):
        best(terms, epsilon, rate)


@pytest.mark.parametrize("rewrite", [None, 5, 12])
@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("kind", ["coherent", "scattered"])
def test_the_replay_respects_the_bound_on_its_error(delta, rewrite, kind):
    n, steps = 9, 60
    shift = {
        "coherent": lambda x: np.rint(x) + delta,
        "scattered": lambda x: np.rint(x) + delta * np.sin(1e6 * x + 1),
    }[kind]
    gram = signed_gram(n, 0.1, rng(3))
    bound = accumulated_error(n, steps, delta + summation_error(n + steps), rewrite=rewrite)
    for seed in range(4):
        swaps = random_swaps(n, steps, rng(seed))
        found = replay(
            gram, swaps, Activation("perturbed", shift), rewrite=rewrite, checkpoints=range(steps + 1), block=7
        )
        for c in found.checkpoints:
            assert c.max_error <= bound[c.swap]


def test_rewriting_turns_quadratic_growth_into_linear():
    plain = accumulated_error(16, 4000, 1e-9)
    often = accumulated_error(16, 4000, 1e-9, rewrite=16)
    assert plain[4000] / plain[2000] == pytest.approx(4, rel=0.02)
    assert often[4000] / often[2000] == pytest.approx(2, rel=0.02)
    assert often[4000] < plain[4000] / 50
    assert np.isinf(accumulated_error(16, 4000, 0.5)[-1])


def test_orthonormal_keys_need_four_exponentials_only():
    n, steps = 20, 300
    found = replay(Gram(np.eye(n)), random_swaps(n, steps, rng(4)), activation("exp4"))
    bound = accumulated_error(n, steps, interpolating(4).rounding(1e-12) + summation_error(n + steps))
    assert found.first_wrong is None
    assert found.max_error <= bound[-1] < 1e-3


def test_names():
    assert activation("round").integer
    assert activation("exp9", 0.05).sum is not None
    assert fitted_terms("exp24") == 24
    assert fitted_terms("exp4") is None
    for name in ("exp3", "exp61", "exp", "expo", "Round", "", "exp05"):
        with pytest.raises(ValueError, match="expected round"):
            fitted_terms(name)
    with pytest.raises(ValueError, match="coherence"):
        activation("exp9")
    with pytest.raises(ValueError, match="1/8"):
        activation("exp9", 0.3)


@pytest.mark.parametrize("x", [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, -0.49999999999999994, 0.0, 3.0])
def test_rounding_rules_at_ties(x):
    assert activation("round").apply(np.array([x]))[0] == round(Fraction(x))
    away = math.copysign(math.floor(abs(Fraction(x)) + Fraction(1, 2)), x)
    assert activation("round-half-away").apply(np.array([x]))[0] == away
