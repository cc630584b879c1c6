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
from tui_workbench.ui import units
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
    gpu: GpuState | None = None
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
        self._runs = KnownRuns()
        self._needles: tuple[str, ...] = ()
        self.entries: list[Entry] = []
        self._key = ""
        self._is_moved = False  # True if the user has moved the cursor
        self._line_cache: dict[int, Line] = {}  # cached lines by index of the entry
        self._drawn_for: tuple[int, int, KnownRuns] = (0, 0, KnownRuns())
        self._drawn: dict[int, tuple[Line, str]] = {}  # lines on the screen and their background colors

    # --- Content

    def show(self, states: Sequence[MachineState], runs: KnownRuns) -> None:
        self._states, self._runs = states, runs
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
        before, index = self._key, self._cursor_index()
        old_count = len(self.entries)
        matches = self._matches if self._needles else None
        old, self.entries = self.entries, entries_of(self._states, self._runs, width, height, matches)
        drawn_for = (width, height, self._runs)
        if drawn_for != self._drawn_for or [entry.key for entry in old] != [entry.key for entry in self.entries]:
            self._line_cache.clear()
        else:
            # A state is never changed, so the lines of the same state are the same.
            kept = {i for i, entry in enumerate(self.entries) if entry.state is old[i].state}
            self._line_cache = {i: line for i, line in self._line_cache.items() if i in kept}
        self._drawn_for = drawn_for
        if not self._is_moved or not any(entry.key == self._key for entry in self.entries):
            self._key = self._nearest(index if self._is_moved else -1)
        if len(self.entries) != old_count:
            self.virtual_size = Size(1, len(self.entries))
        self._paint()
        if self._key != before:
            self.post_message(self.CursorMoved())

    def _matches(self, text: str) -> bool:
        return all(needle in text for needle in self._needles)

    # --- The cursor

    def _cursor_index(self) -> int:
        return next((index for index, entry in enumerate(self.entries) if entry.key == self._key), -1)

    def _nearest(self, index: int) -> str:
        """Return the key of the entry at `index`, or else of the last entry; for -1, that of the first GPU."""
        if index < 0:
            index = next((i for i, entry in enumerate(self.entries) if entry.gpu is not None), 0)
        return self.entries[min(index, len(self.entries) - 1)].key if self.entries else ""

    def step(self, number: int) -> None:
        stops = [index for index, entry in enumerate(self.entries) if entry.is_first]
        cursor = self._cursor_index()
        stop = next((i for i, index in enumerate(stops) if index >= cursor), 0)
        self._move_to(stops[max(0, min(stop + number, len(stops) - 1))] if stops else -1)

    action_step = step

    def _move_to(self, index: int) -> None:
        self._is_moved = True
        if not 0 <= index < len(self.entries) or self.entries[index].key == self._key:
            return
        self._key = self.entries[index].key
        last = max(i for i, entry in enumerate(self.entries) if entry.key == self._key)
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        new_top = min(max(top, last - height + 1), index)
        if height and new_top != top:
            self.scroll_to(y=new_top, animate=False, force=True)
        self._paint()
        self.post_message(self.CursorMoved())

    def action_page(self, pages: int) -> None:
        index = self._cursor_index() + pages * max(1, self.size.height - 1)
        self._move_to(max(0, min(index, len(self.entries) - 1)))

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
        index = y + self.scroll_offset.y
        if not self.entries:
            text = NOTHING_FOUND if self._states else self.empty
            return (Piece(f" {text[y]}" if y < len(text) else "", "muted"),), "background"
        if index >= len(self.entries):
            return (), "background"
        entry = self.entries[index]
        line = self._line_cache.get(index)
        if line is None:
            line = self._line_cache[index] = entry.draw()
        is_under_cursor = entry.is_first and entry.key == self._key
        return line, "background" if not is_under_cursor else "selected" if self.has_focus else "marked"


class GpuDetails(Widget, inherit_bindings=False):
    """The details of the selected GPU, for lists with one line per GPU."""

    DEFAULT_CSS = "GpuDetails { height: 8; border-top: solid $border-blurred; }"

    def __init__(self) -> None:
        super().__init__()
        self._gpu: GpuState | None = None
        self._runs = KnownRuns()
        self._lines: list[Line] = []

    def show(self, entry: Entry | None, runs: KnownRuns) -> None:
        self._gpu, self._runs = entry.gpu if entry is not None else None, runs
        self._rebuild()

    def on_resize(self) -> None:
        self._rebuild()

    def _rebuild(self) -> None:
        lines: list[Line] = []
        if (gpu := self._gpu) is not None:
            width, height = self.content_size
            lines += [_identity(gpu, width), _troubles(gpu)]
            lines += graph_lines(gpu, width, 2, with_span=height >= WITH_SPAN)
            processes = in_order(gpu, self._runs)
            room = height - len(lines)
            for process, owner in processes[: room if len(processes) <= room else room - 1]:
                lines.append(process_line(process, owner, self._runs, width))
            if len(processes) > room:
                lines.append((Piece(f"     and {len(processes) - room + 1} more processes", "muted"),))
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        line = self._lines[y] if y < len(self._lines) else ()
        return draw_line(line, self.content_size.width, palette, palette.background)


