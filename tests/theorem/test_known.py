from dataclasses import replace

import numpy as np
import pytest

from theorem import known
from theorem.certificate import write_certificate
from theorem.checker import read_certificate, violation
from theorem.known import RECORDS, narrowest


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.path.stem)
def test_every_record_is_a_small_certificate_that_holds(record):
    certificate, carried = read_certificate(record.path)
    assert certificate.z.shape == (record.n, record.d)
    assert certificate.sha256() == carried
    assert record.claim in certificate.claims
    assert record.path.stat().st_size < 300_000
    if record.claim == "coherence":
        record.keys(record.n)
    else:
        assert violation(certificate) is None


@pytest.mark.parametrize(
    ("n", "d", "constructed", "condition"),
    [(5, 5, 5, None), (100, 49, 65, 42), (512, 67, 71, 62), (2048, 77, 86, None)],
)
def test_the_narrowest_known_is_a_record_or_a_construction(n, d, constructed, condition):
    found = narrowest(n)
    assert (found.d, found.constructed) == (d, constructed)
    assert (found.condition and found.condition.d) == condition
    keys = found.keys()
    assert (keys.n, keys.d) == (n, d)
    assert keys.coherence < 1 / 8
    assert found.bound <= d


def test_a_record_that_does_not_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "RECORDED", tmp_path)
    record = replace(RECORDS[0], n=3, d=2)
    write_certificate(record.path, np.array([[9, 0], [1, 9], [9, 9]]), 81, "half-even", ("coherence",))
    with pytest.raises(ValueError, match=r"keys-3-2.npz: coherence: 64"):
        record.keys(3)
    assert record.keys(2).n == 2  # the first two of them do hold
