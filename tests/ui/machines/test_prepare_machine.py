"""Preparing a new machine on the screens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.machines import PASSWORD
from tests.targets.preparing.fresh import Fresh
from tests.targets.preparing.fresh import fresh as fresh
from tests.ui.main.test_main import NARROW, opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.ui.machines.prepare_machine import PrepareMachineScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


def shown(pilot: Pilot[list[Run]]) -> str:
    return " ".join(seen(pilot).replace("│", " ").split())


async def test_commands_are_shown_before_they_run(project: Project, fresh: Fresh) -> None:
    async with opened(project) as pilot:
        await pilot.press("2", "home", "i")
        await until(lambda: "runs them, n runs nothing" in shown(pilot))
        assert isinstance(pilot.app.screen, PrepareMachineScreen)
        assert "usermod -aG docker outsider" in shown(pilot)
        await pilot.press("n")
        await until(lambda: "Nothing was run. c copies the commands" in shown(pilot))
        assert fresh.log == []
        await pilot.press("c")
        assert pilot.app.clipboard.endswith("usermod -aG docker outsider")
        await pilot.press("r")
        await until(lambda: "runs them, n runs nothing" in shown(pilot))
        await pilot.press("y")
        await until(lambda: "Restart the machine, then check the target." in shown(pilot))
        assert fresh.log[-1] == "systemctl restart docker"
        assert "✓ docker group" in shown(pilot)
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))


async def test_password_is_asked_for_again_after_the_group_step(project: Project, fresh: Fresh) -> None:
    fresh.ask_for_password(Path(project.config_directory, "box.compute"))
    async with opened(project) as pilot:
        await pilot.press("2", "home", "i")
        for answer in ("y", ""):
            await until(lambda: "Password of outsider" in shown(pilot))
            await pilot.press(*("space" if character == " " else character for character in PASSWORD), "enter")
            if answer:
                await until(lambda: "runs them, n runs nothing" in shown(pilot))
                await pilot.press(answer)
        await until(lambda: "Restart the machine, then check the target." in shown(pilot))
        assert "✓ docker group" in shown(pilot)


async def test_refused_sudo_is_explained(project: Project, fresh: Fresh) -> None:
    fresh.allow_sudo(allowed=False)
    async with opened(project, NARROW) as pilot:
        await pilot.press("2", "home", "i")
        await until(lambda: "runs them, n runs nothing" in shown(pilot))
        await pilot.press("y")
        await until(lambda: "shell that `sudo -i` opens" in shown(pilot))
        assert fresh.log == []
