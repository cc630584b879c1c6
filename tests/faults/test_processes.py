"""Killed processes: the run continues, its log is complete, and its end is recorded as known or unknown."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.terminal import Terminal
from tests.faults.support import (
    COMMAND,
    Workbench,
    controller_of,
    gated_place,
    is_running,
    open_gate,
    until,
)
from tests.waiting import PATIENCE

SCRIPT = """\
import os, pathlib, sys
print("begin", flush=True)
pathlib.Path(sys.argv[1], "script").write_text(str(os.getpid()))
with open(pathlib.Path(sys.argv[1], "go")) as gate:
    gate.read()
for number in range(1000):
    print("line", number)
print("end, without a newline", end="")
sys.exit(int(sys.argv[2]))
"""
WHOLE_LOG = "begin\n" + "".join(f"line {number}\n" for number in range(1000)) + "end, without a newline"

STUBBORN = """\
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
place, depth = pathlib.Path(sys.argv[1]), int(sys.argv[2])
if depth:
    # One child in this session, one in a new session, and one orphan.
    for options in ({}, {"start_new_session": True}):
        subprocess.Popen([sys.executable, __file__, str(place), str(depth - 1)], **options)
    if os.fork() == 0:
        subprocess.Popen([sys.executable, __file__, str(place), "0"], start_new_session=True)
        os._exit(0)
partial = place / f"{os.getpid()}.partial"
partial.write_text("")
partial.rename(place / f"{os.getpid()}.pid")
while True:
    time.sleep(60)
"""


class Gated(NamedTuple):
    """A run that has written its first line and waits for the gate to open."""

    workbench: Workbench
    run_id: str
    place: Path

    @property
    def directory(self) -> Path:
        return self.workbench.folder / ".workbench" / "runs" / self.run_id

    @property
    def controller(self) -> int:
        return controller_of(self.directory)

    @property
    def supervisor(self) -> int:
        return int((self.directory / "pid").read_text().split()[0])

    @property
    def script(self) -> int:
        return int((self.place / "script").read_text())

    def open(self) -> None:
        """Let the script continue to its end."""
        open_gate(self.place / "go")

    def ended(self) -> bool:
        return not is_running(self.supervisor) and not is_running(self.script)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with the gate and the process IDs of scripts."""
    with gated_place(tmp_path) as place:
        yield place


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    (project_root / "gated.py").write_text(SCRIPT)
    (project_root / "stubborn.py").write_text(STUBBORN)
    return Workbench(project_root)


def gated(workbench: Workbench, place: Path, code: int = 0) -> Gated:
    run_id = workbench.detach("gated.py", str(place), str(code))
    until(lambda: (place / "script").exists() and (place / "script").read_text())
    return Gated(workbench, run_id, place)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid), f"the end of process {pid}")


def test_next_follower_replaces_a_killed_controller(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place, code=7)
    first = run.controller
    kill(first)
    assert is_running(run.script)
    follower = workbench.start("logs", "-f", run.run_id)
    controller_of(run.directory, other_than=first)
    run.open()
    out, _ = follower.communicate(timeout=PATIENCE)
    assert out.decode() == WHOLE_LOG
    information = workbench.info(run.run_id)
    assert (information["status"], information["exit_code"]) == ("Failed", 7)
    assert information["reason"] == "exit code 7"


@pytest.mark.processes
def test_follower_survives_several_killed_controllers(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place, code=7)
    follower = workbench.start("logs", "-f", run.run_id)
    for _ in range(7):
        # A process that starts a controller holds the lock for a moment.
        kill(until(lambda: [pid for pid in [run.controller] if pid != follower.pid], "a controller")[0])
    run.open()
    out, err = follower.communicate(timeout=PATIENCE)
    assert (follower.returncode, err) == (0, b"")
    assert out.decode() == WHOLE_LOG
    assert workbench.info(run.run_id)["exit_code"] == 7


@pytest.mark.parametrize("ask", ["resume", "resume one", "status", "follow"])
def test_adopting_records_the_end_of_a_run(workbench: Workbench, place: Path, ask: str) -> None:
    run = gated(workbench, place, code=3)
    kill(run.controller)
    run.open()
    until(run.ended, "the end of the script")
    for reading in (("history", "list"), ("history", "last"), ("history", "info", "--run", run.run_id)):
        assert '"Running"' in workbench.run(*reading).out, "reading concludes nothing"
    arguments = {
        "resume": ("experiment", "resume"),
        "resume one": ("experiment", "resume", "--run", run.run_id),
        "status": ("experiment", "status", "--run", run.run_id),
        "follow": ("logs", "-f", run.run_id),
    }[ask]
    result = workbench.run(*arguments)
    assert result.code == 0, result
    until(lambda: workbench.info(run.run_id)["status"] == "Failed", "the true state")
    assert workbench.info(run.run_id)["exit_code"] == 3
    assert workbench.log(run.run_id) == WHOLE_LOG


def test_killed_supervisor_loses_only_the_exit_code(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place)
    kill(run.supervisor)
    assert is_running(run.script)
    # A running run has no reason until its controller gives one.
    until(lambda: "its exit code will be unknown" in str(workbench.info(run.run_id)["reason"]), "the loss reported")
    assert workbench.info(run.run_id)["status"] == "Running"
    run.open()
    follower = workbench.run("logs", "-f", run.run_id)
    assert follower.out == WHOLE_LOG
    information = workbench.info(run.run_id)
    assert information["status"] == "Unknown"
    assert information["exit_code"] is None
    assert "exit code is unknown" in information["reason"]
    assert information["end_time_utc"]


