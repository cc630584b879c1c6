"""A project whose runs wait for a file, the gate, so that tests can end them in every way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.support import is_running, until
from tests.runs.support import children, write_files
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.handover import FOLDER
from tui_workbench.runs.store.rundir import CONTROLLER_LOCK, ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.targets.local.local_target import LocalTarget

GATED = """\
import os, sys
with open("ran", "a") as file:
    file.write("x")
print(os.getpid(), flush=True)
with open(sys.argv[1]) as gate:
    gate.read()
print("the end")
sys.exit(int(sys.argv[2]))
"""

STUBBORN = """\
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"refused\\n"))
print(os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


class GatedProject:
    """A project, its runs, and a gate that its script waits at."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.root = Path(project.root)
        self.runs = Runs(project)
        self.gate = folder / "gate"
        self.children_before = children()
        os.mkfifo(self.gate)
        write_files(self.root, {"gated.py": GATED, "stubborn.py": STUBBORN})

    def request(self, code: int = 0) -> RunRequest:
        return RunRequest("local", "gated.py", (str(self.gate), str(code)))

    def submit(self, code: int = 0) -> Run:
        """Return a run that waits at the gate."""
        run = self.runs.submit(self.request(code))
        self.script(run)
        return run

    def script(self, run: Run) -> int:
        """Return the process ID of a run's script, the first line of its output."""
        log = Path(run.log_path)
        return int(until(lambda: log.exists() and log.read_text().partition("\n")[0], "the script"))

    def controller(self, run: Run) -> int:
        """Return the controller of a run. This process, which has started it, may hold the lock for a moment longer."""
        directory = RunDirectory(run.directory)

        def holder() -> int:
            pid = ControllerLock.holder(directory)
            return pid if pid not in (-1, os.getpid()) else 0

        return int(until(holder, "a controller"))

    def open(self) -> None:
        """Open the gate, so that waiting scripts continue."""
        self.gate.write_text("go")

    def ended(self, run: Run) -> Run:
        """Wait for the end of the run and return it."""
        directory = RunDirectory(run.directory)
        until(lambda: not directory.run().is_active, "the end of the run")
        return directory.run()

    def times_run(self) -> int:
        return len((self.root / "ran").read_text())


def watchers() -> list[int]:
    """Return the process IDs of the watchers of this user."""
    folders = Path(os.environ["HOME"], ".local", "state", "workbench-tui", FOLDER)
    found = [ControllerLock.holder(RunDirectory(str(lock.parent))) for lock in folders.glob(f"*/{CONTROLLER_LOCK}")]
    return [pid for pid in found if pid > 0]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


def step_by_step(shop: GatedProject, until_step: str) -> Run:
    """Return a run whose controller was killed after a step; the gate is open."""
    directory, lock, record = create_run(shop.project, RunRequest("local", "gated.py", ("/dev/null", "7")))
    target = LocalTarget(record.spec.target)
    end: dict[str, Any] = {"exit_code": 7, "reason": "exit code 7"}
    steps: list[tuple[str, Callable[[], object]]] = [
        ("queued", lambda: None),
        ("started", lambda: target.start(record.spec, record.plan, os.environ)),
        ("noted", lambda: directory.append_event("step", step="start", status="done", seconds=0.1)),
        ("running", lambda: directory.append_event("state", state="running")),
        ("ended", lambda: target.wait(record.spec, -1)),
        ("moved", lambda: _move_outputs(directory)),
        ("collected", lambda: directory.append_event("step", step="collect", status="done", seconds=0.1)),
        ("concluded", lambda: directory.append_event("state", state="failed", final=True, **end)),
    ]
    try:
        for name, step in steps:
            step()
            if name == until_step:
                break
    finally:
        lock.release()
    return directory.run()


def _move_outputs(directory: RunDirectory) -> None:
    if os.path.isdir(directory.file("work/outputs")):
        os.rename(directory.file("work/outputs"), directory.file("outputs"))
