"""Keys from laws and files; every kind of bad file gets one clear line."""

import json

import numpy as np
import pytest

from snr.keys import Anisotropic, Gaussian, Sphere, draw_values, effective_dimension, read_keys, value_power
from snr.tensors import read_tensor, tensor_names
from snr.trained import FEED_FORWARD, feed_forward_keys


def keys(n=6, d=4, dtype=np.float32):
    return np.random.default_rng(0).standard_normal((n, d)).astype(dtype)


def safetensors(path, tensors, spoil=None):
    """tensors: name → (dtype's name, array of raw values); `spoil` edits the header."""
    header, raw = {}, b""
    for name, (kind, array) in tensors.items():
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [len(raw), len(raw) + array.nbytes],
        }
        raw += array.tobytes()
    if spoil:
        spoil(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw)
    return path


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_npy_npz_and_safetensors_hold_the_same_keys(tmp_path, dtype):
    k = keys(dtype=dtype)
    np.save(tmp_path / "k.npy", k)
    np.savez(tmp_path / "k.npz", k=k, other=np.zeros(3))
    kind = {2: "F16", 4: "F32", 8: "F64"}[k.dtype.itemsize]
    safetensors(tmp_path / "k.safetensors", {"a.b": (kind, k), "c": (kind, np.zeros(2, dtype))})
    for spec in ("k.npy", "k.npz:k", "k.safetensors:a.b"):
        found = read_keys(str(tmp_path / spec))
        assert found.array.dtype == (np.float64 if dtype is np.float64 else np.float32)
        np.testing.assert_array_equal(found.array[0], k)
        assert (found.heads, found.n, found.d) == (1, 6, 4)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    k = keys()
    upper = (k.view(np.uint32) >> 16).astype(np.uint16)
    path = safetensors(tmp_path / "k.safetensors", {"k": ("BF16", upper)})
    found = read_keys(str(path)).array[0]
    np.testing.assert_allclose(found, k, rtol=2**-7)
    np.testing.assert_array_equal(found.view(np.uint32) & 0xFFFF, 0)


def test_large_files_are_mapped_and_heads_kept(tmp_path):
    np.save(tmp_path / "k.npy", np.ones((3, 5, 2), dtype=np.float32))
    assert isinstance(read_tensor(str(tmp_path / "k.npy")), np.memmap)
    path = safetensors(tmp_path / "k.safetensors", {"k": ("F32", np.ones((3, 5, 2), dtype=np.float32))})
    assert isinstance(read_tensor(str(path)), np.memmap)
    assert read_keys(str(path)).heads == 3


def test_normalised_keys_have_norm_sqrt_d(tmp_path):
    np.save(tmp_path / "k.npy", keys(8, 5) * 100)
    found = read_keys(str(tmp_path / "k.npy"), normalise=True)
    np.testing.assert_allclose((found.array**2).sum(axis=2), 5, rtol=1e-6)
    assert "normalised" in found.name


