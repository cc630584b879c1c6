"""The screen of the cloud-init file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.machines import make_key
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.targets.preparing.cloud_init import cloud_init, read_public_key

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.ssh


@proves("view.cloud_init cloud_init.key cloud_init.copy")
async def test_file_is_shown_and_copied_with_the_key(project: Project, tmp_path: Path) -> None:
    public = make_key(tmp_path / "key").with_suffix(".pub")
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await driver.finds("view.cloud_init", lambda: "#cloud-config" in seen(pilot))
        await driver.does("cloud_init.key", lambda: "File with your public key" in seen(pilot))
        await pilot.press("ctrl+u", *str(tmp_path / "none"), "enter")
        await until(lambda: "cannot read the public key" in seen(pilot))
        await pilot.press("a", "ctrl+u", *str(public), "enter")
        await until(lambda: "ssh_authorized_keys" in seen(pilot))
        text = cloud_init(public_key=read_public_key(str(public)))
        await driver.does("cloud_init.copy", lambda: pilot.app.clipboard == text)
