"""Snapshots of the main screen at three sizes, with and without color.

After an intended change, `UPDATE_SNAPSHOTS=1 pytest tests/terminal/test_snapshots.py` writes them again; look at
the difference before it is kept.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.terminal.tmux import workbench
from tui_workbench.targets.gpu.vendors import may_have_gpu_here

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes

FOLDER = Path(__file__).parent / "snapshots"
SIZES = [(80, 24), (120, 40), (200, 60)]
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "", "LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": ""}


def seen(terminal: Terminal) -> str:
    """Each row as text, followed by the columns of each style."""
    screen = terminal.screen
    rows = []
    for y in range(screen.lines):
        cells = [screen.buffer[y][x] for x in range(screen.columns)]
        text = "".join(cell.data for cell in cells)
        if "Python 3" in text:
            # The version and path of Python differ between machines, and so does the text after them.
            rows.append(re.sub(r"Python 3.*?(?=ready|[│╮]|$)", "Python ... ", text).rstrip())
            continue
        rows.append(text.rstrip())
        x = 0
        for look, run in itertools.groupby(cells, key=look_of):
            end = x + len(list(run))
            rows.append(f"    {x}-{end - 1} {look}")
            x = end
    return "\n".join(rows) + "\n"


def look_of(cell: object) -> str:
    """Return the style of a cell; of a blank, its visible part."""
    names = ["bold", "italics", "underscore", "strikethrough", "reverse"]
    is_blank = getattr(cell, "data", "") == " "
    seen_on_blanks = ("underscore", "reverse")
    attributes = [name for name in names if getattr(cell, name) and (not is_blank or name in seen_on_blanks)]
    foreground = "" if is_blank and not attributes else getattr(cell, "fg", "")
    return " ".join([f"{foreground} on {getattr(cell, 'bg', '')}".strip(), *attributes])


@pytest.mark.parametrize("colors", ["color", "none"])
@pytest.mark.parametrize("size", SIZES, ids=[f"{width}x{height}" for width, height in SIZES])
def test_main_screen_snapshot(project: Project, size: tuple[int, int], colors: str) -> None:
    if size[0] >= 180 and may_have_gpu_here():
        pytest.skip("this machine has a GPU: its pane shows it")
    root = Path(project.root)
    (root / "hello.py").write_text('print("hello")\n')
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    command = ["env", *variables, *(["NO_COLOR=1"] if colors == "none" else []), *workbench(str(root))]
    with Terminal(command, columns=size[0], rows=size[1]) as terminal:
        hint = ["No runs yet", "\n Python "] if size[0] > 80 else ["runs hello.py on local."]
        wanted = ["hello.py ▾", "local ✓", *hint]
        terminal.until(lambda: all(text in terminal.text() for text in (*wanted, "Open")))
        if size[0] >= 180:
            terminal.until(lambda: "nvidia-smi" in terminal.text())
        terminal.settle(0.3)
        found = seen(terminal)
    kept = FOLDER / f"main-{size[0]}x{size[1]}-{colors}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    assert found == kept.read_text(encoding="utf-8")
