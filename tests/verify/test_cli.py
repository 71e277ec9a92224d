"""The program as a user meets it: `main` in-process, and a few real processes where the process is the point."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from verify import cli
from verify.evidence import Claim, Evidence, Finding, Ruling, Verdict
from verify.options import BadInput, blame, integer, real


def run(capsys, *argv):
    status = cli.main(list(argv))
    streams = capsys.readouterr()
    return status, streams.out, streams.err


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["env", "--nonsense"], "--nonsense"),
        (["env", "--json"], "--json"),
        (["env", "--json", "/nonexistent/x.json"], "--json /nonexistent/x.json"),
        (["env", "--json", "/"], "--json /"),
        (["claims", "--only", "no-such-claim"], "--only no-such-claim"),
        (["claims", "--markdown", "/nonexistent/CLAIMS.md"], "--markdown /nonexistent/CLAIMS.md"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, argv, names):
    status, out, err = run(capsys, *argv)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err


def test_json_on_standard_output_is_the_object_alone(capsys):
    status, out, err = run(capsys, "env", "--json", "-")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["schema"] == 1
    assert set(found) == {"schema", "command", "spec", "provenance", "points", "claims"}
    assert found["provenance"]["argv"] == ["python", "-m", "verify", "env", "--json", "-"]


def test_json_file_appears_and_is_named(capsys, tmp_path):
    path = tmp_path / "env.json"
    status, out, _ = run(capsys, "env", "--json", str(path))
    assert status == 0
    assert json.loads(path.read_text())["command"] == "env"
    assert f"wrote {path}" in out


def decided(*verdicts):
    claims = [Claim(str(i), "P", "s", ruling=Ruling(v, Evidence.PROOF, "")) for i, v in enumerate(verdicts)]
    return Finding("test", {}, claims=claims)


@pytest.mark.parametrize(
    ("verdicts", "strict", "status"),
    [
        ((Verdict.REFUTED,), False, 0),
        ((Verdict.REFUTED, Verdict.INCONCLUSIVE), True, 1),
        ((Verdict.INCONCLUSIVE, Verdict.CONFIRMED), True, 3),
        ((Verdict.CONDITIONAL, Verdict.CONFIRMED), True, 0),
    ],
)
def test_exit_status(verdicts, strict, status):
    assert cli._status(decided(*verdicts), strict) == status


def test_a_command_may_set_its_own_status():
    assert cli._status(dataclasses.replace(decided(Verdict.CONFIRMED), status=1), False) == 1


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "", "1.5", "٣", "0x10", "9" * 30])
def test_integer_refuses(text):
    with pytest.raises(ValueError, match="an integer from 1 to 100"):
        integer(1, 100)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "", "x"])
def test_real_refuses(text):
    with pytest.raises(ValueError, match="a finite number above 0"):
        real(0, open_low=True)(text)


def test_blame_names_option_and_value():
    with pytest.raises(BadInput, match=r"^--keys k\.npy: No such file or directory$"), blame("--keys", "k.npy"):
        Path("/nonexistent/k.npy").read_bytes()
    with pytest.raises(BadInput, match=r"^--d 3: too small$"), blame("--d", 3):
        raise ValueError("too\n small")


def test_blame_lets_bugs_through():
    with pytest.raises(TypeError), blame("--d", 3):
        len(3)  # type: ignore[arg-type]


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from verify.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'sympy', 'matplotlib', 'torch', 'scipy', 'rich', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "claims" in done.stdout


def test_every_command_has_help_and_light_options(capsys):
    for name in ("env", "claims"):
        with pytest.raises(SystemExit) as exit:
            cli.main([name, "--help"])
        assert exit.value.code == 0
        assert "--json" in capsys.readouterr().out


def test_a_closed_pipe_is_not_a_traceback():
    done = subprocess.run(
        f"{sys.executable} -m verify env | true", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_not_a_refutation():
    command = f"{sys.executable} -m verify claims --list | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("env >&-", 0, ""),
        ("env >&- 2>&-", 0, ""),
        ("env --json - >&-", 2, "verify env: --json -: standard output is closed"),
        ("env --json - >/dev/full", 2, "verify env: standard output: No space left on device"),
        ("env --json /dev/full", 2, "verify env: --json /dev/full: No space left on device"),
        ("claims --list >/dev/full", 2, "verify claims: standard output: No space left on device"),
        ("snr --derive >/dev/full", 2, "verify snr: standard output: No space left on device"),
        ("--help >/dev/full", 0, ""),
        ("snr --dk 0 2>/dev/full", 2, ""),
        ("snr --dk 0 2>&-", 2, ""),
    ],
)
def test_output_that_cannot_be_written(line, status, error):
    command = [f"{sys.executable} -m verify {line}"]
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == (f"{error}\n" if error else "")


@pytest.mark.parametrize("option", ["--json", "--plot", "--records", "--scheduler", "--keys", "--kernel"])
def test_an_empty_value_is_refused(capsys, option):
    assert cli.main(["snr", option, ""]) == 2
    assert option in capsys.readouterr().err


def test_a_long_value_is_not_echoed_whole(capsys):
    assert cli.main(["snr", "--kernel", "x" + "+x" * 3000]) == 2
    assert len(capsys.readouterr().err) < 1000
