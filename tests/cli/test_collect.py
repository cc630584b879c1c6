"""`experiment collect`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.support import Workbench
from tests.runs.support import make_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import ControllerLock


def test_run_that_cannot_be_collected_does_not_block_others(project: Project) -> None:
    directories = [make_run(project, f"project_170000000000{n}", n, state="failed", exit_code=1) for n in (1, 2, 3)]
    for each in directories:
        each.append_event("step", step="prepare", status="done")
        each.append_event("step", step="fetch", status="begun")
    lock = ControllerLock.acquire(directories[1])
    assert lock is not None
    with lock:
        said = Workbench(Path(project.root)).run("experiment", "collect")
    assert said.code == 2
    assert [record["run_number"] for record in json.loads(said.out)] == [3, 1]
    assert "project_1700000000002: another process is working on run" in said.err
