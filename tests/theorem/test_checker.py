"""Certificates: the checker against enumeration, tampering, and files that mean harm."""

import ast
import io
import os
import tracemalloc
import zipfile
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theorem import checker
from theorem.certificate import write_certificate
from theorem.checker import CLAIMS, LIMITS, Certificate, read_certificate, violation
from theorem.lemma import gram_condition
from theorem.rounding import HALF_AWAY, HALF_EVEN, RULES, round_ratio
from theorem.sharpness import four_keys, simplex, worst_case
from verify import cli


def holds_by_enumeration(z, scale, rule):
    """Every product of two written keys, rounded with Python's integers."""
    n = len(z)
    one_hot = np.eye(n, dtype=int)
    keys = [*one_hot, *(one_hot[i] - one_hot[j] for i in range(n) for j in range(i))]
    gram = z.astype(int) @ z.astype(int).T
    return all(round_ratio(int(a @ gram @ b), scale, rule) == a @ b for a, b in product(keys, repeat=2))


def is_coherent_below_an_eighth(z):
    gram = z.astype(int) @ z.astype(int).T
    return all(64 * int(gram[i, j]) ** 2 < int(gram[i, i]) * int(gram[j, j]) for i in range(len(z)) for j in range(i))


def near_one_hot(seed):
    rng = np.random.default_rng(seed)
    n, d, size = int(rng.integers(2, 6)), 10, int(rng.integers(2, 9))
    z = size * np.eye(n, d, dtype=int) + rng.integers(-1, 2, (n, d)) * (rng.random((n, d)) < 0.4)
    return z.astype(np.int8), size * size + int(rng.integers(0, 4))


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RULES))
def test_accepts_exactly_what_holds(seed, rule):
    z, scale = near_one_hot(seed)
    assert (violation(Certificate(z, scale, rule, ("gram",))) is None) is holds_by_enumeration(z, scale, rule)
    assert (violation(Certificate(z, scale, rule, ("coherence",))) is None) is is_coherent_below_an_eighth(z)


def test_int16_keys_are_checked_like_int8_ones(tmp_path):
    keys = four_keys(8, 1)
    for factor, kind in ((1, np.int8), (15, np.int8), (16, np.int16), (400, np.int16)):
        path = tmp_path / f"{factor}.npz"
        written = write_certificate(path, factor * keys.z, factor**2 * keys.scale, HALF_EVEN, CLAIMS)
        assert written.z.dtype == kind
        assert accepted(path)
    wrong = 16 * four_keys(39, 5).z.astype(np.int16)
    assert violation(Certificate(wrong, 256 * four_keys(39, 5).scale, HALF_EVEN, ("gram",))) is not None


@pytest.mark.parametrize("rule", RULES)
def test_agrees_with_the_builder_on_tied_keys(rule):
    rng = np.random.default_rng(3)
    sets = [worst_case(Fraction(1, 8)), four_keys(39, 5), four_keys(63, 8), *(simplex(n, True) for n in range(3, 9))]
    hadamard = np.array([[1]])
    for _ in range(6):
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    exact = np.vstack([8 * np.eye(64, dtype=int), hadamard])  # 128 keys in 64 dimensions, coherence exactly 1/8
    cases = [(k.z, k.scale) for k in sets] + [(exact, 64), (exact[rng.permutation(128)[:40]], 64)]
    for z, scale in cases:
        found = gram_condition(z, scale, rule)
        assert (violation(Certificate(z.astype(np.int8), scale, rule, ("gram",))) is None) is found.holds
    assert gram_condition(exact, 64, rule).holds is (rule == HALF_EVEN)
    assert gram_condition(exact, 64, rule).margin == 0


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    """A tight certificate: the worst case at coherence 8/65, just below 1/8."""
    path = tmp_path_factory.mktemp("certificate") / "genuine.npz"
    keys = four_keys(8, 1)
    write_certificate(path, keys.z, keys.scale, HALF_AWAY, CLAIMS)
    return path


