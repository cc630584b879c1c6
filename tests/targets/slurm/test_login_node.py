"""What the login node of a real cluster has to carry: one connection, and nothing that stays."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.faults.support import until
from tests.targets.conftest import link_processes
from tests.targets.slurm.project import SlurmProject
from tui_workbench.core.model import ComputeTarget
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.slurm.slurm_target import SlurmTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.machines import Machine
    from tui_workbench.targets.ssh.ssh_host import SshHost

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct", "srun")
ELSEWHERE = "/run/slurm/bin"
"""A folder of the login node that is not on the PATH of its SSH sessions."""

STARTUP = "#!/bin/sh\\necho welcome\\necho read >>/run/login-only/startups\\nsleep 1000 &\\n"

SHELLS = {
    "bash": (".bash_profile", "PATH=$PATH:{folder}; {program}"),
    "tcsh": (".login", "setenv PATH ${{PATH}}:{folder}; {program}"),
    "fish": (".config/fish/config.fish", "if status is-login; set -x PATH $PATH {folder}; {program}; end"),
    "sh": (".bash_profile", "PATH=$PATH:{folder}; {program}"),  # only bash reads this file
}
"""The startup file of each login shell, and its line that adds a folder to PATH and starts a program."""


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


@contextlib.contextmanager
def moved_commands(login: Machine) -> Iterator[None]:
    """Move the commands of Slurm to ELSEWHERE within the context."""
    login.run(["mkdir", "-p", ELSEWHERE])
    login.run(["touch", "/run/empty"])
    for name in COMMANDS:
        login.run(["cp", "-p", f"/usr/bin/{name}", ELSEWHERE])
        login.run(["mount", "--bind", "/run/empty", f"/usr/bin/{name}"])
    try:
        yield
    finally:
        for name in COMMANDS:
            login.run(["umount", f"/usr/bin/{name}"])


@contextlib.contextmanager
def login_shell(login: Machine, shell: str, folder: str = ELSEWHERE) -> Iterator[None]:
    """Give the user this login shell within the context, whose startup file prints, and adds `folder` to PATH."""
    accounts = login.folder / "etc/passwd"
    before = accounts.read_text()
    accounts.write_text(before.replace("/home/research:/bin/bash", f"/home/research:{require(shell)}"))
    # Only the login node has the program, which leaves another one that keeps the output of the shell open.
    login.run(["sh", "-c", f"printf '{STARTUP}' >{ELSEWHERE}/startup; chmod 755 {ELSEWHERE}/startup"])
    name, line = SHELLS[shell]
    file = login.home() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line.format(folder=folder, program=f"{ELSEWHERE}/startup") + "\n")
    try:
        yield
    finally:
        file.unlink()
        accounts.write_text(before)
        login.run(["rm", "-f", str(login.home() / ".workbench-tui/slurm-commands"), "/run/login-only/startups"])


@pytest.mark.parametrize("shell", SHELLS)
def test_login_shell_is_asked_once_for_slurm(project: SlurmProject, connections: Path, shell: str) -> None:
    login = project.cluster.login
    with moved_commands(login), login_shell(login, shell):
        checked = [project.run("computetarget", "check", "cluster") for _ in range(2)]
        startups = login.run(["cat", "/run/login-only/startups"]).split()
    for each in checked:
        assert "a job with the options of the target is accepted" in each.out
    assert startups == ["read"]


def test_runs_work_where_only_login_shells_have_slurm(project: SlurmProject, slurm_host: SshHost) -> None:
    login = project.cluster.login
    target = SlurmTarget(ComputeTarget("c", "", "slurm", run_root=str(project.cluster.run_root)), slurm_host)
    project.write("print('ran')")
    with moved_commands(login), login_shell(login, "bash"):
        assert project.submit("train.py", configuration="cluster").out.endswith("ran\n")
        run_id = project.begin()
        gpus = target.cluster_gpus()
        assert project.run("experiment", "cancel", "-r", run_id).code == 0
    assert "gpu" in [partition.name for partition in gpus.partitions]
    assert project.status(run_id) == "Canceled"


def test_commands_that_were_moved_are_found_again(project: SlurmProject) -> None:
    login = project.cluster.login
    kept = login.home() / ".workbench-tui/slurm-commands"
    with moved_commands(login), login_shell(login, "bash"):
        for answer in ("", "slurm:/usr/nowhere/sbatch:\n", "slurm:sbatch:\n", "\0\n" * 5000):
            login.run(["install", "-d", "-o", "research", str(kept.parent)])
            kept.write_text(answer)
            assert "is accepted" in project.run("computetarget", "check", "cluster").out
