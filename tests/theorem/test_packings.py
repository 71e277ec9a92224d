"""Every construction against its promise, exact coherence against brute force, and the goals of the search."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theorem.bounds import closed
from theorem.packings import KeySet, build, descent, most_offered, quantise, random_keys, smallest
from theorem.packings.constructions import offers
from theorem.packings.constructions.cyclic import irreducible_cyclic
from theorem.packings.constructions.gold import gold
from theorem.packings.constructions.hadamard import hadamard_matrix
from theorem.packings.constructions.kerdock import delsarte_goethals, kerdock
from theorem.packings.constructions.lifting import bases
from theorem.packings.constructions.quadric import quadric
from theorem.packings.constructions.singer import singer
from theorem.packings.constructions.taylor import seidel, taylor
from theorem.packings.constructions.two_weight import points, two_weight
from theorem.packings.fields import field, galois_ring_trace
from theorem.packings.keyset import exact_coherence_squared, float_coherence
from theorem.packings.orbits import expand, lowered_orbits, orbit_coherence, sign_labels

SIZES = [(2, 1), (5, 4), (8, 5), (24, 6), (28, 7), (64, 8), (64, 19), (126, 21), (100, 24), (512, 71), (512, 72),
         (600, 73), (1000, 34), (300, 130), (2048, 66)]  # fmt: skip


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_every_offer_keeps_its_promise(n: int, d: int) -> None:
    for offer in offers(n, d):
        keys = offer.make()
        assert keys.vectors.shape == (n, d)
        assert keys.exact == offer.exact
        assert keys.coherence <= offer.coherence * 1.004 + 1e-9  # int8 lifts round their two parts
        assert keys.coherence >= closed(n, d) - 1e-12
        assert keys.coherence == pytest.approx(float_coherence(keys.vectors), abs=1e-9)


@pytest.mark.parametrize(
    ("keys", "squared"),
    [
        (kerdock(12, 4), Fraction(1, 4)),
        (kerdock(144, 16), Fraction(1, 16)),
        (kerdock(2112, 64), Fraction(1, 64)),
        (gold(72, 8), Fraction(1, 4)),
        (gold(1056, 32), Fraction(1, 16)),
        (irreducible_cyclic(8, 85), Fraction(11, 85) ** 2),
        (quadric(8), Fraction(1153, 10369) ** 2),
        (two_weight(), Fraction(9, 73) ** 2),
    ],
)
def test_exact_sets_have_the_coherence_of_the_literature(keys: KeySet, squared: Fraction) -> None:
    assert keys.coherence_squared == squared


def test_the_two_weight_code_is_projective_and_has_two_weights() -> None:
    weights = np.bitwise_count(np.arange(1, 512)[:, None] & points()[None, :]) % 2
    assert len(set(points().tolist()) - {0}) == 73
    assert dict(zip(*map(np.ndarray.tolist, np.unique(weights.sum(axis=1), return_counts=True)))) == {32: 219, 40: 292}


@pytest.mark.parametrize("q", [3, 5, 7, 9])
def test_taylor_two_graphs_are_equiangular_tight(q: int) -> None:
    s = seidel(q).astype(np.int64)
    n, d = q**3 + 1, q * q - q + 1
    assert np.array_equal(s, s.T)
    assert np.array_equal(np.abs(s), 1 - np.eye(n, dtype=np.int64))
    # S² = (q² − 1 … ) S + …: two eigenvalues, −q with multiplicity n − d, exactly
    other = q * (n - d) // d
    assert np.array_equal(s @ s, (other - q) * s + other * q * np.eye(n, dtype=np.int64))
    products = taylor(q).vectors @ taylor(q).vectors.T
    assert np.allclose(products, np.eye(n) + s / q, atol=1e-9)


def test_delsarte_goethals_cosets_meet_at_one_eighth() -> None:
    keys = delsarte_goethals(3 * 32768)
    rows = keys.vectors.astype(np.float32)
    probes = [0, 777, 32768, 40000, 65536, 98303]
    products = np.abs(rows[probes] @ rows.T)
    products[np.arange(len(probes)), probes] = 0
    classes = np.arange(len(rows)) // 32768
    for probe, row in zip(probes, products):
        assert row[classes == classes[probe]].max() == 16
        assert row[classes != classes[probe]].max() == 32


def test_large_kerdock_set_in_tiles() -> None:
    """Half of the 33,024 keys, in the suite's time; all of them by `python -m verify keys --n 33024 --d 256`."""
    assert kerdock(8192, 256).coherence_squared == Fraction(1, 256)
    everything = kerdock(33024, 256)
    assert everything.vectors.nbytes < 10**7
    rows = everything.vectors.astype(np.float32)
    products = np.abs(rows[-300:] @ rows.T)
    products[np.arange(300), np.arange(33024 - 300, 33024)] = 0
    assert products.max() == 16


