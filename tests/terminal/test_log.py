"""The log of real runs in a real terminal."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.terminal.tmux import Tmux, workbench
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tui_workbench.projects.project import Project

HOSTILE = r"""
import sys
out = sys.stdout.buffer
out.write(b"\x1b]0;stolen title\x07title\n")
out.write(b"\x1b]52;c;c3RvbGVu\x07clipboard\n")
out.write(b"\x1b[2J\x1b[Hcleared\n")
out.write(b"\x1bcreset\n")
out.write(b"\x1b[?1049hother screen\n")
out.write(b"\x9b31m\xc2\x9b31mC1\n")
out.write(b"\x1bPq#0;2;0;0;0\x1b\\device control\n")
out.write(b"\x1b]0;never ends\n")
out.write("\u202egnp.tpircs\n".encode())
out.write(b"\x1b[31mred\x1b[0m as it should be\n")
out.write(b"the last line\n")
"""

PROGRESS = r"""
import sys, time
for percent in range(0, 101, 5):
    sys.stderr.write(f"\r{percent:3d}% of it")
    sys.stderr.flush()
    time.sleep(0.02)
sys.stderr.write("\ndone\n")
"""

MANY = "for number in range(5000):\n    print('needle' if number % 1000 == 7 else 'hay', number)\n"

FAILING = "def step():\n    raise ValueError('shapes [2, 3] do not match')\nstep()\n"


@pytest.fixture
def terminal(project: Project, home: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    """Return the workbench on a project."""
    name = f"{os.getpid()}-{request.node.name}"
    with Tmux(workbench(project.root), size=(120, 36), name=name, environment={"HOME": str(home)}) as opened:
        opened.until_text("hello.py ▾", "ready")
        yield opened
    for run in Runs(project).list():
        if run.is_active:
            Runs(project).cancel(run.run_id, grace=0)


def run(terminal: Tmux, project: Project, script: str) -> None:
    """Run a script and maximize its log."""
    with open(os.path.join(project.root, "hello.py"), "w", encoding="utf-8") as file:
        file.write(script)
    terminal.press("C-r", "4", "z")


@pytest.mark.tmux
def test_script_output_cannot_control_the_terminal(terminal: Tmux, project: Project) -> None:
    run(terminal, project, HOSTILE)
    terminal.until_text("the last line", "11 lines")
    screen = terminal.text()
    for shown in (
        "␛]0;stolen title␇title",
        "␛]52;c;c3RvbGVu␇clipboard",
        "␛[2J␛[Hcleared",
        "␛creset",
        "␛[?1049hother screen",
        "<9B>31m<U+009B>31mC1",
        "␛Pq#0;2;0;0;0␛\\device control",
        "␛]0;never ends",
        "<U+202E>gnp.tpircs",
        "red as it should be",
    ):
        assert shown in screen
    assert "stolen" not in terminal.title
    buffers = subprocess.run([*terminal.base, "list-buffers"], capture_output=True, text=True, check=True)
    assert "stolen" not in buffers.stdout


@pytest.mark.tmux
def test_progress_bar_is_one_line(terminal: Tmux, project: Project) -> None:
    run(terminal, project, PROGRESS)
    terminal.until_text("100% of it", "done", "2 lines")
    assert terminal.text().count("% of it") == 1


@pytest.mark.tmux
def test_search_takes_a_burst_of_keys(terminal: Tmux, project: Project) -> None:
    run(terminal, project, MANY)
    terminal.until_text("hay 4999", "5,000 lines")
    terminal.call("send-keys", "-l", "/needle\rN")  # one write: all keys arrive together
    terminal.until_text("4 of 5", "needle 3007")
    terminal.press("n", "n")
    terminal.until_text("1 of 5, wrapped", "needle 7")
    terminal.press("Escape")
    terminal.until(lambda: "Search  needle" not in terminal.text())
    terminal.press("G")
    terminal.until_text("hay 4999")


@pytest.mark.tmux
def test_failure_shows_the_reason_above_the_log(terminal: Tmux, project: Project) -> None:
    run(terminal, project, FAILING)
    terminal.until_text("✗ ValueError: shapes [2, 3] do not match", "hello.py:2 in step")
    terminal.press("t")
    terminal.until_text("Traceback (most recent call last):")


@pytest.mark.tmux
def test_growing_log_is_read_with_keys(terminal: Tmux, project: Project) -> None:
    endless = "import itertools, time\nfor n in itertools.count():\n    print('line', n)\n    time.sleep(0.002)\n"
    run(terminal, project, endless)
    terminal.until_text("following, ", "line 200")
    terminal.press("g")
    terminal.until(lambda: any(line.strip("│ ") == "line 0" for line in terminal.lines()))
    terminal.until_text("paused, ", " new lines")
    terminal.press("G")
    terminal.until_text("following, ")
