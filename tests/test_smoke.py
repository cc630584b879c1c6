"""The whole program in a terminal: a script is run, canceled, and survives screens that are killed.

These are the tests of the first ring that start every part of the workbench.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from tests.conftest import write_project
from tests.faults.support import COMMAND, Workbench, gated_place, is_running, open_gate, until

pytestmark = pytest.mark.smoke

SCRIPT = """\
import os, pathlib, sys
place = pathlib.Path(sys.argv[1])
print("the first line", flush=True)
(place / "partial").write_text(str(os.getpid()))
(place / "partial").rename(place / "script")
with open(place / "go") as gate:
    gate.read()
for number in range(100_000):
    print("line", number)
print("the last line")
"""
WHOLE_LOG = "the first line\n" + "".join(f"line {number}\n" for number in range(100_000)) + "the last line\n"

CTRL_R = "\x12"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with gated_place(tmp_path) as place:
        yield place


@pytest.fixture
def root(tmp_path: Path, place: Path) -> Path:
    root = write_project(tmp_path / "project")
    (root / "gated.py").write_text(SCRIPT)
    (root / "aml_config" / "local.runconfig").write_text(
        'Target: "local"\nFramework: "Python"\nTrackedRun: false\n'
        f'ArgumentVector: ["gated.py", {json.dumps(str(place))}]\n'
    )
    return root


def screens(root: Path) -> Terminal:
    return Terminal([*COMMAND, str(root)], directory=str(root))


def submit(terminal: Terminal, place: Path) -> int:
    """Press the key that runs the script, and return the process id of the script."""
    terminal.until_text("gated.py")
    terminal.settle()
    terminal.send(CTRL_R)
    terminal.until((place / "script").exists)
    terminal.until_text("the first line")
    return int((place / "script").read_text())


def test_script_is_run_and_its_log_shown(root: Path, place: Path) -> None:
    with screens(root) as terminal:
        submit(terminal, place)
        open_gate(place / "go")
        terminal.until_text("the last line")
        terminal.until_text("completed")
    (run,) = Workbench(root).history()
    assert (run["status"], run["exit_code"]) == ("Completed", 0)


def test_canceled_script_ends(root: Path, place: Path) -> None:
    with screens(root) as terminal:
        script = submit(terminal, place)
        terminal.send("5xy")
        terminal.until(lambda: not is_running(script))
        terminal.until(lambda: [run["status"] for run in Workbench(root).history()] == ["Canceled"])
        terminal.until_text("canceled")


def test_killed_screens_end_no_script_and_the_next_show_its_log(root: Path, place: Path) -> None:
    workbench = Workbench(root)
    with screens(root) as terminal:
        script = submit(terminal, place)
    # The terminal was closed and the program was killed without a message.
    (run,) = workbench.history()
    assert is_running(script)
    assert run["status"] == "Running"
    open_gate(place / "go")
    until(lambda: not is_running(script), "the end of the script")

    with screens(root) as terminal:
        terminal.until_text("the last line")
        terminal.until_text("completed")
    assert workbench.info(run["run_id"])["status"] == "Completed"
    log = root / ".workbench" / "runs" / run["run_id"] / "output.log"
    assert log.read_text() == WHOLE_LOG


@pytest.mark.processes
def test_next_screen_follows_an_active_run(root: Path, place: Path) -> None:
    run_id = Workbench(root).detach("gated.py", str(place))
    until((place / "script").exists)
    with screens(root) as terminal:
        terminal.until_text("the first line")
        terminal.until_text("running")
        open_gate(place / "go")
        terminal.until_text("the last line")
        terminal.until_text("completed")
    assert Workbench(root).info(run_id)["status"] == "Completed"


@pytest.mark.processes
def test_screens_open_on_a_broken_project_and_report_problems(root: Path) -> None:
    (root / "aml_config" / "local.runconfig").write_text("Target: [\n")
    (root / "aml_config" / "local.compute").write_bytes(b"\x00\xff\x1b]0;title\x07")
    with screens(root) as terminal:
        terminal.until_text("local.runconfig:2:1")
        terminal.until_text("problem")
        terminal.send(CTRL_R)
        terminal.settle()
        assert "title" not in terminal.screen.title, "the file's bytes reached the terminal"
    assert Workbench(root).history() == []
