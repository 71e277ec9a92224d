import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.records import Records, canonical, jsonable, spec_hash, write_whole

SPEC = {"command": "snr", "d": 8}


def test_a_point_written_is_read_again(tmp_path):
    path = tmp_path / "points.jsonl"
    Records(path, SPEC, {}).append("a", {"x": np.float64(1.5), "y": float("inf")})
    assert Records(path, SPEC, {}).get("a") == {"x": 1.5, "y": "inf"}


def test_a_half_line_is_dropped_and_nothing_else(tmp_path):
    path = tmp_path / "points.jsonl"
    records = Records(path, SPEC, {})
    for key in "abc":
        records.append(key, {"v": key})
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1])):
        path.write_bytes(whole[:-cut])
        again = Records(path, SPEC, {})
        assert [again.get(k) for k in "abc"] == [{"v": "a"}, {"v": "b"}, None]
        again.append("c", {"v": "c"})
        assert path.read_bytes() == whole


def test_points_of_another_spec_are_refused(tmp_path):
    path = tmp_path / "points.jsonl"
    Records(path, SPEC, {}).append("a", {})
    with pytest.raises(ValueError, match="another spec"):
        Records(path, {**SPEC, "d": 9}, {})
    assert Records(path, SPEC, {}).get("a") == {}


def test_a_foreign_file_is_not_appended_to(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match="without its manifest"):
        Records(path, SPEC, {})
    assert path.read_text() == "mine\n"


def test_a_damaged_manifest_is_refused_in_words(tmp_path):
    path = tmp_path / "points.jsonl"
    Records(path, SPEC, {}).append("a", {})
    (tmp_path / "points.jsonl.manifest.json").write_text("{")
    with pytest.raises(ValueError, match="manifest"):
        Records(path, SPEC, {})


def test_write_whole_leaves_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with pytest.raises(TypeError):
        write_whole(path, None)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@given(json_values)
def test_everything_becomes_strict_json(value):
    json.dumps(jsonable(value), allow_nan=False)


@given(st.dictionaries(st.text(), st.integers()))
def test_the_hash_ignores_the_order_of_keys(spec):
    assert spec_hash(spec) == spec_hash(dict(reversed(spec.items())))
    assert json.loads(canonical(spec)) == spec


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(path, "whole")
    assert os.read(reader, 100) == b"whole"
    os.close(reader)
    assert path.is_fifo()


def test_a_link_stays_one_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
