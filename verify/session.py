"""One run of a command as seen from its body: progress to a person, the finding to the screen and to JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from verify.evidence import Finding, Table
from verify.options import BadInput, blame
from verify.provenance import provenance
from verify.records import jsonable, write_whole


def check_writable(option: str, path: str) -> None:
    """Raise BadInput now rather than after minutes of work if `path` cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise BadInput(f"{option} {path}: is a directory; expected a file name")
    with blame(option, path):
        existed = target.exists()
        with target.open("ab"):
            pass
        if not existed:
            target.unlink()


def silence(stream: TextIO) -> None:
    """Send what is written to `stream` from now on, and at the process's end, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(message: object) -> None:
    """One line on standard error, if there is one that can be written."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def _tell(text: str) -> None:
    """Write to standard output. Raises BadInput where it cannot be written, BrokenPipeError where nobody reads."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise BadInput(f"standard output: {error.strerror}") from error


class Session:
    """What a command's body may know of the world around it."""

    def __init__(self, argv: Sequence[str], quiet: bool) -> None:
        self.argv = list(argv)
        self.quiet = quiet
        self._last = 0.0
        self._line_open = False

    @property
    def command(self) -> str:
        """The line that gives this run again."""
        return shlex.join(self.argv)

    def provenance(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        return provenance(self.argv, spec)

    def progress(self, message: str) -> None:
        """Say on standard error where a long run stands: one rewritten line on a terminal, else a line each 10 s."""
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if self.quiet or now - self._last < (0.1 if terminal else 10.0):
            return
        first, self._last = self._last == 0.0, now
        with contextlib.suppress(OSError):
            if terminal:
                print(f"\r\x1b[2K{message}", end="", file=sys.stderr, flush=True)
                self._line_open = True
            elif not first:
                print(message, file=sys.stderr, flush=True)

    def _close_line(self) -> None:
        if self._line_open:
            with contextlib.suppress(OSError):
                print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._line_open = False

    def show(self, finding: Finding, json_path: str) -> None:
        """Print the finding for a person unless quiet, and write its JSON object where it was asked for."""
        self._close_line()
        if json_path:
            text = json.dumps(to_object(finding, self.provenance(finding.spec)), indent=1, ensure_ascii=False) + "\n"
            if json_path == "-":
                _tell(text)
            else:
                with blame("--json", json_path):
                    write_whole(Path(json_path), text)
        if self.quiet:
            return
        summary = [finding.summary] if finding.summary else []
        written = [f"wrote {path}" for path in [*finding.files, *([json_path] if json_path else [])]]
        _tell("".join([*map(_drawn, finding.tables), *(f"{line}\n" for line in summary + written)]))


def to_object(finding: Finding, origin: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON contract's object for one finding."""
    return {
        "schema": 1,
        "command": finding.command,
        "spec": jsonable(finding.spec),
        "provenance": jsonable(origin),
        "points": jsonable(list(finding.points)),
        "claims": [jsonable(claim) for claim in finding.claims],
    }


def _drawn(table: Table) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(title=Text(table.title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name in table.columns:
        rich_table.add_column(name, overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(Text(cell) for cell in row))
    text = StringIO()
    terminal = sys.stdout.isatty()
    width = None if terminal else 120
    # not straight to standard output: rich ends the process with status 1 where the pipe is closed
    Console(file=text, width=width, force_terminal=terminal, emoji=False).print(rich_table)
    return text.getvalue()
