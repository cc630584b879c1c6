"""What the login node of a real cluster has to carry: one connection, and nothing that stays."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.faults.support import until
from tests.targets.conftest import link_processes
from tests.targets.slurm.project import SlurmProject
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

if TYPE_CHECKING:
    from pathlib import Path


def watcher_of(project: SlurmProject, run_id: str) -> int:
    return ControllerLock.holder(RunDirectory(str(project.run_directory(run_id))))


def programs(project: SlurmProject) -> str:
    """Return the names of the user's programs on the login node."""
    return project.cluster.login.run(["sh", "-c", "ps -u research -o comm= || true"])


def test_runs_of_two_projects_share_watcher_and_connection(project: SlurmProject, connections: Path) -> None:
    other = SlurmProject(project.folder.parent / "other", project.cluster)
    runs = [(each, each.begin()) for each in (project, other)]
    watchers = {watcher_of(each, run_id) for each, run_id in runs}
    assert len(watchers) == 1
    assert len(link_processes(connections)) == 1
    # For a moment, the child that becomes the shell of a new session is also an sshd.
    until(lambda: programs(project).split().count("sshd") == 1, "one connection")
    project.gate.touch()
    for each, run_id in runs:
        each.until_status(run_id, "Completed")


def test_nothing_stays_on_the_login_node(project: SlurmProject, connections: Path) -> None:
    run_id = project.begin()
    assert "sshd" in programs(project)
    for pid in (watcher_of(project, run_id), *link_processes(connections)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: programs(project) == "", "the end of all programs on the login node")
    assert project.cluster.output(["squeue", "-h", "-o", "%T"]) == "RUNNING"
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\n"