def accepted(path):
    """What `verify check` accepts: a certificate whose claims hold and whose hash is its own."""
    certificate, carried = read_certificate(path)
    return violation(certificate) is None and certificate.sha256() == carried


def save(path, **changes):
    arrays = {
        "z": np.eye(4, 5, dtype=np.int8),
        "scale": np.array(1, dtype="<i8"),
        "rule": np.array(HALF_EVEN),
        "claims": np.array(["gram"]),
        "sha256": np.array("0" * 64),
    }
    np.savez(path, **{k: v for k, v in {**arrays, **changes}.items() if v is not None})
    return path


def test_genuine_certificate_is_read_back_and_accepted(genuine):
    certificate, carried = read_certificate(genuine)
    keys = four_keys(8, 1)
    assert np.array_equal(certificate.z, keys.z)
    assert (certificate.scale, certificate.rule, certificate.claims) == (keys.scale, HALF_AWAY, CLAIMS)
    assert carried == certificate.sha256()
    assert accepted(genuine)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_one_change_with_the_old_hash_is_never_accepted(genuine, tmp_path_factory, data):
    certificate, carried = read_certificate(genuine)
    z, scale, rule, claims = certificate.z.copy(), certificate.scale, certificate.rule, certificate.claims
    what = data.draw(st.sampled_from(["entry", "sign", "scale", "rule", "claims", "shape", "order"]))
    at = data.draw(st.integers(0, z.size - 1))
    if what == "entry":
        z.flat[at] = data.draw(st.integers(-128, 127).filter(lambda x: x != z.flat[at]))
    elif what == "sign":
        z.flat[at] = -z.flat[at]
    elif what == "scale":
        scale = data.draw(st.integers(1, 1000).filter(lambda x: x != scale))
    elif what == "rule":
        rule = HALF_EVEN
    elif what == "claims":
        claims = data.draw(st.sampled_from([("gram",), ("coherence",)]))
    elif what == "shape":
        z = z.reshape(2, 8)
    else:
        z = z[[1, 0, 2, 3]]
    path = tmp_path_factory.mktemp("changed") / "changed.npz"
    save(path, z=z, scale=np.array(scale), rule=np.array(rule), claims=np.array(claims), sha256=np.array(carried))
    assert not accepted(path)


def test_one_sign_of_a_tight_certificate_is_caught_by_the_arithmetic_alone(genuine):
    """Without the hash, a flipped sign is caught exactly where it breaks the claim, as it does for most entries."""
    certificate, _ = read_certificate(genuine)
    caught = []
    for at in range(certificate.z.size):
        z = certificate.z.copy()
        z.flat[at] = -z.flat[at]
        wrong = violation(Certificate(z, certificate.scale, certificate.rule, CLAIMS))
        assert (wrong is None) is (
            is_coherent_below_an_eighth(z) and holds_by_enumeration(z, certificate.scale, certificate.rule)
        )
        caught.append(wrong is not None)
    assert 8 < sum(caught) < 16
    assert violation(Certificate(certificate.z, certificate.scale // 2, certificate.rule, ("gram",))) is not None
    assert violation(Certificate(certificate.z, certificate.scale * 2, certificate.rule, ("gram",))) is not None


def test_the_rule_matters_to_the_arithmetic():
    keys = worst_case(Fraction(1, 8))
    z = keys.z.astype(np.int8)
    assert violation(Certificate(z, 8, HALF_EVEN, ("gram",))) is None
    assert "should round to 0" in violation(Certificate(z, 8, HALF_AWAY, ("gram",)))
    assert "coherence" in violation(Certificate(z, 8, HALF_EVEN, CLAIMS))  # 1/8 is not below 1/8


def test_a_damaged_file_is_never_accepted_as_something_else(genuine, tmp_path):
    """Every byte of the file in turn: an error, a refusal, or (in the archive's dates, say) the same certificate."""
    raw = genuine.read_bytes()
    original, _ = read_certificate(genuine)
    path = tmp_path / "damaged.npz"
    refused = 0
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ (1 << at % 8)]) + raw[at + 1 :])
        try:
            good = accepted(path)
        except ValueError:
            refused += 1
            continue
        if good:
            assert read_certificate(path)[0].sha256() == original.sha256()
        else:
            refused += 1
    assert refused > len(raw) // 2
    for length in range(0, len(raw), 7):
        path.write_bytes(raw[:length])
        with pytest.raises(ValueError, match=r"\w"):
            read_certificate(path)


