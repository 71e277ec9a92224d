"""`verify kernel`, the ledger's rows on DeltaFormer, and the kernels' figures."""

import json
import subprocess
import sys

import pytest

from verify import cli, kernel_speeds
from verify.claims import d_kernels, ledger
from verify.commands.kernel import CASES
from verify.evidence import Evidence, Verdict
from verify.records import jsonable
from verify.report.exhibits import NotRun, kernels

SMALL = ["--d", "8", "--dv", "5", "--length", "17"]
RECORD = {
    "device": "a GPU",
    "rows": [
        {"case": "tied", "shape": [2, 8192, 32, 128], "ms": {"ours": 3.0, "fa2": 3.5, "cudnn": 2.5, "fla": 50.0}},
        {"case": "untied", "shape": [2, 8192, 32, 128], "ms": {"ours": 6.0, "fa2": 3.5}},
    ],
}


def found(capsys, *argv):
    assert cli.main(["kernel", *argv, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_names_known_before_torch_is_loaded_are_the_kernels_own():
    from kernels import agreement
    from kernels.attention import FORMS
    from kernels.similarity import SIMILARITIES
    from verify.commands import kernel

    assert ("auto", *kernel.FORMS) == FORMS
    assert kernel.CASES == agreement.CASES
    assert kernel.SIMILARITIES == kernels.SIMILARITIES == tuple(SIMILARITIES)


def test_every_torch_form_and_similarity_is_checked(capsys):
    answer = found(capsys, "--form", "recurrent", "parallel", "chunked", *SMALL, "70")
    assert len(answer["points"]) == 3 * 6 * 2 * 3
    assert len(answer["claims"]) == 3 * 6
    assert {c["verdict"] for c in answer["claims"]} == {"confirmed"}
    assert all(p["agrees"] and p["ratio"] <= 1 for p in answer["points"])


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_within_its_bound(capsys, case, monkeypatch):
    from kernels import error_model

    seen = []
    run = error_model.deltaformer
    monkeypatch.setattr(error_model, "deltaformer", lambda *q, **given: (seen.append(given), run(*q, **given))[1])
    sizes = ["--d", "8", "--dv", "5", "--length", "40"]
    answer = found(capsys, "--form", "chunked", "triton", "--write", "softmax", "round", "--case", case, *sizes)
    assert {c["verdict"] for c in answer["claims"]} == {"confirmed"}
    assert {p["case"] for p in answer["points"]} == {case}
    given = seen[-2]  # the form's own call, before the oracle's
    assert (given["alpha"] is not None) == (case in ("alpha", "tied-gated"))
    assert (given["beta"] is not None) == (case in ("beta", "tied-gated"))
    assert (given["cu_seqlens"] is not None) == (case == "packed")


def test_without_a_gate_weights_are_neither_nothing_nor_too_much(capsys):
    """The problem must matter: a row's weights add to about 0.4 for relu, more for others; u does not explode."""
    for length in ("17", "200"):
        answer = found(capsys, "--form", "parallel", "--case", "ungated", "--length", length)
        assert all(1.3 < p["amplification"] < 100 for p in answer["points"])


@pytest.mark.parametrize(
    "more", [["--case", "tied-gated"], ["--read", "linear"], ["--beta", "-0.5"], ["--dtype", "bfloat16"]]
)
def test_options_reach_the_problem(capsys, more):
    argv = ["--form", "chunked", "--write", "exp", *SMALL]
    case = [] if "--case" in more else ["--case", "beta"]
    plain, changed = (found(capsys, *argv, *x) for x in (["--case", "beta"], [*case, *more]))
    assert changed["claims"][0]["verdict"] == "confirmed"
    errors = [(p["points"][0]["amplification"], p["points"][0]["o_error"]) for p in (plain, changed)]
    assert errors[0] != errors[1]


def test_a_wrong_form_is_refuted(capsys, monkeypatch):
    from kernels import attention, chunked

    def wrong(q, k, v, *rest):
        o, u = chunked.forward(q, k, v, *rest)
        return o, u * 1.001

    monkeypatch.setitem(attention.TORCH_FORMS, "parallel", wrong)
    arguments = ["kernel", "--form", "parallel", "chunked", "--write", "softmax", *SMALL]
    assert cli.main([*arguments, "--strict"]) == 1
    text = capsys.readouterr().out
    assert "1 of 2 disagree with the oracle: kernel-parallel-softmax" in text
    assert "NO" in text


def test_a_system_that_overflows_is_not_called_confirmed(capsys):
    answer = found(
        capsys, "--form", "chunked", "--write", "linear", "--case", "beta", "--beta", "-3", "--length", "130"
    )
    assert answer["claims"][0]["verdict"] == "inconclusive"
    assert "rows may leave the range of float32" in answer["claims"][0]["detail"]


def test_a_bound_that_could_hide_an_error_confirms_nothing(capsys):
    """16-bit operands and keys that are nearly alike: what rounding could do is far more than what it does."""
    answer = found(capsys, "--form", "triton", "--write", "exp", "--case", "ungated", *SMALL, "--dtype", "float16")
    assert answer["points"][0]["agrees"]
    assert answer["points"][0]["u_bound"] > 1
    assert answer["claims"][0]["verdict"] == "inconclusive"
    assert "could hide an error" in answer["claims"][0]["detail"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--form", "fast"], "expected one of recurrent, parallel, chunked, triton"),
        (["--length", "-1"], "expected an integer from 0"),
        (["--d", "0"], "expected an integer from 1"),
        (["--beta", "nan"], "expected a finite number"),
        (
            ["--beta", "0.5", "--case", "ungated"],
            "--beta 0.5: no case here has a β; expected --case beta or tied-gated",
        ),
        (["--case", "gated"], "expected one of ungated, tied"),
        (["--form", "triton", "--dtype", "float64"], "--form triton: does not compute in float64"),
    ],
)
def test_bad_input_gets_one_line(capsys, argv, message):
    assert cli.main(["kernel", *argv]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_cuda_it_says_so(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert cli.main(["kernel", "--device", "cuda"]) == 2
    assert "no CUDA device is available; expected cpu" in capsys.readouterr().err


def test_without_torch_the_command_says_how_to_install_it_and_the_ledger_still_runs():
    program = (
        "import sys; sys.modules['torch'] = None; from verify import cli\n"
        "first = cli.main(['kernel'])\n"
        "second = cli.main(['claims', '--only', 'D-3-tied-one-pass', 'D-F-growth', 'D-3-nilpotent'])\n"
        "sys.exit(10 * first + second)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 20
    assert "needs torch; install it with: pip install 'associative-memory-verify[kernels]'" in done.stderr
    assert "3 confirmed" in done.stdout


PROOFS = [c for c in d_kernels.CLAIMS if c.check not in (d_kernels.third_of_flash, d_kernels.faster_than_published)]


@pytest.mark.parametrize("claim", PROOFS, ids=lambda c: c.id)
def test_rows_are_decided_as_derived(claim):
    ruling = claim.decided().ruling
    assert ruling.verdict == Verdict.CONFIRMED
    assert ruling.evidence == (Evidence.LITERATURE if claim.id == "D-T6-ratios" else Evidence.PROOF)
    assert claim.id in ledger()


def test_a_wrong_backward_would_be_refuted(monkeypatch):
    right = d_kernels._backward_differences

    def wrong(e, v, beta, do, diff):
        for index, difference in enumerate(right(e, v, beta, do, diff)):
            yield difference + (e[1, 0] if index == 4 else 0)

    monkeypatch.setattr(d_kernels, "_backward_differences", wrong)
    assert d_kernels.tied_backward().verdict == Verdict.REFUTED


def test_speed_rows_read_the_record(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_speeds, "RECORD", tmp_path / "kernels.json")
    checks = (d_kernels.third_of_flash, d_kernels.faster_than_published)
    assert [check().verdict for check in checks] == [Verdict.INCONCLUSIVE] * 2
    with pytest.raises(NotRun, match=r"python -m kernels\.bench"):
        kernels.speeds(True)
    (tmp_path / "kernels.json").write_text(json.dumps(RECORD))
    rulings = [check() for check in checks]
    assert [r.verdict for r in rulings] == [Verdict.REFUTED, Verdict.CONFIRMED]
    assert all("a GPU" in r.detail for r in rulings)
    numbers = jsonable(kernels.speeds(True))
    assert len(numbers["rows"]) == 6
    kernels.draw_speeds(numbers)


@pytest.mark.parametrize("text", ["", "[]", '{"device": "x"}', '{"device": "x", "rows": [{"shape": [1], "ms": {}}]}'])
def test_a_broken_record_is_named(monkeypatch, tmp_path, text):
    monkeypatch.setattr(kernel_speeds, "RECORD", tmp_path / "kernels.json")
    (tmp_path / "kernels.json").write_text(text)
    with pytest.raises(ValueError, match=r"is no record of python -m kernels\.bench"):
        kernel_speeds.recorded_speeds()


@pytest.mark.parametrize("exhibit", kernels.EXHIBITS[:2], ids=lambda e: e.id)
def test_figures_show_what_was_computed(exhibit):
    numbers = jsonable(exhibit.compute(True))
    for draw in (exhibit.draw, *(view for _, view in exhibit.views)):
        assert all(axes.lines for axes in draw(numbers).axes)
    if exhibit.headline:
        assert "no row of u or o leaves its rounding bound" in exhibit.headline(numbers)
        assert "exceeds" in exhibit.headline({"rows": [{"ratio": 3.0}]})
