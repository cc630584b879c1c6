"""Measure the watcher, the process that drives all runs on a cluster, and compare it with a controller per run.

    python -m benchmarks.watcher [RUNS]

Both are measured at the same time. The watcher may use 60 MB and 1 % of a core for queued runs, and 150 MB and 2 % of a
core for running ones. These limits also hold for 1,000 runs.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    check,
    environment,
    finish,
    private_memory,
    processor_seconds,
    resident_memory,
)
from benchmarks.queued_targets import ACTIVE, ALONE, METADATA, SUBMITTED, TOGETHER
from tui_workbench.core import target_types
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

RUNS, CONTROLLERS = 250, 10
SECONDS = 20.0
SHARE_OF_CONTROLLERS = 0.2
PATIENCE = 600.0
QUEUED = "queued.py"


def main(count: int) -> int:
    for script, memory, processor in ((QUEUED, 60e6, 0.01), (ACTIVE, 150e6, 0.02)):
        with tempfile.TemporaryDirectory() as folder:
            runs = Runs(_project(Path(folder)))
            watcher = _holders([runs.submit(RunRequest(TOGETHER, script)) for _ in range(count)])
            controllers = _holders([runs.submit(RunRequest(ALONE, script)) for _ in range(CONTROLLERS)])
            try:
                _measure(f"{count} {script.removesuffix('.py')}", watcher, controllers, memory, processor)
            finally:
                for pid in watcher + controllers:
                    os.kill(pid, signal.SIGKILL)
    return finish()


def _measure(what: str, watcher: list[int], controllers: list[int], memory: float, processor: float) -> None:
    check(f"{what} runs, processes", len(watcher), 1, COUNT)
    before = [processor_seconds(pid) for pid in watcher + controllers]
    begun = time.perf_counter()
    time.sleep(SECONDS)
    elapsed = time.perf_counter() - begun
    used = [processor_seconds(pid) - start for pid, start in zip(watcher + controllers, before, strict=True)]
    count = int(what.split()[0])
    ours, theirs = resident_memory(watcher[0]), count * statistics.mean(map(private_memory, controllers))
    limit = min(memory, SHARE_OF_CONTROLLERS * theirs)
    check(f"{what} runs, memory", ours, limit, MEGABYTES, note=f"controllers {MEGABYTES.show(theirs)}")
    share = sum(used[1:]) / elapsed * count / CONTROLLERS
    check(f"{what} runs, processor", used[0] / elapsed, processor, PERCENT, note=f"controllers {PERCENT.show(share)}")


def _holders(runs: list[Run]) -> list[int]:
    """Wait until the target has received all runs, and return the processes that drive them."""
    directories = [RunDirectory(run.directory) for run in runs]
    deadline = time.monotonic() + PATIENCE
    for directory in directories:
        while "start" not in directory.status().done or not os.path.exists(directory.file(SUBMITTED)):
            if time.monotonic() > deadline:
                raise TimeoutError(directory.run_id)
            time.sleep(0.01)
    return sorted({ControllerLock.holder(directory) for directory in directories})


def _project(folder: Path) -> Project:
    """Create a project with both targets, and make their types known to this process and its children."""
    home, site, root = folder / "home", folder / "site", folder / "project"
    configuration = root / "aml_config"
    for path in (home, configuration, site / "queued-1.0.dist-info"):
        path.mkdir(parents=True)
    for name, text in METADATA.items():
        (site / name).write_text(text)
    for name in (TOGETHER, ALONE):
        (configuration / f"{name}.compute").write_text(f"type: {name}\npythonLocation: python\n")
        (configuration / f"{name}.runconfig").write_text(f"Target: {name}\nFramework: Python\nTrackedRun: false\n")
    for name in (QUEUED, ACTIVE):
        (root / name).write_text("print('hello')\n")
    place = str(Path(__file__).parent.parent)
    kept = environment({"HOME": str(home), "PYTHONPATH": f"{site}:{place}"})
    os.environ.clear()
    os.environ.update({name: value for name, value in kept.items() if not name.startswith("XDG_")})
    sys.path.insert(0, str(site))
    target_types.forget_installed()
    return Project.find(str(root))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
