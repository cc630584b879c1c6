"""The GPUs of many machines as lines with a cursor, and what is known of the one under it.

The invariant: only lines that can be seen are ever drawn, and of these only what looks different is painted again: what
comes every second must cost nothing where nothing happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands import LIST, bindings
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets import gpu_words as words
from tui_workbench.ui.widgets.gpu_layout import Entry, entries_of
from tui_workbench.ui.widgets.gpu_lines import fitted, graph_lines, in_order, process_line
from tui_workbench.ui.widgets.gpu_words import Known
from tui_workbench.ui.widgets.pieces import Piece, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

    from tui_workbench.targets.gpu.fleet import MachineState
    from tui_workbench.ui.themes import Palette
    from tui_workbench.ui.widgets.gpu_lines import Line, Shown

EMPTY = ("No compute target yet.", "", "a in Compute targets attaches a machine over SSH, or Docker here.")
NOTHING_FOUND = ("No GPU matches the filter.", "", "esc ends it. Machines, names, users, runs, busy, idle, free.")


class GpuView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows machines. `current` is what the cursor is on; None where there is nothing."""

    DEFAULT_CSS = "GpuView { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(LIST)

    class CursorMoved(Message):
        """The cursor is on something else."""

    class Chosen(Message):
        """What the cursor is on was clicked twice."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._states: Sequence[MachineState] = ()
        self._known = Known()
        self._needles: tuple[str, ...] = ()
        self._entries: list[Entry] = []
        self._key = ""
        self._is_moved = False  # somebody has put the cursor where it is
        self._made: dict[int, Line] = {}  # the lines that were drawn of these entries, by their places
        self._drawn_for: tuple[int, int, Known] = (0, 0, Known())
        self._drawn: dict[int, tuple[Line, str]] = {}  # what stands on the screen: lines and their grounds

    # --- What is shown

    def show(self, states: Sequence[MachineState], known: Known) -> None:
        """Show these machines."""
        self._states, self._known = states, known
        self._rebuild()

    def filter(self, text: str) -> None:
        """Show only what holds every word of the text."""
        self._needles = tuple(text.lower().split())
        self._rebuild()

    @property
    def known(self) -> Known:
        """What is known of runs."""
        return self._known

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines."""
        return self._entries

    @property
    def current(self) -> Entry | None:
        """What the cursor is on: the first line about it."""
        return next((entry for entry in self._entries if entry.key == self._key and entry.is_first), None)

    def _rebuild(self) -> None:
        width, height = self.scrollable_content_region.size
        if not width:
            return
        before, place = self._key, self._place()
        number = len(self._entries)
        matches = self._matches if self._needles else None
        old, self._entries = self._entries, entries_of(self._states, self._known, width, height, matches)
        drawn_for = (width, height, self._known)
        if drawn_for != self._drawn_for or [entry.key for entry in old] != [entry.key for entry in self._entries]:
            self._made.clear()
        else:
            kept = {place for place, entry in enumerate(self._entries) if entry.state is old[place].state}
            self._made = {place: line for place, line in self._made.items() if place in kept}
        self._drawn_for = drawn_for
        if not self._is_moved or not any(entry.key == self._key for entry in self._entries):
            self._key = self._nearest(place if self._is_moved else -1)
        if len(self._entries) != number:
            self.virtual_size = Size(1, len(self._entries))
        self._paint()
        if self._key != before:
            self.post_message(self.CursorMoved())

    def _matches(self, text: str) -> bool:
        return all(needle in text for needle in self._needles)

    # --- The cursor

    def _place(self) -> int:
        return next((place for place, entry in enumerate(self._entries) if entry.key == self._key), -1)

    def _nearest(self, place: int) -> str:
        """The key of what stands where something has gone; at first that of the first GPU."""
        if place < 0:
            place = next((number for number, entry in enumerate(self._entries) if entry.shown is not None), 0)
        near = self._entries[min(place, len(self._entries) - 1)] if self._entries else None
        return near.key if near is not None else ""

    def step(self, number: int) -> None:
        """Move the cursor by so many things."""
        stops = [place for place, entry in enumerate(self._entries) if entry.is_first]
        here = self._place()
        at = next((index for index, place in enumerate(stops) if place >= here), 0)
        self._move_to(stops[max(0, min(at + number, len(stops) - 1))] if stops else -1)

    def _move_to(self, place: int) -> None:
        self._is_moved = True
        if not 0 <= place < len(self._entries) or self._entries[place].key == self._key:
            return
        self._key = self._entries[place].key
        last = max(number for number, entry in enumerate(self._entries) if entry.key == self._key)
        self._reveal(place, last)
        self._paint()
        self.post_message(self.CursorMoved())

    def _reveal(self, first: int, last: int) -> None:
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if not height:
            return
        wanted = min(max(top, last - height + 1), first)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)

    def action_cursor_up(self) -> None:
        """To what is above."""
        self.step(-1)

    def action_cursor_down(self) -> None:
        """To what is below."""
        self.step(1)

    def action_page_up(self) -> None:
        """A page up."""
        self._page(-1)

    def action_page_down(self) -> None:
        """A page down."""
        self._page(1)

    def _page(self, pages: int) -> None:
        wanted = self._place() + pages * max(1, self.size.height - 1)
        self._move_to(max(0, min(wanted, len(self._entries) - 1)))

    def action_first(self) -> None:
        """To the first machine."""
        self._move_to(0)

    def action_last(self) -> None:
        """To the last thing."""
        self._move_to(len(self._entries) - 1)

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor there."""
        self._move_to(event.y + self.scroll_offset.y)
        if event.chain > 1:
            self.post_message(self.Chosen())

    # --- Painting

    def on_resize(self) -> None:
        """Another size has other lines."""
        self._rebuild()

    def on_focus(self) -> None:
        """The cursor is loud with the focus."""
        self._paint()

    def on_blur(self) -> None:
        """The cursor is quiet without it."""
        self._paint()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other lines are in view."""
        self._drawn.clear()
        super().watch_scroll_y(old_value, new_value)

    def notify_style_update(self) -> None:
        """Another theme has other colours."""
        self._drawn.clear()
        super().notify_style_update()

    def _paint(self) -> None:
        """Ask for the lines that look different from what stands on the screen."""
        if not self._drawn:
            self.refresh()
            return
        width = self.scrollable_content_region.width
        changed = [y for y, drawn in self._drawn.items() if self._look_of(y) != drawn]
        for y in changed:
            del self._drawn[y]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        line, ground = self._drawn[y] = self._look_of(y)
        width = self.scrollable_content_region.width
        color = getattr(palette, ground)
        return Strip(_painted(line, palette, color)).adjust_cell_length(width, style(palette.text, color))

    def _look_of(self, y: int) -> tuple[Line, str]:
        """A line of the screen, and the name of the colour behind it."""
        place = y + self.scroll_offset.y
        if not self._entries:
            said = NOTHING_FOUND if self._states else EMPTY
            return (Piece(f" {said[y]}" if y < len(said) else "", "muted"),), "background"
        if place >= len(self._entries):
            return (), "background"
        entry = self._entries[place]
        line = self._made.get(place)
        if line is None:
            line = self._made[place] = entry.draw()
        is_under_cursor = entry.is_first and entry.key == self._key
        return line, "background" if not is_under_cursor else "selected" if self.has_focus else "marked"


