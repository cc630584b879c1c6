"""Random keys in a real terminal: a full repaint does not change the screen.

A longer walk, which looks at more after each key, is in `tests/ui/test_key_walk.py`.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.terminal.test_snapshots import look_of
from tests.terminal.tmux import workbench

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes

SIZES = [(80, 24), (160, 48)]
KEYS = int(os.environ.get("TERMINAL_WALK_KEYS", "8"))
SEED = os.environ.get("WALK_SEED", "1")

REDRAW = "\x0c"
UNUSED = "\x1b[24~"
"""F12 has no command. Like each key, it hides the reason why the key before it had no effect."""
MOVES = ("\x1b", "\x1b", "\r", "\r", "\t", "\x1b[Z", *(f"\x1b[{last}" for last in "ABCDHF"))
PRESSED = (*"12345678/?abjkmnwxyz #", *MOVES)
"""Keys that do not quit."""


def seen(terminal: Terminal) -> list[str]:
    screen = terminal.screen
    rows = range(screen.lines)
    cells = [[screen.buffer[y][x] for x in range(screen.columns)] for y in rows]
    return ["".join(f"{cell.data}<{look_of(cell)}>" for cell in row) for row in cells]


def torn_rows(command: list[str], size: tuple[int, int], home: Path, keys: list[str], quiet: float) -> list[int]:
    """Return the rows that a repaint changes after these keys and `quiet` seconds without output."""
    with Terminal(command, columns=size[0], rows=size[1], changes={"HOME": str(home)}) as terminal:
        terminal.until(lambda: "ready" in terminal.text() or "✓" in terminal.text())
        for key in keys:
            terminal.send(key)
            terminal.settle(quiet)
        return rows_changed_by_repaint(terminal, quiet)


def rows_changed_by_repaint(terminal: Terminal, quiet: float) -> list[int]:
    terminal.send(UNUSED)
    terminal.settle(quiet)
    before = seen(terminal)
    terminal.send(REDRAW)
    terminal.settle(quiet)
    return [y for y, (row, again) in enumerate(zip(before, seen(terminal), strict=True)) if row != again]


@pytest.mark.timeout(420 + 2 * KEYS)
@pytest.mark.parametrize("size", SIZES, ids=[f"{width}x{height}" for width, height in SIZES])
def test_repaint_changes_nothing(project: Project, home: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    choose = random.Random(f"{SEED} {size}")
    command, pressed = workbench(project.root), list[str]()
    with Terminal(command, columns=size[0], rows=size[1], changes={"HOME": str(home)}) as terminal:
        terminal.until(lambda: "ready" in terminal.text() or "✓" in terminal.text())
        for _ in range(KEYS):
            pressed.append(choose.choice(PRESSED))
            terminal.send(pressed[-1])
            if not rows_changed_by_repaint(terminal, 0.2):
                continue
            # An update may have arrived just then, such as an answer of a machine. A real fault occurs again.
            torn = torn_rows(command, size, tmp_path, pressed, 1.0)
            assert not torn, f"rows {torn} after {pressed}, seed {SEED}:\n{terminal.text()}"