def test_singer_pairs() -> None:
    keys = singer(2 * 273, 16)
    assert keys.d == 34
    assert keys.coherence == pytest.approx(4 / 17, abs=1e-3)
    assert abs(keys.vectors[0] @ keys.vectors[1]) < 1e-12


@pytest.mark.parametrize("order", [1, 2, 4, 8, 12, 20, 24, 32, 48])
def test_hadamard_matrices(order: int) -> None:
    matrix = hadamard_matrix(order)
    assert matrix is not None
    assert np.array_equal(matrix.astype(int) @ matrix.T, order * np.eye(order, dtype=int))


def test_no_hadamard_matrix_where_none_is_made() -> None:
    assert all(hadamard_matrix(order) is None for order in (3, 6, 10, 28, 92))


@pytest.mark.parametrize("q", [3, 8, 9, 49])
def test_fields_against_galois(q: int) -> None:
    galois = pytest.importorskip("galois")
    ours = field(q)
    polynomial = galois.Poly(_primitive(ours), field=galois.GF(ours.p)) if ours.k > 1 else None
    theirs = (
        galois.GF(q, irreducible_poly=polynomial, primitive_element=int(ours.power[1 % (q - 1)]))
        if polynomial
        else galois.GF(q)
    )
    x = theirs.elements
    assert np.array_equal(np.asarray(x[:, None] * x[None, :]), ours.multiply)
    assert np.array_equal(np.asarray(x[:, None] + x[None, :]), ours.add)
    assert np.array_equal(np.asarray(x.field_trace()) if ours.k > 1 else np.arange(q), ours.trace)


def _primitive(ours: object) -> list[int]:
    """Coefficients, highest first, of the polynomial that the power table of the field was made with."""
    p, k = ours.p, ours.k  # type: ignore[attr-defined]
    top = int(ours.power[k])  # type: ignore[attr-defined]
    return [1, *[-(top // p**i) % p for i in range(k - 1, -1, -1)]]


def test_galois_ring_trace_lifts_the_field_trace() -> None:
    for m in (3, 5, 7):
        trace = galois_ring_trace(m)
        f = field(2**m)
        assert len(trace) == 2**m - 1
        # reduced modulo 2 it is the binary trace of the powers of some primitive element
        assert (trace % 2).sum() == f.trace.sum() == 2 ** (m - 1)
        # |Σ_x i^{T(λ x)}|² = 2^m for every λ that is not twice something: what makes the Kerdock bases unbiased
        assert abs(1 + (1j**trace).sum()) ** 2 == pytest.approx(2**m)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.integers(1, 9), st.integers(0, 10**6), st.sampled_from([1, 3, 127, 3000]))
def test_exact_coherence_against_fractions(n: int, d: int, seed: int, peak: int) -> None:
    z = np.random.default_rng(seed).integers(-peak, peak + 1, (n, d))
    z[np.abs(z).sum(axis=1) == 0, 0] = 1
    rows = [[int(x) for x in row] for row in z]
    brute = max(
        Fraction(sum(a * b for a, b in zip(x, y)) ** 2, sum(a * a for a in x) * sum(b * b for b in y))
        for i, x in enumerate(rows)
        for y in rows[:i]
    )
    assert exact_coherence_squared(z) == brute
    assert float_coherence(z) == pytest.approx(float(brute) ** 0.5, abs=1e-7)


def test_coherence_across_tiles() -> None:
    rng = np.random.default_rng(3)
    z = rng.integers(-9, 10, (4500, 5))
    z[np.abs(z).sum(axis=1) == 0, 0] = 1
    z[4400] = 2 * z[17]
    assert exact_coherence_squared(z) == 1
    assert float_coherence(z) == pytest.approx(1)


def test_orbits_of_a_kerdock_set_are_its_bases() -> None:
    keys = kerdock(256, 64).vectors
    labels = sign_labels(keys[:64])
    assert sorted(labels) == list(range(64))
    ours = {bytes(row) for row in expand(keys[::64], 6, labels)}
    assert all(bytes(row) in ours or bytes(-row) in ours for row in keys)
    with pytest.raises(ValueError, match="no orbit"):
        sign_labels(np.concatenate([keys[:63], keys[64:65]]))


def test_orbit_coherence_is_that_of_all_keys() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 11))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = rng.integers(0, 8, 11)
    assert orbit_coherence(x, 3, labels) == pytest.approx(float_coherence(expand(x, 3, labels)), abs=1e-12)


