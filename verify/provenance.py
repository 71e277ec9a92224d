"""Where a result came from: versions, commit, machine, command."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from verify.records import spec_hash

PACKAGES = ("numpy", "scipy", "sympy", "matplotlib", "torch", "triton", "z3-solver", "galois")
SOURCE = Path(__file__).resolve().parent.parent


def provenance(argv: Sequence[str], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Everything needed to ask "can I get this number again?"."""
    return {
        "argv": list(argv),
        "spec_hash": spec_hash(spec),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": versions(),
        "machine": machine(),
    }


def versions() -> dict[str, str | None]:
    """Installed versions of the packages results depend on; None where one is not installed."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def commit() -> dict[str, Any]:
    """The source's commit and whether it was changed since; both None outside a git checkout."""
    head = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {"id": head, "dirty": None if status is None else bool(status)}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(SOURCE), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, operating system and numpy's BLAS."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[call-overload,index]
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "system": f"{platform.system()} {platform.machine()}",
        "blas": f"{blas.get('name')} {blas.get('version')}",
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