def test_script_survives_killed_controller_and_supervisor(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place)
    kill(run.controller)
    kill(run.supervisor)
    run.open()
    assert workbench.run("logs", "-f", run.run_id).out == WHOLE_LOG
    assert workbench.info(run.run_id)["status"] == "Unknown"


def test_killed_script_fails_with_its_signal(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place)
    os.kill(run.script, signal.SIGKILL)
    assert workbench.run("logs", "-f", run.run_id).out == "begin\n"
    information = workbench.info(run.run_id)
    assert (information["status"], information["exit_code"]) == ("Failed", 128 + signal.SIGKILL)
    assert "SIGKILL" in information["reason"]


def test_killed_submit_does_not_end_its_run(workbench: Workbench, place: Path) -> None:
    submit = workbench.start("experiment", "submit", "-c", "local", "--wait", "gated.py", str(place), "0")
    until(lambda: (place / "script").exists() and (place / "script").read_text())
    submit.kill()
    submit.communicate(timeout=PATIENCE)
    (information,) = workbench.history()
    run = Gated(workbench, information["run_id"], place)
    assert is_running(run.script)
    run.open()
    assert workbench.run("logs", "-f", run.run_id).out == WHOLE_LOG
    assert workbench.info(run.run_id)["status"] == "Completed"


@pytest.mark.processes
def test_closed_terminal_does_not_end_the_run(workbench: Workbench, place: Path) -> None:
    command = [*COMMAND, "experiment", "submit", "-c", "local", "gated.py", str(place), "0"]
    with Terminal(command, directory=str(workbench.folder)) as terminal:
        terminal.until_text("begin")
    # Closing sent SIGHUP to the session of the terminal, as a lost connection does.
    (information,) = workbench.history()
    run = Gated(workbench, information["run_id"], place)
    assert is_running(run.script)
    assert is_running(run.controller)
    run.open()
    assert workbench.run("logs", "-f", run.run_id).out == WHOLE_LOG
    assert workbench.info(run.run_id)["status"] == "Completed"


def test_ctrl_c_detaches_and_shows_how_to_follow(workbench: Workbench, place: Path) -> None:
    submit = workbench.start("experiment", "submit", "-c", "local", "gated.py", str(place), "0", process_group=0)
    until(lambda: (place / "script").exists() and (place / "script").read_text())
    os.killpg(submit.pid, signal.SIGINT)
    _, err = submit.communicate(timeout=PATIENCE)
    assert submit.returncode == 130
    (information,) = workbench.history()
    run = Gated(workbench, information["run_id"], place)
    assert f"logs -f {run.run_id}" in err.decode()
    assert f"experiment cancel --run {run.run_id}" in err.decode()
    assert b"Traceback" not in err
    assert is_running(run.script)
    run.open()
    assert workbench.run("logs", "-f", run.run_id).out == WHOLE_LOG


def stubborn(workbench: Workbench, place: Path) -> tuple[subprocess.Popen[bytes], set[int]]:
    """Submit and follow a run whose processes ignore signals; return the command and the process IDs."""
    submit = workbench.start("experiment", "submit", "-c", "local", "stubborn.py", str(place), "1")
    until(lambda: len(list(place.glob("*.pid"))) == 4, "four stubborn processes")
    return submit, {int(file.stem) for file in place.glob("*.pid")}


@pytest.mark.processes
@pytest.mark.parametrize("before", ["nothing", "controller", "supervisor"])
def test_cancel_returns_when_no_process_is_left(workbench: Workbench, place: Path, before: str) -> None:
    submit, pids = stubborn(workbench, place)
    (information,) = workbench.history()
    run = Gated(workbench, information["run_id"], place)
    if before != "nothing":
        kill(getattr(run, before))
    result = workbench.run("experiment", "cancel", "--run", run.run_id)
    assert result.code == 0, result
    assert not [pid for pid in pids if is_running(pid)]
    assert not is_running(run.supervisor)
    information = workbench.info(run.run_id)
    assert information["status"] == "Canceled"
    assert "killed" in information["reason"]
    _, err = submit.communicate(timeout=PATIENCE)
    assert submit.returncode == 130
    assert b"canceled" in err


def test_script_that_handles_sigterm_is_not_killed(workbench: Workbench, place: Path) -> None:
    (workbench.folder / "polite.py").write_text(
        "import pathlib, signal, sys\n"
        "def leave(*_):\n    print('goodbye', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "pathlib.Path(sys.argv[1], 'ready').touch()\nsignal.pause()\n"
    )
    run_id = workbench.detach("polite.py", str(place))
    until(lambda: (place / "ready").exists())
    assert workbench.run("experiment", "cancel", "--run", run_id).code == 0
    assert workbench.log(run_id) == "goodbye\n"
    information = workbench.info(run_id)
    assert (information["status"], information["reason"]) == ("Canceled", "canceled")


def test_ended_run_cannot_be_canceled(workbench: Workbench) -> None:
    assert workbench.submit("hello.py").code == 0
    (information,) = workbench.history()
    workbench.run("experiment", "cancel", "--run", information["run_id"]).error(2, "has already ended", "completed")
    assert workbench.info(information["run_id"])["status"] == "Completed"


def test_incomplete_line_of_events_is_skipped(workbench: Workbench, place: Path) -> None:
    run = gated(workbench, place)
    kill(run.controller)
    with (run.directory / "events.jsonl").open("a") as events:
        events.write('{"time": 1.0, "event": "sta')
    run.open()
    assert workbench.run("logs", "-f", run.run_id).out == WHOLE_LOG
    assert workbench.info(run.run_id)["status"] == "Completed"
