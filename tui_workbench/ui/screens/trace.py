"""The trace of calls: what the workbench has called of ssh, docker, git and other programs, and how that went.

The invariants: the file is read, and rows are made, in threads; the cursor stays on its call while others come, and
goes on with the newest one when it stood there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widgets import Input

from tui_workbench.resources import user_state_directory
from tui_workbench.trace_reading import shell_line
from tui_workbench.ui.clipboard import copy
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.screens.trace_rows import CallReader, details_of, key_of
from tui_workbench.ui.trace_commands import TRACE
from tui_workbench.ui.widgets.field_row import FieldRow
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField
from tui_workbench.ui.widgets.text_view import TextView
from tui_workbench.ui.words import count, run_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.trace_reading import TracedCall
    from tui_workbench.ui.screens.trace_rows import Found

LOOK_SECONDS = 0.5
"""How often is looked whether something was called."""

NOTHING_YET = ("Nothing was called yet.", "ssh, docker, git and other programs stand here as soon as one is needed.")
NOTHING_OF_RUN = ("Nothing was called for this run.", "a shows what was called for everything.")
NOTHING_FOUND = ("No call matches the filter.", "esc ends it.")


class TraceHead(Line):
    """Whose calls, and how many."""

    def __init__(self) -> None:
        super().__init__()
        self._whose = ""
        self._found: Found | None = None

    def show(self, whose: str, found: Found | None) -> None:
        """Show whose calls there are; `whose` is safe text."""
        self._whose, self._found = whose, found
        self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Left whose, right the numbers."""
        left = [Piece(" Calls", bold=True), Piece(f"  {truncate_middle(self._whose, max(10, width - 45))}", "muted")]
        if self._found is None:
            return left, ()
        shown, total = len(self._found.calls), self._found.total
        number = count(total, "call") if shown == total else f"{shown:,} of {count(total, 'call')}"
        right = [Piece(number, "muted")]
        if self._found.failed:
            right.append(Piece(f"   ✗ {self._found.failed:,} failed", "error"))
        return left, [*right, Piece(" ")]


class TraceScreen(HistoryScreen, inherit_bindings=False):
    """Shows the calls of all, or of one run. Its result is always ""."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(TRACE, HISTORY)
    OFFERED = (*TRACE, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Calls"
    about = (
        "Every call of ssh, docker, git and other programs that the workbench has made, with its time and its result. "
        "y copies one as a line for a shell that does the same. Secrets stand as ***."
    )
    DEFAULT_CSS = """
    TraceScreen > RowList { height: 3fr; min-height: 4; }
    TraceScreen > TextView { height: 2fr; min-height: 4; border-top: solid $border-blurred; }
    TraceScreen > TextView:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project, run: Run | None = None, *, of_run: bool = False) -> None:
        """`run` is the one that `a` leads to; with `of_run` its calls are shown first, else those of all."""
        super().__init__(project)
        self._run = run
        self._of_run = of_run
        self._only_failed = False
        self._reader = self._reader_of_calls()
        self._found: Found | None = None
        self._shown: TracedCall | None = None
        self._follows = True
        self.head = TraceHead()
        self.filter_row = FieldRow("Filter", "words of the command, its error, kind:git, failed")
        self.calls = RowList()
        self.details = TextView()

    def compose_content(self) -> ComposeResult:
        """Whose, the filter, the calls, and one of them whole."""
        yield self.head
        yield self.filter_row
        yield self.calls
        yield self.details

    def on_mount(self) -> None:
        """Look, and go on looking."""
        self._look()
        self.set_interval(LOOK_SECONDS, self._look_on)

    def on_resize(self) -> None:
        """There is room for more, or for less."""
        self._look()

    # --- Reading

    def _reader_of_calls(self) -> CallReader:
        return CallReader(self._run.directory if self._of_run and self._run else user_state_directory())

    def _look_on(self) -> None:
        if self.is_current:
            self._look()

    def _look(self) -> None:
        words = f"{self.filter_row.field.value} {'failed' if self._only_failed else ''}"
        self.ask("calls", partial(self._reader.look, words, self.size.width), self._show)

    def _show(self, found: Found) -> None:
        if found is self._found:
            return
        self._found = found
        self.head.show(self._whose, found)
        empty = NOTHING_OF_RUN if self._of_run else NOTHING_YET
        current = found.rows[-1].key if self._follows and found.rows else None
        self.calls.show_rows(found.rows, empty=NOTHING_FOUND if found.total else empty, current=current)
        self._show_details()

    @property
    def _whose(self) -> str:
        if self._of_run and self._run is not None:
            return f"for {safe_text(run_title(self._run))}"
        return "of all your workbenches"

    @property
    def _current(self) -> TracedCall | None:
        calls = self._found.calls if self._found is not None else ()
        return next((call for call in reversed(calls) if key_of(call) == self.calls.current), None)

    def _show_details(self) -> None:
        call = self._current
        if call != self._shown:
            same = call is not None and self._shown is not None and key_of(call) == key_of(self._shown)
            self._shown = call
            self.details.show(details_of(call, self.size.width - 3) if call else (), keep_place=same)
            self.refresh_bindings()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        rows = self.calls.rows
        self._follows = bool(rows) and event.key == rows[-1].key
        self._show_details()

    # --- The filter

    def action_filter(self) -> None:
        """Type a filter."""
        self.filter_row.open()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._look()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._end_typing()

    @on(SearchField.Left)
    def _field_left(self, event: SearchField.Left) -> None:
        event.stop()
        self.filter_row.field.value = ""
        self._end_typing()

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self.calls.step(event.rows)

    def _end_typing(self) -> None:
        if not self.filter_row.field.value:
            self.filter_row.close()
        self.set_focus(self.calls)

    def action_failed(self) -> None:
        """Only what failed, or all."""
        self._only_failed = not self._only_failed
        self.say("Only calls that failed." if self._only_failed else "")
        self._look()

    def action_whose(self) -> None:
        """What was called for everything, or for the run."""
        self._of_run = not self._of_run
        self._reader = self._reader_of_calls()
        self._found = None
        self._follows = True
        self._look()

    def action_leave(self) -> None:
        """End the filter; without one go back."""
        if self.details.has_focus:
            self.set_focus(self.calls)
        elif self.filter_row.field.value:
            self.filter_row.field.value = ""
            self.filter_row.close()
        elif self._only_failed:
            self.action_failed()
        else:
            super().action_leave()

    # --- One call

    def action_read(self) -> None:
        """To the call as a whole, and back."""
        self.set_focus(self.calls if self.details.has_focus else self.details)

    def action_copy(self) -> None:
        """Copy it as a line for a shell."""
        call = self._current
        if call is not None and copy(self.app, shell_line(call) + "\n"):
            self.say("The line is copied.")

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action in ("copy", "read") and self._current is None:
            return "No call is under the cursor."
        if action == "whose" and self._run is None:
            return "No run is selected."
        return super().why_not(action)