class GpuDetails(Widget, inherit_bindings=False):
    """What is known of the GPU under the cursor, where the list has but a line for it."""

    DEFAULT_CSS = "GpuDetails { height: 8; border-top: solid $border-blurred; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: Shown | None = None
        self._known = Known()
        self._lines: list[Line] = []

    def show(self, entry: Entry | None, known: Known) -> None:
        """Show what the entry is about."""
        self._shown, self._known = entry.shown if entry is not None else None, known
        self._rebuild()

    def on_resize(self) -> None:
        """There is room for more, or less."""
        self._rebuild()

    def _rebuild(self) -> None:
        lines = self._made(self._shown, self._known) if self._shown is not None else []
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def _made(self, shown: Shown, known: Known) -> list[Line]:
        width, height = self.content_size
        lines = [_identity(shown, width), _troubles(shown)]
        lines += graph_lines(shown, width, 2)
        processes = in_order(shown, known)
        room = height - len(lines)
        for process, owner in processes[: room if len(processes) <= room else room - 1]:
            lines.append(process_line(process, owner, known, width))
        if len(processes) > room:
            lines.append((Piece(f"     and {len(processes) - room + 1} more processes", "muted"),))
        return lines

    def render_line(self, y: int) -> Strip:
        """One line."""
        palette = palette_of(self)
        segments = _painted(self._lines[y], palette, palette.background) if y < len(self._lines) else []
        return Strip(segments).adjust_cell_length(self.content_size.width, style(palette.text, palette.background))


def _identity(shown: Shown, width: int) -> Line:
    device, reading = shown.device, shown.reading
    texts = [safe_text(device.name[:80])]
    if reading is not None:
        texts.append(f"SM {words.megahertz(reading.sm_clock)}, memory {words.megahertz(reading.memory_clock)}")
    texts.append(safe_text(device.uuid[:80]))
    pieces = [Piece(fitted(f" {shown.state.targets[0]} GPU {device.number}", min(width, 40)).rstrip(), bold=True)]
    for text in texts:
        if width_of(pieces) + len(text) + 3 <= width:
            pieces.append(Piece(f"  {text}", "muted"))
    return tuple(pieces)


def _troubles(shown: Shown) -> Line:
    reading = shown.reading
    found = words.troubles(shown.state, shown.device, reading)
    if not found:
        ecc = "" if reading is None or reading.ecc is None else ", no uncorrected ECC error"
        told = reading is not None and reading.throttle is not None
        return (
            Piece(
                f" {'✓ its clocks are not held down' if told else '· it does not tell its clock limits'}{ecc}", "muted"
            ),
        )
    return tuple(Piece(f" {text} ", role) for text, role in found)


def _painted(line: Line, palette: Palette, ground: str) -> list[Segment]:
    # What is faint could not be seen on the cursor's ground.
    colors = palette if ground == palette.background else palette._replace(faint=palette.muted)
    return [
        Segment(piece.text, style(getattr(colors, piece.role), ground, bold=piece.bold)) for piece in line if piece.text
    ]