class Hostile:
    """Pickled, this would run code."""

    def __reduce__(self):
        return (os.abort, ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"z": np.eye(4)}, "array z of type <f8: expected |i1 or <i2"),
        ({"z": np.eye(4, dtype=np.int32)}, "array z of type <i4"),
        ({"z": np.full((2, 64), 32767, dtype=np.int16)}, "int64 cannot hold"),
        ({"z": np.eye(4, dtype=bool)}, "array z of type |b1"),
        ({"z": np.array([[Hostile()]], dtype=object)}, "array z of type |O"),
        ({"z": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3))}, "rows first"),
        ({"z": np.ones(5, dtype=np.int8)}, "int16 [n, d]"),
        ({"z": np.ones((1, 5), dtype=np.int8)}, "1 keys of width 5"),
        ({"z": np.ones((3, 0), dtype=np.int8)}, "3 keys of width 0"),
        ({"z": np.ones((LIMITS["n for gram"] + 1, 1), dtype=np.int8)}, "4097 keys"),
        ({"z": np.ones((2, LIMITS["d"] + 1), dtype=np.int8)}, "width 8193"),
        ({"scale": np.array(1.0)}, "array scale of type <f8"),
        ({"scale": np.array(0)}, "scale 0"),
        ({"scale": np.array(-3)}, "scale -3"),
        ({"scale": np.array(2**62)}, "scale 4611686018427387904"),
        ({"scale": np.array([1, 1])}, "one scale"),
        ({"rule": np.array("half-up")}, "'half-up'"),
        ({"rule": np.array(["half-even"] * 2)}, "one rule"),
        ({"claims": np.array([], dtype="<U4")}, "claims ()"),
        ({"claims": np.array(["everything"])}, "everything"),
        ({"claims": np.array(["gram", "gram"])}, "claims"),
        ({"claims": np.array("gram")}, "list of claims"),
        ({"z": None}, "expected the arrays"),
        ({"more": np.ones(3)}, "expected the arrays"),
    ],
)
def test_wrong_arrays_are_refused_with_a_clear_line(tmp_path, changes, words):
    path = save(tmp_path / "wrong.npz", **changes)
    with pytest.raises(ValueError, match=r".") as error:
        read_certificate(path)
    assert words in str(error.value)


def member(shape, body=b"", version=(1, 0)):
    header = io.BytesIO()
    write = np.lib.format.write_array_header_1_0 if version == (1, 0) else np.lib.format.write_array_header_2_0
    write(header, {"descr": "|i1", "fortran_order": False, "shape": shape})
    return header.getvalue() + body


