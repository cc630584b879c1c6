"""The trace of calls: all calls to ssh, docker, git and other programs with their results.

Threads read the trace and make the rows. Rows of ended calls are cached. The cursor stays on its call, or follows the
newest call.
"""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from textual import on

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.core.trace_reading import (
    ENDED,
    FAILED,
    LOST,
    RUNNING,
    TracedCall,
    TraceFile,
    matches,
    shell_line,
    short_line,
)
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, TRACE
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import FilterRow
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import Line, TextView

POLL_SECONDS = 0.5

NO_CALLS = ("No calls yet.", "Calls to ssh, docker, git and other programs are listed here.")
NO_CALLS_OF_RUN = ("No calls for this run.", f"{shown_key('trace.whose', 'a')} shows all calls.")
NO_MATCH = ("No matching call.", f"{shown_key('history.leave', 'esc')} clears the filter.")

MAX_SHOWN = 5_000
"""Maximum number of calls in the list; the oldest are omitted."""

WIDE = 110
"""The smallest width, in columns, at which kind and result are shown."""

LOOKS = {ENDED: ("✓", "success"), FAILED: ("✗", "error"), RUNNING: ("●", "running"), LOST: ("?", "warning")}
"""A glyph and a color for each state of a call."""

MIN_TEXT_WIDTH = 20


class TraceScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the calls for one run, or of all calls."""

    BINDINGS = TRACE.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*TRACE, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Calls"
    about = "The calls to ssh, docker, git and other programs, with times and results. Secrets are shown as ***."
    DEFAULT_CSS = """
    TraceScreen > RowList { height: 3fr; min-height: 4; }
    TraceScreen > TextView { height: 2fr; min-height: 4; border-top: solid $border-blurred; }
    TraceScreen > TextView:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project, run: Run | None = None, *, of_run: bool = False) -> None:
        """Show the calls of `run` if `of_run`, else all calls. The key `a` switches between them."""
        super().__init__(project)
        self._run = run
        self._of_run = of_run
        self._only_failed = False
        self._reader = self._reader_of_calls()
        self._result: FoundCalls | None = None
        self._shown: TracedCall | None = None
        self._follows = True
        self.calls = RowList()
        self.filter_row: FilterRow = FilterRow(
            "Filter", "words of the command or its error, kind:git, agent:name, failed", self.calls
        )
        self.details = TextView()
        self.content = (self.filter_row, self.calls, self.details)

    def on_mount(self) -> None:
        self._look()
        self.set_interval(POLL_SECONDS, lambda: self._look() if self.is_current else None)

    def on_resize(self) -> None:
        self._look()

    # --- Reading

    def _reader_of_calls(self) -> CallReader:
        return CallReader(self._run.directory if self._of_run and self._run else user_state_directory())

    def _look(self) -> None:
        words = f"{self.filter_row.text} {'failed' if self._only_failed else ''}"
        self.ask("calls", partial(self._reader.look, words, self.size.width), self._show)

    def _show(self, result: FoundCalls) -> None:
        if result is self._result:
            return
        self._result = result
        shown, total = len(result.calls), result.total
        number = counted(total, "call") if shown == total else f"{shown:,} of {counted(total, 'call')}"
        failed = (Piece(f"   ✗ {result.failed:,} failed", "error"),) if result.failed else ()
        self.head.show(self.subject, right=(Piece(number, "muted"), *failed))
        empty = NO_CALLS_OF_RUN if self._of_run else NO_CALLS
        current = result.rows[-1].key if self._follows and result.rows else None
        self.calls.show_rows(result.rows, empty=NO_MATCH if result.total else empty, current=current)
        self._show_details()

    @property
    def subject(self) -> str:
        if self._of_run and self._run is not None:
            return f"for {run_title(self._run)}"
        return "of all projects"

    @property
    def _current(self) -> TracedCall | None:
        calls = self._result.calls if self._result is not None else ()
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

    @on(FilterRow.Changed)
    def _filter_changed(self, event: FilterRow.Changed) -> None:
        event.stop()
        self._look()

    def action_failed(self) -> None:
        self._only_failed = not self._only_failed
        self.say("Only failed calls are shown." if self._only_failed else "")
        self._look()

    def action_toggle_run(self) -> None:
        self._of_run = not self._of_run
        self._reader = self._reader_of_calls()
        self._result = None
        self._follows = True
        self._look()

    def action_leave(self) -> None:
        if self.details.has_focus:
            self.set_focus(self.calls)
        elif self._only_failed and not self.filter_row.display:
            self.action_failed()
        else:
            super().action_leave()

    # --- One call

    def action_read(self) -> None:
        self.set_focus(self.calls if self.details.has_focus else self.details)

    def action_copy(self) -> None:
        call = self._current
        if call is not None and copy(self.app, shell_line(call) + "\n"):
            self.say("Shell command copied.")

    def why_not(self, action: str) -> str:
        if action in ("copy", "read") and self._current is None:
            return "No call selected."
        if action == "toggle_run" and self._run is None:
            return "No run selected."
        return super().why_not(action)


