"""The user's channels for notifications about runs. Keys add, test and remove channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tui_workbench.projects.project import Project
from tui_workbench.runs.notify.changing import remove_channel
from tui_workbench.runs.notify.channels import Channel, load_channels
from tui_workbench.runs.notify.sending import send_test
from tui_workbench.ui.blocking import CallQueue
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, NOTIFICATIONS
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.runs.channel_form import ChannelScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList

EMPTY = ("No channels.", f"{shown_key('notifications.add', 'a')} adds e-mail, ntfy, Slack or another service.")


class NotificationsScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the channels."""

    BINDINGS = NOTIFICATIONS.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*NOTIFICATIONS, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Notifications"
    about = "The channels that report your runs on all targets, with the events and conditions that each reports."
    DEFAULT_CSS = "NotificationsScreen > RowList { height: 1fr; }"

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._all_channels: Sequence[Channel] = ()
        self._calls = CallQueue(self)
        self.channels = RowList()
        self.content = (self.channels,)

    @property
    def subject(self) -> str:
        return "of all projects"

    def on_mount(self) -> None:
        self._read()

    def _read(self, current: str | None = None) -> None:
        self.ask("channels", load_channels, partial(self._show, current=current))

    def _show(self, channels: Sequence[Channel], current: str | None) -> None:
        self._all_channels = channels
        width = max((len(channel.name) for channel in channels), default=0) + 2
        self.channels.show_rows([_row(channel, width) for channel in channels], empty=EMPTY, current=current)
        self.refresh_bindings()

    @property
    def _current(self) -> Channel | None:
        return next((channel for channel in self._all_channels if channel.name == self.channels.current), None)

    def why_not(self, action: str) -> str:
        if action in ("add", "test", "remove") and self.question is not None:
            return "Answer the question first."
        if action in ("test", "remove") and self._current is None:
            return "No channel selected."
        return super().why_not(action)

    def action_add(self) -> None:
        self.app.push_screen(ChannelScreen(self._added))

    def _added(self, channel: Channel) -> None:
        if self.is_attached:
            self.say(f"Added {channel.name}. {shown_key('notifications.test', 't')} sends a test message.")
            self._read(channel.name)

    def action_remove(self) -> None:
        if (channel := self._current) is not None:
            text = f"Remove {safe_text(channel.name)}, its URL and its unsent notifications?"
            self.confirm(text, partial(self._remove, channel))

    def _remove(self, channel: Channel) -> None:
        def removed(_: object) -> None:
            if self.is_attached:
                self.say(f"Removed {channel.name}.")
                self._read()

        self._calls.add(partial(remove_channel, channel), removed, holds_exit=True)

    def action_test(self) -> None:
        if (channel := self._current) is not None:
            self.say(f"Sending a test message to {channel.name}...")
            self._calls.add(partial(send_test, channel), partial(self._sent, channel))

    def _sent(self, channel: Channel, error: str) -> None:
        if self.is_attached:
            text = f"Cannot send to {channel.name}: {error}." if error else f"Sent a test message to {channel.name}."
            self.notice.say(text, wrong=bool(error))


def _row(channel: Channel, width: int) -> Row:
    reported = ", ".join((*channel.events, *channel.metrics))
    return Row(channel.name, Piece(safe_text(reported), "muted"), (Piece(f"{safe_text(channel.name):<{width}}"),))
