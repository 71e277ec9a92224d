import html.parser
import json
import re

import pytest

from verify import cli
from verify.report import build
from verify.report.exhibits import exhibits
from verify.report.style import new_figure
from verify.report.svg import inline_svg, name_points


class Outline(html.parser.HTMLParser):
    VOID = frozenset({"meta", "link", "input", "br", "path", "use"})

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.scripts, self.open = [], [], 0, []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.scripts += tag == "script"
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [value for name, value in attributes.items() if name in ("href", "src", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()


def outline(text):
    parser = Outline()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_the_page_is_whole_and_asks_for_nothing_outside(small, tmp_path):
    found = outline(small.write(tmp_path / "i.html"))
    assert len(found.ids) == len(set(found.ids))
    for link in found.links:
        assert link.startswith("data:") or (link[0] == "#" and link[1:] in found.ids)


def test_the_page_says_beside_the_ledger_that_statements_are_summaries(small, tmp_path):
    ledger = small.write(tmp_path / "i.html").partition('<section id="ledger">')[2].partition("<table")[0]
    assert "not quotations: the papers&#39; full text was not at hand" in ledger


def test_hostile_text_is_text(small, tmp_path):
    text = small.write(tmp_path / "i.html")
    assert outline(text).scripts == 1
    assert '<script>alert("x")' not in text


def test_same_sources_same_bytes_but_for_the_provenance(small, tmp_path):
    def cut(text):
        return re.sub(r"<!-- provenance -->.*<!-- /provenance -->", "", text, flags=re.S)

    first = small.write(tmp_path / "a.html")
    (tmp_path / ".points-quick.jsonl").unlink()
    (tmp_path / ".points-quick.jsonl.manifest.json").unlink()
    assert cut(first) == cut(small.write(tmp_path / "a.html"))
    assert len(small.computed) == 2


def test_finished_points_are_reused_and_the_modes_kept_apart(small, tmp_path):
    small.write(tmp_path / "a.html")
    small.write(tmp_path / "a.html")
    assert small.computed == [True]
    small.write(tmp_path / "a.html", "--full")
    assert small.computed == [True, False]


def test_what_did_not_run_says_how(small, tmp_path):
    text = small.write(tmp_path / "i.html")
    assert "Not run here." in text
    assert text.count("<math") == 1  # and no formula where there is none
    assert "pip install torch" in text


def test_from_records_computes_nothing(small, tmp_path):
    first = small.write(tmp_path / "i.html", "--records", str(tmp_path / "p.jsonl"))
    again = small.write(tmp_path / "j.html", "--from", str(tmp_path / "p.jsonl"))
    assert small.computed == [True]
    assert again.count("<svg") == first.count("<svg") > 0
    (tmp_path / "p.jsonl").write_text("")
    assert "Not in these records" in small.write(tmp_path / "k.html", "--from", str(tmp_path / "p.jsonl"))
    assert small.computed == [True]


def test_downloads_carry_the_numbers(small, tmp_path):
    import base64

    links = [x for x in outline(small.write(tmp_path / "i.html")).links if x.startswith("data:application/json")]
    (numbers,) = [json.loads(base64.b64decode(x.partition("base64,")[2])) for x in links]
    assert numbers["numbers"]["rows"][0] == {"d": 1, "y": "inf", "keys": '<script>alert("x")</script>&"\''}


def test_other_formats(small, tmp_path):
    found = json.loads(small.write(tmp_path / "r.json", "--format", "json"))
    assert [c["verdict"] for c in found["claims"]] == ["refuted", "confirmed"]
    assert [p["exhibit"] for p in found["points"]] == ["one", "two"]
    assert "1 refuted" in small.write(tmp_path / "r.md", "--format", "markdown")


def test_fail_on(small, tmp_path):
    out = str(tmp_path / "i.html")
    assert cli.main(["report", "--out", out, "--quiet", "--workers", "1", "--fail-on", "refuted"]) == 1
    assert cli.main(["report", "--out", out, "--quiet", "--workers", "1", "--fail-on", "inconclusive"]) == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["--only", "weather"],
        ["--quick", "--full"],
        ["--out", "/nonexistent/i.html"],
        ["--format", "pdf"],
        ["--fail-on", "rain"],
        ["--from", "/nonexistent/p.jsonl"],
    ],
)
def test_bad_options(small, capsys, argv):
    assert cli.main(["report", *argv]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_records_of_other_sources_are_not_mixed_in(small, tmp_path, monkeypatch, capsys):
    small.write(tmp_path / "i.html", "--records", str(tmp_path / "p.jsonl"))
    monkeypatch.setattr(build, "report_spec", lambda quick: {"another": quick})
    argv = ["report", "--out", str(tmp_path / "i.html"), "--records", str(tmp_path / "p.jsonl")]
    assert cli.main(argv) == 2
    assert "--records" in capsys.readouterr().err
    small.write(tmp_path / "i.html")  # those beside the page are begun anew
    assert small.computed == [True, True]


def test_svg_keeps_text_and_names_points():
    figure, axes = new_figure()
    (line,) = axes.plot([1, 2], [1, 2], "o-", color="black")
    axes.set_title("what is plotted")
    name_points(line, ["first", "second"])
    text = inline_svg(figure, "p", "what is seen")
    assert "second</title>" in text.replace("ns0:", "")
    assert "#000000" not in text
    assert re.search(r"<text[^>]*>what is plotted</text>", text)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert all(i.startswith("p-") for i in ids)
    for target in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
        assert "".join(target) in ids


def test_exhibits_are_well_formed():
    found = exhibits()
    assert len({e.id for e in found}) == len(found)
    for e in found:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", e.id), e.id
        assert e.title
        assert e.caption
        assert e.alt
        assert e.command.startswith(("python -m", "make"))
