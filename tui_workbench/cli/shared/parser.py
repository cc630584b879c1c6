"""The argument parser of a command: `argparse`, with help and errors like everything else here.

A command declares its options as data: `configure_note = options(RUN, option("text", help="the note"), output())`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tui_workbench.core.errors import UsageError
from tui_workbench.core.plaintext import columns_of

HELP_WIDTH = 100


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with a remedy, like every other error here."""

    names_script = False
    """True for a command whose options end at the name of a script."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=_formatter)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the usage and exiting."""
        raise UsageError(message, remedy=f"See `{self.prog} --help`.")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The words parsed; where a script may be named, everything behind it is the script's, to the letter."""
        if not self.names_script:
            return self.parse_args(words)
        # argparse would take a `--` out of what is the script's.
        own = self._options_end(words)
        parsed = self.parse_args(words[:own])
        rest = list(words[own:])
        if rest[:1] == ["--"]:
            del rest[0]
        parsed.script, parsed.arguments = (rest[0], rest[1:]) if rest else ("", [])
        return parsed

    def _options_end(self, words: Sequence[str]) -> int:
        index = 0
        while index < len(words) and words[index] not in ("-", "--") and words[index].startswith("-"):
            option = self._option_string_actions.get(words[index])
            index += 2 if option is not None and option.nargs is None else 1
        return index


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Help as wide as is good to read and the terminal allows."""
    columns = columns_of(sys.stdout, HELP_WIDTH)
    return argparse.RawDescriptionHelpFormatter(prog, width=max(40, min(HELP_WIDTH, columns - 2)))


Part = Callable[[argparse._ActionsContainer], object]
"""Declares something to a parser, or to a group of its options."""


def option(*names: str, **settings: Any) -> Part:
    """An option or an argument, as `ArgumentParser.add_argument` takes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def options(
    *parts: Part, usage: str | None = None, epilog: str | None = None, names_script: bool = False
) -> Callable[[Parser], None]:
    """All that a command takes. With `names_script` its options end at the name of a script."""

    def configure(parser: Parser) -> None:
        parser.usage, parser.epilog, parser.names_script = usage, epilog, names_script
        for part in parts:
            part(parser)

    return configure


PROJECT = option("--project", metavar="DIR", default=".", help="the project folder (default: here or above)")
RUN = option("-r", "--run", metavar="ID", required=True, help="the run id, or the run's number")
RUN_IF_ANY = option("-r", "--run", metavar="ID", default="", help="the run id, or the run's number")


def seconds(text: str) -> float:
    """A converter for `add_argument`: a length of time."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def number_of(things: str) -> Callable[[str], int]:
    """A converter for `add_argument`: digits to an int; the error says that the text is no number of `things`."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is no number of {things}")
        return int(text)

    return convert
