"""The argument parser of a command: `argparse`, with help and errors like everything else here.

It is loaded only for help, for errors, and for what `cli.quick` leaves to it: loading it and declaring a command's
options takes longer than most commands.
"""

from __future__ import annotations

import argparse
import os
import sys

from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

HELP_WIDTH = 100


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with a remedy, like every other error here."""

    names_script = False
    """True for a command whose options end at the name of a script."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=Formatter)

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

    def format_help(self) -> str:
        """The help, as wide as is good to read and the terminal allows."""
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            columns = HELP_WIDTH
        width = max(40, min(HELP_WIDTH, columns - 2))
        self.formatter_class = lambda prog: Formatter(prog, width)
        return super().format_help()


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of a given width: asking for the terminal's loads `shutil`, for every option and not only for help."""

    def __init__(self, prog: str, width: int = HELP_WIDTH) -> None:
        super().__init__(prog, width=width)
