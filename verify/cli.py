"""The command line: finds the commands, reads their options, prints what they found, and answers with a status.

Exit status: 0 the run finished, whatever the verdicts; 2 bad input; with --strict, 1 if anything is refuted and else 3
if anything is inconclusive; 130 after an interrupt.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from verify import commands
from verify.evidence import Finding, Verdict
from verify.options import BadInput, Parser, add_options, option, read_options

INTERRUPTED = 130  # also the status of a finding that an interrupt cut short


@dataclasses.dataclass(frozen=True)
class Output:
    """Options that every command has."""

    json: str = option("", help="write one JSON object to PATH, or to standard output with -", metavar="PATH")
    quiet: bool = option(False, help="no table, no progress")
    strict: bool = option(False, help="exit 1 if anything is refuted, else 3 if anything is inconclusive")


def main(argv: Sequence[str] | None = None) -> int:
    from verify.session import complain, silence

    arguments = list(sys.argv[1:] if argv is None else argv)
    mute = sys.stdout is None
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    try:
        return _main(arguments, mute)
    except BadInput as error:
        complain(error)
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)
        return 0


def _main(arguments: list[str], mute: bool) -> int:
    modules = {
        m.name: importlib.import_module(f"verify.commands.{m.name}") for m in pkgutil.iter_modules(commands.__path__)
    }
    namespace = _parser(modules).parse_args(arguments)
    command = modules[namespace.command]
    output = read_options(namespace, Output)

    from verify.session import Session, check_writable, complain

    try:
        if output.json == "-" and mute:
            raise BadInput("--json -: standard output is closed")
        if output.json not in ("", "-"):
            check_writable("--json", output.json)
            _check_own_file(output.json, read_options(namespace, command.Options))
        session = Session(argv=["python", "-m", "verify", *arguments], quiet=output.quiet or output.json == "-")
        finding: Finding = command.run(read_options(namespace, command.Options), session)
        session.show(finding, output.json)
    except BadInput as error:
        raise BadInput(f"verify {namespace.command}: {error}") from error
    if finding.status == INTERRUPTED:
        complain("interrupted")
    return _status(finding, output.strict)


def _check_own_file(path: str, options: Any) -> None:
    """Raise BadInput where --json would overwrite a file that another option reads or writes."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if isinstance(value, str) and value and os.path.realpath(value) == os.path.realpath(path):
            name = field.name.rstrip("_").replace("_", "-")
            raise BadInput(f"--json {path}: the same file as --{name}")


def _parser(modules: dict[str, ModuleType]) -> Parser:
    parser = Parser(
        prog="verify", description="Check the theory of associative memory in Transformers, claim by claim."
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in modules.items():
        words: str = module.Options.__doc__ or ""
        sub = subparsers.add_parser(name, help=words.split("\n")[0], description=words)
        add_options(sub, module.Options)
        add_options(sub.add_argument_group("output"), Output)
    return parser


def _status(finding: Finding, strict: bool) -> int:
    if finding.status is not None:
        return finding.status
    verdicts: set[Any] = {claim.ruling.verdict for claim in finding.claims if claim.ruling}
    if strict and Verdict.REFUTED in verdicts:
        return 1
    if strict and Verdict.INCONCLUSIVE in verdicts:
        return 3
    return 0
