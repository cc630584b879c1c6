"""An SSH connection that breaks: runs continue, and the next start restores the view and unsaved edits."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.machines import wait_for
from tests.terminal.sshd import SlowLine, Sshd
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui_workbench.projects.project import Project

CTRL_R, CTRL_S, CTRL_Z, DOWN, ENTER, ESCAPE = "\x12", "\x13", "\x1a", "\x1b[B", "\r", "\x1b"

COUNTING = """import os, time
for number in range(1000):
    print(f"line {number} of the run", flush=True)
    if number == 50:
        while not os.path.exists("go-on"):
            time.sleep(0.01)
"""

ONE_WAY = 0.1
"""Delay of a slow connection in each direction, in seconds."""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def connect(sshd: Sshd, project: Project, home: Path) -> Iterator[Callable[..., Terminal]]:
    """A function that opens the project over SSH. All sessions end with the test."""
    opened: list[Terminal] = []

    def connected(port: int | None = None) -> Terminal:
        opened.append(sshd.workbench(project.root, home, port=port))
        opened[-1].until_text("ready")
        return opened[-1]

    yield connected
    for terminal in opened:
        terminal.close()
    for run in Runs(project).list():
        if run.is_active:
            Runs(project).cancel(run.run_id, grace=0)


def kill_client(terminal: Terminal, sshd: Sshd) -> None:
    terminal.close()


def kill_server(terminal: Terminal, sshd: Sshd) -> None:
    sshd.break_connections()
    while terminal.pump(1.0):
        continue


BREAKS = [kill_client, kill_server]


def open_hello(terminal: Terminal) -> None:
    """Open the script with the cursor after the first line."""
    terminal.send("1G" + ENTER)
    terminal.until_text('print("hello")')
    terminal.send("\x1b[F")
    terminal.until_text("1:15")


def programs_on(project: Project) -> list[int]:
    """Return the workbenches on the project."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:4] == [b"-m", b"tui_workbench", project.root.encode()]:
            found.append(int(entry))
    return found


@pytest.mark.parametrize("broken", BREAKS)
def test_unsaved_edit_and_cursor_are_restored(
    broken: Callable[[Terminal, Sshd], None], connect: Callable[..., Terminal], sshd: Sshd, project: Project
) -> None:
    terminal = connect()
    open_hello(terminal)
    terminal.send("  # an edit")
    terminal.until_text("# an edit")
    broken(terminal, sshd)
    wait_for(lambda: not programs_on(project), "the program to end with its terminal")
    again = connect()
    again.until_text('print("hello")  # an edit')
    again.until_text("Restored unsaved edits")
    again.until_text("1:26")
    again.send("!")
    again.until_text("# an edit!")
    again.send(CTRL_S)
    again.until_text("Saved.")
    assert Path(project.root, "hello.py").read_text("utf-8") == 'print("hello")  # an edit!\n'
    wait_for(lambda: not list(Path(Recovery(project.root).base).rglob("*.json")), "the recovery file to go")


def test_undo_discards_restored_edits(connect: Callable[..., Terminal], sshd: Sshd) -> None:
    terminal = connect()
    open_hello(terminal)
    terminal.send("  # an edit")
    terminal.until_text("# an edit")
    kill_client(terminal, sshd)
    again = connect()
    again.until_text("Restored unsaved edits")
    again.send(CTRL_Z)
    again.until(lambda: "# an edit" not in again.text())
    assert 'print("hello")' in again.text()


def test_changed_file_is_asked_about_and_nothing_is_lost(
    connect: Callable[..., Terminal], sshd: Sshd, project: Project
) -> None:
    terminal = connect()
    open_hello(terminal)
    terminal.send("  # an edit")
    terminal.until_text("# an edit")
    kill_client(terminal, sshd)
    wait_for(lambda: not programs_on(project), "the program to end with its terminal")
    Path(project.root, "hello.py").write_text('print("from elsewhere")\n', "utf-8")
    again = connect()
    again.until_text('print("hello")  # an edit')
    again.until_text("Changed on disk")
    assert Path(project.root, "hello.py").read_text("utf-8") == 'print("from elsewhere")\n'


