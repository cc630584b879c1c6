"""Bytes of the first screen and of single keys, with 256 colors in three sizes.

    python -m benchmarks.line_bytes [PROJECT]

The workbench runs in a pseudo-terminal on a copy of the sample project with a run and an open file. All bytes that
the terminal receives are counted. The baseline is the same program with Textual's own output.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence

from benchmarks.harness import Unit, check, finish, note, python
from benchmarks.terminal import Terminal

SIZES = ((80, 24), (120, 40), (200, 60))
FIRST_SCREEN_LIMIT = 30_000
KEY_LIMIT = 1_500
BYTES = Unit("bytes", 1.0, 0)
QUIET = 1.2
"""Seconds without a byte after which a screen is complete; its slowest value arrives within one second."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")

KEYS = (
    ("up in a list", "\x1b[A"),
    ("down in a list", "\x1b[B"),
    ("a letter in the editor", "x"),
    ("left in the editor", "\x1b[D"),
    ("line break in the editor", "\r"),
    ("down in the editor", "\x1b[B"),
)

MOVES_A_PAGE = ("line break in the editor",)

STOCK = """
from textual.app import App
from tui_workbench.ui.terminal.terminal_app import TerminalApp
TerminalApp._display = App._display
from tui_workbench.ui import start
start.run({project!r})
"""


def main(arguments: Sequence[str]) -> int:
    """Measure each size with the workbench's output and with Textual's."""
    with tempfile.TemporaryDirectory() as folder:
        project = arguments[0] if arguments else shutil.copytree(SAMPLE, os.path.join(folder, "sample_project"))
        ours = [python(), "-m", "tui_workbench", project]
        stock = [python(), "-c", STOCK.format(project=project)]
        for size in SIZES:
            name = "x".join(map(str, size))
            theirs, mine = watch(stock, size, folder), watch(ours, size, folder)
            for what, number in mine.items():
                baseline = f"Textual's display {theirs[what]:,}"
                if what in MOVES_A_PAGE:
                    note(f"{name} {what}: {number:,} bytes, {baseline}; it is as much as the text that it moves")
                    continue
                limit = FIRST_SCREEN_LIMIT if what == "first screen" else KEY_LIMIT
                check(f"{name} {what}", number, limit, BYTES, note=baseline)
    note("256 colors, no synchronized output; the first screen holds the sample's files and an opened one")
    return finish()


def watch(command: Sequence[str], size: tuple[int, int], home: str) -> Mapping[str, int]:
    """Return the bytes of each action by its name."""
    columns, rows = size
    counted: dict[str, int] = {}
    with Terminal(command, columns=columns, rows=rows, changes=environment(home)) as terminal:
        terminal.until_text("train.py")
        terminal.settle(QUIET)
        counted["first screen"] = terminal.received

        def press(what: str, keys: str) -> None:
            before = terminal.received
            terminal.send(keys)
            terminal.settle(QUIET)
            counted[what] = terminal.received - before

        terminal.send("G")
        terminal.settle(QUIET)
        for what, key in KEYS[:2]:
            press(what, key)
        terminal.send("\r")
        terminal.until_text("Train a small")
        terminal.settle(QUIET)
        for what, key in KEYS[2:]:
            press(what, key)
    return counted


def environment(home: str) -> dict[str, str]:
    """Return the environment of a terminal with 256 colors and an empty state directory."""
    path = f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {"TERM": "xterm-256color", "COLORTERM": "", "HOME": home, "PATH": path, "XDG_STATE_HOME": ""}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
