"""Bounds against each other, against constructions that meet them, and against brute force."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from theorem import bounds
from theorem.bounds import coherence_bounds, delsarte, gegenbauer, least_dimension, levenshtein, most_keys, welch

# (n, d, coherence) of sets whose coherence is known to be least possible
OPTIMAL = [
    (6, 3, 5**-0.5),  # diagonals of the icosahedron
    (16, 6, 1 / 3),
    (28, 7, 1 / 3),
    (276, 23, 1 / 5),
    (730, 73, 1 / 9),
    (12, 4, 1 / 2),  # D_4: meets Levenshtein's bound and the orthoplex bound
    (120, 8, 1 / 2),  # E_8
    (144, 16, 1 / 4),
    (2112, 64, 1 / 8),
    (33024, 256, 1 / 16),
]


@pytest.mark.parametrize(("n", "d", "coherence"), OPTIMAL)
def test_bounds_meet_the_best_sets_and_never_exceed_them(n: int, d: int, coherence: float) -> None:
    found = coherence_bounds(n, d)
    assert max(found.values()) <= coherence + 1e-12
    assert found["lp"] == pytest.approx(coherence, abs=2e-5)


@pytest.mark.parametrize(("n", "d"), [(40, 17), (512, 70), (100, 60), (700, 37)])
def test_linear_programme_is_welch_where_welch_applies(n: int, d: int) -> None:
    assert n <= d * (d + 1) / 2
    assert delsarte(n, d) == pytest.approx(welch(n, d), abs=1.5e-5)


@pytest.mark.parametrize(("n", "d"), [(300, 16), (2500, 32), (16384, 128)])
def test_linear_programme_is_levenshtein_in_its_range(n: int, d: int) -> None:
    assert d * (d + 2) / 2 < n <= d * (d + 1) * (d + 2) / 6
    assert delsarte(n, d) >= levenshtein(n, d) - 1.5e-5


@pytest.mark.parametrize(
    ("n", "least"), [(5, 5), (128, 43), (256, 52), (512, 57), (2048, 64), (16384, 128), (131072, 176)]
)
def test_least_dimension_at_one_eighth(n: int, least: int) -> None:
    found = least_dimension(n, 1 / 8)
    assert found["lp"] == least == max(found.values())
    assert most_keys(least, 1 / 8) >= n > most_keys(least - 1, 1 / 8)


def test_programme_proves_its_own_polynomial() -> None:
    """The certified bound is no smaller than the sets that exist, and a spoilt polynomial is paid for."""
    assert most_keys(7, 1 / 3) == 28
    assert most_keys(23, 1 / 5) == 276
    good = bounds._optimum(7, 1 / 3)[1]
    assert bounds._proved(7, Fraction(1, 9), good) == 28
    spoilt = [c * 0.99 for c in good]
    assert bounds._proved(7, Fraction(1, 9), spoilt) >= 28
    assert bounds._proved(7, Fraction(1, 9), [0.0] * len(good)) == math.inf


def test_bernstein_maximum_is_an_upper_bound_and_tight() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        f = [Fraction(int(c), 7) for c in rng.integers(-9, 10, 6)]
        end = Fraction(int(rng.integers(1, 5)), 3)
        grid = np.linspace(0, float(end), 4001)
        seen = np.polyval([float(c) for c in f[::-1]], grid).max()
        found = float(bounds._maximum(f, end))
        assert found <= 0 or found >= seen - 1e-12
        if seen > 0:
            assert found == pytest.approx(seen, abs=1e-4)


@pytest.mark.parametrize("d", [3, 8, 57])
def test_gegenbauer_are_orthogonal_on_the_sphere(d: int) -> None:
    """Exact moments: E t^2k = (2k − 1)!!/(d (d + 2) … (d + 2k − 2)) for a coordinate of a uniform unit vector."""

    def moment(k: int) -> Fraction:
        value = Fraction(1)
        for j in range(k):
            value *= Fraction(2 * j + 1, d + 2 * j)
        return value

    polynomials = gegenbauer(d, 5)
    assert all(sum(p) == 1 for p in polynomials)
    for i, p in enumerate(polynomials):
        for q in polynomials[:i]:
            assert sum(a * b * moment(j + k) for j, a in enumerate(p) for k, b in enumerate(q)) == 0


@pytest.mark.parametrize("name", sorted(bounds.CLOSED))
def test_closed_forms_never_exceed_random_sets_and_fall_with_d(name: str) -> None:
    bound = bounds.CLOSED[name]
    rng = np.random.default_rng(1)
    for n, d in ((3, 2), (10, 3), (50, 3), (50, 7), (400, 5)):
        rows = rng.standard_normal((n, d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        assert bound(n, d) <= np.abs(rows @ rows.T - np.eye(n)).max()
        # n lines of the plane: the best coherence is cos(π/n)
        assert bound(n, 2) <= math.cos(math.pi / n) + 1e-12
    values = [bound(600, d) for d in range(1, 700)]
    assert all(a >= b for a, b in pairwise(values))
    assert values[-1] == 0


def test_alon_is_never_above_the_moments() -> None:
    assert all(bounds.alon(n, d) <= bounds.moments(n, d) + 1e-12 for n in (9, 200, 10**6) for d in range(2, 60, 7))


@pytest.mark.parametrize(("n", "d"), [(0, 3), (3, 0), (-1, 2)])
def test_impossible_sizes_are_refused(n: int, d: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        coherence_bounds(n, d)
    with pytest.raises(ValueError, match="expected"):
        least_dimension(5, 1.5)
