"""Infinite context: exact limits against brute force and simulation.

Statistical tests compare with intervals of five standard errors; with some twenty comparisons the chance that a true
statement fails at a new seed is below 2e-5. Seeds are fixed.
"""

import math

import numpy as np
import pytest
import sympy

from theorem import context, context_runs, in_context


def close(draws, expected, errors=5):
    draws = np.asarray(draws)
    return abs(draws.mean() - expected) <= errors * draws.std(ddof=1) / math.sqrt(len(draws))


def test_optimum_is_least_squares_on_many_tokens():
    w_k, w_v = context.projections(3, 5, 2, 4.0, 0)
    root = np.linalg.cholesky(np.eye(5) + 0.3)
    found = context_runs.least_squares(w_k, w_v, root, 200_000, 0)
    assert np.abs(found - context.optimum(w_k, w_v, root @ root.T)).max() < 0.01


def test_optimum_of_a_square_projection_ignores_the_context():
    w_k, w_v = context.projections(4, 4, 3, 2.0, 1)
    for root in (np.eye(4), np.diag([1.0, 5.0, 0.1, 2.0])):
        assert np.allclose(context.optimum(w_k, w_v, root @ root.T), w_v @ np.linalg.inv(w_k))
        assert np.abs(context.residual(w_k, w_v, root @ root.T)).max() < 1e-12


def test_optimum_refuses_what_has_none():
    with pytest.raises(ValueError, match="singular"):
        context.optimum(np.ones((3, 2)), np.ones((1, 2)), np.eye(2))
    with pytest.raises(ValueError, match="expected"):
        context.optimum(np.ones((2, 3)), np.ones((1, 2)), np.eye(3))


def test_projections_have_the_condition_number_asked_for():
    w_k, _ = context.projections(5, 9, 2, 30.0, 0)
    assert np.linalg.cond(w_k) == pytest.approx(30)
    for wrong in ((0, 4, 1.0), (5, 4, 1.0), (2, 4, 0.5), (2, 4, float("nan"))):
        with pytest.raises(ValueError, match="expected"):
            context.projections(wrong[0], wrong[1], 2, wrong[2], 0)


@pytest.mark.parametrize("seed", range(4))
def test_dependence_on_the_context_is_decided_and_shown(seed):
    rng = np.random.default_rng(seed)
    w_k = sympy.Matrix(2, 4, [int(x) for x in rng.integers(-3, 4, 8)]) + sympy.Matrix.hstack(
        7 * sympy.eye(2), sympy.zeros(2)
    )
    inside = sympy.Matrix([[2, -3]]) * w_k
    outside = sympy.Matrix([[0, 0, 1, seed]])
    assert not context.depends_on_context(w_k, inside)
    with pytest.raises(ValueError, match="does not depend"):
        context.separating_covariance(w_k, inside)
    assert context.depends_on_context(w_k, outside)
    sigma = context.separating_covariance(w_k, outside)
    assert sigma.is_positive_definite
    assert context.exact_optimum(w_k, outside, sigma) != context.exact_optimum(w_k, outside, sympy.eye(4))


def test_mean_square_limit_is_where_the_operator_leaves_the_unit_disc():
    for eigenvalues in (np.ones(1), np.ones(6), np.array([0.1, 1.0, 7.0])):
        limit = context.mean_square_limit(eigenvalues)
        radius = [np.abs(np.linalg.eigvals(context.error_operator(eigenvalues, limit * s))).max() for s in (0.99, 1.01)]
        assert radius[0] < 1 < radius[1]
    assert context.mean_square_limit(np.ones(6)) == pytest.approx(2 / 8)
    for wrong in (np.array([1.0, 0.0]), np.array([1.0, -1.0]), np.array([np.nan])):
        with pytest.raises(ValueError, match="positive"):
            context.mean_square_limit(wrong)


def test_error_operator_is_the_fourth_moment_of_gaussian_keys():
    eigenvalues, beta, rng = np.array([0.5, 2.0]), 0.2, np.random.default_rng(0)
    k = rng.standard_normal((400_000, 2)) * np.sqrt(eigenvalues)
    for j, column in enumerate(context.error_operator(eigenvalues, beta).T):
        row = np.eye(2)[j]
        moved = (row - beta * (k @ row)[:, None] * k) ** 2
        for i in range(2):
            assert close(moved[:, i], column[i])


