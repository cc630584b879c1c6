"""Commands and screens that only look connect to no machine that only the files of a project name."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import Workbench
from tests.runs.support import write_configuration
from tests.targets.conftest import connections as connections
from tests.trust.hostile import READING
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.main.test_starting import choose
from tests.ui.waiting import until
from tests.waiting import wait_until
from tui_workbench.targets.hosts import contacts
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.runs.preparation import PlanScreen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.usefixtures("connections")

NOT_CONTACTED = "not contacted yet"


class Listener:
    """A port of this machine that counts the connections to it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._socket.accept()
                self.connections += 1
                accepted.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


TARGETS = ("box", "engine", "cluster", "spark", "second", "group")


@pytest.fixture
def received(project_root: Path, listener: Listener) -> Path:
    """Return a received project whose targets of all types name the machine of the listener."""
    login = {"address": listener.address, "username": "alice"}
    targets: dict[str, dict[str, object]] = {
        "box": {"type": "remote", **login, "gpus": "all", "gpuReservations": "/srv/gpus"},
        "engine": {"type": "remotedocker", **login, "baseDockerImage": "busybox", "nvidiaDocker": True},
        "cluster": {"type": "slurm", **login},
        "spark": {"type": "cluster", **login},
        "second": {"type": "remote", **login, "address": f"localhost:{listener.port}"},
        "group": {"type": "group", "members": ["box", "second"]},
    }
    for name, values in targets.items():
        write_configuration(project_root, name, suffix="compute", **values)
        ranks = 2 if name == "group" else None
        needs_gpu = name in ("box", "engine")
        write_configuration(project_root, name, Target=name, RequireGpu=needs_gpu, ProcessesPerNode=ranks)
    return project_root


LOOKING = (
    *READING,
    ("gpu", "list"),
    ("gpu", "top"),
    ("gpu", "list", "-o", "json"),
    ("doctor",),
    ("agent-guide",),
    ("config", "check", "-o", "json"),
    ("config", "gpu-ready", "box", "--dry-run"),
    ("computetarget", "list", "-o", "json"),
    ("completion", "bash"),
    ("completion", "--values", "targets"),
    *(("experiment", "submit", "-c", name, "--dry-run", "hello.py") for name in TARGETS),
    ("experiment", "sweep", "-c", "box", "--param", "lr=1,2", "--dry-run", "hello.py"),
    ("experiment", "clean", "--dry-run"),
)


@pytest.mark.processes
@pytest.mark.timeout(900)
def test_commands_that_look_do_not_connect(received: Path, listener: Listener) -> None:
    found = {}
    for command in LOOKING:
        Workbench(received).run(*command)
        if listener.connections:
            found[command], listener.connections = listener.connections, 0
    assert found == {}


