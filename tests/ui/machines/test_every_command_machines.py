"""Every command for machines, environments and secrets, on real machines."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD, Machine
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.machines.test_machine import attached, type_text
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.main.test_starting import choose, log_of
from tests.ui.main.test_starting import managed as managed
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen, Phase
from tui_workbench.ui.runs.preparation import PlanScreen, PrepareScreen

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


@pytest.mark.slow
@proves("machine.up machine.down machine.next machine.previous machine.leave")
async def test_field_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("2", "a")
        await until(lambda: isinstance(pilot.app.screen, AttachScreen))
        await pilot.pause()
        await pilot.press("up")
        await driver.changes("machine.down", lambda: seen(pilot))
        await driver.changes("machine.up", lambda: seen(pilot))
        await pilot.press("up", "up")
        before = seen(pilot)
        await driver.does("machine.next", lambda: seen(pilot) != before)
        await driver.does("machine.previous", lambda: seen(pilot) == before)
        await driver.does("machine.leave", lambda: pilot.app.screen is screen_of(pilot))


@pytest.mark.usefixtures("ssh_folder")
@proves("machine.yes machine.no machine.again machine.copy machine.close machine.go")
async def test_check_commands(project: Project, gpubox: Machine, home: Path) -> None:
    attached(project, gpubox)
    ssh_host_of(project.target("box")).disconnect()
    known_hosts = home / ".ssh" / "known_hosts"
    known_hosts.write_text("")

    def phase() -> Phase:
        screen = pilot.app.screen
        return screen.view.phase if isinstance(screen, AttachScreen | CheckScreen) else Phase.DONE

    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("2", "home", "t")
        await until(lambda: isinstance(pilot.app.screen, CheckScreen) and "SHA256:" in seen(pilot))
        await driver.does("machine.no", lambda: phase() is Phase.DONE)
        assert known_hosts.read_text() == ""
        await driver.does("machine.copy", lambda: pilot.app.clipboard)
        await driver.does("machine.again", lambda: "SHA256:" in seen(pilot) and phase() is not Phase.DONE)
        await driver.does("machine.yes", lambda: "ssh-ed25519" in known_hosts.read_text())
        await until(lambda: phase() is Phase.DONE)
        await driver.does("machine.close", lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("a")
        await until(lambda: isinstance(pilot.app.screen, AttachScreen))
        await driver.changes("machine.go", lambda: seen(pilot))


@pytest.mark.usefixtures("known")
@proves("secret.give secret.leave")
async def test_secret_row_commands(project: Project, gpubox: Machine) -> None:
    attached(project, gpubox, password=True)
    ssh_host_of(project.target("box")).disconnect()
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await choose(pilot, "box")
        await pilot.press("2", "ctrl+r")
        await until(lambda: "Password of research" in seen(pilot))
        await driver.does("secret.leave", lambda: "Password of research" not in seen(pilot))
        assert Runs(project).list() == []
        await pilot.press("2", "ctrl+r")
        await until(lambda: "Password of research" in seen(pilot))
        await type_text(pilot, PASSWORD)
        await driver.does("secret.give", lambda: log_of(pilot)[:1] == ["hello"])


@pytest.mark.slow
@proves("plan.prepare preparing.leave preparing.stop preparing.close")
async def test_preparation_commands(managed: Project, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = os.environ["PIP_INDEX_URL"]
    async with opened(managed) as pilot:
        driver = CommandDriver(pilot)
        await choose(pilot, "own")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            # Nothing answers at this address, so the check runs until it is stopped.
            monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
            await pilot.press("1", "p")
            await until(lambda: isinstance(pilot.app.screen, PlanScreen))
            await driver.does("plan.prepare", lambda: isinstance(pilot.app.screen, PrepareScreen))
            await driver.does("preparing.stop", lambda: "⊘" in seen(pilot))
            await driver.does("preparing.leave", lambda: pilot.app.screen is screen_of(pilot))
        monkeypatch.setenv("PIP_INDEX_URL", good)
        await pilot.press("P")
        await until(lambda: isinstance(pilot.app.screen, PrepareScreen))
        await until(lambda: "✓ prepared:" in seen(pilot))
        await driver.does("preparing.close", lambda: pilot.app.screen is screen_of(pilot))
