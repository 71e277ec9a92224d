import json

import numpy as np
import pytest
from scipy.linalg import hadamard

from theorem.known import RECORDED
from verify.cli import main

SMALL = ["theorem", "--n", "24", "--d", "20", "--max-seconds", "1", "--steps", "300"]


def run(capsys, *arguments):
    status = main([*arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def finding(capsys, *arguments):
    status, out, err = run(capsys, *arguments, "--json", "-")
    assert status == 0, err
    return json.loads(out)


def test_the_contract_of_a_point(capsys):
    answer = finding(capsys, *SMALL)
    assert answer["command"] == "theorem"
    (point,) = answer["points"]
    assert (point["n"], point["d"]) == (24, 20)
    assert point["assumption1"] is True
    assert 0 < point["welch"] <= point["coherence"] < 1 / 8
    assert point["lemma"]["holds"] is True
    assert point["lemma"]["pairs_checked"] == 276 * 277 // 2
    assert point["lemma"]["margin"] > 0
    replay = point["replay"]
    assert (replay["f"], replay["steps"], replay["wrong_slots"], replay["max_error"]) == ("round", 300, 0, 0.0)
    assert replay["exact"] is True
    assert set(point["replays"]) == {"random", "one pair", "through one slot", "reversals", "3-cycles"}
    assert set(point["others"]) == {"linear", "exp4"}
    assert point["others"]["exp4"]["first_wrong"] is not None
    assert point["certificate"]["valid"] is True
    assert {c["id"]: c["verdict"] for c in answer["claims"]} == dict.fromkeys(
        ("theorem-assumption-1", "theorem-lemma-1", "theorem-replay"), "confirmed"
    )
    assert all(c["command"].startswith("python -m verify theorem --n 24") for c in answer["claims"])


def test_the_table_says_it_in_words(capsys):
    status, out, _ = run(capsys, *SMALL)
    assert status == 0
    for words in (
        "24 keys in R^20",
        "Assumption 1",
        "Lemma 1",
        "valid",
        "3-cycles",
        "Theorem 1 is proved for these keys",
    ):
        assert words in out


def test_parameters_that_no_keys_satisfy_are_answered_with_the_bound(capsys):
    answer = finding(capsys, "theorem", "--n", "128", "--d", "7", "--max-seconds", "0.5", "--steps", "200")
    (point,) = answer["points"]
    assert point["assumption1"] is False
    assert point["lemma"]["holds"] is False
    assert point["replay"]["exact"] is False
    assert point["replay"]["wrong_slots"] > 0
    assert point["certificate"] is None
    details = {c["id"]: c["detail"] for c in answer["claims"]}
    assert "no 128 unit vectors in R^7 have less than" in details["theorem-assumption-1"]
    assert "says nothing against it" in details["theorem-replay"]
    assert max(point["bounds"].values()) > 1 / 8


def test_strict_fails_where_something_is_refuted(capsys):
    assert run(capsys, *SMALL, "--strict", "--quiet")[0] == 0
    assert (
        run(capsys, "theorem", "--n", "9", "--d", "2", "--max-seconds", "0.5", "--steps", "20", "--strict", "--quiet")[
            0
        ]
        == 1
    )


def test_a_certificate_is_written_and_holds(capsys, tmp_path):
    path = tmp_path / "keys.npz"
    answer = finding(capsys, *SMALL, "--certificate", str(path))
    assert run(capsys, "check", str(path))[0] == 0
    sha = answer["points"][0]["certificate"]["sha256"]
    assert sha in run(capsys, "check", str(path))[1]


def test_keys_of_a_file(capsys, tmp_path):
    d = 64
    rows = np.vstack([8 * np.eye(d, dtype=np.int8), hadamard(d, dtype=np.int8)])
    path = tmp_path / "keys.npz"
    np.savez(path, z=rows, scale=d)
    (point,) = finding(capsys, "theorem", "--keys", str(path), "--steps", "200")["points"]
    assert (point["n"], point["d"], point["coherence"]) == (128, 64, 0.125)
    assert point["assumption1"] is False  # exactly 1/8 is not below it
    assert point["lemma"]["holds"] is True  # and still proved, with ties to even
    assert point["replay"]["exact"] is True
    away = finding(capsys, "theorem", "--keys", str(path), "--steps", "200", "--f", "round-half-away")
    assert away["points"][0]["lemma"]["holds"] is False
    assert away["points"][0]["replay"]["exact"] is False
    np.save(tmp_path / "keys.npy", rows[:70] * 0.3)
    (point,) = finding(capsys, "theorem", "--keys", str(tmp_path / "keys.npy"), "--steps", "100")["points"]
    assert point["replay"]["exact"] is True


def test_the_least_width_known_is_said_with_its_ground(capsys):
    status, out, _ = run(capsys, "theorem", "--n", "512", "--d", "71", "--steps", "20", "--max-seconds", "0.2")
    said = " ".join(out.split())
    assert status == 0
    assert "67 known (orbits from Kerdock, recorded); 71 by a construction alone" in said
    assert "62 are enough for Theorem 1 without Assumption 1" in said


def test_keys_too_fine_for_int8_are_certified_in_int16(capsys, tmp_path):
    keys, path = RECORDED / "keys-512-67.npz", tmp_path / "certificate.npz"
    answer = finding(capsys, "theorem", "--keys", str(keys), "--steps", "100", "--certificate", str(path))
    assert answer["points"][0]["certificate"]["claims"] == ["gram", "coherence"]
    status, out, _ = run(capsys, "check", str(path))
    assert status == 0
    assert "int16" in out
    np.savez(tmp_path / "wide.npz", z=np.eye(4, dtype=np.int64) * 40_000, scale=1_600_000_000)
    status, out, _ = run(capsys, "theorem", "--keys", str(tmp_path / "wide.npz"), "--steps", "10")
    assert status == 0
    assert "certificates hold -32768 to 32767" in " ".join(out.split())


def test_keys_of_any_length_are_read(capsys, tmp_path):
    for size in (1e-200, 1e300):
        np.save(tmp_path / "keys.npy", size * np.eye(3))
        (point,) = finding(capsys, "theorem", "--keys", str(tmp_path / "keys.npy"), "--steps", "10")["points"]
        assert point["replay"]["exact"] is True


def test_more_keys_than_fit_their_gram_matrix(capsys):
    """Lemma 1 follows from coherence, and the replay takes products from the keys."""
    (point,) = finding(capsys, "theorem", "--n", "4200", "--d", "256", "--steps", "300")["points"]
    assert point["lemma"] == {"holds": True, "pairs_checked": 0, "margin": None}
    assert point["replay"]["exact"] is True
    assert point["others"]["linear"]["first_wrong"] == 0
    assert point["certificate"] is None


def test_swaps_of_a_file(capsys, tmp_path):
    path = tmp_path / "swaps.csv"
    path.write_text("0,1\n2,1\n23,0\n")
    (point,) = finding(capsys, *SMALL, "--swaps", str(path))["points"]
    assert set(point["replays"]) == {"given"}
    assert point["replay"]["steps"] == 3
    assert point["replay"]["exact"] is True


def test_rewriting_bounds_the_tokens(capsys):
    (point,) = finding(capsys, *SMALL, "--rewrite", "24")["points"]
    assert point["replay"]["tokens"] == 48
    assert point["replay"]["exact"] is True


def test_the_same_seed_gives_the_same_point(capsys):
    arguments = ("theorem", "--n", "20", "--d", "16", "--keys", "random", "--steps", "100", "--seed", "7")
    first, second = (finding(capsys, *arguments)["points"] for _ in range(2))
    assert first == second
    assert finding(capsys, *arguments[:-1], "8")["points"] != first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n", "1", "--d", "4"], "from 2 to"),
        (["--n", "0", "--d", "4"], "from 2 to"),
        (["--n", "4", "--d", "0"], "from 1 to"),
        (["--n", "-4", "--d", "4"], "from 2 to"),
        (["--n", "nan", "--d", "4"], "an integer"),
        (["--n", "4", "--d", "1e400"], "an integer"),
        (["--n", "4"], "expected --n and --d"),
        (["--n", "3", "--d", "1", "--max-seconds", "0.2"], "rank 1"),
        (["--n", "1000000", "--d", "1000000"], "GiB"),
        (["--n", "4", "--d", "4", "--f", "cube"], "--f cube: expected round"),
        (["--n", "4", "--d", "4", "--f", "exp99"], "--f exp99"),
        (["--n", "8", "--d", "2", "--max-seconds", "0.2", "--f", "exp9"], "--f exp9"),
        (["--n", "4", "--d", "4", "--steps", "0"], "from 1 to"),
        (["--n", "4", "--d", "4", "--rewrite", "0"], "from 1 to"),
        (["--n", "4", "--d", "4", "--rewrite", "5", "--device", "cuda"], "--rewrite"),
        (["--n", "4", "--d", "4", "--device", "tpu"], "--device"),
        (["--n", "4", "--d", "4", "--max-seconds", "0"], "at least 0.1"),
        (["--n", "4", "--d", "4", "--keys", "absent.npz"], "--keys absent.npz: No such file"),
        (["--n", "4", "--d", "4", "--swaps", "absent.csv"], "--swaps absent.csv: No such file"),
        (["--n", "4", "--d", "4", "--certificate", "/no/such/folder/c.npz"], "--certificate"),
        (["--n", "4", "--d", "4", "--certificate", ""], "--certificate"),
        (["--n", "4", "--d", "4", "--swaps", ""], "--swaps"),
    ],
)
def test_bad_options_get_one_line_and_status_2(capsys, arguments, words):
    status, out, err = run(capsys, "theorem", *arguments)
    assert status == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert words in err


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"keys": np.array([[1.0, np.nan], [0, 1]])}, "not finite"),
        ({"keys": np.array([[1.0, 0], [0, 0]])}, "key 1 is zero"),
        ({"keys": np.array([[1.0, 2], [2, 4]])}, "rank 1"),
        ({"keys": np.ones(3)}, "at least two keys"),
        ({"keys": np.ones((1, 3))}, "at least two keys"),
        ({"keys": np.array([["a", "b"]])}, "expected integers z"),
        ({"z": np.eye(3)}, "expected integers z"),
        ({"z": np.eye(3, dtype=np.int8), "scale": np.array(0)}, "positive integer"),
        ({"z": np.eye(3, dtype=np.int8), "scale": np.array([1, 2])}, "scale"),
        ({}, "holds nothing"),
    ],
)
def test_files_that_hold_no_keys(capsys, tmp_path, arrays, words):
    path = tmp_path / "keys.npz"
    np.savez(path, **arrays)
    status, _, err = run(capsys, "theorem", "--keys", str(path))
    assert status == 2
    assert len(err.strip().splitlines()) == 1
    assert words in err


def test_files_that_are_broken_or_do_not_fit(capsys, tmp_path):
    path = tmp_path / "keys.npz"
    np.savez(path, keys=np.eye(5))
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"not a file of numbers"):
        path.write_bytes(content)
        status, _, err = run(capsys, "theorem", "--keys", str(path))
        assert status == 2
        assert len(err.strip().splitlines()) == 1
    path.write_bytes(whole)
    status, _, err = run(capsys, "theorem", "--keys", str(path), "--n", "6")
    assert status == 2
    assert "--n 6" in err
    swaps = tmp_path / "swaps.csv"
    swaps.write_text("0,1\n1,5\n")
    status, _, err = run(capsys, "theorem", "--keys", str(path), "--swaps", str(swaps))
    assert status == 2
    assert "line 2 names slot 5; slots are 0 to 4" in err


def test_without_a_gpu_cuda_is_refused_in_one_line(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    status, _, err = run(capsys, *SMALL, "--device", "cuda")
    assert status == 2
    assert "torch sees no CUDA device" in err
    assert "--device cuda" in err
