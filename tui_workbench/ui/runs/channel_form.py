"""The form that adds a channel for notifications. The URL of the channel is drawn as dots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tui_workbench.runs.notify.changing import add_channel
from tui_workbench.runs.notify.channels import END, FAILED, STALLED, Channel
from tui_workbench.ui.blocking import CallQueue
from tui_workbench.ui.commands.screen_commands import CHANNEL
from tui_workbench.ui.formatting import error_text
from tui_workbench.ui.messages import BackendFailed
from tui_workbench.ui.widgets.dialog import DialogField, DialogLine, DialogScreen, DialogView, box_of
from tui_workbench.ui.widgets.pieces import Piece, hanging

FIELDS = (
    DialogField("name", "Name", hint="such as phone"),
    DialogField("url", "URL", hint="such as ntfy://ntfy.sh/TOPIC", is_secret=True),
    DialogField("ends", "Report ends", END, choices={END: "of all runs", FAILED: "of failed runs", "": "no"}),
    DialogField("stalls", "Report stalls", STALLED, choices={STALLED: "yes", "": "no"}),
    DialogField("metrics", "Metrics", hint="conditions such as loss < 0.1, accuracy > 0.9"),
)
HELP = (
    "The URL can contain a password or a token, and is stored in the keyring. The documentation of Apprise lists the "
    "URLs of all services."
)


class ChannelScreen(DialogScreen[None], inherit_bindings=False):
    """The form that adds a channel."""

    def __init__(self, added: Callable[[Channel], object]) -> None:
        """`added` is called when the channel is stored, even if the user has left the form meanwhile."""
        self.view = ChannelView(added)
        super().__init__(box_of("Add a channel", self.view))

    def on_mount(self) -> None:
        self.set_focus(self.view)
        self.view.rebuild()


class ChannelView(DialogView, inherit_bindings=False):
    """The fields of a channel, and the reason why it cannot be added."""

    BINDINGS = CHANNEL.bindings

    def __init__(self, added: Callable[[Channel], object]) -> None:
        super().__init__(FIELDS)
        self._added = added
        self._calls = CallQueue(self)
        self._is_adding = False
        self._remark, self._role = HELP, "muted"

    @property
    def fields(self) -> Sequence[DialogField]:
        return () if self._is_adding else FIELDS

    def lines(self, width: int) -> Iterator[DialogLine]:
        yield DialogLine()
        for number, field in enumerate(FIELDS):
            yield DialogLine(field=field, stop=-1 if self._is_adding else number)
        yield DialogLine()
        yield from map(DialogLine, hanging([Piece(" ")], self._remark, width, self._role))
        yield DialogLine()

    def why_not(self, action: str) -> str:
        if action == "add" and self._is_adding:
            return "The channel is being added."
        if action == "choose" and not (self.current and self.current.choices):
            return "This field has no choices."
        return ""

    def action_add(self) -> None:
        values = {key: text.strip() for key, text in self.values.items()}
        events = [event for event in (values["ends"], values["stalls"]) if event]
        conditions = [text.strip() for text in values["metrics"].split(",") if text.strip()]
        self._show("Adding...", is_adding=True)
        call = partial(add_channel, values["name"], values["url"], events, conditions)
        self._calls.add(call, self._stored, holds_exit=True)

    def _stored(self, channel: Channel) -> None:
        if self.is_attached:
            self.screen.dismiss()
        self._added(channel)

    def on_backend_failed(self, event: BackendFailed) -> None:
        event.stop()
        self._show(error_text(event.error), "error")

    def _show(self, remark: str, role: str = "muted", *, is_adding: bool = False) -> None:
        self._remark, self._role, self._is_adding = remark, role, is_adding
        self.rebuild()

    def action_leave(self) -> None:
        self.screen.dismiss()
