"""`verify keys` as a user meets it, the ledger's rows about keys, and the figures' numbers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from verify.claims import pE_keys
from verify.cli import main
from verify.evidence import Verdict


def _point(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["keys", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)["points"][0]


def test_point_has_what_was_promised(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "keys.npz"
    point = _point(capsys, "--n", "64", "--d", "19", "--max-seconds", "0.5", "--out", str(out))
    assert {"n", "d", "coherence", "construction", "exact", "bounds", "tried"} <= set(point)
    assert {"welch", "levenshtein", "lp"} <= set(point["bounds"])
    assert point["construction"] == "quadric q = 4"
    with np.load(out) as written:
        z, scale = written["z"].astype(np.int64), int(written["scale"])
    gram = z @ z.T
    assert (np.diag(gram) == scale).all()
    assert (
        Fraction(point["coherence_squared"])
        == Fraction(int(np.abs(gram - scale * np.eye(64, dtype=int)).max()), scale) ** 2
    )


def test_float_keys_are_written_as_unit_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "keys.npz"
    point = _point(
        capsys, "--n", "20", "--d", "8", "--max-seconds", "0.3", "--construction", "random", "--out", str(out)
    )
    with np.load(out) as written:
        keys = written["keys"]
    assert not point["exact"]
    assert np.allclose(np.linalg.norm(keys, axis=1), 1)
    assert np.abs(keys @ keys.T - np.eye(20)).max() == pytest.approx(point["coherence"])


def test_n_alone_and_d_alone(capsys: pytest.CaptureFixture[str]) -> None:
    point = _point(capsys, "--n", "12", "--epsilon", "0.3", "--max-seconds", "2")
    assert point["coherence"] < 0.3
    assert point["least_d"]["lp"] <= point["d"] < 12
    point = _point(capsys, "--d", "71")
    assert 512 <= point["most_found"] <= point["most_possible"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--n"),
        (("--n", "1", "--d", "3"), "--n"),
        (("--n", "5", "--d", "0"), "--d"),
        (("--n", "nan", "--d", "3"), "--n"),
        (("--n", "8000000", "--d", "60000"), "GiB"),
        (("--n", "5", "--d", "3", "--construction", "nonsense"), "nonsense"),
        (("--n", "5", "--construction", "random"), "--construction"),
        (("--n", "5", "--epsilon", "0"), "--epsilon"),
        (("--d", "5", "--out", "x.npz"), "--out"),
        (("--n", "5", "--d", "3", "--out", "x.txt"), ".npz"),
        (("--n", "5", "--d", "3", "--out", "/nowhere/x.npz"), "--out"),
        (("--n", "5", "--d", "3", "--max-seconds", "inf"), "--max-seconds"),
    ],
)
def test_bad_input_gets_one_line(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_verdicts_of_the_ledger() -> None:
    rulings = {claim.id: claim.decided().ruling for claim in pE_keys.CLAIMS}
    verdicts = {name: ruling.verdict for name, ruling in rulings.items() if ruling}
    refuted = {"P-E-keys-random", "P-E-keys-log-512", "P-E-keys-falsifiers"}
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.REFUTED} == refuted
    assert all(verdicts[name] is Verdict.CONFIRMED for name in verdicts.keys() - refuted)


def test_pair_tail_against_draws() -> None:
    """20,000 pairs at d = 20, ε = 0.3: a deviation of 5 standard errors, false alarm 6e-7."""
    x = np.random.default_rng(5).standard_normal((2, 20_000, 20))
    products = (x[0] * x[1]).sum(1) / np.linalg.norm(x, axis=2).prod(axis=0)
    tail = pE_keys.pair_tail(20, 0.3)
    assert (np.abs(products) > 0.3).mean() == pytest.approx(tail, abs=5 * (tail * (1 - tail) / 20_000) ** 0.5)


def test_union_dimension_is_the_least() -> None:
    d = pE_keys.union_dimension(100, 0.2)
    assert 4950 * pE_keys.pair_tail(d, 0.2) < 1 <= 4950 * pE_keys.pair_tail(d - 1, 0.2)


def test_histogram_counts_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    from verify.report.exhibits import keys

    monkeypatch.setattr(keys, "N", 150)
    numbers = json.loads(json.dumps(keys._gram(True)))
    assert sum(numbers["random"]) == sum(numbers["built"]) == 150 * 149 // 2
    assert keys._draw_gram(numbers).axes
