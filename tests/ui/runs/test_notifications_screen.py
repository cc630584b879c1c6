"""The screen of channels for notifications, with a real HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.runs.notify.conftest import Topic, topic  # noqa: F401  (fixture)
from tests.targets.conftest import connections, keyring  # noqa: F401  (fixtures)
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import on
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.runs.notify.channels import Channel, save_channels
from tui_workbench.targets.base.secrets import SecretStore, new_reference
from tui_workbench.ui.runs.notifications_screen import NotificationsScreen

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project


@proves("view.notifications notifications.test")
async def test_test_message_is_sent(project: Project, keyring: Path, topic: Topic) -> None:  # noqa: F811
    reference = new_reference("notify/phone", "url")
    SecretStore().put(reference, topic.url)
    save_channels([Channel("phone", reference, ("end",), ("loss < 0.1",))])
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await driver.finds("view.notifications", lambda: "end, loss < 0.1" in seen(pilot))
        await driver.does("notifications.test", lambda: "Sent a test message to phone." in seen(pilot))
        assert topic.messages[0]["title"] == "Test message from workbench-tui"
        topic.code = 500
        await pilot.press("t")
        await until(lambda: "Cannot send to phone: " in seen(pilot))


async def test_screen_without_channels_names_the_command(project: Project, home: Path) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+p", *"notif", "enter")
        await until(on(pilot, NotificationsScreen))
        await until(lambda: "workbench-tui notify add NAME" in seen(pilot))
