"""The smooth spread against its definition, and the keys that descending on it finds."""

from itertools import product

import numpy as np
import pytest

from theorem.checker import read_certificate, violation
from theorem.lemma import gram_condition
from theorem.spread import integer_keys, lower_spread, smooth_spread, without_least_direction
from verify import cli
from verify.claims.pE_lemma import BEYOND


def random_keys(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) / np.sqrt(d)


@pytest.mark.parametrize("sharpness", [1.0, 7.0])
def test_it_is_the_log_sum_exp_of_all_second_differences(sharpness):
    keys = random_keys(4, 3)
    deviation = np.zeros((5, 5))
    deviation[:4, :4] = keys @ keys.T - np.eye(4)
    terms = [
        np.exp(sharpness * (deviation[i, l] - deviation[j, l] - deviation[i, m] + deviation[j, m]))
        for i, j, l, m in product(range(5), repeat=4)
        if i != j
    ]
    assert smooth_spread(keys, sharpness)[0] == pytest.approx(np.log(sum(terms)) / sharpness, rel=1e-12)


def test_gradient_is_that_of_the_value():
    keys = random_keys(6, 4, seed=1)
    _, gradient = smooth_spread(keys, 9.0)
    for at in range(keys.size):
        step = np.zeros(keys.size)
        step[at] = 1e-6
        up, down = (smooth_spread(keys + sign * step.reshape(keys.shape), 9.0)[0] for sign in (1, -1))
        assert gradient.flat[at] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)


def test_it_bounds_the_spread_from_above_and_closes_in():
    keys = random_keys(8, 20, seed=2)
    spread = 0.5 - float(gram_condition(keys).margin)
    values = [smooth_spread(keys, b)[0] for b in (10.0, 40.0, 160.0)]
    assert values[0] > values[1] > values[2] > spread
    assert values[2] < spread + np.log(9**4) / 160
    assert smooth_spread(1e3 * keys, 100.0)[0] == np.inf


def test_descent_finds_the_simplex_where_only_it_will_do():
    """Three slots in two dimensions: no keys of coherence below 1/8 exist, and the simplex has coherence 1/2."""
    keys = lower_spread(random_keys(3, 2, seed=3), iterations=300)
    found = gram_condition(keys)
    assert found.holds is True
    assert float(found.margin) == pytest.approx(1 / 6, abs=0.01)


def test_descent_leaves_random_keys_far_behind():
    start = random_keys(32, 20, seed=4)
    before, after = (float(gram_condition(k).margin) for k in (start, lower_spread(start, 100)))
    assert before < -0.5
    assert after > 0


def test_integer_keys_keep_the_margin():
    keys = lower_spread(random_keys(16, 12, seed=5), 60)
    exact = float(gram_condition(keys).margin)
    for peak in (127, 1023, 30000):
        z, scale = integer_keys(keys, peak)
        assert np.abs(z).max() == peak
        assert float(gram_condition(z, scale).margin) == pytest.approx(exact, abs=6 / peak)


def test_one_dimension_less_keeps_the_longest_directions():
    keys = random_keys(9, 5) * [1, 1, 0.01, 1, 1]
    fewer = without_least_direction(keys)
    assert fewer.shape == (9, 4)
    assert np.ptp(np.linalg.norm(fewer, axis=1)) < 1e-12
    cosines = [k @ k.T / np.outer(*[np.linalg.norm(k, axis=1)] * 2) for k in (keys, fewer)]
    assert np.abs(cosines[0] - cosines[1]).max() < 0.01


@pytest.mark.parametrize("path", BEYOND, ids=lambda p: p.name)
def test_recorded_keys_are_what_their_name_says(path):
    certificate, carried = read_certificate(path)
    assert f"keys-{certificate.z.shape[0]}-{certificate.z.shape[1]}.npz" == path.name
    assert carried == certificate.sha256()
    assert violation(certificate) is None
    assert gram_condition(certificate.z, certificate.scale, "half-away").margin > 0


@pytest.mark.parametrize("keys", [np.ones(3), np.ones((1, 3)), np.ones((3, 0)), np.full((3, 3), np.nan)])
def test_bad_keys(keys):
    with pytest.raises(ValueError, match="finite"):
        lower_spread(keys)


def test_bad_peak_and_dimension():
    for peak in (0, 32768):
        with pytest.raises(ValueError, match="1 to 32767"):
            integer_keys(np.eye(3), peak)
    with pytest.raises(ValueError, match="not zero"):
        integer_keys(np.zeros((3, 3)), 127)
    with pytest.raises(ValueError, match="one dimension"):
        without_least_direction(np.ones((3, 1)))


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def test_verify_spread_goes_from_keys_to_a_certificate(capsys, tmp_path):
    path = tmp_path / "found.npz"
    argv = ("spread", "--n", "24", "--d", "18", "--iterations", "60", "--certificate", str(path))
    status, out, _ = run(capsys, *argv)
    assert (status, "Theorem 1 holds" in out) == (0, True)
    assert run(capsys, "check", str(path))[0] == 0
    status, out, _ = run(capsys, "spread", "--n", "24", "--d", "17", "--start", str(path), "--iterations", "60")
    assert status == 0
    assert "  18 " in out
    assert "  17 " in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--n", "1", "--d", "3"), "--n"),
        (("--n", "3", "--d", "0"), "--d"),
        (("--n", "3", "--d", "3", "--start", "/nonexistent"), "--start /nonexistent"),
        (("--n", "3", "--d", "3", "--start", __file__), "--start"),
        (("--n", "3", "--d", "3", "--start", str(BEYOND[0])), "128 keys in 42 dimensions"),
        (("--n", "3", "--d", "3", "--peak", "40000"), "--peak"),
        (("--n", "3", "--d", "3", "--certificate", "/nonexistent/c.npz"), "--certificate /nonexistent/c.npz"),
    ],
)
def test_verify_spread_answers_bad_input_in_one_line(capsys, argv, words):
    status, out, err = run(capsys, "spread", *argv)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_certificate_is_not_written_where_the_condition_fails(capsys, tmp_path):
    path = tmp_path / "none.npz"
    argv = ("spread", "--n", "12", "--d", "2", "--iterations", "5", "--certificate", str(path))
    status, out, _ = run(capsys, *argv)
    assert (status, "Not found" in out, path.exists()) == (0, True, False)
