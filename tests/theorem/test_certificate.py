"""Where a certificate is written: files whole or not at all, links followed, pipes written into."""

import os
import threading

import numpy as np
import pytest

from theorem.certificate import write_certificate
from theorem.checker import read_certificate, violation

KEYS = np.eye(3, dtype=np.int8)


def write(path):
    return write_certificate(path, KEYS, 1, "half-even", ("gram",))


def test_what_is_written_is_read_again(tmp_path):
    written = write(tmp_path / "c.npz")
    found, carried = read_certificate(tmp_path / "c.npz")
    assert carried == written.sha256() == found.sha256()
    assert violation(found) is None


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "c.npz")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert violation(read_certificate(tmp_path / "c.npz")[0]) is None


def test_a_pipe_is_written_into_and_not_replaced(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join(timeout=10)
    assert pipe.is_fifo()
    assert read[0][:2] == b"PK"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write(tmp_path / "c.npz")
    before = (tmp_path / "c.npz").read_bytes()
    with pytest.raises(ValueError, match="scale"):
        write_certificate(tmp_path / "c.npz", KEYS, 0, "half-even", ("gram",))
    assert (tmp_path / "c.npz").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]
