"""A report of two exhibits and two claims that takes no time, full of hostile text."""

import pytest

from verify import cli
from verify.evidence import Claim, Evidence, Ruling, Verdict
from verify.report import build
from verify.report.exhibits import Exhibit, NotRun
from verify.report.style import new_figure
from verify.report.svg import name_points

HOSTILE = '<script>alert("x")</script>&"\''


def draw(numbers):
    figure, axes = new_figure()
    (line,) = axes.plot([row["d"] for row in numbers["rows"]], [1, 2], "o-", color="black", label=HOSTILE)
    name_points(line, [HOSTILE, "second"])
    axes.set_title(HOSTILE)
    axes.legend()
    return figure


def _formula():
    return "<mi>x</mi>"


def _absent(quick):
    raise NotRun("Needs torch: pip install torch")


def _exhibit(id, section, compute, **more):
    command = "python -m verify snr"
    return Exhibit(
        id, section, "Title " + HOSTILE, "Caption " + HOSTILE, command, compute, draw, "alt " + HOSTILE, **more
    )


def _refuted():
    return Ruling(Verdict.REFUTED, Evidence.PROOF, "off by 2 " + HOSTILE, {"factor": 2.0, "limit": float("inf")})


def _confirmed():
    return Ruling(Verdict.CONFIRMED, Evidence.LITERATURE, "as printed")


class SmallReport:
    """Writes the page; `computed` holds the value of `quick` of each computation made."""

    def __init__(self):
        self.computed = []

    def compute(self, quick):
        self.computed.append(quick)
        return {"rows": [{"d": 1, "y": float("inf"), "keys": HOSTILE}, {"d": 2, "y": 0.25, "keys": "gaussian"}]}

    def write(self, path, *argv):
        assert cli.main(["report", "--out", str(path), "--quiet", "--workers", "1", *argv]) == 0
        return path.read_text()


@pytest.fixture
def small(monkeypatch):
    report = SmallReport()
    headline = lambda n: f"Found {len(n['rows'])} " + HOSTILE  # noqa: E731
    exhibits = [
        _exhibit("one", "capacity", report.compute, views=(("other", draw),), headline=headline, formula=_formula),
        _exhibit("two", "kernels", _absent),
    ]
    claims = [
        Claim("a", "P §2.1.1 eq. 13", "S " + HOSTILE, check=_refuted),
        Claim("b", "D Table 6", "T", check=_confirmed, repairs="a"),
    ]
    monkeypatch.setattr(build, "exhibits", lambda: exhibits)
    monkeypatch.setattr(build, "ledger", lambda: {c.id: c for c in claims})
    return report
