"""Options of a command as the fields of a frozen dataclass, and their translation to argparse.

A command is one file in `verify/commands`: a dataclass `Options` (its docstring is the command's help) and a function
`run(options, session) -> Finding`. Each field is made by `option`, which says how its text is parsed. A parser raises
ValueError with *what would be accepted*; the user sees one line that names the option, the value and that.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn


class BadInput(Exception):
    """The user gave something that cannot be used; the message is the one line they see."""


@contextmanager
def blame(option: str, value: object) -> Iterator[None]:
    """Turn a ValueError or OSError of the body into a BadInput that names the option and the value."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{option} {_short(value)}: {error.strerror or error}") from error
    except (ValueError, MemoryError) as error:
        reason = str(error).strip() or type(error).__name__
        raise BadInput(f"{option} {_short(value)}: " + " ".join(reason.split())) from error


def _short(value: object) -> str:
    """The value as the user will recognise it, not a screenful of it."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:80]}… ({len(text)} characters)"


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    parse: Callable[[str], Any] = str,
    choices: Sequence[str] | None = None,
    many: bool = False,
    metavar: str | None = None,
    positional: bool = False,
) -> Any:
    """A field of an Options dataclass: a flag where `default` is False, else a value read by `parse`.

    `many` accepts several values and stores a tuple; without a default the option is required.
    """
    if many and default is not dataclasses.MISSING:
        default = tuple(default)
    metadata = {
        "help": help,
        "parse": parse,
        "choices": choices,
        "many": many,
        "metavar": metavar,
        "positional": positional,
    }
    return dataclasses.field(default=default, metadata=metadata)


LARGEST = 2**63 - 1  # what every library underneath takes for an integer


def integer(low: int, high: int = LARGEST) -> Callable[[str], int]:
    """A parser of integers in [low, high]."""
    expected = f"an integer from {low} to {high}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,40}", text.strip()):
            raise ValueError(expected)
        value = int(text)
        if not low <= value <= high:
            raise ValueError(expected)
        return value

    return parse


def real(low: float | None = None, high: float | None = None, *, open_low: bool = False) -> Callable[[str], float]:
    """A parser of finite real numbers in [low, high], or (low, high] with `open_low`."""
    expected = "a finite number" + _range_words(low, high, "above" if open_low else "of at least")

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(expected) from None
        too_low = low is not None and (value <= low if open_low else value < low)
        if not math.isfinite(value) or too_low or (high is not None and value > high):
            raise ValueError(expected)
        return value

    return parse


def _range_words(low: float | None, high: float | None, at_least: str = "of at least") -> str:
    words = [f"{at_least} {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return "".join(f" {w}" for w in [" and ".join(words)] if w)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str) -> NoReturn:
        message = " ".join(re.sub(r"^argument ", "", message).split())
        raise BadInput(f"{self.prog}: {message}")


def add_options(parser: argparse._ActionsContainer, options: type) -> None:
    """Give `parser` one argument for each field of the dataclass `options`."""
    for field in dataclasses.fields(options):
        meta = field.metadata
        # a trailing underscore keeps a field's name off Python's own words: `from_` is --from
        name = field.name if meta["positional"] else "--" + field.name.rstrip("_").replace("_", "-")
        destination: dict[str, Any] = {} if meta["positional"] else {"dest": field.name}
        required = field.default is dataclasses.MISSING
        if field.default is False and not meta["positional"]:
            parser.add_argument(name, action="store_true", help=meta["help"], **destination)
            continue
        keywords: dict[str, Any] = {
            "help": meta["help"].replace("%", "%%") + _default_words(field),
            "type": _argument_type(meta["parse"], meta["choices"]),
            "metavar": meta["metavar"] or ("|".join(meta["choices"]) if meta["choices"] else None),
        }
        if meta["many"]:
            keywords["nargs"] = "+"
            keywords["action"] = "extend"  # --dk 8 --dk 16 is --dk 8 16
        if not required:
            keywords["default"] = argparse.SUPPRESS  # a default is a value already: argparse would parse it as text
            if meta["positional"]:
                keywords["nargs"] = "*" if meta["many"] else "?"
        elif not meta["positional"]:
            keywords["required"] = True
        parser.add_argument(name, **keywords, **destination)


def read_options(namespace: argparse.Namespace, options: type) -> Any:
    """The instance of `options` that the parsed arguments describe."""
    given = {f.name: getattr(namespace, f.name) for f in dataclasses.fields(options) if hasattr(namespace, f.name)}
    many = {name: tuple(dict.fromkeys(value)) for name, value in given.items() if isinstance(value, list)}
    return options(**given | many)  # a value given twice is one


def _argument_type(parse: Callable[[str], Any], choices: Sequence[str] | None) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        if not text.strip():
            raise argparse.ArgumentTypeError("'': empty; leave the option out or give a value")
        if choices is not None and text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of {', '.join(choices)}")
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {error}") from None

    return convert


def _default_words(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING or field.default in (None, "", (), 0):
        return ""
    value = field.default
    return f" (default {' '.join(map(str, value)) if isinstance(value, tuple) else value})"
