"""A log on the screen: any size, growing at any speed, at the cost of the lines that are seen.

The view holds the last `LogState` that the reader's thread brought and draws it; keys and mouse become commands to the
reader, whose answer is drawn a frame later. No byte of a log travels through a message, nothing is read in the event
loop, and while the log does not grow, or is not seen, nothing runs at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region
from textual.message import Message
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip

from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.commands.main_commands import LOG_VIEW
from tui_workbench.ui.logs.log_drawing import Picture, look_of
from tui_workbench.ui.logs.log_reader import LogReader
from tui_workbench.ui.logs.log_session import NO_LINE, LogSession, LogState
from tui_workbench.ui.logs.log_telling import Announcer, PositionBar
from tui_workbench.ui.logs.log_viewport import selected_text
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.quick_rows import QuickRows
from tui_workbench.ui.themes.themes import palette_of

SCROLL_BAR_CELLS = 1
"""As the style sheet below says; to ask it takes a fiftieth of the time of a frame."""

WHEEL_ROWS = 3
PAN_CELLS = 8

SMALLEST_GUTTER = 7
"""Cells for line numbers: wide enough for a hundred thousand, so that the text seldom moves."""


class LogView(QuickRows, can_focus=True, inherit_bindings=False):
    """Shows the log at `set_log`'s path. `state` is what it shows."""

    heading = "In the log"
    DEFAULT_CSS = """
    LogView { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size: 1 1; }
    """
    ALLOW_SELECT = True
    BINDINGS = LOG_VIEW.bindings

    class StateChanged(Message):
        """There is something else to tell about the log; `LogView.state` is the whole of it."""

        def can_replace(self, message: Message) -> bool:
            """Only the last one counts."""
            return isinstance(message, LogView.StateChanged)

    @dataclass(eq=False)
    class Copied(Message):
        """Text went to the clipboard."""

        lines: int

    class _NewsArrived(Message):
        """The reader has a state that was not taken yet."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state = LogState()
        self._reader = LogReader(self._tell_news)
        self.path: str | None = None
        """The log that is shown."""
        self.pattern: Pattern | None = None
        """What is searched for, whether or not the reader has come to it yet."""
        self._active = False
        self._seen = False
        self._watched = False
        self._sent = 0
        self._left = 0
        self._wrap = False
        self._numbers = False
        self._gutter = 0
        self._placeholder: tuple[str, ...] = ()
        self._bar = PositionBar(self)
        self._announcer = Announcer(self, lambda: self.post_message(self.StateChanged()))

    # --- What is shown

    def set_log(self, path: str | None, active: bool) -> None:
        """Show the log at this path, at its end; None for none. `active` tells whether it may still grow."""
        if path != self.path:
            self.path = path
            self._left = 0
            self._sent = self._reader.open(path, self._text_width, self.size.height, wrap=self._wrap)
        self.set_active(active)

    @property
    def memory(self) -> dict[str, object]:
        """Where in the log one is, as a byte offset unless it is its end, and how lines are shown."""
        state = self.state
        top = state.rows[0].line.start if state.rows else 0
        return {"at_end": state.pinned, "top": top, "wrap": self._wrap, "numbers": self._numbers}

    def recall(self, memory: Values) -> None:
        """Go where one was then, and show lines as they were shown."""
        if memory.flag("numbers") != self._numbers:
            self.action_toggle_numbers()
        if memory.flag("wrap") != self._wrap:
            self.action_toggle_wrap()
        if not memory.flag("at_end"):
            top = memory.number("top")
            self.post(lambda session: session.return_to(top))

    def post(self, command: Callable[[LogSession], None]) -> None:
        """Have something done to the log; without one nothing is done."""
        self._sent = self._reader.post(command)

    def search(self, pattern: Pattern | None) -> None:
        """Search for something else; None while nothing can be searched for."""
        self.pattern = pattern
        self.post(lambda session: session.search(pattern))

    def end_search(self, *, keep: bool) -> None:
        """Stay where the search led, or go back and forget it."""
        self.pattern = self.pattern if keep else None
        self.post(lambda session: session.end_search(keep=keep))

    def set_active(self, active: bool) -> None:
        """Whether the log may still grow. What came until now is shown in any case."""
        self._active = active
        self._watch()

    def set_placeholder(self, lines: Sequence[str]) -> None:
        """What stands in the middle while the log is empty. The lines must be safe text."""
        if tuple(lines) != self._placeholder:
            self._placeholder = tuple(lines)
            self.refresh()

    def _watch(self, *, again: bool = False) -> None:
        watched = self._active and self._seen and self.path is not None
        if again or watched != self._watched:
            self._watched = watched
            self._sent = self._reader.watch(watched)

    def on_mount(self) -> None:
        self._reader.start()

    def on_unmount(self) -> None:
        self._reader.close()

    def on_show(self) -> None:
        self._seen = True
        self._watch(again=True)

    def on_hide(self) -> None:
        self._seen = False
        self._watch()

    def on_resize(self) -> None:
        self._tell_size()

    def _tell_size(self) -> None:
        self._gutter = _digits(self.state) if self._numbers else 0
        width, height = self._text_width, self.size.height
        self.post(lambda session: session.viewport.resize(width, height))

    @property
    def _text_width(self) -> int:
        return max(1, self._width - self._gutter)

    @property
    def _width(self) -> int:
        """Cells beside the scroll bar, which is always there, so that no text moves for it."""
        return max(1, self.size.width - SCROLL_BAR_CELLS)

    # --- News from the reader

    def _tell_news(self) -> None:
        """Called in the reader's thread."""
        try:
            self.post_message(self._NewsArrived())
        except RuntimeError:
            pass  # the event loop is gone: nobody is left to tell

    def on_log_view__news_arrived(self, event: _NewsArrived) -> None:
        event.stop()
        state = self._reader.take()
        if state is None:
            return
        old, self.state = self.state, state
        if self._numbers and _digits(state) != self._gutter:
            self._tell_size()
        if _overlay(old) != _overlay(state) or (self._numbers and old.top_number != state.top_number) or not old.rows:
            self.refresh()
        elif old.rows != state.rows:
            self.refresh(Region(0, 0, self._width, self.size.height))  # not what lies under the scroll bar
        if state.revision >= self._sent:  # else it is about to be elsewhere
            self._bar.show(state.total, state.position)
        if _offered(old) != _offered(state):
            self.refresh_bindings()
            self._announcer.now()
        elif _told(old) != _told(state):
            self._announcer.soon()

    # --- Drawing

    def draw_rows(self, rows: Sequence[int]) -> Iterable[list[Segment]]:
        picture, look = self._picture(), look_of(palette_of(self))
        beside = Segment(" " * (self.size.width - picture.width), look.text)
        return ([*picture.segments(y, look), beside] for y in rows)

    def render_line(self, y: int) -> Strip:
        """One row, with the places of its characters: the mouse asks for it, painting does not."""
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
            words=self._placeholder,
        )

    # --- Keys

    def why_not(self, action: str) -> str:
        if action == "follow" and self.state.pinned:
            return "The end is in view already."
        if action == "copy_line" and not self.state.rows:
            return "The log is empty."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.why_not(action)

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
        self._tell_size()
        self.refresh()

    def action_copy_line(self) -> None:
        """The selection, or else the chosen line, or else the last one in view."""
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
        """Whoever sets it asks for a line; the reader knows which there are."""
        return max(0.0, value)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Someone scrolled by Textual's own means, as a selection does that is drawn over the edge."""
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
        """The selected text, also where it is out of view."""
        return (selected_text(self.path, selection), "\n") if self.path is not None else None


def _overlay(state: LogState) -> tuple[Pattern | None, int]:
    """What is drawn over the rows."""
    return state.search.pattern if state.search is not None else None, state.mark


def _digits(state: LogState) -> int:
    """Cells for the numbers of all lines."""
    return max(SMALLEST_GUTTER, len(str(max(1, round(state.total)))) + 1)


def _told(state: LogState) -> tuple[object, ...]:
    """What is told about a log beside the log."""
    return state._replace(revision=0, rows=(), total=0, position=0)


def _offered(state: LogState) -> tuple[object, ...]:
    """What decides which commands are available; it is told at once."""
    search = state.search
    told_of_search = search is not None and (search.ordinal, search.looking, search.counted, search.matches > 0)
    return (state.pinned, told_of_search, state.traceback, not state.rows, state.mark, state.problem)
