"""The main screen of the real program, in tmux, with real runs."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.terminal.tmux import Tmux, workbench
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tui_workbench.projects.project import Project

WIDE, NARROW = (120, 36), (80, 24)

COUNTING = """import time
for number in range(1000):
    print(f"line {number} of the run", flush=True)
    time.sleep(0.01)
"""


@pytest.fixture
def open_project(
    project: Project, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Tmux]]:
    """Opens the project in a terminal of a size. All terminals and runs end with the test."""
    opened: list[Tmux] = []

    def open_it(size: tuple[int, int] = WIDE, **environment: str) -> Tmux:
        name = f"{os.getpid()}-{request.node.name}-{len(opened)}".replace("[", "-").replace("]", "")
        variables = {"HOME": str(home), **environment}
        opened.append(Tmux(workbench(project.root), size=size, name=name, environment=variables))
        return opened[-1]

    yield open_it
    for terminal in opened:
        terminal.__exit__()
    for run in Runs(project).list():
        if run.is_active:
            Runs(project).cancel(run.run_id, grace=0)


@pytest.mark.tmux
def test_one_key_runs_the_script(open_project: Callable[..., Tmux]) -> None:
    terminal = open_project()
    terminal.until_text("1 Files", "hello.py", "2 Compute targets", "ready", "3 Editor", "4 Log", "5 Jobs")
    terminal.press("C-r")
    terminal.until_text("hello.py [1]", "completed", "1 line")
    assert any(line.rstrip("│ ").endswith("hello") for line in terminal.lines())


@pytest.mark.tmux
def test_keyboard_alone_works_at_80_by_24(open_project: Callable[..., Tmux]) -> None:
    terminal = open_project(NARROW)
    terminal.until_text("1 Files  2 Targets  3 Editor  4 Log  5 Jobs", "hello.py ▾")
    terminal.press("C-r")
    terminal.until_text("✓ completed hello.py [1]  hello")
    terminal.press("4")
    terminal.until_text("4 Log  hello.py [1] on local")
    terminal.press("1", "G", "Enter")
    terminal.until_text('print("hello")')


@pytest.mark.tmux
def test_screen_follows_the_size_of_the_terminal(open_project: Callable[..., Tmux]) -> None:
    terminal = open_project()
    terminal.until_text("ready")
    for width, height in ((200, 60), (60, 20), (30, 9), (100, 22), (12, 4), (160, 48)):
        terminal.resize(width, height)
        terminal.until(lambda width=width: max(map(len, terminal.lines())) >= min(width, 10))  # type: ignore[misc]
    terminal.until_text("1 Files", "5 Jobs", "ready")


@pytest.mark.tmux
def test_quit_restores_the_terminal(open_project: Callable[..., Tmux]) -> None:
    terminal = open_project()
    terminal.until_text("ready")
    terminal.press("q")
    terminal.until_text("left-with-0")
    assert "1 Files" not in terminal.text()


@pytest.mark.tmux
def test_log_is_complete_after_the_terminal_was_killed(
    open_project: Callable[..., Tmux], project: Project, project_root: Path
) -> None:
    (project_root / "hello.py").write_text(COUNTING)
    terminal = open_project()
    terminal.until_text("ready")
    terminal.press("C-r")
    terminal.until_text(" of the run")
    children = subprocess.run(["pgrep", "-P", str(terminal.pid)], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    terminal.until_text("left-with-137")
    again = open_project()
    again.until_text("hello.py [1]")
    again.press("5", "Enter")
    again.until_text("completed", "line 999 of the run", "1,000 lines")
    (run,) = Runs(project).list()
    with open(run.log_path, "rb") as file:
        assert file.read() == b"".join(b"line %d of the run\n" % number for number in range(1000))


@pytest.mark.tmux
def test_file_names_cannot_control_the_terminal(open_project: Callable[..., Tmux], project_root: Path) -> None:
    (project_root / "\x1b]0;stolen title\x07\x1b[2Jx.py").write_text("")
    terminal = open_project()
    terminal.until_text("␛]0;stolen title␇␛[2Jx.py", "1 Files")
    assert terminal.title != "stolen title"
