"""The row under a log in which one types what to search for: `Search ______  text  3 of 17`."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.logs.log_search import WRONG, Pattern
from tui_workbench.ui.commands.main_commands import LOG_SEARCH
from tui_workbench.ui.logs.log_session import SearchState
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.text_field import BareField


class LogSearchRow(Horizontal):
    """Searches in a log with every change; gives it the focus in the end, and posts `Canceled` if it led nowhere."""

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
        """The search is over, and led nowhere."""

    def __init__(self, log: LogView) -> None:
        super().__init__()
        self._log = log
        self._field = BareField(placeholder="text")
        self._mode = Label("text", markup=False)
        self._count = Label("", markup=False, id="log-search-count")
        self._expression = False
        self._sought = ("", False)
        self._error = ""

    def compose(self) -> ComposeResult:
        yield Label("Search")
        yield self._field
        yield self._mode
        yield self._count

    def take_focus(self) -> None:
        # At once, and not through the app's queue: the letters of the text may already wait in it.
        self.screen.set_focus(self._field)
        self._field.action_select_all()

    def show_search(self, search: SearchState | None) -> None:
        """How the search stands."""
        text = self._error or ("" if search is None else how_it_stands(search))
        self._count.set_class(bool(self._error) or text == NOTHING, "-error")
        self._count.update(Content(text))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._seek()

    def _seek(self) -> None:
        if self._sought == (self._field.value, self._expression):
            return
        self._sought = (self._field.value, self._expression)
        self._error = ""
        pattern = None
        if self._field.value:
            try:
                pattern = Pattern(self._field.value, regular_expression=self._expression)
            except UsageError as error:
                self._error = safe_text(error.message.removeprefix(f"{WRONG}: "))
        self.show_search(None)
        self._log.search(pattern)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._mode:
            event.stop()
            self.action_toggle_mode()

    def action_keep(self) -> None:
        self._seek()  # the last letters may not have come here yet
        if self._field.value and not self._error:
            self.screen.set_focus(self._log)
            self._log.end_search(keep=True)
        else:
            self.action_cancel()

    def action_step(self, direction: int) -> None:
        self._log.post(lambda session: session.step(direction))

    def action_toggle_mode(self) -> None:
        self._expression = not self._expression
        self._mode.update("expression" if self._expression else "text")
        self._field.placeholder = "regular expression" if self._expression else "text"
        self._seek()

    def action_cancel(self) -> None:
        self.screen.set_focus(self._log)
        self.post_message(self.Canceled())


NOTHING = "no line"


def how_it_stands(search: SearchState) -> str:
    """`3 of 17`, `17 lines`, `searching`, ... in words."""
    if not search.matches and search.counted:
        return NOTHING
    if not search.matches:
        return "searching"
    count = f"{search.matches:,}{'' if search.counted else '+'}"
    if search.ordinal is None:
        return f"{count} line{'' if count == '1' else 's'}{', searching' if search.looking else ''}"
    return f"{search.ordinal:,} of {count}{', went around the end' if search.wrapped else ''}"
