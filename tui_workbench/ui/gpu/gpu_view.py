"""A list of the GPUs of many machines with a cursor, and details of the selected GPU.

Only visible lines are drawn, and only changed lines are painted, because new values come every second. The height of a
GPU does not depend on its load: lines move only when machines, GPUs or processes are added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.targets.gpu.fleet import MachineState
from tui_workbench.targets.gpu.sample import Reading
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import LIST
from tui_workbench.ui.gpu import gpu_lines
from tui_workbench.ui.gpu.gpu_lines import (
    Columns,
    GpuState,
    KnownRuns,
    columns_for,
    device_line,
    fitted,
    graph_lines,
    in_order,
    machine_line,
    process_line,
)
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import Piece, draw_line, width_of
from tui_workbench.ui.widgets.text_view import Line

GRAPH_WIDTH = 96  # minimum width at which the graphs of each GPU are shown side by side
MOST_GRAPH, LEAST_GRAPH = 8, 2

EMPTY: tuple[str, ...] = (
    "No compute targets yet.",
    "",
    f"Press {shown_key('targets.attach', 'a')} in Compute targets to attach a machine, a cluster or local Docker.",
)
WITH_SPAN = 7  # minimum height of the details at which the time span of the graphs is shown

NOTHING_FOUND = (
    "No machine matches the filter.",
    "",
    f"Press {shown_key('gpus.clear', 'esc')} to clear the filter.",
    "The filter searches machines, GPU names, users and runs.",
    "It also accepts the words busy, idle and free.",
)


class Entry(NamedTuple):
    """A line about a machine, GPU or process."""

    key: str  # the key of the machine, GPU or process
    draw: Callable[[], Line]
    state: MachineState
    shown: GpuState | None = None
    run_id: str = ""  # the ID of the user's run that uses the GPU or owns the process
    pid: int = 0
    is_first: bool = True  # False for all but the first line with the same key


class GpuView(ScrollView, can_focus=True, inherit_bindings=False):
    """A list of machines with their GPUs and processes."""

    DEFAULT_CSS = "GpuView { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS = LIST.bindings

    class CursorMoved(Message):
        """Posted when the cursor moves to another entry."""

    class Chosen(Message):
        """Posted when an entry is double-clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.empty = EMPTY
        """The text that is shown without machines."""
        self._states: Sequence[MachineState] = ()
        self._known = KnownRuns()
        self._needles: tuple[str, ...] = ()
        self.entries: list[Entry] = []
        self._key = ""
        self._is_moved = False  # True if the user has moved the cursor
        self._line_cache: dict[int, Line] = {}  # cached lines by index of the entry
        self._drawn_for: tuple[int, int, KnownRuns] = (0, 0, KnownRuns())
        self._drawn: dict[int, tuple[Line, str]] = {}  # lines on the screen and their background colors

    # --- Content

    def show(self, states: Sequence[MachineState], known: KnownRuns) -> None:
        self._states, self._known = states, known
        self._rebuild()

    def filter(self, text: str) -> None:
        """Show only GPUs that match every word of the text."""
        self._needles = tuple(text.lower().split())
        self._rebuild()

    @property
    def current(self) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == self._key and entry.is_first), None)

    def _rebuild(self) -> None:
        width, height = self.scrollable_content_region.size
        if not width:
            return
        before, place = self._key, self._place()
        number = len(self.entries)
        matches = self._matches if self._needles else None
        old, self.entries = self.entries, entries_of(self._states, self._known, width, height, matches)
        drawn_for = (width, height, self._known)
        if drawn_for != self._drawn_for or [entry.key for entry in old] != [entry.key for entry in self.entries]:
            self._line_cache.clear()
        else:
            kept = {place for place, entry in enumerate(self.entries) if entry.state is old[place].state}
            self._line_cache = {place: line for place, line in self._line_cache.items() if place in kept}
        self._drawn_for = drawn_for
        if not self._is_moved or not any(entry.key == self._key for entry in self.entries):
            self._key = self._nearest(place if self._is_moved else -1)
        if len(self.entries) != number:
            self.virtual_size = Size(1, len(self.entries))
        self._paint()
        if self._key != before:
            self.post_message(self.CursorMoved())

    def _matches(self, text: str) -> bool:
        return all(needle in text for needle in self._needles)

    # --- The cursor

    def _place(self) -> int:
        return next((place for place, entry in enumerate(self.entries) if entry.key == self._key), -1)

    def _nearest(self, place: int) -> str:
        """Return the key of the entry at `place` or of the last entry before it; for -1, that of the first GPU."""
        if place < 0:
            place = next((number for number, entry in enumerate(self.entries) if entry.shown is not None), 0)
        near = self.entries[min(place, len(self.entries) - 1)] if self.entries else None
        return near.key if near is not None else ""

    def step(self, number: int) -> None:
        stops = [place for place, entry in enumerate(self.entries) if entry.is_first]
        here = self._place()
        at = next((index for index, place in enumerate(stops) if place >= here), 0)
        self._move_to(stops[max(0, min(at + number, len(stops) - 1))] if stops else -1)

    action_step = step

    def _move_to(self, place: int) -> None:
        self._is_moved = True
        if not 0 <= place < len(self.entries) or self.entries[place].key == self._key:
            return
        self._key = self.entries[place].key
        last = max(number for number, entry in enumerate(self.entries) if entry.key == self._key)
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

    def action_page(self, pages: int) -> None:
        wanted = self._place() + pages * max(1, self.size.height - 1)
        self._move_to(max(0, min(wanted, len(self.entries) - 1)))

    def action_end(self, last: bool) -> None:
        self._move_to(len(self.entries) - 1 if last else 0)

    def on_click(self, event: events.Click) -> None:
        self._move_to(event.y + self.scroll_offset.y)
        if event.chain > 1:
            self.post_message(self.Chosen())

    # --- Painting

    def on_resize(self) -> None:
        self._rebuild()

    def on_focus(self) -> None:
        self._paint()

    on_blur = on_focus

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        self._drawn.clear()
        super().watch_scroll_y(old_value, new_value)

    def notify_style_update(self) -> None:
        self._drawn.clear()
        super().notify_style_update()

    def _paint(self) -> None:
        """Refresh the lines that look different from those on the screen."""
        if not self._drawn:
            self.refresh()
            return
        width = self.scrollable_content_region.width
        changed = [y for y, drawn in self._drawn.items() if self._line_at(y) != drawn]
        for y in changed:
            del self._drawn[y]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        line, ground = self._drawn[y] = self._line_at(y)
        width = self.scrollable_content_region.width
        color = getattr(palette, ground)
        if ground != "background":  # faint text would be invisible on the cursor line
            palette = palette._replace(faint=palette.muted)
        return draw_line(line, width, palette, color)

    def _line_at(self, y: int) -> tuple[Line, str]:
        """Return a line of the screen and the name of its background color."""
        place = y + self.scroll_offset.y
        if not self.entries:
            text = NOTHING_FOUND if self._states else self.empty
            return (Piece(f" {text[y]}" if y < len(text) else "", "muted"),), "background"
        if place >= len(self.entries):
            return (), "background"
        entry = self.entries[place]
        line = self._line_cache.get(place)
        if line is None:
            line = self._line_cache[place] = entry.draw()
        is_under_cursor = entry.is_first and entry.key == self._key
        return line, "background" if not is_under_cursor else "selected" if self.has_focus else "marked"


