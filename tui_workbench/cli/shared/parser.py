"""Argument parsing of commands, based on `argparse`.

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
    """An argument parser that raises UsageError."""

    names_script = False
    """True if the options of the command end at the name of a script."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=_formatter)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, remedy=f"See `{self.prog} --help`.")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. With `names_script`, words after the name of the script are passed to it unchanged."""
        if not self.names_script:
            return self.parse_args(words)
        # argparse would remove a `--` from the arguments of the script.
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
            # `--option=value` is not in the table, and takes no other word. Options of commands with a script have one
            # value or none.
            option = self._option_string_actions.get(words[index])
            index += 2 if option is not None and option.nargs is None else 1
        return index


def _formatter(prog: str) -> argparse.HelpFormatter:
    columns = columns_of(sys.stdout, HELP_WIDTH)
    return argparse.RawDescriptionHelpFormatter(prog, width=max(40, min(HELP_WIDTH, columns - 2)))


Part = Callable[[argparse._ActionsContainer], object]
"""A function that adds arguments to a parser or an argument group."""


def option(*names: str, **settings: Any) -> Part:
    """Return a declaration of an option or argument. The parameters are those of `ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def options(
    *parts: Part, usage: str | None = None, epilog: str | None = None, names_script: bool = False
) -> Callable[[Parser], None]:
    """Return a function that adds `parts` to a parser. With `names_script`, options end at the name of a script."""

    def configure(parser: Parser) -> None:
        parser.usage, parser.epilog, parser.names_script = usage, epilog, names_script
        for part in parts:
            part(parser)

    return configure


PROJECT = option(
    "--project", metavar="DIR", default=".", help="the project folder (default: the current folder or a parent)"
)
RUN = option("-r", "--run", metavar="ID", required=True, help="the ID or number of the run")
OPTIONAL_RUN = option("-r", "--run", metavar="ID", default="", help="the ID or number of the run")


def seconds(text: str) -> float:
    """Convert an argument to a duration in seconds. Raises ArgumentTypeError, also for a negative or infinite value."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; give a number such as 2.5")
    return value


def number_of(items: str, quantity: str = "a number") -> Callable[[str], int]:
    """Return a function that converts an argument to a whole number.

    Its error calls the number `quantity` of `items`, such as "a number of runs" or "the number of a GPU".
    """

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is not {quantity} of {items}; give a whole number such as 10")
        return int(text)

    return convert
