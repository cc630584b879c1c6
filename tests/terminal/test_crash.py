"""After a crash the terminal is restored, and a line names the report."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from benchmarks.terminal import Terminal
from tests.terminal import failing_program

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes

TURNED_OFF = ("?1049l", "?1000l", "?1003l", "?1006l", "?2004l", "?1004l", "?25h")
"""Sequences that restore screen, mouse, paste, focus and cursor."""


class Session:
    """The failing program in a terminal, with an unsaved edit."""

    def __init__(self, terminal: Terminal, home: Path) -> None:
        self.terminal, self.home, self.sent = terminal, home, b""
        terminal.watch = self._read
        terminal.until_text("ready")
        terminal.send("1\x1b[F\r")
        terminal.until_text('print("hello")')
        terminal.send("#edit")
        terminal.until_text("#edit")
        terminal.send("\x1b")
        terminal.until_text("? Help")

    def _read(self, data: bytes, _: float) -> None:
        self.sent += data

    def send_signal(self, number: int) -> None:
        child, *_ = psutil.Process(self.terminal.pid).children()
        child.send_signal(number)

    def must_have_ended(self, code: int) -> str:
        """Wait for the end. Returns the report."""
        self.terminal.until(lambda: b"left-with-" in self.sent)
        self.terminal.settle()
        text = self.sent.decode()
        assert all(f"\x1b[{mode}" in text for mode in TURNED_OFF)
        assert "stolen title\x07" not in text
        lines = [line for line in re.split(r"\r\n", text[text.rindex("\x1b[") :]) if line]
        assert lines[0].count("workbench-tui stopped unexpectedly.") == 1
        assert lines[1] == f"left-with-{code}"
        assert "speed" in lines[2]
        assert "-icanon" not in text
        assert "-echo" not in text.rpartition("left-with-")[2].split()
        path = Path(lines[0].rpartition("Report: ")[2])
        assert path.stat().st_mode & 0o777 == 0o600
        kept = list((self.home / ".local" / "state").rglob("recovery/*/*/*.json"))
        assert len(kept) == 1
        assert "#edit" in kept[0].read_text()
        return path.read_text()


def opened(project: Project, home: Path, kind: str) -> Terminal:
    program = shlex.join([sys.executable, failing_program.__file__, kind, project.root])
    line = f"{program}; echo left-with-$?; stty -a; exec cat"
    changes = {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    return Terminal(["sh", "-c", line], columns=300, rows=36, changes=changes)


@pytest.mark.parametrize("kind", ["handler", "thread", "rendering"])
def test_exception_restores_the_terminal_and_names_a_report(project: Project, home: Path, kind: str) -> None:
    with opened(project, home, kind) as terminal:
        session = Session(terminal, home)
        terminal.send("?")
        report = session.must_have_ended(1)
    assert "RuntimeError: a mistake" in report
    assert "\x1b" not in report
    assert "hunter2" not in report


@pytest.mark.parametrize("is_hung", [False, True], ids=["alive", "hung"])
def test_sigquit_restores_the_terminal_and_names_a_report(project: Project, home: Path, is_hung: bool) -> None:
    with opened(project, home, "hang") as terminal:
        session = Session(terminal, home)
        kept = home / ".local" / "state" / "workbench-tui" / "recovery"
        terminal.until(lambda: any("#edit" in path.read_text() for path in kept.rglob("*.json")))
        if is_hung:
            terminal.send("?")
            terminal.settle()
        session.send_signal(signal.SIGQUIT)
        report = session.must_have_ended(128 + signal.SIGQUIT)
    assert "Current thread" in report
    assert ("failing_program.py" in report and " in hang" in report) == is_hung


def test_hanging_thread_does_not_delay_the_end(project: Project, home: Path) -> None:
    with opened(project, home, "hanging thread") as terminal:
        terminal.until_text("ready")
        terminal.send("?")
        terminal.settle()
        terminal.send("q")
        terminal.until_text("left-with-0")
