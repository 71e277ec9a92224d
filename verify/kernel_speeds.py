"""The recorded speeds of the kernels: what `python -m kernels.bench` measured on a named GPU."""

from __future__ import annotations

import json
from typing import Any

from verify.provenance import SOURCE

RECORD = SOURCE / "reports" / "recorded" / "kernels.json"
NOT_RUN = "not run: python -m kernels.bench on a CUDA device writes reports/recorded/kernels.json"


def recorded_speeds() -> dict[str, Any] | None:
    """The record, or None where there is none.

    `device` names the GPU; `rows` holds for each case ("tied", "untied") and shape [B, T, H, D] the median forward time
    in milliseconds of whoever ran it: ours, fa2, cudnn, fla.
    Raises ValueError where the file is not such a record.
    """
    if not RECORD.exists():
        return None
    try:
        record: dict[str, Any] = json.loads(RECORD.read_text())
        if not isinstance(record["device"], str):
            raise TypeError
        for row in record["rows"]:
            batch, length, heads, width = row["shape"]
            if not all(ms > 0 for ms in row["ms"].values()) or min(batch, length, heads, width) < 1 or not row["case"]:
                raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{RECORD} is no record of python -m kernels.bench; run it again") from error
    return record