def test_two_workbenches_keep_their_own_edits(connect: Callable[..., Terminal], sshd: Sshd, project: Project) -> None:
    Path(project.root, "other.py").write_text("pass\n", "utf-8")
    one, other = connect(), connect()
    for terminal, name in ((one, "hello.py"), (other, "other.py")):
        terminal.send(f"1/{name}{ENTER}")
        terminal.until_text("1:1")
        terminal.send(f"# edit of {name} ")
        terminal.until_text(f"edit of {name}")
    wait_for(lambda: len(list(Path(Recovery(project.root).base).rglob("*.json"))) == 2, "both to be kept")
    kill_client(one, sshd)
    wait_for(lambda: len(programs_on(project)) == 1, "one to end")
    third = connect()
    third.until_text("# edit of hello.py")
    third.settle()
    assert "other.py ●" not in third.text()
    assert "# edit of other.py" in other.text()


@pytest.mark.parametrize("broken", BREAKS)
def test_run_continues_and_is_shown_again(
    broken: Callable[[Terminal, Sshd], None], connect: Callable[..., Terminal], sshd: Sshd, project: Project
) -> None:
    Path(project.root, "hello.py").write_text(COUNTING, "utf-8")
    terminal = connect()
    terminal.send(CTRL_R)
    terminal.until_text("line 50 of the run")
    broken(terminal, sshd)
    wait_for(lambda: not programs_on(project), "the program to end with its terminal")
    again = connect()
    again.until_text("line 50 of the run")
    again.until_text("following")
    run = Runs(project).list()[0]
    assert run.is_active
    Path(project.root, "go-on").touch()
    again.until_text("line 999 of the run")
    again.until_text("completed")
    log = Path(Runs(project).list()[0].log_path).read_text("utf-8").splitlines()
    assert log == [f"line {number} of the run" for number in range(1000)]


def test_view_is_restored(connect: Callable[..., Terminal], sshd: Sshd, project: Project) -> None:
    Path(project.root, "hello.py").write_text("for n in range(500): print('line', n, '.')\n", "utf-8")
    terminal = connect()
    terminal.send(CTRL_R)
    terminal.until_text("line 499 .")
    terminal.send("1/hel")
    terminal.until_text("1 of 3")
    terminal.send("\t4g")
    terminal.until_text("line 0 .")
    terminal.send(DOWN * 7)
    terminal.until_text("line 8 of 500")
    terminal.send("z")
    terminal.until(lambda: "5 Jobs" not in terminal.text())
    terminal.settle()
    left = terminal.text()
    kill_client(terminal, sshd)
    wait_for(lambda: not programs_on(project), "the program to end with its terminal")
    again = Terminal(sshd.command([sys.executable, "-m", "tui_workbench", project.root], {"HOME": os.environ["HOME"]}))
    with again:
        again.until_text("line 8 of 500")
        assert "5 Jobs" not in again.text()
        again.until(lambda: body_of(again.text()) == body_of(left))
        again.send("z")
        again.until_text("1 of 3")


def body_of(text: str) -> list[str]:
    """Return the lines of the pane without the scroll bar."""
    return [line[:-3].rstrip() for line in text.splitlines()[2:-2]]


def test_burst_of_keys_over_a_slow_line_keeps_its_order(connect: Callable[..., Terminal], sshd: Sshd) -> None:
    with SlowLine(sshd.port, ONE_WAY) as line:
        terminal = connect(line.port)
        open_hello(terminal)
        terminal.send("  # abcdefghijklmnopqrstuvwxyz")
        terminal.until_text('print("hello")  # abcdefghijklmnopqrstuvwxyz')
        terminal.close()


@pytest.mark.tmux
def test_sigterm_restores_the_terminal(project: Project, home: Path) -> None:
    from tests.terminal.tmux import Tmux, workbench

    name = f"{os.getpid()}-told-to-end"
    with Tmux(workbench(project.root), size=(100, 30), name=name, environment={"HOME": str(home)}) as terminal:
        terminal.until_text("ready")
        terminal.press("1", "G", "Enter")
        terminal.until_text('print("hello")')
        terminal.press("x")
        terminal.until_text("hello.py ●")
        (pid,) = programs_on(project)
        os.kill(pid, signal.SIGTERM)
        terminal.until_text("left-with-143")
        assert "Files" not in terminal.text()
    (found,), _ = Recovery(project.root).take_over()
    assert found.text == 'xprint("hello")\n'


def test_discarded_edits_are_removed(connect: Callable[..., Terminal], project: Project) -> None:
    terminal = connect()
    open_hello(terminal)
    terminal.send("  # an edit")
    base = Path(Recovery(project.root).base)
    terminal.until(lambda: any(base.rglob("*.json")))
    terminal.send("\x11")
    terminal.until_text("discard edits")
    terminal.send("d")
    wait_for(lambda: not programs_on(project), "the program to end")
    assert not list(base.iterdir())
    shutil.rmtree(base)
