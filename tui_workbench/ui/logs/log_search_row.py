"""The search field under a log: `Search ______  text  3 of 17`."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label

from tui_workbench.core.errors import UsageError
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.logs.log_search import WRONG, Pattern
from tui_workbench.ui.commands.main_commands import LOG_SEARCH
from tui_workbench.ui.logs.log_session import SearchState
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.text_field import BareField


class LogSearchRow(Horizontal):
    """A row for incremental search in a log. Posts `Canceled` when the user cancels the search."""

    DEFAULT_CSS = """
    LogSearchRow {
        height: 1;
        padding: 0 1;
        background: $panel;
        & Label { width: auto; color: $text-muted; padding-right: 1; }
        & TextField { width: 1fr; min-width: 12; }
        & #log-search-count { max-width: 70%; text-wrap: nowrap; text-overflow: ellipsis; }
        & #log-search-count.-error { color: $error; }
    }
    """
    BINDINGS = LOG_SEARCH.bindings

    class Canceled(Message):
        """Posted when the user cancels the search."""

    def __init__(self, log: LogView) -> None:
        super().__init__()
        self._log = log
        self._field = BareField(placeholder="text")
        self._mode = Label("text", markup=False)
        self._count = Label("", markup=False, id="log-search-count")
        self._is_regex = False
        self._searched = ("", False)
        self._error = ""

    def compose(self) -> ComposeResult:
        yield Label("Search")
        yield self._field
        yield self._mode
        yield self._count

    def take_focus(self) -> None:
        # The focus moves at once, not with a message: the app's queue may already contain keys for this field.
        self.screen.set_focus(self._field)
        self._field.action_select_all()

    def show_search(self, search: SearchState | None) -> None:
        text = self._error or ("" if search is None else search_text(search))
        self._count.set_class(bool(self._error) or text == NO_MATCH, "-error")
        self._count.update(Content(text))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._search()

    def _search(self) -> None:
        if self._searched == (self._field.value, self._is_regex):
            return
        self._searched = (self._field.value, self._is_regex)
        self._error = ""
        pattern = None
        if self._field.value:
            try:
                pattern = Pattern(self._field.value, regular_expression=self._is_regex)
            except UsageError as error:
                self._error = safe_text(error.message.removeprefix(f"{WRONG}: "))
        self.show_search(None)
        self._log.search(pattern)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._mode:
            event.stop()
            self.action_toggle_mode()

    def action_keep(self) -> None:
        self._search()  # `Input.Changed` of the last keys may still be queued
        if self._field.value and not self._error:
            self.screen.set_focus(self._log)
            self._log.end_search(keep=True)
        else:
            self.action_cancel()

    def action_step(self, direction: int) -> None:
        self._log.post(lambda session: session.step(direction))

    def action_toggle_mode(self) -> None:
        self._is_regex = not self._is_regex
        self._mode.update("regex" if self._is_regex else "text")
        self._field.placeholder = "regular expression" if self._is_regex else "text"
        self._search()

    def action_cancel(self) -> None:
        self.screen.set_focus(self._log)
        self.post_message(self.Canceled())


NO_MATCH = "no match"


def search_text(search: SearchState) -> str:
    """Describe a search: `3 of 17`, `17 lines`, `searching`."""
    if not search.matches:
        return NO_MATCH if search.counted else "searching"
    if search.ordinal is None:
        lines = counted(search.matches, "line") if search.counted else f"{search.matches:,}+ lines"
        return f"{lines}{', searching' if search.looking else ''}"
    more = "" if search.counted else "+"
    return f"{search.ordinal:,} of {search.matches:,}{more}{', wrapped' if search.wrapped else ''}"