@pytest.mark.parametrize(("d", "beta"), [(1, 1.0), (2, 1.0), (3, 0.5), (8, 0.22)])
def test_growth_exponent_is_the_measured_one(d, beta):
    assert close(context_runs.log_growth(d, beta, 200, 2000, d), context.growth_exponent(d, beta))


def test_growth_exponent_of_one_dimension_in_closed_form():
    # E ln|1 - β z²| for β → 0 is -β + O(β²); at d = 1 it is all there is
    assert context.growth_exponent(1, 1e-4) == pytest.approx(-1e-4, rel=1e-2)
    assert context.growth_exponent(1, 1.0) < 0 < context.growth_exponent(2, 1.0)


@pytest.mark.parametrize("d", [2, 8, 32])
def test_almost_sure_limit_lies_above_the_mean_square_limit(d):
    limit = context.almost_sure_limit(d)
    assert limit > 2 / (d + 2)
    assert context.growth_exponent(d, 0.99 * limit) < 0 < context.growth_exponent(d, 1.01 * limit)


@pytest.mark.parametrize(("beta", "normalised"), [(1.0, True), (0.4, True), (0.1, False)])
def test_contraction_in_mean_square(beta, normalised):
    d, steps = 6, 5
    factor = 1 - (2 * beta - beta**2) / d if normalised else 1 - 2 * beta + beta**2 * (d + 2)
    assert close(context_runs.contraction(d, beta, steps, 20_000, 4, normalised=normalised), factor**steps)


def test_floors():
    assert context.noise_floor(np.ones(5), 0.1, 3.0) == pytest.approx(0.1 * 3 * 5 / (2 - 0.1 * 7))
    assert context.normalised_floor(2, 0.5, 1.0) == math.inf
    for wrong in (0.0, 2 / 7, 1.0, float("nan")):
        with pytest.raises(ValueError, match="step size"):
            context.noise_floor(np.ones(5), wrong, 1.0)
    with pytest.raises(ValueError, match="step size"):
        context.normalised_floor(5, 2.0, 1.0)


def test_floor_of_uneven_keys_is_the_measured_one():
    rng = np.random.default_rng(5)
    w_k, w_v = context.projections(4, 7, 2, 3.0, 5)
    sigma = np.eye(7)
    eigenvalues = np.linalg.eigvalsh(w_k @ w_k.T)
    x = rng.standard_normal((400, 900, 7))
    states = context_runs.delta_memory(x @ w_k.T, x @ w_v.T, 0.05, (500, 600, 700, 800, 900))
    found = context_runs.squared_distance(states, context.optimum(w_k, w_v, sigma)).mean(axis=0)
    assert close(found, context.noise_floor(eigenvalues, 0.05, float(np.trace(context.residual(w_k, w_v, sigma)))))


def test_the_key_alone_normalised_tends_to_a_multiple_of_the_optimum():
    d = 6
    w_k, w_v = context.projections(d, d, 3, 1.0, 2)
    far = context_runs.distances(w_k, w_v, np.eye(d), 0.01, "key", (6000,), 12, 0)[0]
    assert far == pytest.approx(context.key_alone_distance(d), rel=0.05)


def test_a_diverging_run_is_infinite_and_warns_nobody():
    w_k, w_v = context.projections(4, 4, 2, 1.0, 0)
    assert np.isinf(context_runs.distances(w_k, w_v, np.eye(4), 3.0, "raw", (2000,), 3, 0)).all()
    with pytest.raises(ValueError, match="raw, normalised or key"):
        context_runs.distances(w_k, w_v, np.eye(4), 3.0, "other", (2,), 3, 0)


def test_normaliser_and_norms():
    assert close(context_runs.normaliser_deviation(5, 8, 60_000, 1), math.e - 1)
    for related in (True, False):
        norms = context_runs.linear_norms(3, (1, 6), 20_000, 2, related=related)
        for i, t in enumerate((1, 6)):
            assert close(norms[:, i], context_runs.linear_norm_expected(3, t, related=related))


