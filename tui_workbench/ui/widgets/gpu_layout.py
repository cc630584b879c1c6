"""Which lines about machines, GPUs and processes stand below each other, and which of them a cursor can be on.

The invariant: how high a GPU is depends on how many there are and on the room, never on what they do: lines move only
when machines, GPUs or processes come and go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.widgets import gpu_words as words
from tui_workbench.ui.widgets.gpu_lines import (
    Columns,
    Shown,
    columns_for,
    device_line,
    graph_lines,
    in_order,
    machine_line,
    process_line,
)
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui_workbench.targets.gpu.fleet import MachineState
    from tui_workbench.ui.widgets.gpu_lines import Line
    from tui_workbench.ui.widgets.gpu_words import Known

GRAPH_WIDTH = 96
"""Cells from which on graphs of several things stand side by side and tell something."""

MOST_GRAPH, LEAST_GRAPH = 8, 2


class Entry(NamedTuple):
    """One line. `key` names what it is about, `is_first` is false for further lines about the same."""

    key: str
    draw: Callable[[], Line]
    state: MachineState
    shown: Shown | None = None  # the GPU, when it is about one
    run_id: str = ""  # of ours, that it is about
    pid: int = 0
    is_first: bool = True


def shown_of(state: MachineState) -> list[Shown]:
    """The GPUs of a machine with what is known of them."""
    if state.machine is None:
        return []
    sample = state.sample
    readings = {reading.device: reading for reading in sample.readings} if sample else {}
    processes = sample.processes if sample else ()
    return [
        Shown(
            state,
            device,
            readings.get(device.number),
            tuple(process for process in processes if process.device == device.number),
        )
        for device in state.machine.devices
    ]


def graph_height(states: Sequence[MachineState], width: int, height: int) -> int:
    """Lines of the graphs of each GPU; 0 when each has one line in all."""
    devices = sum(len(state.machine.devices) for state in states if state.machine)
    others = sum(1 + len(words.problem_lines(state, width)) for state in states)
    if not devices or width < GRAPH_WIDTH:
        return 0
    # A line for the GPU, one for a process on it, and a blank one.
    room = (height - others - 3 * devices) // devices
    return min(MOST_GRAPH, room) if room >= LEAST_GRAPH else 0


def entries_of(
    states: Sequence[MachineState],
    known: Known,
    width: int,
    height: int,
    matches: Callable[[str], bool] | None = None,
) -> list[Entry]:
    """Every line, from the first to the last. `matches` tells by its words whether a GPU is shown; None shows all."""
    shown = {state.key: shown_of(state) for state in states}
    high = graph_height(states, width, height)
    devices = [each.device for group in shown.values() for each in group]
    columns = columns_for(width, devices, is_head=bool(high))
    lines: list[Entry] = []
    for state in states:
        group = shown[state.key]
        if matches is not None:
            group = [each for each in group if matches(words_of(each, known))]
            if not group and (shown[state.key] or not matches(_machine_words(state))):
                continue
        lines.append(Entry(f"m {state.key}", partial(machine_line, state, width), state))
        for text, role in words.problem_lines(state, width):
            lines.append(Entry(f"m {state.key}", partial(_said, text, role), state, is_first=False))
        for each in group:
            lines += _device(each, known, columns, width, high)
    return lines


def _device(shown: Shown, known: Known, columns: Columns, width: int, high: int) -> list[Entry]:
    key = f"d {shown.state.key} {shown.device.number}"
    processes = in_order(shown, known)
    run = next((owner.run_id for _, owner in processes if owner.run_id), "")
    lines = [Entry(key, partial(device_line, shown, columns, known), shown.state, shown, run)]
    if not high:
        return lines
    drawn = _Once(partial(graph_lines, shown, width, high))
    lines += [Entry(key, partial(drawn.line, row), shown.state, shown, run, is_first=False) for row in range(high)]
    for process, owner in processes:
        draw = partial(process_line, process, owner, known, width)
        lines.append(Entry(f"{key} {process.pid}", draw, shown.state, shown, owner.run_id, process.pid))
    if not processes:
        text = "free" if shown.reading and (shown.reading.utilization or 0.0) < words.AT_WORK else "no process is told"
        draw = partial(_said, f"    {text}" if shown.reading else "", "muted")
        lines.append(Entry(key, draw, shown.state, shown, is_first=False))
    lines.append(Entry(key, tuple, shown.state, shown, is_first=False))
    return lines


class _Once:
    """Lines that are made together when the first of them is drawn."""

    def __init__(self, make: Callable[[], list[Line]]) -> None:
        self._make = make
        self._lines: list[Line] | None = None

    def line(self, number: int) -> Line:
        if self._lines is None:
            self._lines = self._make()
        return self._lines[number]


def _said(text: str, role: str) -> Line:
    return (Piece(f" {text}", role),)


def words_of(shown: Shown, known: Known) -> str:
    """What a filter looks for a GPU in: where it is, what it is, who is on it, and how it is."""
    owners = in_order(shown, known)
    texts = [owner.text for _, owner in owners] + [process.name for process, _ in owners]
    texts += [text for text, _ in words.troubles(shown.state, shown.device, shown.reading)]
    is_busy = shown.reading is not None and (shown.reading.utilization or 0.0) >= words.AT_WORK
    texts += ["busy" if is_busy else "idle", "" if owners else "free", f"gpu {shown.device.number}"]
    return f"{_machine_words(shown.state)} {shown.device.name} {' '.join(texts)}".lower()


def _machine_words(state: MachineState) -> str:
    return f"{' '.join(state.targets)} {state.address} {state.problem}".lower()
