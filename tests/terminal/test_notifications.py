"""Notifications and titles of the real program, in a bare terminal and in tmux."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.conftest import require
from tests.terminal.tmux import Tmux, workbench
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes

FOCUS_LOST, FOCUS_CAME = "\x1b[O", "\x1b[I"
READY = ("hello.py", "ready", "No runs yet")
NOTIFIED = re.compile(rb"\x1b\]9;([^\x1b\x07]*)")


@pytest.fixture(autouse=True)
def outside_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the terminal in which the tests run."""
    for name in ("TMUX", "STY", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)


class Heard:
    """The bytes that the terminal received."""

    def __init__(self, terminal: Terminal) -> None:
        self.data = b""
        self.terminal = terminal
        terminal.watch = self._take

    def _take(self, data: bytes, when: float) -> None:
        self.data += data

    def until(self, what: bytes) -> None:
        self.terminal.until(lambda: what in self.data)

    @property
    def notifications(self) -> list[str]:
        return [said.decode() for said in NOTIFIED.findall(self.data)]


def begin_run(project: Project) -> Path:
    """Return a run that ends when the file is created."""
    from pathlib import Path

    go = Path(project.root, "go")
    Path(project.root, "hello.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    )
    Runs(project).submit(RunRequest(run_configuration="local", script="hello.py"))
    return go


def test_unfocused_window_gets_notification_and_title(project: Project) -> None:
    with Terminal(workbench(project.root), changes={"TERM": "xterm-256color"}) as terminal:
        heard = Heard(terminal)
        terminal.until(lambda: all(text in terminal.text() for text in READY))
        heard.until(b"\x1b[22;2t")
        go = begin_run(project)
        heard.until("\x1b]2;● 1 running · ".encode())
        terminal.send(FOCUS_LOST)
        terminal.settle(0.2)
        go.touch()
        terminal.until(lambda: bool(heard.notifications))
        assert re.fullmatch(rf"{project.name}: ✓ hello\.py \[1\] completed after \d:\d\d\.", heard.notifications[0])
        heard.until("\x1b]2;✓ hello.py [1] completed · ".encode())
        terminal.send(FOCUS_CAME)
        heard.until(f"\x1b]2;{project.name}\x1b\\".encode())
        assert b"\x1b[23;2t" not in heard.data
        terminal.send("q")
        heard.until(b"\x1b[23;2t")


def test_focused_window_gets_no_notification(project: Project) -> None:
    with Terminal(workbench(project.root), changes={"TERM": "xterm-256color"}) as terminal:
        heard = Heard(terminal)
        terminal.until(lambda: all(text in terminal.text() for text in READY))
        go = begin_run(project)
        heard.until("\x1b]2;● 1 running · ".encode())
        go.touch()
        terminal.until(lambda: "completed" in terminal.text())
        terminal.until(lambda: heard.data.count(f"\x1b]2;{project.name}\x1b\\".encode()) == 2)
        assert heard.notifications == []


@pytest.mark.tmux
def test_notification_and_title_in_tmux(project: Project, home: Path) -> None:
    with Tmux(
        ["sh", "-c", f"printf '\\033]2;before\\033\\\\'; {' '.join(workbench(project.root))}"],
        size=(120, 36),
        name=f"{os.getpid()}-notify",
        environment={"HOME": str(home)},
    ) as tmux:
        tmux.call("set-option", "-g", "allow-passthrough", "on")
        tmux.call("set-option", "-g", "focus-events", "on")
        tmux.until_text(*READY)
        attached = [*tmux.base, "attach-session"]
        assert require("tmux") == attached[0]
        with Terminal(attached, changes={"TERM": "xterm-256color"}) as terminal:
            heard = Heard(terminal)
            terminal.until(lambda: "hello.py" in terminal.text())
            tmux.until(lambda: tmux.title == project.name)
            go = begin_run(project)
            tmux.until(lambda: tmux.title == f"● 1 running · {project.name}")
            terminal.send(FOCUS_LOST)
            terminal.settle(0.3)
            go.touch()
            terminal.until(lambda: bool(heard.notifications))
            assert f"{project.name}: ✓ hello.py [1] completed" in heard.notifications[0]
            tmux.press("q")
            tmux.until(lambda: tmux.title == "before")
