"""Measure the processes of this machine that drive many active runs: here, over SSH and in containers.

    python -m benchmarks.active_runs [RUNS [REMOTE_RUNS [CONTAINERS]]]

The scripts only wait, and are not measured. The memory is proportional (PSS). All runs are active at the same time. The
processes that hold the locks of the runs are measured when one process drives all runs of a kind. The process that
holds the SSH connections is measured separately.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    check,
    environment,
    finish,
    note,
    processor_shares,
    proportional_memory,
    scratch_folder,
)
from benchmarks.ssh_machine import Remote, is_possible, remote
from tests.engines import DockerEngine, docker_engine
from tests.targets.conftest import link_processes
from tests.targets.docker_project import DockerProject
from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

RUNS, REMOTE_RUNS, CONTAINERS = 1000, 20, 12
SHARE, MEMORY = 0.02, 150e6
LINK_SHARE, LINK_MEMORY = 0.02, 80e6
WINDOW = 6.0  # seconds for which the processes are measured
SETTLE_SECONDS, PATIENCE = 2.0, 120.0

WAITING_SCRIPT = "import os\nos.execvp('sleep', ['sleep', '100000'])\n"


def main() -> int:
    given = [int(word) for word in sys.argv[1:]]
    count, remote_count, containers = (*given, *(RUNS, REMOTE_RUNS, CONTAINERS)[len(given) :])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(scratch_folder()))
        _use_home(folder)
        groups = []
        box = stack.enter_context(remote()) if is_possible() else None
        if box is not None:
            groups.append(_submit_there(stack, box, remote_count))
            groups.append(_submit_containers(stack, stack.enter_context(docker_engine()), folder, containers))
        else:
            note(
                "runs on another machine and in containers, because only root can create a machine and start an engine"
            )
        groups.append(_submit_here(stack, folder, count))
        uses = [Use(group.name, _settled(group.directories)) for group in groups]
        if box is not None:
            links = set(link_processes(box.folder / "run"))
            uses.append(Use(f"{groups[0].name}, SSH connections", links, LINK_SHARE, LINK_MEMORY))
        _measure(uses)
    return finish()


class Group(NamedTuple):
    """Active runs of the same kind."""

    name: str
    directories: list[RunDirectory]


def _submit_here(stack: contextlib.ExitStack, folder: Path, count: int) -> Group:
    group = Group(f"{count:,} active runs on this machine", [])
    stack.callback(_kill_shells, group.directories)
    _submit(stack, Runs(_project(folder)), RunRequest("local", "wait.sh"), count, group.directories)
    return group


def _submit_containers(stack: contextlib.ExitStack, engine: DockerEngine, folder: Path, count: int) -> Group:
    group = Group(f"{count:,} active runs in containers", [])
    os.environ["DOCKER_HOST"] = f"unix://{engine.socket}"
    project = DockerProject(folder / "containers", nativeSharedDirectory=str(folder / "share"))
    project.runconfig(TrackedRun=False)
    project.script(WAITING_SCRIPT, "wait.py")
    _submit(stack, project.runs, RunRequest("docker", "wait.py"), count, group.directories)
    return group


def _submit_there(stack: contextlib.ExitStack, box: Remote, count: int) -> Group:
    group = Group(f"{count:,} active runs on a machine over SSH", [])
    project = box.make_project("wait.py", WAITING_SCRIPT)
    _submit(stack, Runs(project), RunRequest("box", "wait.py"), count, group.directories)
    return group


def _submit(
    stack: contextlib.ExitStack, runs: Runs, request: RunRequest, count: int, directories: list[RunDirectory]
) -> None:
    """Submit runs, and add them to `directories`. The end of `stack` kills the processes that drive them."""
    stack.callback(_kill_holders, directories)
    begun = time.perf_counter()
    for _ in range(count):
        directories.append(RunDirectory(runs.submit(request).directory))
    print(f"{count} runs submitted in {time.perf_counter() - begun:.0f} s", flush=True)


class Use(NamedTuple):
    """Processes to measure, and the limits of their share of a core and of their memory in bytes."""

    name: str
    processes: set[int]
    share: float = SHARE
    memory: float = MEMORY


def _measure(uses: list[Use]) -> None:
    shares = processor_shares([use.processes for use in uses], WINDOW)
    for use, share in zip(uses, shares, strict=True):
        check(f"{use.name}, processes", len(use.processes), 1, COUNT)
        check(f"{use.name}, share of a core", share, use.share, PERCENT)
        check(f"{use.name}, memory", proportional_memory(use.processes), use.memory, MEGABYTES)


def _settled(directories: list[RunDirectory]) -> set[int]:
    """Return the process that drives the runs, once all scripts run and it has been the same for SETTLE_SECONDS.

    If several processes drive them after PATIENCE, return these. Raises TimeoutError if scripts do not run then.
    """
    deadline = time.monotonic() + PATIENCE
    holders, since = _holders(directories), time.monotonic()
    while (
        time.monotonic() < since + SETTLE_SECONDS
        or len(holders) > 1
        or min(holders) <= 0
        or not _are_running(directories)
    ):
        if time.monotonic() > deadline:
            if min(holders) > 0 and _are_running(directories):
                return holders
            raise TimeoutError("the runs have no controllers, or their scripts do not run")
        time.sleep(0.5)
        found = _holders(directories)
        if found != holders:
            holders, since = found, time.monotonic()
    return holders


def _are_running(directories: list[RunDirectory]) -> bool:
    return all(directory.status().state == RunState.RUNNING for directory in directories)


def _holders(directories: list[RunDirectory]) -> set[int]:
    return {ControllerLock.holder(directory) for directory in directories}


def _kill_holders(directories: list[RunDirectory]) -> None:
    """Kill the processes that drive the runs."""
    for pid in filter(lambda pid: pid > 0, _holders(directories)):
        os.kill(pid, signal.SIGKILL)


def _kill_shells(directories: list[RunDirectory]) -> None:
    for directory in directories:
        os.killpg(int(Path(directory.file("pid")).read_text().split()[0]), signal.SIGKILL)


def _project(folder: Path) -> Project:
    root = folder / "project"
    configuration = root / "aml_config"
    configuration.mkdir(parents=True)
    (configuration / "local.compute").write_text("type: local\npythonLocation: /bin/sh\n")
    (configuration / "local.runconfig").write_text("Target: local\nFramework: Python\nTrackedRun: false\n")
    (root / "wait.sh").write_text("exec sleep 100000\n")
    return Project.find(str(root))


def _use_home(folder: Path) -> None:
    """Use only the environment of benchmarks in this process and its children, with an empty home."""
    home = folder / "home"
    home.mkdir(parents=True)
    kept = environment({"HOME": str(home), "PYTHONPATH": str(Path(__file__).parent.parent)})
    os.environ.clear()
    os.environ.update({name: value for name, value in kept.items() if not name.startswith("XDG_")})


if __name__ == "__main__":
    sys.exit(main())
