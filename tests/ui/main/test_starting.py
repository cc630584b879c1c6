"""Starting remote runs on real machines: login, plan, preparation, detach."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_project
from tests.machines import PASSWORD, Machine, secret_in_keyring
from tests.package_index import package_index
from tests.ui.machines.test_machine import attached, type_text
from tests.ui.main.test_main import NARROW, WIDE, make_app, opened, screen_of, seen
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.core.model import RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.ui.messages import ProjectRequested
from tui_workbench.ui.runs.preparation import PlanScreen, PrepareScreen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project
    from tui_workbench.targets.ssh.ssh_host import SshHost

    Workbench = Pilot[list[Run]]


async def choose(pilot: Workbench, configuration: str) -> None:
    await pilot.press("0", "enter")
    await type_text(pilot, configuration)
    await pilot.press("enter", "escape")
    await until(lambda: screen_of(pilot).panes.run_bar.environment == configuration)


def log_of(pilot: Workbench) -> list[str]:
    return content_of(screen_of(pilot).panes.log)


# Login.


@pytest.mark.usefixtures("known")
async def test_missing_password_is_asked_before_the_run(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project) as pilot:
        await choose(pilot, "box")
        await pilot.press("ctrl+r")
        await until(lambda: "Password of research" in seen(pilot))
        assert Runs(project).list() == []
        await type_text(pilot, "wrong one")
        assert "•" * 9 in seen(pilot)
        assert "wrong" not in seen(pilot)
        await pilot.press("enter")
        await until(lambda: "Not accepted. Password of research" in seen(pilot))
        await type_text(pilot, PASSWORD)
        await pilot.press("enter")
        await until(lambda: log_of(pilot)[:1] == ["hello"])
        assert PASSWORD not in seen(pilot)


@pytest.mark.usefixtures("known")
async def test_refused_password_runs_nothing_and_returns_the_focus(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project, NARROW) as pilot:
        await choose(pilot, "box")
        await pilot.press("2", "ctrl+r")
        await until(lambda: "Password of research" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: screen_of(pilot).panes.targets.has_focus_within)
        assert "Password" not in seen(pilot)
        assert Runs(project).list() == []


@pytest.mark.usefixtures("ssh_folder")
async def test_unknown_host_key_is_asked_once(project: Project, gpubox: Machine, home: Path) -> None:
    attached(project, gpubox)
    ssh_host_of(project.target("box")).disconnect()
    known_hosts = home / ".ssh" / "known_hosts"
    known_hosts.write_text("")
    async with opened(project, NARROW) as pilot:
        await choose(pilot, "box")
        await pilot.press("ctrl+r")
        await until(lambda: "SHA256:" in seen(pilot) and "accept and remember" in seen(pilot))
        await pilot.press("n")
        await until(lambda: "accept it" not in seen(pilot))
        assert (known_hosts.read_text(), Runs(project).list()) == ("", [])
        await pilot.press("1", "ctrl+r")
        await until(lambda: "accept and remember" in seen(pilot))
        await pilot.press("y")
        await until(lambda: Runs(project).list() and Runs(project).list()[0].state == RunState.COMPLETED)
        assert "ssh-ed25519" in known_hosts.read_text()


@pytest.mark.usefixtures("known")
async def test_question_does_not_take_the_focus_from_a_text_field(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project) as pilot:
        await choose(pilot, "box")
        await pilot.press("minus", "ctrl+r")
        await until(lambda: "ctrl+r to answer" in seen(pilot))
        await type_text(pilot, "--lr 1")
        assert screen_of(pilot).panes.run_bar.request().arguments == ("--lr", "1")
        await pilot.press("ctrl+r")
        await type_text(pilot, "abc")
        assert "•••" in seen(pilot)
        await pilot.press("escape")


@pytest.mark.usefixtures("ssh_folder")
async def test_unreachable_run_shows_since_when_and_key_retries(
    project: Project, project_root: Path, gpubox: Machine
) -> None:
    attached(project, gpubox)
    (project_root / "hello.py").write_text("import time\nprint('going', flush=True)\ntime.sleep(600)\n")
    async with opened(project) as pilot:
        await choose(pilot, "box")
        await pilot.press("ctrl+r")
        await until(lambda: log_of(pilot)[:1] == ["going"])
        gpubox.stop_sshd()
        try:
            await until(lambda: "unknown since" in seen(pilot))
            await until(lambda: any("Unreachable since" in line for line in log_of(pilot)))
            await pilot.press("5")
            await until(lambda: "r Reconnect" in seen(pilot))
        finally:
            gpubox.start_sshd()
        await pilot.press("r")
        await until(lambda: "unknown" not in seen(pilot) and "running" in seen(pilot))
        await until(lambda: log_of(pilot)[:1] == ["going"])


# Plans and preparation.


@pytest.mark.usefixtures("ssh_folder")
async def test_plan_shows_files_and_sends_nothing(project: Project, project_root: Path, gpubox: Machine) -> None:
    attached(project, gpubox)
    (project_root / "big.bin").write_bytes(os.urandom(123_000))
    async with opened(project) as pilot:
        await choose(pilot, "box")
        await pilot.press("1", "p")
        await until(lambda: isinstance(pilot.app.screen, PlanScreen))
        await until(lambda: "The plan is ready" in seen(pilot))
        text = " ".join(seen(pilot).split())
        assert "big.bin 123 kB" in text
        assert "hello.py" in text
        assert not list(gpubox.home().rglob("big.bin"))
        await pilot.press("c")
        assert "big.bin" in pilot.app.clipboard
        assert Runs(project).list() == []
        await pilot.press("enter")
        await until(lambda: log_of(pilot)[:1] == ["hello"])
        await pilot.press("4", "o")
        await until(lambda: any("sent" in line and "kB" in line for line in log_of(pilot)))


@pytest.mark.usefixtures("known")
async def test_plan_asks_for_a_password(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project, NARROW) as pilot:
        await choose(pilot, "box")
        await pilot.press("1", "p")
        await until(lambda: pilot.app.screen is screen_of(pilot) and "Password of research" in seen(pilot))
        await type_text(pilot, PASSWORD)
        await pilot.press("enter")
        await until(lambda: "The plan is ready" in seen(pilot))
        await pilot.press("escape")


@pytest.fixture
def managed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Return the project with a run configuration whose environment must be prepared before a run."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    folder = tmp_path / "project" / "aml_config"
    (folder / "own.compute").write_text(
        f"type: local\nuserManagedEnvironment: false\npythonLocation: {sys.executable}\n"
    )
    (folder / "own.runconfig").write_text(
        "Target: own\nFramework: Python\nCondaDependenciesFile: aml_config/own.yml\nPrepareEnvironment: false\n"
    )
    (folder / "own.yml").write_text("dependencies:\n  - pip:\n    - tinylib==1.0\n")
    with package_index(tmp_path / "index", "127.0.0.1") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        index.add("tinylib", "1.0")
        yield project


@pytest.mark.slow
async def test_unprepared_environment_is_reported_before_the_run(managed: Project) -> None:
    async with opened(managed) as pilot:
        await choose(pilot, "own")
        await pilot.press("1", "ctrl+r")
        question = "PrepareEnvironment is false. Prepare the environment, then run?"
        await until(lambda: question in " ".join(seen(pilot).split()))
        assert Runs(managed).list() == []
        await pilot.press("y")
        await until(lambda: log_of(pilot)[:1] == ["hello"])
        await until(lambda: [run.state for run in Runs(managed).list()] == [RunState.COMPLETED])


@pytest.mark.slow
async def test_preparation_shows_progress_and_result(managed: Project, project_root: Path) -> None:
    async with opened(managed) as pilot:
        await choose(pilot, "own")
        await pilot.press("1", "P")
        await until(lambda: isinstance(pilot.app.screen, PrepareScreen))
        await until(lambda: "✓ prepared:" in seen(pilot) and "tinylib" in seen(pilot))
        await pilot.press("escape")
        (project_root / "aml_config" / "own.yml").write_text("dependencies:\n  - pip:\n    - nosuchthing\n")
        await pilot.press("P")
        await until(lambda: "✗" in seen(pilot) and "nosuchthing" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        assert Runs(managed).list() == []


@pytest.mark.slow
async def test_preparation_is_stopped_when_the_project_is_switched(
    managed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_project(tmp_path / "other")
    async with make_app(managed).run_test(size=WIDE, notifications=True) as pilot:
        await until(lambda: screen_of(pilot).is_complete)
        await choose(pilot, "own")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            # Nothing answers at this address, so the preparation runs until it is stopped.
            monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
            await pilot.press("1", "P")
            await until(lambda: isinstance(pilot.app.screen, PrepareScreen))
            await pilot.press("escape")
            await until(lambda: pilot.app.screen is screen_of(pilot))
            pilot.app.screen.post_message(ProjectRequested(str(other)))
            await until(lambda: "Stopped preparing own." in seen(pilot))
        assert screen_of(pilot).project.root == str(other)


async def test_prepare_is_unavailable_on_local(project: Project) -> None:
    async with opened(project) as pilot:
        await until(lambda: screen_of(pilot).panes.run_bar.chosen[1] is not None)
        await pilot.press("1", "P")
        await until(
            lambda: "nothing to prepare: runs on target 'local' use your own Python" in seen(pilot).splitlines()[-1]
        )
        assert pilot.app.screen is screen_of(pilot)
        await pilot.press("p")
        await until(lambda: isinstance(pilot.app.screen, PlanScreen) and "esc Back" in seen(pilot))
        assert "Prepare" not in seen(pilot)


# Detaching.


@pytest.mark.usefixtures("known", "keyring")
async def test_detach_removes_files_and_secret_and_undo_restores_them(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    reference = project.target("box").password
    assert secret_in_keyring(reference) == PASSWORD
    async with opened(project) as pilot:
        await pilot.press("2", "home", "x")
        await until(lambda: "Detach box" in seen(pilot) and "removed from" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        await until(lambda: "box" not in " ".join(content_of(screen_of(pilot).panes.targets)))
        await until(lambda: secret_in_keyring(reference) is None)
        await pilot.press("ctrl+z")
        await until(lambda: "box" in " ".join(content_of(screen_of(pilot).panes.targets)))
        await until(lambda: secret_in_keyring(reference) == PASSWORD)
    assert {target.name for target in project.targets()} == {"box", "local"}


@pytest.mark.usefixtures("known")
async def test_secret_in_memory_is_kept_until_the_screens_close(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    host = ssh_host_of(project.target("box"))
    async with opened(project) as pilot:
        await detach_box(pilot, host)
        await pilot.press("ctrl+z")
        await until(lambda: "box" in " ".join(content_of(screen_of(pilot).panes.targets)))
        await until(lambda: len(project.targets()) == 2)
        assert (await asyncio.to_thread(host.run, ["id", "-un"])).text == "research"
        await detach_box(pilot, host)
        await until(lambda: "box" not in " ".join(content_of(screen_of(pilot).panes.targets)))
    with pytest.raises(SecretNeeded):
        host.run(["true"])


async def detach_box(pilot: Workbench, host: SshHost) -> None:
    await pilot.press("2", "home", "x")
    await until(lambda: "removed from the keyring or from memory" in seen(pilot))
    await pilot.press("enter")
    await until(lambda: pilot.app.screen is screen_of(pilot))
    await until(lambda: host.status()["state"] == "down")
