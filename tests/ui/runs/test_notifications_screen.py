"""The screen of channels for notifications, with a real HTTP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.notify.conftest import Topic, topic  # noqa: F401  (fixture)
from tests.targets.conftest import connections, keyring  # noqa: F401  (fixtures)
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import on
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.runs.notify.channels import Channel, load_channels, save_channels
from tui_workbench.targets.hosts.secrets import SecretStore, new_reference
from tui_workbench.ui.runs.channel_form import FIELDS, ChannelScreen, ChannelView
from tui_workbench.ui.runs.notifications_screen import NotificationsScreen

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
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


async def fill(pilot: Pilot[list[Run]], *texts: str) -> None:
    """Type a text into each field of the open form, from the top."""
    await until(on(pilot, ChannelScreen))
    await pilot.press(*["up"] * len(FIELDS))
    for text in texts:
        await pilot.press("ctrl+u", *text, "down")


def current_field(pilot: Pilot[list[Run]]) -> str:
    """Return the key of the field under the cursor of the form."""
    field = pilot.app.screen.query_one(ChannelView).current
    return field.key if field is not None else ""


@proves(
    "notifications.add notifications.remove channel.add channel.leave channel.up channel.down channel.next "
    "channel.previous"
)
async def test_channel_is_added_and_removed(project: Project, keyring: Path, topic: Topic) -> None:  # noqa: F811
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("ctrl+p", *"notif", "enter")
        await until(lambda: "No channels." in seen(pilot))
        assert "a adds e-mail, ntfy, Slack or another service." in seen(pilot)
        await driver.does("notifications.add", on(pilot, ChannelScreen))
        await driver.does("channel.leave", on(pilot, NotificationsScreen))

        await pilot.press("a")
        await fill(pilot, "phone", topic.url)
        assert topic.url not in seen(pilot)
        assert "•" * len(topic.url) in seen(pilot)
        await driver.does("channel.next", lambda: "of failed runs" in seen(pilot))
        await driver.does("channel.previous", lambda: "of all runs" in seen(pilot))
        await pilot.press("right")
        await driver.becomes("channel.down", lambda: current_field(pilot), "stalls")
        await driver.becomes("channel.up", lambda: current_field(pilot), "ends")
        await pilot.press("down", "space", "down", *"loss < 0.1, acc > 0.9")
        await driver.does("channel.add", lambda: "Added phone. t sends a test message." in seen(pilot))
        await until(lambda: "failed, loss < 0.1, acc > 0.9" in seen(pilot))

        (channel,) = load_channels()
        assert channel[2:] == (("failed",), ("loss < 0.1", "acc > 0.9"))
        assert SecretStore().get(channel.reference) == topic.url
        await pilot.press("t")
        await until(lambda: len(topic.messages) == 1)

        await driver.does("notifications.remove", lambda: "Remove phone," in seen(pilot))
        await pilot.press("enter")  # needs the letter
        await pilot.press("n")
        await until(lambda: "Remove phone," not in seen(pilot))
        assert load_channels() == [channel]
        await pilot.press("x", "y")
        await until(lambda: "Removed phone." in seen(pilot) and "No channels." in seen(pilot))
        assert load_channels() == []
        assert SecretStore().get(channel.reference) is None


async def test_form_explains_what_is_wrong(project: Project, keyring: Path, topic: Topic) -> None:  # noqa: F811
    save_channels([Channel("mail", new_reference("notify/mail", "url"), ("end",), ())])
    async with opened(project) as pilot:
        await pilot.press("ctrl+p", *"notif", "enter")
        await until(lambda: "mail" in seen(pilot))
        await pilot.press("a")
        for texts, error in (
            (("a/b", topic.url), "'a/b' is not a valid channel name"),
            (("mail", topic.url), "A channel named 'mail' already exists"),
            (("phone", "nonsense://x"), "Apprise does not support this URL"),
        ):
            await fill(pilot, *texts)
            await pilot.press("enter")
            await until(lambda error=error: error in seen(pilot))  # type: ignore[misc]
        await pilot.press("down", "down", *"loss = 3", "enter")
        await until(lambda: "'loss = 3' is not a condition on a metric" in seen(pilot))
        await fill(pilot, "phone", topic.url)
        await pilot.press("left", "down", "left", "down", "ctrl+u", "enter")
        await until(lambda: "The channel reports nothing" in seen(pilot))
        assert [channel.name for channel in load_channels()] == ["mail"]


@pytest.mark.slow
async def test_url_is_kept_in_the_form_without_a_keyring(
    project: Project, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    async with opened(project) as pilot:
        await pilot.press("ctrl+p", *"notif", "enter")
        await until(on(pilot, NotificationsScreen))
        await pilot.press("a")
        await fill(pilot, "phone", "ntfy://localhost/topic")
        await pilot.press("enter")
        await until(lambda: "cannot store the URL, which contains a secret: this session has no" in seen(pilot))
        assert "`workbench-tui doctor` shows" in seen(pilot)
        assert "•" * len("ntfy://localhost/topic") in seen(pilot)
        assert load_channels() == []
