"""The goals and the table of `verify bench`, without measuring."""

import json

from verify import benchmarks
from verify.benchmarks import Goal, goals
from verify.cli import main


def test_goals_have_names_of_their_own():
    names = [goal.id for goal in goals()]
    assert len(names) == len(set(names))


def test_a_measurement_without_a_limit_is_neither_held_nor_missed(capsys, monkeypatch, tmp_path):
    made = [
        Goal("fast", "a", "×", 20, lambda: 21.0, more=True),
        Goal("slow", "b", "s", 3, lambda: 4.0),
        Goal("possible", "c", "×", None, lambda: 16.0),
    ]
    monkeypatch.setattr(benchmarks, "goals", lambda: made)
    record = tmp_path / "bench.json"
    assert main(["bench", "--record", str(record)]) == 0
    assert "1 of 2 goals hold." in capsys.readouterr().out
    assert [goal["holds"] for goal in json.loads(record.read_text())["goals"]] == [True, False, None]
