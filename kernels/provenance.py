"""What a recorded run must say about itself: command, commit, date, hardware, versions."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton


def commit_of(source: Path) -> str:
    """The commit that is checked out, with "+changes" where the kernels differ from it; "unknown" without git."""
    git = ["git", "-C", str(source)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+changes" if changes.stdout.strip() else "")


def surroundings(command: str, commit: str | None) -> dict[str, Any]:
    """The run's own account of itself; `commit` names it for a copy that has no git history."""
    account: dict[str, Any] = {
        "command": command,
        "commit": commit or commit_of(Path(__file__).parent),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": platform.processor() or platform.machine(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "triton": triton.__version__,
        },
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        account |= {"device": properties.name, "multiprocessors": properties.multi_processor_count}
        account["versions"] |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return account
