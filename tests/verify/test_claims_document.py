"""CLAIMS.md is the ledger as it stands: every row's words, and the rulings of as many rows as the time allows."""

import hashlib
import re
import time
from pathlib import Path

import pytest

from verify.claims import by_section, ledger, section_of
from verify.commands.claims import COLUMNS, cells, markdown
from verify.evidence import Claim, Evidence, Ruling, Verdict

DOCUMENT = Path(__file__).resolve().parents[2] / "CLAIMS.md"
REGENERATE = "run `python -m verify claims --markdown CLAIMS.md` and commit it"
CPU_SECONDS = 8.0  # of decided rows; all of them are decided where the document is written
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def rows(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| id "):
            row = [
                cell.replace("\\|", "|")
                for cell in re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            ]
            assert len(row) == len(COLUMNS), line
            found[row[0]] = dict(zip(COLUMNS, row))
    return found


def same_but_for_rounding(one, two):
    """The same words, and numbers that agree to 5 %: the last digits of a simulation may differ between machines."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", two):
        return False
    pairs = zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(two)))
    return all(abs(x - y) <= 0.05 * max(abs(x), abs(y)) for x, y in pairs)


def test_every_claim_stands_in_the_document_in_its_own_words():
    document = rows(DOCUMENT.read_text(encoding="utf-8"))
    claims = ledger()
    assert list(document) == [c.id for c in by_section(claims.values())], REGENERATE
    blank = Ruling(Verdict.CONFIRMED, Evidence.PROOF, "")
    for name, claim in claims.items():
        expected = dict(zip(COLUMNS, (cell.replace("\\|", "|") for cell in cells(claim.decided(blank)))))
        for column in ("id", "source", "statement", "command"):
            assert document[name][column] == expected[column], f"{name}: {REGENERATE}"


def test_rulings_are_those_of_the_document():
    document = rows(DOCUMENT.read_text(encoding="utf-8"))
    claims = sorted(ledger().values(), key=lambda c: hashlib.sha256(c.id.encode()).digest())
    start, decided = time.process_time(), 0
    for claim in claims:
        if time.process_time() - start > CPU_SECONDS:
            break
        ruling = claim.decided().ruling
        row = document[claim.id]
        assert (row["verdict"], row["evidence"]) == (ruling.words, ruling.evidence), f"{claim.id}: {REGENERATE}"
        assert same_but_for_rounding(row["why"], ruling.detail), f"{claim.id}: {ruling.detail}; {REGENERATE}"
        decided += 1
    assert decided >= 5


def test_what_is_confirmed_as_an_approximation_states_its_tolerance():
    document = rows(DOCUMENT.read_text(encoding="utf-8"))
    coarse = {name: row for name, row in document.items() if "±" in row["verdict"]}
    assert "P-2.1-trained-linear-effective-approximate" in coarse
    for row in coarse.values():
        tolerance = row["verdict"].removeprefix("confirmed ±")
        assert f"declared tolerance of {tolerance}" in row["statement"]
        assert row["why"].startswith(f"as an approximation, to {tolerance}")
    assert document["P-2.1-trained-linear-effective"]["verdict"] == "refuted"


def test_comparison_of_reasons_can_fail():
    assert same_but_for_rounding("a 1.00 [0.9, 2e-5]", "a 1.01 [0.9, 2e-5]")
    assert not same_but_for_rounding("a 1.00", "a 1.10")
    assert not same_but_for_rounding("a 1.00", "b 1.00")
    assert not same_but_for_rounding("3 of 3", "2 of 3")


def test_markdown_groups_by_section_and_keeps_cells_whole():
    ruling = Ruling(Verdict.REFUTED, Evidence.PROOF, "a | b\nc")
    claims = [
        Claim("d", "D App. F", "s", ruling=ruling),
        Claim("b", "P App. C", "s|t", ("x < 1",), ruling=ruling),
        Claim("a", "P §2.2, App. B", "s", repairs="b", ruling=ruling),
    ]
    text = markdown(claims)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## P §2.2", "## P App. C", "## D App. F"]
    found = rows(text)
    assert list(found) == ["a", "b", "d"]
    assert found["b"]["statement"] == "s|t (assuming x < 1)"
    assert found["b"]["why"] == "a | b c"
    assert found["a"]["statement"] == "s (repairs b)"


@pytest.mark.parametrize(
    ("source", "section"),
    [
        ("P §2.1.1 eq. 13", "P §2.1"),
        ("P §2.2.2, App. F", "P §2.2"),
        ("P App. C, eq. 41-42", "P App. C"),
        ("D Table 6", "D Table 6"),
        ("D, language modelling", "D"),
        ("Wang, Shi, Fox 2025", "Other sources"),
        ("Grazzi et al. 2025; P App. E", "Other sources"),
    ],
)
def test_sections(source, section):
    assert section_of(Claim("x", source, "s")) == section