def test_512_keys_below_one_eighth_in_67_dimensions() -> None:
    base = next(b for b in bases(67) if (b.name, b.d) == ("Kerdock", 64))
    keys = lowered_orbits(base, 512, 67, 30.0, 0)
    assert keys.vectors.shape == (512, 67)
    assert keys.vectors.dtype == np.int16  # as certificates hold them
    assert keys.coherence_squared is not None
    assert keys.coherence_squared < Fraction(1, 64)


@pytest.mark.parametrize(
    ("n", "d", "seconds", "goal"),
    [(128, 50, 6.0, 0.125), (512, 128, 8.0, 0.0915), (40, 41, 1.0, 1e-12), (41, 40, 1.0, 0.03)],
)
def test_build_reaches(n: int, d: int, seconds: float, goal: float) -> None:
    built = build(n, d, seconds)
    assert built.keys.vectors.shape == (n, d)
    assert closed(n, d) - 1e-12 <= built.keys.coherence < goal
    assert built.tried[0].coherence == pytest.approx(built.keys.coherence, abs=1e-12)
    assert {a.construction for a in built.tried} >= {"random"}
    assert [a.coherence for a in built.tried] == sorted(a.coherence for a in built.tried)


def test_build_is_a_function_of_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "MOST_STEPS", 1000)  # far fewer than there is time for
    first, second, other = (build(30, 12, 30.0, seed).keys.vectors for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_build_keeps_its_time() -> None:
    began = time.process_time()
    build(900, 80, 2.0)
    assert time.process_time() - began < 8.0  # two cores, and the constructions beside the descents


def test_smallest_dimension() -> None:
    keys, log = smallest(20, 0.2, 4.0)
    assert keys.n == 20
    assert keys.coherence < 0.2
    assert keys.d == min(d for d, coherence, _ in log if coherence < 0.2)
    assert most_offered(71) >= 512
    assert most_offered(64, 0.2) == 2112


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 4), "at least 1"), ((4, 0), "at least 1"), ((10**6, 10**4), "GiB")],
)
def test_build_refuses(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(*arguments)
    with pytest.raises(ValueError, match="no construction called"):
        build(10, 5, 1.0, only="nothing")


def test_quantised_keys_keep_the_margin() -> None:
    keys = build(256, 100, 4.0).keys
    z, scale = quantise(keys.unit())
    assert z.dtype == np.int8
    assert np.abs(z).max() == 127
    assert float(exact_coherence_squared(z)) ** 0.5 < keys.coherence + 0.008
    gram = z.astype(np.int64) @ z.T.astype(np.int64)
    assert np.abs(gram / scale - keys.unit() @ keys.unit().T).max() < 0.05
    with pytest.raises(ValueError, match="rounds to zero"):
        quantise(np.array([[1.0, 0.0], [1e-6, 0.0]]))


def test_key_sets_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="n × d"):
        KeySet(np.zeros(3), "x")
    with pytest.raises(ValueError, match="scale"):
        KeySet(np.ones((2, 2), np.int8), "x")
    with pytest.raises(ValueError, match="is zero"):
        _ = KeySet(np.zeros((2, 2), np.int8), "x", 1).coherence_squared
    with pytest.raises(ValueError, match="do not fit"):
        random_keys(3, 4).padded(2)
    with pytest.raises(ValueError, match="asked for"):
        random_keys(3, 4).head(5)