class GpuDetails(Widget, inherit_bindings=False):
    """The details of the selected GPU, for lists with one line per GPU."""

    DEFAULT_CSS = "GpuDetails { height: 8; border-top: solid $border-blurred; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: GpuState | None = None
        self._known = KnownRuns()
        self._lines: list[Line] = []

    def show(self, entry: Entry | None, known: KnownRuns) -> None:
        self._shown, self._known = entry.shown if entry is not None else None, known
        self._rebuild()

    def on_resize(self) -> None:
        self._rebuild()

    def _rebuild(self) -> None:
        lines = self._draw(self._shown, self._known) if self._shown is not None else []
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def _draw(self, shown: GpuState, known: KnownRuns) -> list[Line]:
        width, height = self.content_size
        lines = [_identity(shown, width), _troubles(shown)]
        lines += graph_lines(shown, width, 2, with_span=height >= WITH_SPAN)
        processes = in_order(shown, known)
        room = height - len(lines)
        for process, owner in processes[: room if len(processes) <= room else room - 1]:
            lines.append(process_line(process, owner, known, width))
        if len(processes) > room:
            lines.append((Piece(f"     and {len(processes) - room + 1} more processes", "muted"),))
        return lines

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        line = self._lines[y] if y < len(self._lines) else ()
        return draw_line(line, self.content_size.width, palette, palette.background)


def _identity(shown: GpuState, width: int) -> Line:
    device, reading = shown.device, shown.reading
    texts = [safe_text(device.name[:80])]
    if shown.is_reported:
        texts.append(
            f"SM {gpu_lines.amount(reading.sm_clock, 'MHz')}, memory {gpu_lines.amount(reading.memory_clock, 'MHz')}"
        )
    texts.append(safe_text(device.uuid[:80]))
    pieces = [Piece(fitted(f" {shown.state.targets[0]} GPU {device.number}", min(width, 40)).rstrip(), bold=True)]
    for text in texts:
        if width_of(pieces) + len(text) + 3 <= width:
            pieces.append(Piece(f"  {text}", "muted"))
    return tuple(pieces)


