"""Theorem 1 replayed on the CPU: exact where the keys deserve it, honest where not, plain about bad input."""

import json

import numpy as np
import pytest
from scipy.linalg import hadamard

from kernels import bench, triton_forward
from kernels.replay import main, random_swaps, replay, trace

interpreted = pytest.mark.skipif(not triton_forward.interpreted(), reason="kernels are compiled here")
ORTHOGONAL = np.eye(8, dtype=np.int64) * 3


@interpreted
@pytest.mark.parametrize("rewrite", [None, 17])
def test_orthogonal_keys_replay_exactly(rewrite):
    found = replay(ORTHOGONAL, 9, 60, 1, values=8, checkpoints=3, rewrite=rewrite, device="cpu")
    assert found.exact
    assert [c.steps for c in found.checkpoints] == ([17, 34, 51, 60] if rewrite else [20, 40, 60])


@interpreted
def test_keys_that_are_too_coherent_are_found_out():
    # an orthonormal basis and a Hadamard basis of R^16: coherence 1/4, twice what Assumption 1 allows
    keys = np.concatenate([np.eye(16, dtype=np.int64) * 4, hadamard(16)])
    found = replay(keys, 16, 60, 1, values=8, checkpoints=2, device="cpu")
    assert not found.exact
    assert found.wrong_writes > 0


def test_swaps_are_of_two_slots_in_order_and_trace_a_permutation():
    swaps = random_swaps(5, 400, 3)
    assert (swaps[:, 0] < swaps[:, 1]).all()
    assert {tuple(pair) for pair in swaps.tolist()} == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    met, after = trace(5, swaps, [150, 400])
    assert sorted(after[150]) == sorted(after[400]) == list(range(5))
    assert (met[:, 0] != met[:, 1]).all()
    _, whole = trace(5, swaps, [400])
    assert (whole[400] == after[400]).all()


@pytest.mark.parametrize(
    ("keys", "steps", "problem"),
    [
        (np.eye(4, dtype=np.int64) * 300, 10, "bf16 holds integers exactly up to 256"),
        (
            np.ones((4, 256), dtype=np.int64) * np.array([[128], [-128], [1], [2]]),
            10,
            "products of keys can reach 16777216, float32 rounds them over 9 rightly below 4194304",
        ),
        (ORTHOGONAL, 5_000_000, "use rewrite"),
        (ORTHOGONAL, 0, "at least one step"),
    ],
)
def test_what_cannot_be_exact_is_refused(keys, steps, problem):
    with pytest.raises(ValueError, match=problem):
        replay(keys, 9, steps, 0, device="cpu")


@interpreted
def test_the_command_writes_its_finding(tmp_path, capsys):
    np.savez(tmp_path / "keys.npz", z=ORTHOGONAL, scale=9)
    options = ["--steps", "20", "--values", "4", "--checkpoints", "1", "--device", "cpu"]
    assert main([str(tmp_path / "keys.npz"), *options, "--json", str(tmp_path / "found.json")]) == 0
    assert "0 wrong u" in capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["exact"]
    assert found["checkpoints"][-1] == {"steps": 20, "wrong_slots": 0, "max_error": 0.0}


@pytest.mark.parametrize(
    "content", [None, b"", b"PK\x03\x04 not a zip", {"z": np.eye(2)}, {"z": np.eye(2), "scale": 1.0}]
)
def test_bad_key_files_get_one_line(tmp_path, capsys, content):
    path = tmp_path / "keys.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.savez(path, **content)
    assert main([str(path), "--device", "cpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_bench_says_that_there_is_no_gpu(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert bench.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--device", "nonsense"], "device 'nonsense' is unknown; expected cpu or cuda"),
        (["--device", "mps"], "device 'mps' has no kernels; expected cpu or cuda"),
        (["--device", "cuda:99"], "torch sees no CUDA device 'cuda:99' here"),
        (["--device", "cpu", "--values", "0"], "at least one step, one entry of a value"),
        (["--device", "cpu", "--seed", "-1"], "non-negative"),
    ],
)
def test_bad_options_get_one_line(tmp_path, capsys, options, problem):
    np.savez(tmp_path / "keys.npz", z=ORTHOGONAL, scale=9)
    assert main([str(tmp_path / "keys.npz"), "--steps", "20", *options]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


@interpreted
def test_contents_that_outgrow_the_operands_end_in_a_finding():
    """Rewritten slots whose keys are too alike grow by a factor at each rewrite."""
    keys = np.ones((6, 4), dtype=np.int64) * 3 + np.eye(6, 4, dtype=np.int64)
    found = replay(keys, 9, 60, 1, values=4, rewrite=10, device="cpu")
    assert not found.exact
    assert found.checkpoints[-1].wrong_slots > 0
