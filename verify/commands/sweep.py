from __future__ import annotations

import os
from dataclasses import dataclass

from verify.commands import snr
from verify.evidence import Finding
from verify.options import integer, option
from verify.session import Session


@dataclass(frozen=True)
class Options(snr.Options):
    """Measure a grid of points side by side and keep each as it is finished; the same options as snr.

    An interrupted sweep goes on where it stood when the same command is given again.
    """

    records: str = option("sweep.jsonl", help="where finished points are kept, as JSON Lines", metavar="FILE")
    workers: int = option(os.cpu_count() or 1, help="processes that compute side by side", parse=integer(1, 1024))


def run(options: Options, session: Session) -> Finding:
    return snr.run(options, session)
