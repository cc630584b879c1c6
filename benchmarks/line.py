"""Measure the screens over a slow connection: the bytes of a screen and of keys, and the time until a key is visible.

    python -m benchmarks.line

Bytes: the workbench runs in pseudo-terminals with 256 colors on a copy of the sample project. All bytes that the
terminal receives are counted. The baseline is the same program with Textual's own output.

Time: an SSH server on this machine is reached through a relay that delays each byte by 100 ms in each direction. The
kernels of build machines have no netem, which could do the same. The baseline is `cat` on the other side, where the
terminal echoes each key.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness import MILLISECONDS, Unit, check, finish, note, percentile, python
from benchmarks.terminal import Terminal
from tests.terminal.sshd import SlowLine, Sshd

SIZES = ((80, 24), (120, 40), (200, 60))
FIRST_SCREEN_LIMIT, KEY_LIMIT = 0.5, 0.5
"""Limits of the bytes of the first screen and of a key, as multiples of Textual's."""

BYTES = Unit("bytes", 1.0, 0)
QUIET = 0.8
"""Seconds without a byte after which a screen is complete."""

ONE_WAY = 0.1
BURST = "abcdefghijklmnopqrstuvwxyz0123"
DELAY_LIMIT, BURST_LIMIT = 1.5, 2.5
"""Limits of the times of a key and of a burst, as multiples of the delay of the connection."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")

KEYS = (
    ("up in a list", "\x1b[A"),
    ("down in a list", "\x1b[B"),
    ("a letter in the editor", "x"),
    ("left in the editor", "\x1b[D"),
    ("line break in the editor", "\r"),
    ("down in the editor", "\x1b[B"),
)

STOCK = """
from textual.app import App
from tui_workbench.ui.terminal.terminal_app import TerminalApp
TerminalApp._display = App._display
from tui_workbench.ui import start
start.run({project!r})
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        count_bytes(folder)
    with tempfile.TemporaryDirectory() as folder:
        measure_delay(Path(folder))
    return finish()


def count_bytes(folder: str) -> None:
    """Compare the workbench's output with Textual's for each size of the terminal."""
    project = _copy(folder)
    ours = [python(), "-m", "tui_workbench", project]
    stock = [python(), "-c", STOCK.format(project=project)]
    for size in SIZES:
        theirs, mine = watch(stock, size, folder), watch(ours, size, folder)
        for what, number in mine.items():
            limit = FIRST_SCREEN_LIMIT if what == "first screen" else KEY_LIMIT
            name = f"{size[0]}x{size[1]} {what}"
            check(name, number, limit * theirs[what], BYTES, note=f"Textual's output {theirs[what]:,}, limit {limit} x")


def _copy(folder: str) -> str:
    left_out = shutil.ignore_patterns(".workbench", "outputs")
    return shutil.copytree(SAMPLE, os.path.join(folder, "sample_project"), ignore=left_out)


def watch(command: Sequence[str], size: tuple[int, int], home: str) -> Mapping[str, int]:
    """Return the number of bytes of each action by its name."""
    columns, rows = size
    counted: dict[str, int] = {}
    with Terminal(command, columns=columns, rows=rows, changes=environment(home)) as terminal:
        terminal.until_text("train.py")
        terminal.settle(2 * QUIET)
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
        terminal.settle(2 * QUIET)
        for what, key in KEYS[2:]:
            press(what, key)
    return counted


def environment(home: str) -> dict[str, str]:
    """Return the environment of a terminal with 256 colors and an empty state directory."""
    path = f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {"TERM": "xterm-256color", "COLORTERM": "", "HOME": home, "PATH": path, "XDG_STATE_HOME": ""}


def measure_delay(folder: Path) -> None:
    """Compare keys in the workbench with keys in `cat`, over the same connection."""
    home, project = folder / "home", _copy(str(folder))
    home.mkdir()
    with Sshd(folder) as sshd, SlowLine(sshd.port, ONE_WAY) as line:
        with Terminal(sshd.command(["sh", "-c", "echo there; exec cat"], {}, port=line.port)) as terminal:
            terminal.until_text("there")
            delay = percentile(_typed_alone(terminal), 50)
        with sshd.workbench(project, home, port=line.port) as terminal:
            terminal.until_text("ready")
            terminal.send("1/train.py\r")
            terminal.until_text("Train a small")
            terminal.settle(1.0)
            keys = _typed_alone(terminal)
            terminal.send("\r")
            terminal.settle(1.0)
            burst = typed(terminal, BURST, BURST)
    note(f"the connection alone: {MILLISECONDS.show(delay)} until a key is echoed")
    check("a key until it is seen, median", percentile(keys, 50), DELAY_LIMIT * delay)
    check(f"{len(BURST)} keys at once until the last is seen", burst, BURST_LIMIT * delay)


def _typed_alone(terminal: Terminal) -> list[float]:
    return [typed(terminal, key, BURST[: place + 1]) for place, key in enumerate(BURST[:20])]


def typed(terminal: Terminal, keys: str, seen: str) -> float:
    """Return the seconds from typing until the text is on the screen."""
    pressed = terminal.send(keys)
    return terminal.until_text(seen) - pressed


if __name__ == "__main__":
    sys.exit(main())