class FoundCalls(NamedTuple):
    """The calls that match the filter, their rows, and the numbers of all calls and of all failed calls."""

    calls: Sequence[TracedCall]
    rows: Sequence[Row]
    total: int
    failed: int


class CallReader:
    """A reader of the trace in a folder, which returns the calls as rows. Thread-safe. Blocks."""

    def __init__(self, folder: str) -> None:
        self._file = TraceFile(folder)
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[TracedCall, str, Row]] = {}
        self._asked: tuple[str, bool] | None = None
        self._result = FoundCalls((), (), 0, 0)

    def look(self, words: str, width: int) -> FoundCalls:
        """Return the newest calls that match all words and conditions, for a list of this width.

        Return the same object as before if nothing has changed.
        """
        wide = width >= WIDE
        with self._lock:
            news = self._file.read_new()
            states = {key: state for key, (_, state, _) in self._rows.items() if state == RUNNING}
            # A running call becomes lost without a new line in the file, when its process ends.
            is_quiet = not news and all(self._rows[key][0].state == state for key, state in states.items())
            if is_quiet and self._asked == (words, wide):
                return self._result
            if self._asked is None or self._asked[1] != wide:
                self._rows.clear()
            self._asked = (words, wide)
            calls = self._file.calls[-MAX_SHOWN:]
            drawn = [self._drawn(call, wide=wide) for call in calls]
            chosen = [entry for entry in drawn if not words.strip() or matches(entry[0], words)]
            self._result = FoundCalls(
                [call for call, _, _ in chosen],
                [row for _, _, row in chosen],
                len(calls),
                sum(state in (FAILED, LOST) for _, state, _ in drawn),
            )
            return self._result

    def _drawn(self, call: TracedCall, *, wide: bool) -> tuple[TracedCall, str, Row]:
        key = key_of(call)
        cached = self._rows.get(key)
        if cached is None or cached[0] is not call or cached[1] == RUNNING:
            cached = self._rows[key] = (call, call.state, _row(call, wide=wide))
        return cached


def key_of(call: TracedCall) -> str:
    """Return a unique key of a call. The ID alone is not unique, because process IDs are reused."""
    return f"{call.id} {call.started}"


def _row(call: TracedCall, *, wide: bool) -> Row:
    glyph, role = LOOKS[call.state]
    moment = time.strftime("%H:%M:%S", time.localtime(call.started))
    before = [Piece(f"{moment} ", "muted"), Piece(f"{glyph} ", role)]
    if wide:
        before.append(Piece(f"{call.result:<10.10}", role if call.state != ENDED else "muted"))
    before.append(Piece(f"{duration(call):>8}  ", "muted"))
    if wide:
        before.append(Piece(f"{call.kind:<8}", "function"))
    elif call.state == FAILED and call.code:
        before.append(Piece(f"{call.result} ", role))
    return Row(key_of(call), Piece(safe_text(short_line(call))), tuple(before))


def duration(call: TracedCall) -> str:
    """Format the duration of a call in at most eight cells; "" while it is running."""
    if call.seconds is None:
        return ""
    if call.seconds < 1:
        return f"{call.seconds * 1000:.0f} ms"
    return f"{call.seconds:.1f} s" if call.seconds < 100 else f"{call.seconds / 60:.0f} min"


def details_of(call: TracedCall, width: int) -> list[Line]:
    """Return the result, time, agent and run of a call, its error output, and its shell command."""
    glyph, role = LOOKS[call.state]
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.started))
    took = f" after {duration(call)}" if call.seconds is not None else ""
    lines: list[Line] = [
        (Piece(f"{glyph} {safe_text(call.result) or 'ended'}{took}", role), Piece(f"   {at}   {call.kind}", "muted"))
    ]
    if call.agent:
        lines[0] = (*lines[0], Piece(f"   by {safe_text(call.agent)}", "muted"))
    if call.run:
        lines[0] = (*lines[0], Piece(f"   for {safe_text(call.run)}", "muted"))
    for text in (call.error, call.stderr):
        lines += [(Piece(part, "error" if call.state == FAILED else "warning"),) for part in _wrapped(text, width)]
    lines.append(())
    lines += [(Piece(part),) for part in _wrapped(shell_line(call), width)]
    return lines


def _wrapped(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        yield from textwrap.wrap(
            safe_text(line),
            max(width, MIN_TEXT_WIDTH),
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=False,
            subsequent_indent="  ",
        ) or [""]
