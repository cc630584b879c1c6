"""Copying in the real program: in a bare terminal, in tmux, and in GNU screen."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.conftest import require
from tests.terminal.tmux import Tmux, workbench
from tui_workbench.ui.terminal.clipboard import MAX_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes


TEXT = "needle ü\n" + "".join(f"line {number} of the file\n" for number in range(40))


def copy_file(project: Project, text: str) -> None:
    """Set the script of the project to `text`."""
    with open(os.path.join(project.root, "hello.py"), "w", encoding="utf-8") as file:
        file.write(text)


class Outside:
    """A pseudo-terminal that records what is copied to its clipboard."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._raw = b""
        terminal.watch = self._take

    def _take(self, data: bytes, when: float) -> None:
        self._raw += data

    @property
    def clipboard(self) -> str | None:
        """The content of the clipboard."""
        found = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", self._raw)
        return base64.b64decode(found[-1]).decode() if found else None

    def copy_all(self) -> None:
        """Open the script and copy all of it."""
        self.terminal.until(lambda: all(text in self.terminal.text() for text in ("hello.py", "ready", "No runs yet")))
        self.terminal.send("\x1b[F\r")
        self.terminal.until_text("3 hello.py")
        self.terminal.until(lambda: "press enter" not in self.terminal.text())
        self.terminal.send("\x1b[18~\x03")


def test_copy_in_a_bare_terminal(project: Project) -> None:
    copy_file(project, TEXT)
    with Terminal(workbench(project.root)) as terminal:
        outside = Outside(terminal)
        outside.copy_all()
        terminal.until(lambda: outside.clipboard is not None)
        assert outside.clipboard == TEXT


@pytest.mark.tmux
def test_copy_through_gnu_screen(project: Project, tmp_path: Path) -> None:
    copy_file(project, TEXT)
    folder = tmp_path / "screens"
    folder.mkdir(mode=0o700)
    command = [require("screen"), "-c", "/dev/null", "-U", "-S", "workbench-test", *workbench(project.root)]
    changes = {"SCREENDIR": str(folder), "LC_ALL": "C.UTF-8"}
    with Terminal(command, changes=changes) as terminal:
        try:
            outside = Outside(terminal)
            outside.copy_all()
            terminal.until(lambda: outside.clipboard is not None)
            assert outside.clipboard == TEXT
        finally:
            subprocess.run(
                [command[0], "-S", "workbench-test", "-X", "quit"], env={**os.environ, **changes}, check=False
            )


@pytest.mark.tmux
def test_copy_in_tmux_fills_its_buffer(project: Project, home: Path) -> None:
    copy_file(project, TEXT)
    with Tmux(
        workbench(project.root), size=(120, 36), name=f"{os.getpid()}-copy", environment={"HOME": str(home)}
    ) as terminal:
        terminal.call("set-option", "-s", "set-clipboard", "off")
        terminal.until_text("hello.py", "ready", "No runs yet")
        terminal.press("End", "Enter")
        terminal.until_text("3 hello.py", "needle")
        terminal.press("F7", "C-c")
        terminal.until(lambda: "buffer0" in terminal.call("list-buffers"))
        assert terminal.call("show-buffer") == TEXT


def test_copy_uses_the_desktop_program(project: Project, tmp_path: Path) -> None:
    copy_file(project, TEXT)
    taken = tmp_path / "taken"
    tool = tmp_path / "xclip"
    tool.write_text(f"#!/bin/sh\ncat > '{taken}.part' && mv '{taken}.part' '{taken}'\n")
    tool.chmod(0o755)
    changes = {"VTE_VERSION": "7006", "DISPLAY": ":99", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with Terminal(workbench(project.root), changes=changes) as terminal:
        outside = Outside(terminal)
        outside.copy_all()
        terminal.until(taken.exists)
        assert taken.read_text() == TEXT
        assert outside.clipboard is None


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("linux", TEXT, "This terminal has no clipboard"),
        ("xterm", "x" * 99 * 1000 + "\n" * (MAX_BYTES % 7), "The text is too long for a terminal clipboard"),
    ],
    ids=["linux", "too-long"],
)
def test_text_that_cannot_be_copied_is_saved(project: Project, home: Path, name: str, text: str, why: str) -> None:
    copy_file(project, text)
    with Terminal(workbench(project.root), columns=160, changes={"TERM": name, "COLORTERM": ""}) as terminal:
        outside = Outside(terminal)
        outside.copy_all()
        terminal.until_text("~/.local/state/workbench-tui/copied.txt")
        assert why in terminal.text()
        assert outside.clipboard is None
    assert (home / ".local/state/workbench-tui/copied.txt").read_text() == text
