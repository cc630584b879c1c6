"""The installed command, in a pipe or in a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.terminal import Terminal
from tests.faults.support import Workbench
from tui_workbench.cli import Command, build_parser

INSTALLED = str(Path(sys.executable).parent / "workbench-tui")


def arguments_help(command: Command) -> dict[str, str]:
    """Return the help text of every argument and option of a command, by each of its names."""
    found = {}
    for section in build_parser(command).format_help().split("\n\n"):
        heading, _, entries = section.partition("\n")
        if heading.endswith(":") and not heading.startswith(("example", "exit codes")):
            for entry in re.split(r"\n  (?=\S)", f"\n{entries}")[1:]:
                names, _, text = entry.replace("\n", "  ").partition("  ")
                found.update(dict.fromkeys((name.split()[0] for name in names.split(", ")), text.strip()))
    return found


def options_of(command: Command) -> set[str]:
    return {name for name in arguments_help(command) if name.startswith("-") and name != "--"}


class Installed(Workbench):
    """The installed command in a folder."""

    def start(self, *arguments: str | bytes | os.PathLike[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command and return its process."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        environment = {**os.environ, **self.environment}
        return subprocess.Popen([INSTALLED, *arguments], cwd=self.folder, env=environment, **options)

    def in_terminal(self, *arguments: str, columns: int = 80) -> InTerminal:
        """Start a command in a new terminal."""
        return InTerminal(
            [INSTALLED, *arguments], columns=columns, directory=str(self.folder), changes=self.environment
        )


class InTerminal(Terminal):
    """A terminal that keeps every byte of the output."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.raw = b""
        self.watch = lambda data, _: self._keep(data)

    def _keep(self, data: bytes) -> None:
        self.raw += data

    def to_the_end(self) -> int:
        """Read until the command has ended. Return its exit code."""
        while self.pump(30):
            continue
        return os.waitstatus_to_exitcode(self.close())
