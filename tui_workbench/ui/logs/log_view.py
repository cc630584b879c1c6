"""A scrollable log of any size. The cost of drawing depends only on the number of visible lines.

The view draws the latest `LogState` of the reader's thread. Keys and mouse become commands for the reader; the result
is drawn a frame later. The event loop reads the file only to copy a selection. While the log does not grow or is
hidden, the event loop runs no code of the view.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.main_commands import LOG_VIEW
from tui_workbench.ui.logs.log_drawing import Picture, look_of
from tui_workbench.ui.logs.log_reader import LogReader
from tui_workbench.ui.logs.log_session import NO_LINE, LogSession, LogState
from tui_workbench.ui.logs.log_viewport import selected_text
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.quick_rows import QuickRows
from tui_workbench.ui.themes.themes import palette_of

SCROLL_BAR_CELLS = 1  # the same as in the style sheet below; reading it there would take 2 % of a frame
WHEEL_ROWS = 3
PAN_CELLS = 8
SMALLEST_GUTTER = 7  # enough cells for line numbers up to 99,999, so that the text seldom moves
ANNOUNCE_SECONDS = 0.2  # shortest time between two messages about changing counts


class LogView(ExplainsUnavailable, QuickRows, can_focus=True, inherit_bindings=False):
    """A view of the log at the path given to `set_log`. `state` is its current content."""

    heading = "In the log"
    DEFAULT_CSS = """
    LogView { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size: 1 1; }
    """
    ALLOW_SELECT = True
    BINDINGS = LOG_VIEW.bindings

    class StateChanged(Message):
        """Posted when `LogView.state` changes in more than its rows."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.StateChanged)

    @dataclass(eq=False)
    class Copied(Message):
        """Posted when text was copied to the clipboard."""

        lines: int

    class _NewsArrived(Message):
        """Posted when the reader has a new state."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state = LogState()
        self.reader = LogReader(self._post_news)
        self.path: str | None = None
        self.pattern: Pattern | None = None  # the pattern of the latest search, which the reader may not have begun yet
        self._active = False
        self._seen = False
        self._watched = False
        self._sent = 0
        self._left = 0
        self._wrap = False
        self._numbers = False
        self._gutter = 0
        self._placeholder: tuple[str, ...] = ()
        self._notes: Mapping[int, str] = {}
        self._scroll_bar = _ScrollBar(self)
        self._announcer = _Announcer(self)

    # --- Content and position

    def set_log(self, path: str | None, active: bool) -> None:
        """Show the end of the log at this path, or no log. An `active` log may still grow."""
        if path != self.path:
            self.path = path
            self._left = 0
            self._sent = self.reader.open(path, self._text_width, self.size.height, wrap=self._wrap)
        self.set_active(active)

    @property
    def saved_state(self) -> dict[str, object]:
        """The position and the display options, to restore at the next start."""
        state = self.state
        top = state.rows[0].line.start if state.rows else 0
        return {"at_end": state.pinned, "top": top, "wrap": self._wrap, "numbers": self._numbers}

    def restore(self, saved: Values) -> None:
        """Restore a saved position and the display options."""
        if saved.flag("numbers") != self._numbers:
            self.action_toggle_numbers()
        if saved.flag("wrap") != self._wrap:
            self.action_toggle_wrap()
        if not saved.flag("at_end"):
            top = saved.number("top")
            self.post(lambda session: session.return_to(top))

    def post(self, command: Callable[[LogSession], None]) -> None:
        """Run a command on the shown log, if any."""
        self._sent = self.reader.post(command)

    def search(self, pattern: Pattern | None) -> None:
        """Search for another pattern; None if the input is empty or invalid."""
        self.pattern = pattern
        self.post(lambda session: session.search(pattern))

    def end_search(self, *, keep: bool) -> None:
        """Stay at the match and keep the search for later steps if `keep`, else end the search.

        The end of a search restores the position before the search, unless the user stepped to another match.
        """
        self.pattern = self.pattern if keep else None
        self.post(lambda session: session.end_search(keep=keep))

    def set_active(self, active: bool) -> None:
        """Set whether the log may still grow. Only such a log is polled, while it is visible."""
        self._active = active
        self._watch()

    def set_placeholder(self, lines: Sequence[str]) -> None:
        """Set the lines of safe text that an empty log shows in the middle."""
        if tuple(lines) != self._placeholder:
            self._placeholder = tuple(lines)
            self.refresh()

    def set_notes(self, notes: Mapping[int, str]) -> None:
        """Set safe texts to show beside lines. The key is the offset of a byte in the line."""
        if notes != self._notes:
            self._notes = notes
            self.refresh()

    def _watch(self, *, again: bool = False) -> None:
        watched = self._active and self._seen and self.path is not None
        if again or watched != self._watched:
            self._watched = watched
            self._sent = self.reader.watch(watched)

    def on_mount(self) -> None:
        self.reader.start()

    def on_unmount(self) -> None:
        self.reader.close()

    def on_show(self) -> None:
        self._seen = True
        self._watch(again=True)

    def on_hide(self) -> None:
        self._seen = False
        self._watch()

    def on_resize(self) -> None:
        # This is also called after a change of the width of the line numbers.
        self._gutter = _digits(self.state) if self._numbers else 0
        width, height = self._text_width, self.size.height
        self.post(lambda session: session.viewport.resize(width, height))

    @property
    def _text_width(self) -> int:
        return max(1, self._width - self._gutter)

    @property
    def _width(self) -> int:
        return max(1, self.size.width - SCROLL_BAR_CELLS)

    # --- States from the reader

    def _post_news(self) -> None:
        """Announce a new state. Called in the reader's thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self.post_message(self._NewsArrived())

    def on_log_view__news_arrived(self, event: _NewsArrived) -> None:
        event.stop()
        state = self.reader.take()
        if state is None:
            return
        old, self.state = self.state, state
        if self._numbers and _digits(state) != self._gutter:
            self.on_resize()
        if _overlay(old) != _overlay(state) or (self._numbers and old.top_number != state.top_number) or not old.rows:
            self.refresh()
        elif old.rows != state.rows:
            self.refresh(Region(0, 0, self._width, self.size.height))  # the width without the scroll bar
        if state.revision >= self._sent:  # for an older state, a command that may scroll is still queued
            self._scroll_bar.show(state.total, state.position)
        if _command_state(old) != _command_state(state):
            self.refresh_bindings()
            self._announcer.announce()
        elif _status(old) != _status(state):
            self._announcer.announce_soon()

    # --- Drawing

    def draw_rows(self, rows: Sequence[int]) -> Iterable[list[Segment]]:
        picture, look = self._picture(), look_of(palette_of(self))
        beside = Segment(" " * (self.size.width - picture.width), look.text)
        return ([*picture.segments(y, look), beside] for y in rows)

    def render_line(self, y: int) -> Strip:
        # The strip has the positions of its characters, which mouse events need. Painting uses `draw_rows`.
        return self._picture().strip_with_places(y, look_of(palette_of(self)))

    def _picture(self) -> Picture:
        state, selection = self.state, self.text_selection
        selected = self.screen.get_component_rich_style("screen--selection") if selection is not None else Style.null()
        return Picture(
            rows=state.rows,
            width=self._width,
            height=self.size.height,
            left=self._left,
            gutter=self._gutter,
            top_number=state.top_number,
            pattern=_overlay(state)[0],
            chosen=state.mark,
            selection=selection,
            selection_style=selected,
            placeholder=self._placeholder,
            notes=self._notes,
        )

    # --- Keys

    def why_not(self, action: str) -> str:
        if action == "follow" and self.state.pinned:
            return "The end is already in view."
        if action == "copy_line" and not self.state.rows:
            return "The log is empty."
        return ""

    def action_move(self, rows: int) -> None:
        self.post(lambda session: session.move(rows))

    def action_page(self, pages: float) -> None:
        self.post(lambda session: session.page(pages))

    def action_go_to_start(self) -> None:
        self.post(LogSession.go_to_start)

    def action_follow(self) -> None:
        self.post(LogSession.go_to_end)

    def action_pan(self, direction: int) -> None:
        longest = max((row.line.text.cells for row in self.state.rows), default=0)
        furthest = max(self._left, longest - (self._width - self._gutter))
        left = max(0, min(self._left + direction * PAN_CELLS, furthest))
        if left != self._left and not self._wrap:
            self._left = left
            self.refresh()

    def action_toggle_wrap(self) -> None:
        self._wrap = wrap = not self._wrap
        self._left = 0
        self.post(lambda session: session.viewport.set_wrap(wrap))

    def action_toggle_numbers(self) -> None:
        self._numbers = not self._numbers
        self.on_resize()
        self.refresh()

    def action_copy_line(self) -> None:
        text = self.screen.get_selected_text()
        if text is None and self.state.rows:
            chosen = [row for row in self.state.rows if row.line.start == self.state.mark]
            text = (chosen or self.state.rows)[-1].line.plain
        if text is not None and copy(self.app, text):
            self.post_message(self.Copied(text.count("\n") + 1))

    # --- Mouse

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, direction: int) -> None:
        event.prevent_default().stop()
        if event.shift or event.ctrl:
            self.action_pan(direction)
        else:
            self.action_move(direction * WHEEL_ROWS)

    def on_scroll_up(self, event: ScrollUp) -> None:
        event.prevent_default().stop()
        self.action_page(-1)

    def on_scroll_down(self, event: ScrollDown) -> None:
        event.prevent_default().stop()
        self.action_page(1)

    def on_scroll_to(self, message: ScrollTo) -> None:
        message.prevent_default().stop()
        if message.y is not None:
            total = max(1, self.vertical_scrollbar.window_virtual_size)
            self._go_to_line(message.y * self.state.total / total)

    def _go_to_line(self, number: float) -> None:
        self.post(lambda session: session.go_to_line(number))

    def validate_scroll_y(self, value: float) -> float:
        # Any line is accepted, because only the reader knows the number of lines.
        return max(0.0, value)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # Textual itself scrolls, for example when a selection is dragged past the edge.
        if round(old_value) != round(new_value):
            self._go_to_line(round(new_value))

    async def on_click(self, event: events.Click) -> None:
        row = self.state.rows[event.y] if 0 <= event.y < len(self.state.rows) else None
        if row is not None and event.chain == 1 and self.text_selection is None:
            start = NO_LINE if self.state.mark == row.line.start else row.line.start
            self.post(lambda session: session.mark_line(start))
        elif row is not None and event.chain == 2:
            event.prevent_default()
            end = Offset(len(row.line.plain), row.line.start)
            self.screen.selections = {self: Selection(Offset(0, row.line.start), end)}

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return (selected_text(self.path, selection), "\n") if self.path is not None else None