def _troubles(shown: GpuState) -> Line:
    found = shown.troubles()
    if shown.held is not None:
        found.insert(0, (f"reserved by {safe_text(shown.held.text[:80])}", "text"))
    if not found:
        ecc = "" if shown.reading.ecc is None else ", no uncorrected ECC errors"
        is_known = shown.reading.throttle is not None
        about = "✓ clocks not throttled" if is_known else "· clock limits not reported"
        return (Piece(f" {about}{ecc}", "muted"),)
    return tuple(Piece(f" {text} ", role) for text, role in found)


# --- Entries


def gpus_of(state: MachineState) -> list[GpuState]:
    """Return the current state of each GPU of a machine."""
    if state.machine is None:
        return []
    sample = state.sample
    readings = {reading.device: reading for reading in sample.readings} if sample else {}
    processes = sample.processes if sample else ()
    return [
        GpuState(
            state,
            each,
            readings.get(each.number, Reading(each.number)),
            tuple(process for process in processes if process.device == each.number),
            each.number in readings,
        )
        for each in state.machine.devices
    ]


def graph_height(states: Sequence[MachineState], width: int, height: int) -> int:
    """Return the height of each GPU's graphs; 0 if there is room only for one line per GPU."""
    devices = sum(len(state.machine.devices) for state in states if state.machine)
    others = sum(1 + len(gpu_lines.problem_lines(state, width)) for state in states)
    if not devices or width < GRAPH_WIDTH:
        return 0
    # Besides its graphs, a GPU has its own line, the line of a process and a blank line.
    room = (height - others - 3 * devices) // devices
    return min(MOST_GRAPH, room) if room >= LEAST_GRAPH else 0


def entries_of(
    states: Sequence[MachineState],
    known: KnownRuns,
    width: int,
    height: int,
    matches: Callable[[str], bool] | None = None,
) -> list[Entry]:
    """Return the lines of the list. Only GPUs whose search text `matches` accepts are shown; None shows all GPUs."""
    shown = {state.key: gpus_of(state) for state in states}
    high = graph_height(states, width, height)
    devices = [each.device for group in shown.values() for each in group]
    columns = columns_for(width, devices, is_head=bool(high))
    lines: list[Entry] = []
    for state in states:
        group = shown[state.key]
        if matches is not None:
            group = [each for each in group if matches(search_text(each, known))]
            if not group and (shown[state.key] or not matches(_machine_text(state))):
                continue
        lines.append(Entry(f"m {state.key}", partial(machine_line, state, width), state))
        for line in gpu_lines.problem_lines(state, width):
            lines.append(Entry(f"m {state.key}", partial(tuple, line), state, is_first=False))
        for each in group:
            lines += _device(each, known, columns, width, high)
    return lines


def _device(shown: GpuState, known: KnownRuns, columns: Columns, width: int, high: int) -> list[Entry]:
    key = f"d {shown.state.key} {shown.device.number}"
    processes = in_order(shown, known)
    run = next((owner.run_id for _, owner in processes if owner.run_id), "")
    lines = [Entry(key, partial(device_line, shown, columns, known), shown.state, shown, run)]
    if not high:
        return lines
    graphs = cache(partial(graph_lines, shown, width, high, with_span=True))
    for row in range(high + 1):
        lines.append(Entry(key, partial(_row_of, graphs, row), shown.state, shown, run, is_first=False))
    for process, owner in processes:
        draw = partial(process_line, process, owner, known, width)
        lines.append(Entry(f"{key} {process.pid}", draw, shown.state, shown, owner.run_id, process.pid))
    if shown.held is not None and (shown.held.until or not processes):
        held = (Piece("     "), gpu_lines.held_piece(shown.held, max(1, width - 5), "reserved by "))
        lines.append(Entry(key, partial(tuple, held), shown.state, shown, is_first=False))
    elif not processes:
        text = "no process reported" if shown.is_busy else "free"
        line = (Piece(f"     {text}" if shown.is_reported else "", "muted"),)
        lines.append(Entry(key, partial(tuple, line), shown.state, shown, is_first=False))
    lines.append(Entry(key, tuple, shown.state, shown, is_first=False))
    return lines


def _row_of(make: Callable[[], list[Line]], row: int) -> Line:
    return make()[row]


def search_text(shown: GpuState, known: KnownRuns) -> str:
    """Return the text that a filter searches: machine, device, owners, processes, problems and load."""
    owners = in_order(shown, known)
    texts = [owner.text for _, owner in owners] + [process.name for process, _ in owners]
    texts += [text for text, _ in shown.troubles()]
    texts += ["busy" if shown.is_busy else "idle", f"gpu {shown.device.number}"]
    texts += [shown.held.text] if shown.held is not None else [] if owners else ["free"]
    return f"{_machine_text(shown.state)} {shown.device.name} {' '.join(texts)}".lower()


def _machine_text(state: MachineState) -> str:
    return f"{' '.join(state.targets)} {state.address} {state.problem}".lower()