def test_delta_memory_equals_a_plain_loop():
    rng = np.random.default_rng(3)
    keys, values = rng.standard_normal((2, 7, 3)), rng.standard_normal((2, 7, 2))
    rates = rng.uniform(0.1, 0.5, 7)
    states = context_runs.delta_memory(keys, values, rates, (3, 7))
    for run in range(2):
        s = np.zeros((2, 3))
        for t in range(7):
            s = s - rates[t] * np.outer(s @ keys[run, t] - values[run, t], keys[run, t])
            if t == 2:
                assert np.allclose(states[0, run], s)
        assert np.allclose(states[1, run], s)


def test_progress_runs_from_old_to_new():
    for memory in ("softmax", "deltanet"):
        moved = context_runs.progress(memory, 4, 64, 400, 200, 0).mean(axis=0)
        assert abs(moved[0]) < 0.15 + (memory == "deltanet") * 0.3
        assert moved[-1] > 0.8
    with pytest.raises(ValueError, match="softmax or deltanet"):
        context_runs.progress("other", 4, 4, 4, 4, 0)


def test_half_time_interpolates_and_may_be_never():
    assert context_runs.half_time(np.array([0.0, 0.4, 0.6])) == pytest.approx(2.5)
    assert context_runs.half_time(np.array([0.9])) == 1
    assert context_runs.half_time(np.array([0.1, 0.2])) == math.inf


def answer_by_hand(name, keys, values, t):
    """The answer to query t from the pairs before it, one pair at a time."""
    d = keys.shape[1]
    score = keys @ keys[t]
    past = range(t)
    if name == "linear":
        return sum((score[i] * values[i] for i in past), np.zeros(2)) / max(t, 1)
    if name == "softmax":
        e = np.exp(score[:t] / np.sqrt(d))
        return e @ values[:t] / e.sum() if t else np.zeros(2)
    if name == "least squares":
        gram = keys[:t].T @ keys[:t] + 1e-3 * np.eye(d)
        return values[:t].T @ keys[:t] @ np.linalg.solve(gram, keys[t])
    u = []
    weight = lambda i, j: np.exp((keys[i] @ keys[j] - d) / np.sqrt(d))  # noqa: E731
    for j in past:
        e = np.array([weight(i, j) for i in range(j)])
        e = e / e.sum() if name == "DeltaFormer, softmax" and j else e
        u.append(values[j] - sum((e[i] * u[i] for i in range(j)), np.zeros(2)))
    e = np.array([weight(i, t) for i in past])
    e = e / e.sum() if name == "DeltaFormer, softmax" and t else e
    return sum((e[i] * u[i] for i in past), np.zeros(2))


@pytest.mark.parametrize("name", ["linear", "softmax", "least squares", "DeltaFormer, softmax", "DeltaFormer, exp"])
def test_memories_answer_from_the_past_alone(name):
    contexts = in_context.draw(2, 7, 4, 3, 2, 0)
    answers = in_context.MEMORIES[name](contexts)
    for run in range(2):
        for t in range(7):
            by_hand = answer_by_hand(name, contexts.keys[run], contexts.values[run], t)
            assert np.allclose(answers[run, t], by_hand, atol=1e-9), (run, t)


@pytest.mark.parametrize("name", list(in_context.MEMORIES))
def test_no_memory_sees_the_value_it_is_asked_for(name):
    contexts = in_context.draw(2, 9, 4, 3, 2, 1)
    changed = in_context.Contexts(contexts.keys, contexts.values.copy())
    changed.values[:, 5:] += 100.0
    before = in_context.MEMORIES[name](contexts)
    assert np.array_equal(before[:, :6], in_context.MEMORIES[name](changed)[:, :6])
    assert np.allclose(in_context.losses(name, contexts)[:, 0], 1)


def test_contexts_refuse_a_change_outside():
    for wrong in (0, 9, -1):
        with pytest.raises(ValueError, match="change"):
            in_context.draw(1, 9, wrong, 3, 2, 0)


def test_normalised_step_contracts_exactly_and_the_check_can_fail(monkeypatch):
    assert context.normalised_step_contracts_exactly(2)
    monkeypatch.setattr(context, "permutations", lambda items: [tuple(items)] * 2)  # d! copies of one order
    assert not context.normalised_step_contracts_exactly(2)