class _ScrollBar:
    """The scroll bar of a view. It moves without scrolling or a new layout, and is drawn only if it looks different."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._thumb = (0, 0, 0)

    def show(self, lines: float, position: float) -> None:
        """Show a position, in lines, in a log of `lines` lines."""
        view = self._view
        height = view.size.height
        total = max(1, round(lines))
        position = min(position, max(0, total - height))
        view.set_reactive(Widget.virtual_size, Size(view.size.width, total))
        view.set_reactive(Widget.scroll_y, position)
        view.set_reactive(Widget.scroll_target_y, position)
        steps = height * 8
        thumb = (height, min(steps, steps * height // total), round(steps * position / total))
        if thumb != self._thumb:
            self._thumb = thumb
            bar = view.vertical_scrollbar
            bar.window_virtual_size = total
            bar.window_size = height
            bar.position = position


class _Announcer:
    """A helper that posts `StateChanged` for a view."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._announced_at = 0.0
        self._timer: Timer | None = None

    def announce(self) -> None:
        """Post the message now."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._announced_at = monotonic()
        self._view.post_message(LogView.StateChanged())

    def announce_soon(self) -> None:
        """Post the message when `ANNOUNCE_SECONDS` have passed since the last message."""
        wait = self._announced_at + ANNOUNCE_SECONDS - monotonic()
        if wait <= 0:
            self.announce()
        elif self._timer is None:
            self._timer = self._view.set_timer(wait, self.announce)


def _overlay(state: LogState) -> tuple[Pattern | None, int]:
    """Return the part of the state that is drawn over the rows."""
    return state.search.pattern if state.search is not None else None, state.mark


def _digits(state: LogState) -> int:
    return max(SMALLEST_GUTTER, len(str(max(1, round(state.total)))) + 1)


def _status(state: LogState) -> tuple[object, ...]:
    """Return the part of the state that is shown outside the view."""
    return state._replace(revision=0, rows=(), total=0, position=0)


def _command_state(state: LogState) -> tuple[object, ...]:
    """Return the part of the state that decides which commands are available."""
    search = state.search
    progress = search is not None and (search.ordinal, search.looking, search.counted, search.matches > 0)
    return (state.pinned, progress, state.traceback, not state.rows, state.mark, state.problem)