@pytest.mark.parametrize(
    ("z", "words"),
    [
        (member((2**40, 2**20)), "does not fit its 0 bytes"),
        (member((-2, -8), b"\0" * 16), "does not fit its 16 bytes"),
        (member((2, 8), b"\0" * 15), "does not fit its 15 bytes"),
        (member((2, 8), b"\0" * 17), "does not fit its 17 bytes"),
        (member((2, 8), b"\0" * 16, version=(2, 0)), "version 1.0"),
        (b"not an array", "magic"),
        (b"", "magic"),
        (b"\0" * (1 << 26), "more than"),
    ],
)
def test_headers_that_lie_and_archives_that_swell_cost_no_memory(tmp_path, z, words):
    path = save(tmp_path / "lie.npz", z=None)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.npy", z)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r".") as error:
        read_certificate(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert words in str(error.value)
    assert peak < 1 << 22


def test_two_arrays_of_one_name_and_other_compressions_are_refused(tmp_path):
    path = save(tmp_path / "twice.npz")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("z.npy", member((2, 8), b"\1" * 16))
    with pytest.raises(ValueError, match="no others"):
        read_certificate(path)
    path = save(tmp_path / "lzma.npz", z=None)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("z.npy", member((2, 8), b"\1" * 16))
    with pytest.raises(ValueError, match="stored or deflated"):
        read_certificate(path)


def test_no_overflow_at_the_limits():
    """The largest entries, width and scale allowed: the answers are those of Python's integers."""
    z = np.full((2, LIMITS["d"]), -128, dtype=np.int8)
    assert "keys 1 and 0" in violation(Certificate(z, 1, HALF_EVEN, ("coherence",)))
    assert violation(Certificate(z, LIMITS["scale"], HALF_EVEN, ("gram",))) is not None
    z[1, ::2] = 127
    z[1, 1::2] = -127  # the norms are about 1.3e8, the product is 128 * 0
    assert violation(Certificate(z, 1, HALF_EVEN, ("coherence",))) is None
    assert violation(Certificate(z, 128 * 128 * LIMITS["d"], HALF_EVEN, ("gram",))) is None


def test_the_checker_stands_alone_and_uses_integers_only():
    tree = ast.parse(Path(checker.__file__).read_text())
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name.startswith(("theorem", "verify", "snr", "kernels", "scipy"))}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Div)]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, float)]


@pytest.mark.parametrize(
    ("z", "words"),
    [(np.eye(3), "integers"), (np.full((3, 3), 32768), "-32768 to 32767"), (np.ones((0, 3), dtype=int), "integers")],
)
def test_writer_refuses_what_no_certificate_holds(tmp_path, z, words):
    with pytest.raises(ValueError, match=words):
        write_certificate(tmp_path / "x.npz", z, 1, HALF_EVEN, ["gram"])
    assert list(tmp_path.iterdir()) == []


def test_writer_leaves_the_old_file_where_it_cannot_write_the_new(tmp_path):
    path = tmp_path / "kept.npz"
    write_certificate(path, np.eye(3, dtype=int), 1, HALF_EVEN, ["gram"])
    before = path.read_bytes()
    with pytest.raises(ValueError, match="scale"):
        write_certificate(path, np.eye(3, dtype=int), 0, HALF_EVEN, ["gram"])
    assert path.read_bytes() == before
    with pytest.raises(OSError, match="nowhere"):
        write_certificate(tmp_path / "nowhere" / "x.npz", np.eye(3, dtype=int), 1, HALF_EVEN, ["gram"])
    assert [p.name for p in tmp_path.iterdir()] == ["kept.npz"]


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


def test_verify_check_answers_with_its_status(capsys, genuine, tmp_path):
    status, out, _ = run(capsys, "check", str(genuine))
    assert status == 0
    assert "Valid" in out
    status, out, _ = run(capsys, "check", str(save(tmp_path / "hash.npz")))
    assert status == 1
    assert "NOT VALID: the hash" in out
    keys = four_keys(39, 5)
    write_certificate(tmp_path / "false.npz", keys.z, keys.scale, HALF_EVEN, CLAIMS)
    status, out, _ = run(capsys, "check", str(tmp_path / "false.npz"), "--json", "-")
    assert status == 1
    assert '"verdict": "refuted"' in out
    (tmp_path / "text.npz").write_text("z")
    for path in (tmp_path / "text.npz", tmp_path / "missing.npz", tmp_path):
        status, out, err = run(capsys, "check", str(path))
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"FILE {path}: " in err