@pytest.mark.processes
async def test_screens_do_not_connect(received: Path, project: Project, listener: Listener) -> None:
    async with opened(project) as pilot:
        for key in "12345":
            await pilot.press(key, "down", "enter", "escape")
        for key in "678":
            await pilot.press(key, "down", "escape")
        await pilot.press("7")
        await until(lambda: isinstance(pilot.app.screen, MonitorScreen) and NOT_CONTACTED in seen(pilot))
        assert "r connects to the machine" in seen(pilot)
        await until(lambda: f"{NOT_CONTACTED}: t in Compute targets (2) connects to the cluster" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        for name in TARGETS:
            await choose(pilot, name)
            await pilot.press("1", "p")
            await until(lambda: isinstance(pilot.app.screen, PlanScreen) and "has not been contacted" in seen(pilot))
            await pilot.press("escape")
            await until(lambda: pilot.app.screen is screen_of(pilot))
        assert "unreachable" not in seen(pilot)
        assert listener.connections == 0


@pytest.mark.processes
async def test_key_on_the_selected_machine_connects(received: Path, project: Project, listener: Listener) -> None:
    async with opened(project) as pilot:
        await pilot.press("7")
        await until(lambda: "2 machines not contacted" in seen(pilot))
        await until(lambda: "box, engine" in seen(pilot))
        assert listener.connections == 0
        await pilot.press("home", "r")
        await until(lambda: listener.connections)
        await until(lambda: "1 machine unavailable" in seen(pilot))


def gpu_list(folder: Path, *arguments: str) -> dict[str, str | None]:
    """Return the problems of the listed machines by the names of their targets."""
    out = Workbench(folder).run("gpu", "list", "--wait", "20", "-o", "json", *arguments).out
    return {record["target"]: record["problem"] for record in json.loads(out)}


def test_unknown_machine_has_a_line_with_the_command(received: Path, listener: Listener) -> None:
    problem = gpu_list(received)["box,engine"]
    assert problem == f"{NOT_CONTACTED}. To contact it, run `workbench-tui computetarget check box`"
    assert Workbench(received).run("gpu", "list", "-t", "local").code in (0, 4)
    assert listener.connections == 0


@pytest.mark.processes
@pytest.mark.parametrize(
    "command",
    [
        ("computetarget", "check", "box"),
        ("gpu", "check", "-t", "box"),
        ("gpu", "list", "-t", "box", "--wait", "5"),
        ("gpu", "reservations", "-t", "box"),
        ("computetarget", "login", "box"),
        ("computetarget", "prepare", "box", "--dry-run"),
    ],
)
def test_machine_is_known_after_a_command_that_names_it(
    received: Path, listener: Listener, command: tuple[str, ...]
) -> None:
    Workbench(received).run(*command)
    wait_until(lambda: listener.connections, "the connection of the command")
    listener.connections = 0
    assert NOT_CONTACTED not in str(gpu_list(received)["box,engine"])
    wait_until(lambda: listener.connections, "the connection of `gpu list`")


@pytest.mark.processes
def test_submitted_run_makes_its_machine_known(received: Path, listener: Listener) -> None:
    workbench = Workbench(received)
    write_configuration(received, "box", Target="box", Framework="Python")
    run = workbench.detach("hello.py", configuration="box")
    assert NOT_CONTACTED not in str(gpu_list(received)["box,engine"])
    workbench.run("experiment", "cancel", "--run", run)


@pytest.mark.processes
def test_changed_address_is_unknown_again(received: Path, listener: Listener) -> None:
    Workbench(received).run("computetarget", "check", "box")
    (received / "aml_config" / "engine.compute").unlink()
    other = Listener()
    try:
        for values in (
            {"address": other.address, "username": "alice"},
            {"address": listener.address, "username": "bob"},
        ):
            write_configuration(received, "box", suffix="compute", type="remote", **values)
            listener.connections = 0
            assert NOT_CONTACTED in str(gpu_list(received)["box"])
            assert (listener.connections, other.connections) == (0, 0)
    finally:
        other.close()


def contacted(folder: Path) -> dict[str, bool]:
    rows = json.loads(Workbench(folder).run("computetarget", "list", "-o", "json").out)
    return {row["name"]: row["contacted"] for row in rows}


def test_listed_targets_say_whether_they_were_contacted(received: Path) -> None:
    assert contacted(received) == {"local": True, **dict.fromkeys(TARGETS, False)}
    Workbench(received).run("computetarget", "check", "spark")
    assert contacted(received) == {"local": True, **dict.fromkeys(TARGETS, True), "second": False, "group": False}
    Workbench(received).run("computetarget", "check", "second")
    assert contacted(received)["group"]


def test_entries_that_others_could_write_do_not_count(received: Path, project: Project, tmp_path: Path) -> None:
    box = project.target("box")
    contacts.record(box)
    folder = Path(os.environ["HOME"], ".local", "state", "workbench-tui", contacts.FOLDER)
    (entry,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)
    assert contacts.is_contacted(box)
    entry.chmod(0o622)
    assert not contacts.is_contacted(box)
    entry.chmod(0o600)
    folder.chmod(0o777)
    assert not contacts.is_contacted(box)
    folder.chmod(0o700)
    entry.rename(tmp_path / "entry")
    entry.symlink_to(tmp_path / "entry")
    assert not contacts.is_contacted(box)
    contacts.record(box)
    assert contacts.is_contacted(box)
    assert not entry.is_symlink()
    folder.rename(tmp_path / "folder")
    folder.symlink_to(tmp_path / "folder")
    assert not contacts.is_contacted(box)


ACTIONS = {
    "cli/computetarget/attach.py": "the command names the target",
    "cli/computetarget/check.py": "the command names the target",
    "cli/experiment/maintenance.py": "the plan of an imported run is made without a connection",
    "cli/gpu/gpu.py": "`gpu check` names the target",
    "cli/shared/prompts.py": "the user logs in",
    "runs/agents/programs.py": "a plan is made without a connection",
    "runs/agents/submitting.py": "a run is submitted",
    "runs/gpu/gate.py": "a run is submitted, or a plan has checked that the user has contacted the machine",
    "runs/gpu/group_samples.py": "a run of the user is active",
    "runs/gpu/owners.py": "a run of the user is active",
    "runs/gpu/recording.py": "a run of the user is active",
    "runs/lifecycle/adoption.py": "the command names the target",
    "runs/lifecycle/agent_ends.py": "a run of the user ends",
    "runs/cleanup.py": "the command names the target",
    "runs/lifecycle/collecting.py": "a run of the user has files on the machine",
    "runs/lifecycle/controller.py": "a run of the user is active",
    "runs/lifecycle/queueing.py": "a run of the user starts",
    "runs/resuming.py": "a run starts again",
    "runs/lifecycle/starting.py": "a run of the user starts",
    "runs/lifecycle/watcher.py": "a run of the user is active",
    "runs/logs/spark_ui.py": "the kind of the host is read without a connection",
    "runs/ports.py": "the user opens a port of an own run",
    "runs/snapshots/provenance.py": "a run of the user is active",
    "runs/stacks.py": "the user reads the stacks of an own run",
    "runs/submission/launch.py": "a run is submitted",
    "runs/submission/planning.py": "a plan is made without a connection; an environment is prepared",
    "ui/machines/machine.py": "the user attaches or checks a machine",
    "ui/main/starting.py": "the user starts a run; a plan has checked that the user has contacted the machine",
}
"""The modules outside `targets` that use machines without `target_to_look_at`, and why they may connect."""

MACHINES = frozenset(("Feed", "SshHost", "checks_for", "host_of", "ssh_host_of", "target_for"))
"""The functions and classes that connect. `Feed` itself refuses machines that the user has not contacted."""


@pytest.mark.processes
def test_only_actions_of_the_user_use_machines_that_may_be_unknown() -> None:
    """A new module that only looks must use `target_to_look_at`, or `require_contacted` before it connects."""
    package = Path(contacts.__file__).parents[2]
    found = []
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        if not name.startswith(("targets/", "sdk/")) and "templates_data" not in path.parts:
            nodes = ast.walk(ast.parse(path.read_bytes()))
            imported = {each.name for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names}
            found += [name] if imported & MACHINES else []
    assert found == sorted(ACTIONS)