def _identity(gpu: GpuState, width: int) -> Line:
    device, reading = gpu.device, gpu.reading
    texts = [safe_text(device.name[:80])]
    if gpu.is_reported:
        texts.append(f"SM {units.amount(reading.sm_clock, 'MHz')}, memory {units.amount(reading.memory_clock, 'MHz')}")
    texts.append(safe_text(device.uuid[:80]))
    pieces = [Piece(fitted(f" {gpu.state.targets[0]} GPU {device.number}", min(width, 40)).rstrip(), bold=True)]
    for text in texts:
        if width_of(pieces) + len(text) + 3 <= width:
            pieces.append(Piece(f"  {text}", "muted"))
    return tuple(pieces)


def _troubles(gpu: GpuState) -> Line:
    troubles = gpu.troubles()
    if gpu.held is not None:
        troubles.insert(0, (f"reserved by {safe_text(gpu.held.text[:80])}", "text"))
    if not troubles:
        ecc = "" if gpu.reading.ecc is None else ", no uncorrected ECC errors"
        is_known = gpu.reading.throttle is not None
        about = "✓ clocks not throttled" if is_known else "· clock limits not reported"
        return (Piece(f" {about}{ecc}", "muted"),)
    return tuple(Piece(f" {text} ", role) for text, role in troubles)


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
            device,
            readings.get(device.number, Reading(device.number)),
            tuple(process for process in processes if process.device == device.number),
            device.number in readings,
        )
        for device in state.machine.devices
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
    runs: KnownRuns,
    width: int,
    height: int,
    matches: Callable[[str], bool] | None = None,
) -> list[Entry]:
    """Return the lines of the list. Only GPUs whose search text `matches` accepts are shown; None shows all GPUs."""
    gpus = {state.key: gpus_of(state) for state in states}
    high = graph_height(states, width, height)
    devices = [gpu.device for group in gpus.values() for gpu in group]
    columns = columns_for(width, devices, is_head=bool(high))
    lines: list[Entry] = []
    for state in states:
        group = gpus[state.key]
        if matches is not None:
            group = [gpu for gpu in group if matches(search_text(gpu, runs))]
            if not group and (gpus[state.key] or not matches(_machine_text(state))):
                continue
        lines.append(Entry(f"m {state.key}", partial(machine_line, state, width), state))
        for line in gpu_lines.problem_lines(state, width):
            lines.append(Entry(f"m {state.key}", partial(tuple, line), state, is_first=False))
        for gpu in group:
            lines += _device(gpu, runs, columns, width, high)
    return lines


def _device(gpu: GpuState, runs: KnownRuns, columns: Columns, width: int, high: int) -> list[Entry]:
    key = f"d {gpu.state.key} {gpu.device.number}"
    processes = in_order(gpu, runs)
    run = next((owner.run_id for _, owner in processes if owner.run_id), "")
    lines = [Entry(key, partial(device_line, gpu, columns, runs), gpu.state, gpu, run)]
    if not high:
        return lines
    graphs = cache(partial(graph_lines, gpu, width, high, with_span=True))
    for row in range(high + 1):
        lines.append(Entry(key, partial(_row_of, graphs, row), gpu.state, gpu, run, is_first=False))
    for process, owner in processes:
        draw = partial(process_line, process, owner, runs, width)
        lines.append(Entry(f"{key} {process.pid}", draw, gpu.state, gpu, owner.run_id, process.pid))
    if gpu.held is not None and (gpu.held.until or not processes):
        held = (Piece("     "), gpu_lines.held_piece(gpu.held, max(1, width - 5), "reserved by "))
        lines.append(Entry(key, partial(tuple, held), gpu.state, gpu, is_first=False))
    elif not processes:
        text = "no process reported" if gpu.is_busy else "free"
        line = (Piece(f"     {text}" if gpu.is_reported else "", "muted"),)
        lines.append(Entry(key, partial(tuple, line), gpu.state, gpu, is_first=False))
    lines.append(Entry(key, tuple, gpu.state, gpu, is_first=False))
    return lines


def _row_of(make: Callable[[], list[Line]], row: int) -> Line:
    return make()[row]


def search_text(gpu: GpuState, runs: KnownRuns) -> str:
    """Return the text that a filter searches: machine, device, owners, processes, problems and load."""
    owners = in_order(gpu, runs)
    texts = [owner.text for _, owner in owners] + [process.name for process, _ in owners]
    texts += [text for text, _ in gpu.troubles()]
    texts += ["busy" if gpu.is_busy else "idle", f"gpu {gpu.device.number}"]
    texts += [gpu.held.text] if gpu.held is not None else [] if owners else ["free"]
    return f"{_machine_text(gpu.state)} {gpu.device.name} {' '.join(texts)}".lower()


def _machine_text(state: MachineState) -> str:
    return f"{' '.join(state.targets)} {state.address} {state.problem}".lower()
