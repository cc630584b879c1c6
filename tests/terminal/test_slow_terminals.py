"""Terminals that read slowly or not at all."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.machines import wait_for
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.processes

TALKING = """import os, sys, time
number = 0
while not os.path.exists("enough"):
    print(f"number {number} of many, " + "filler " * 12, flush=True)
    number += 1
    if number % 40 == 0:
        time.sleep(0.01)
open("last", "w").write(str(number - 1))
"""

HELD = 200_000
"""Bytes in the buffer of the system and in later frames: far less than the script prints."""


@pytest.fixture
def terminal(project: Project, home: Path) -> Iterator[Terminal]:
    with Terminal([sys.executable, "-m", "tui_workbench", project.root], changes={"HOME": str(home)}) as opened:
        opened.until_text("ready")
        yield opened
    Path(project.root, "enough").touch()
    for run in Runs(project).list():
        if run.is_active:
            Runs(project).cancel(run.run_id, grace=0)


def test_unread_frames_are_not_sent_later(terminal: Terminal, project: Project) -> None:
    Path(project.root, "hello.py").write_text(TALKING, "utf-8")
    terminal.send("\x12")
    terminal.until_text("of many")
    log = Path(Runs(project).list()[0].log_path)
    said = log.stat().st_size
    wait_for(lambda: log.stat().st_size > said + 5 * HELD, "the run to say much")  # and no process reads the terminal
    Path(project.root, "enough").touch()
    wait_for(lambda: Path(project.root, "last").exists(), "the run to end")
    last, before = Path(project.root, "last").read_text("utf-8"), terminal.received
    terminal.until_text(f"number {last} of many")
    assert terminal.received - before < HELD


def test_keys_work_while_output_is_not_read(terminal: Terminal, project: Project) -> None:
    Path(project.root, "hello.py").write_text(TALKING, "utf-8")
    terminal.send("\x12")
    terminal.until_text("of many")
    log = Path(Runs(project).list()[0].log_path)
    said = log.stat().st_size
    wait_for(lambda: log.stat().st_size > said + 5 * HELD, "the run to say much")
    terminal.send("5xy")  # cancels the run
    wait_for(lambda: not Runs(project).list()[0].is_active, "the run to be canceled")
    terminal.until_text("canceled")


def test_closed_terminal_ends_the_program(terminal: Terminal) -> None:
    os.kill(terminal.pid, signal.SIGSTOP)
    assert os.WIFEXITED(terminal.hang_up())


def test_terminal_closed_during_output_ends_the_program(terminal: Terminal, project: Project) -> None:
    Path(project.root, "hello.py").write_text(TALKING, "utf-8")
    terminal.send("\x12")
    terminal.until_text("of many")
    assert os.WIFEXITED(terminal.hang_up())
    assert Runs(project).list()[0].is_active