def bad_files(tmp):
    """name → (file, what the message must say)."""
    k = keys()
    np.save(tmp / "pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp / "pickled.npz", k=np.array([{"a": 1}], dtype=object))
    np.save(tmp / "whole.npy", k)
    (tmp / "truncated.npy").write_bytes((tmp / "whole.npy").read_bytes()[:-7])
    (tmp / "header.npy").write_bytes((tmp / "whole.npy").read_bytes()[:20])
    (tmp / "empty.npy").write_bytes(b"")
    for name, rows in (("negative", -200), ("vast", 2**70)):
        with (tmp / f"{name}.npy").open("wb") as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 64)}
            np.lib.format.write_array_header_1_0(stream, header)
            stream.write(bytes(256))
    (tmp / "text.npy").write_text("not an array")
    np.savez(tmp / "two.npz", first=k, second=k)
    (tmp / "truncated.npz").write_bytes((tmp / "two.npz").read_bytes()[:-40])
    (tmp / "text.npz").write_text("not an archive")
    (tmp / "keys.txt").write_text("1 2 3")
    for name, array in {
        "vector": np.ones(4),
        "rank4": np.ones((2, 2, 2, 2)),
        "integers": np.ones((4, 3), dtype=np.int32),
        "complex": np.ones((4, 3), dtype=complex),
        "none": np.ones((0, 4)),
        "one": np.ones((1, 4)),
        "flat": np.ones((4, 0)),
        "nan": np.where(np.eye(4) > 0, np.nan, 1.0),
        "infinite": np.where(np.eye(4) > 0, np.inf, 1.0),
        "overflow": np.full((4, 3), 1e200),
        "zero": np.diag([1.0, 1.0, 0.0, 1.0]),
    }.items():
        np.save(tmp / f"{name}.npy", array)
    safetensors(tmp / "good.safetensors", {"a": ("F32", k), "b": ("F32", k)})
    raw = (tmp / "good.safetensors").read_bytes()
    (tmp / "truncated.safetensors").write_bytes(raw[:-5])
    (tmp / "header.safetensors").write_bytes(raw[:30])
    (tmp / "short.safetensors").write_bytes(b"abc")
    (tmp / "nothing.safetensors").write_bytes(b"")
    (tmp / "json.safetensors").write_bytes((4).to_bytes(8, "little") + b"{{{{")
    (tmp / "list.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")
    (tmp / "no-tensor.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    safetensors(tmp / "int.safetensors", {"a": ("I64", np.ones((3, 2), dtype=np.int64))})
    safetensors(tmp / "lies.safetensors", {"a": ("F32", k)}, spoil=lambda h: h["a"].update(shape=[600, 4]))
    safetensors(tmp / "negative.safetensors", {"a": ("F32", k)}, spoil=lambda h: h["a"].update(shape=[-6, -4]))
    safetensors(tmp / "malformed.safetensors", {"a": ("F32", k)}, spoil=lambda h: h["a"].pop("shape"))
    safetensors(tmp / "nan.safetensors", {"a": ("BF16", np.full((4, 3), 0x7FC0, dtype=np.uint16))})


BAD = {
    "pickled.npy": "pickle",
    "pickled.npz": "pickle",
    "truncated.npy": "truncated|no numpy file",
    "header.npy": "truncated|no numpy file",
    "empty.npy": "truncated|no numpy file",
    "negative.npy": "truncated or no numpy file",
    "vast.npy": "truncated or no numpy file",
    "text.npy": "no numpy file",
    "truncated.npz": "truncated|no numpy file",
    "text.npz": "no numpy file",
    "keys.txt": "ending in .npy",
    "two.npz": "add :TENSOR with one of first, second",
    "two.npz:third": "has no tensor third; it holds first, second",
    "whole.npy:k": "leave out :k",
    "vector.npy": r"expected keys \[N, d\]",
    "rank4.npy": r"expected keys \[N, d\]",
    "integers.npy": "int32; expected floating-point",
    "complex.npy": "complex128; expected floating-point",
    "none.npy": "at least two keys",
    "one.npy": "at least two keys",
    "flat.npy": "at least two keys",
    "nan.npy": "key 0 of head 0 holds NaN",
    "infinite.npy": "key 0 of head 0 holds NaN or infinity",
    "overflow.npy": "its norm overflows",
    "zero.npy": "key 2 of head 0 is zero",
    "good.safetensors": "add :TENSOR with one of a, b",
    "good.safetensors:c": "has no tensor c; it holds a, b",
    "truncated.safetensors:b": "truncated",
    "header.safetensors": "truncated",
    "short.safetensors": "truncated",
    "nothing.safetensors": "truncated",
    "json.safetensors": "not JSON",
    "list.safetensors": "not a JSON object",
    "no-tensor.safetensors": "holds no tensor",
    "int.safetensors": "I64; expected floating-point",
    "lies.safetensors": "do not match",
    "negative.safetensors": "do not match",
    "malformed.safetensors": "malformed",
    "nan.safetensors": "NaN",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_in_one_line(tmp_path, name):
    bad_files(tmp_path)
    with pytest.raises(ValueError, match=BAD[name]) as caught:
        read_keys(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["absent.npy", "absent.safetensors:k", "folder.npy"])
def test_files_that_cannot_be_opened_raise_the_systems_own_words(tmp_path, name):
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(OSError, match=r"absent|folder") as caught:
        read_keys(str(tmp_path / name))
    assert caught.value.strerror


def test_the_shipped_tensor_is_small_and_says_where_it_is_from():
    assert FEED_FORWARD.stat().st_size <= 300_000
    trained = feed_forward_keys()
    assert (trained.heads, trained.n, trained.d) == (1, 384, 384)
    assert b"Apache-2.0" in FEED_FORWARD.read_bytes()[:400]
    assert tensor_names(FEED_FORWARD) == ["keys"]
    assert "Apache" in FEED_FORWARD.with_name("NOTICE").read_text()
    assert "Apache License" in FEED_FORWARD.with_name("LICENSE-APACHE-2.0").read_text()


@pytest.mark.parametrize("law", [Gaussian(), Sphere(), Anisotropic((4.0, 1.0, 0.25))])
def test_laws_have_their_second_moments(law):
    drawn = law.draw(np.random.default_rng(1), 40, 500, 3, np.float64).reshape(-1, 3)
    expected = law.spectrum if isinstance(law, Anisotropic) else (1.0, 1.0, 1.0)
    moments = (drawn**2).mean(axis=0)
    error = (drawn**2).std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(moments - expected) < 5 * error)  # a false alarm in 2e-6
    if isinstance(law, Sphere):
        np.testing.assert_allclose((drawn**2).sum(axis=1), 3)


@pytest.mark.parametrize("spectrum", [(), (1.0, -1.0), (0.0, 0.0), (1.0, float("nan")), (float("inf"),)])
def test_a_spectrum_is_checked(spectrum):
    with pytest.raises(ValueError, match="nonnegative eigenvalues"):
        Anisotropic(spectrum)


@pytest.mark.parametrize("kind", ["gaussian", "unit", "signs"])
def test_values_have_mean_zero_and_their_power(kind):
    values = draw_values(kind, np.random.default_rng(2), 30, 100, 5, np.float64).reshape(-1, 5)
    squares = (values**2).sum(axis=1)
    assert abs(squares.mean() - value_power(kind, 5)) <= 5 * squares.std() / np.sqrt(3000) + 1e-12
    assert np.all(np.abs(values.mean(axis=0)) < 5 * values.std() / np.sqrt(3000))
    if kind == "signs":
        assert set(np.unique(values)) == {-1.0, 1.0}


def test_effective_dimension_has_no_bias_from_few_keys():
    """tr(C)²/tr(C²) of the law; with N = d keys the plug-in estimate would be near half of it."""
    spectrum = np.linspace(0.1, 2, 50)
    truth = spectrum.sum() ** 2 / (spectrum**2).sum()
    rng = np.random.default_rng(3)
    found = [1 / effective_dimension(rng.standard_normal((50, 50)) * np.sqrt(spectrum)) for _ in range(200)]
    assert np.mean(found) == pytest.approx(1 / truth, rel=0.02)


def test_effective_dimension_of_extreme_keys():
    assert effective_dimension(np.ones((9, 6))) == pytest.approx(1)
    orthogonal = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))[0]
    assert effective_dimension(orthogonal) == np.inf


@pytest.mark.parametrize("size", [1e-200, 1e-160])
def test_keys_whose_squares_underflow_are_not_called_zero(tmp_path, size):
    np.save(tmp_path / "tiny.npy", np.full((3, 4), size))
    with pytest.raises(ValueError, match=r"key 0 of head 0 is too small for its square in float64 \(largest entry 1e-"):
        read_keys(str(tmp_path / "tiny.npy"))
