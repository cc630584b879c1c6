"""Measure the processes that drive many active runs on this machine, without their scripts.

    python -m benchmarks.active_runs [RUNS]

The scripts only wait. The memory is proportional (PSS). The processes that hold the locks of the runs are measured when
no run has changed hands for some seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    check,
    environment,
    finish,
    proportional_memory,
    scratch_folder,
    time_on_processors,
)
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

RUNS = 1000
SHARE, MEMORY = 0.02, 150e6
WINDOW = 30.0  # seconds for which the processes are measured
SETTLE_SECONDS, PATIENCE = 6.0, 600.0


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with scratch_folder() as folder:
        runs = Runs(_project(Path(folder)))
        directories: list[RunDirectory] = []
        try:
            begun = time.perf_counter()
            for _ in range(count):
                directories.append(RunDirectory(runs.submit(RunRequest("local", "wait.sh")).directory))
            print(f"{count} runs submitted in {time.perf_counter() - begun:.0f} s", flush=True)
            _measure(directories)
        finally:
            _end(directories)
    return finish()


def _measure(directories: list[RunDirectory]) -> None:
    holders = _settled(directories)
    before, begun = sum(map(time_on_processors, holders)), time.perf_counter()
    time.sleep(WINDOW)
    share = (sum(map(time_on_processors, holders)) - before) / (time.perf_counter() - begun)
    name = f"{len(directories):,} active runs on this machine"
    check(f"{name}, processes", len(holders), 1, COUNT)
    check(f"{name}, share of a core", share, SHARE, PERCENT)
    check(f"{name}, memory", float(sum(map(proportional_memory, holders))), MEMORY, MEGABYTES)


def _settled(directories: list[RunDirectory]) -> set[int]:
    """Return the processes that drive the runs, once they have been the same for SETTLE_SECONDS."""
    deadline = time.monotonic() + PATIENCE
    holders, since = _holders(directories), time.monotonic()
    while time.monotonic() < since + SETTLE_SECONDS or min(holders) <= 0:
        if time.monotonic() > deadline:
            raise TimeoutError("the runs have no controllers")
        time.sleep(0.5)
        found = _holders(directories)
        if found != holders:
            holders, since = found, time.monotonic()
    return holders


def _holders(directories: list[RunDirectory]) -> set[int]:
    return {ControllerLock.holder(directory) for directory in directories}


def _end(directories: list[RunDirectory]) -> None:
    """Kill the processes that drive the runs, and then the scripts."""
    for pid in filter(lambda pid: pid > 0, _holders(directories)):
        os.kill(pid, signal.SIGKILL)
    for directory in directories:
        shell = int(Path(directory.file("pid")).read_text().split()[0])
        os.killpg(shell, signal.SIGKILL)


def _project(folder: Path) -> Project:
    """Create a project, and use only the environment of benchmarks in this process and its children."""
    home, root = folder / "home", folder / "project"
    configuration = root / "aml_config"
    for path in (home, configuration):
        path.mkdir(parents=True)
    (configuration / "local.compute").write_text("type: local\npythonLocation: /bin/sh\n")
    (configuration / "local.runconfig").write_text("Target: local\nFramework: Python\nTrackedRun: false\n")
    (root / "wait.sh").write_text("exec sleep 100000\n")
    kept = environment({"HOME": str(home), "PYTHONPATH": str(Path(__file__).parent.parent)})
    os.environ.clear()
    os.environ.update({name: value for name, value in kept.items() if not name.startswith("XDG_")})
    return Project.find(str(root))


if __name__ == "__main__":
    sys.exit(main())
