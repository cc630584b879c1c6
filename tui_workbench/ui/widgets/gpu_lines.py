"""Lines about machines, GPUs and processes, for any width: columns stand below each other, and come as there is room.

The invariant: a line is never wider than it was asked for, and every number stands with its unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets import gpu_words as words
from tui_workbench.ui.widgets.gpu_graph import graph, meter
from tui_workbench.ui.widgets.pieces import Piece, width_of
from tui_workbench.ui.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.targets.gpu.fleet import Course, MachineState
    from tui_workbench.targets.gpu.sample import Device, Process, Reading
    from tui_workbench.ui.widgets.gpu_words import Known, Whose

    Line = tuple[Piece, ...]

UTILIZATION, MEMORY, POWER = "success", "function", "number"
"""The colours of the three courses."""

LEAST_NAME, MOST_NAME = 8, 24
LEAST_WHO, MOST_WHO = 14, 28
MOST_TITLE = 44
LABEL_CELLS = 6


class Columns(NamedTuple):
    """How many cells each part of a GPU's line has; 0 for one that has no room."""

    name: int
    temperature: int
    meter: int
    memory_meter: int
    memory: int
    power: int
    limit: bool  # the power's limit stands with it
    clock: int
    trouble: int
    who: int
    spark: int


class Shown(NamedTuple):
    """A GPU with what is known of it at the moment."""

    state: MachineState
    device: Device
    reading: Reading | None
    processes: tuple[Process, ...]


def columns_for(width: int, devices: Sequence[Device], *, is_head: bool = False) -> Columns:
    """The columns of the lines of these devices. With `is_head` graphs and processes stand below the line."""
    names = max((cell_len(words.short_name(device)) for device in devices), default=LEAST_NAME)
    memory = max((len(words.memory(each.memory or 0.0, each.memory)) for each in devices), default=8)
    power = max((len(words.watts(each.power_limit, each.power_limit)) for each in devices), default=5)
    name = min(names, LEAST_NAME)
    room = width - 2 - (3 + name + 2 + 5 + 2 + memory)

    def take(cells: int) -> int:
        nonlocal room
        cells = cells if 0 < cells <= room else 0
        room -= cells
        return cells

    temperature = take(8)
    who = 0 if is_head else take(LEAST_WHO + 4)
    has_power = take(7)
    bar = take(9)
    name += take(min(names, MOST_NAME) - name) or take(min(4, min(names, MOST_NAME) - name))
    spark = 0 if is_head else take(14)
    limit = take(max(0, power - 5))
    trouble = take(16)
    bar += take(6)
    clock = take(10)
    memory_bar = take(11)
    who += 0 if is_head else take(MOST_WHO - LEAST_WHO)
    if is_head:
        trouble += take(room // 2)
        bar += take(min(room, 20))
    else:
        spark += take(room) if spark else 0
    return Columns(
        name, temperature, max(0, bar - 1), max(0, memory_bar - 1), memory, 5 + limit if has_power else 0, bool(limit),
        max(0, clock - 2), trouble, max(0, who - 4), max(0, spark - 2),
    )  # fmt: skip


def device_line(shown: Shown, columns: Columns, known: Known) -> Line:
    """A GPU in one line."""
    device, reading = shown.device, shown.reading
    is_old = reading is None or bool(shown.state.silent or shown.state.problem)
    pieces = [
        Piece(f" {device.number:>2} ", "muted"),
        Piece(fitted(words.short_name(device), columns.name), "muted" if is_old else "text", bold=not is_old),
        Piece("  "),
    ]
    pieces += _used(shown, columns, is_old=is_old)
    temperature = reading.temperature if reading else None
    if columns.temperature:
        role = "muted" if is_old else words.heat_role(temperature)
        pieces.append(Piece(words.degrees(temperature).rjust(columns.temperature), role))
    if columns.clock:
        clock = words.megahertz(reading.sm_clock if reading else None)
        pieces.append(Piece(clock.rjust(columns.clock + 2), "muted"))
    pieces += _trouble(shown, columns.trouble)
    if columns.who:
        pieces += _who(shown, known, columns.who)
    if columns.spark:
        pieces += [Piece("  "), _spark(shown, columns.spark)]
    return tuple(pieces)


def _used(shown: Shown, columns: Columns, *, is_old: bool) -> list[Piece]:
    """Utilisation, memory and power."""
    device, reading = shown.device, shown.reading
    utilization, used, power = (reading.utilization, reading.memory, reading.power) if reading else (None, None, None)
    ink = "muted" if is_old else "text"
    pieces = []
    if columns.meter:
        pieces += _meter(None if utilization is None else utilization / 100, columns.meter, UTILIZATION)
    pieces += [Piece(words.percent(utilization), ink, bold=not is_old), Piece("  ")]
    if columns.memory_meter:
        share = used / device.memory if used is not None and device.memory else None
        pieces += _meter(share, columns.memory_meter, MEMORY)
    pieces.append(Piece(words.memory(used, device.memory).rjust(columns.memory), ink))
    if columns.power:
        text = words.watts(power, device.power_limit if columns.limit else None)
        pieces.append(Piece(text.rjust(columns.power + 2), ink))
    return pieces


def _meter(share: float | None, width: int, role: str) -> list[Piece]:
    filled, rest = meter(share, width)
    return [Piece(filled, role), Piece(f"{rest} ", "faint")]


def _trouble(shown: Shown, width: int) -> list[Piece]:
    """The worst of what is wrong; its sign alone where there is no room."""
    found = words.troubles(shown.state, shown.device, shown.reading)
    text, role = found[0] if found else ("", "text")
    if len(found) > 1 and width > 8:
        text = f"{truncate_middle(text, width - 5)} +{len(found) - 1}"
    if not width:
        return [Piece("  "[: 2 - len(text[:1])] + text[:1], role)]
    return [Piece("  "), Piece(fitted(text, width - 2), role)]


def in_order(shown: Shown, known: Known) -> list[tuple[Process, Whose]]:
    """The processes on a GPU with whose they are: this run's first, then our others, then those of others."""
    found = [(process, words.whose(process, shown.state, known)) for process in shown.processes]

    def rank(each: tuple[Process, Whose]) -> tuple[bool, bool, bool, float, int]:
        process, owner = each
        is_this = bool(owner.run_id) and owner.run_id == known.selected
        return (process.graphics, not is_this, not owner.run_id, -(process.memory or 0.0), process.pid)

    return sorted(found, key=rank)


def _who(shown: Shown, known: Known, width: int) -> list[Piece]:
    """Whose the GPU is, in a word or two."""
    owners = list(dict.fromkeys(owner for process, owner in in_order(shown, known) if not process.graphics))
    if not owners:
        utilization = shown.reading.utilization if shown.reading else None
        if shown.reading is None or shown.state.problem:
            text = ""
        else:
            text = "free" if (utilization or 0.0) < words.AT_WORK else "not told"
        return [Piece("  "), Piece(fitted(text, width), "muted")]
    more = f" +{len(owners) - 1}" if len(owners) > 1 else ""
    first = owners[0]
    return [
        Piece("  "),
        Piece(fitted(f"{first.glyph} {first.text}", width - len(more)), first.role),
        Piece(more, "muted"),
    ]


def _spark(shown: Shown, width: int) -> Piece:
    course = shown.state.courses.get(shown.device.number)
    if course is None:
        return Piece(" " * width)
    return Piece(graph(course.last(course.utilization, width, shown.state.newest), width, 1, 100.0)[0], UTILIZATION)


def graph_lines(shown: Shown, width: int, height: int) -> list[Line]:
    """The courses of utilisation, memory and power side by side."""
    course = shown.state.courses.get(shown.device.number)
    number = 3 if width >= 75 else 2
    room = (width - 4) // number
    cells = max(1, room - LABEL_CELLS - 1)
    parts = []
    for name, role, top in _graphs(shown, course)[:number]:
        values = course.last(getattr(course, name), cells, shown.state.newest) if course is not None else ()
        parts.append((_LABELS[name], role, graph(values, cells, height, top)))
    lines = []
    for row in range(height):
        pieces = [Piece("    ")]
        for label, role, rows in parts:
            pieces += [
                Piece((label if row == 0 else "").ljust(LABEL_CELLS), "muted"),
                Piece(rows[row], role),
                Piece(" "),
            ]
        lines.append(tuple(pieces))
    return lines


_LABELS = {"utilization": "util", "memory": "mem", "power": "power"}


def _graphs(shown: Shown, course: Course | None) -> list[tuple[str, str, float]]:
    """Name, colour and scale of each course."""
    told = (
        [watts for watts in course.power if watts == watts]
        if course is not None and not shown.device.power_limit
        else ()
    )
    limit = shown.device.power_limit or max(told, default=100.0)
    return [("utilization", UTILIZATION, 100.0), ("memory", MEMORY, 100.0), ("power", POWER, limit)]


def process_line(process: Process, owner: Whose, known: Known, width: int) -> Line:
    """A process below its GPU."""
    word = "this run" if owner.run_id and owner.run_id == known.selected else "your run" if owner.run_id else ""
    right = [
        Piece(f"{word:<8}  ", "muted"),
        Piece(f"{process.pid:>8} ", "muted"),
        Piece(fitted(safe_text(process.name[:60]) + (" (draws)" if process.graphics else ""), 15), "muted"),
        Piece(words.size(process.memory).rjust(10)),
        Piece(words.percent(process.utilization) if process.utilization is not None else " " * 5),
    ]
    if width < 64:
        right = [right[1], right[3]]
    room = min(MOST_TITLE, width - 8 - width_of(right))
    return (Piece("     "), Piece(f"{owner.glyph} ", owner.role), Piece(fitted(owner.text, room), owner.role), *right)


def machine_line(state: MachineState, width: int) -> Line:
    """A machine: its targets, where it is, what it has."""
    machine = state.machine
    pieces = [Piece(f" {truncate_middle(', '.join(state.targets), max(12, width // 3))}", "accent", bold=True)]
    texts = [safe_text(state.address[: words.LONGEST]) or "this machine"]
    if machine is not None and machine.devices:
        texts.append(count(len(machine.devices), "GPU"))
        texts += [f"driver {machine.driver}"] if machine.driver else []
        texts += [f"CUDA {machine.cuda}"] if machine.cuda else []
        texts += [machine.source]
    for text in texts:
        piece = Piece(f"  {safe_text(text)}", "muted")
        if width_of(pieces) + width_of((piece,)) < width:
            pieces.append(piece)
    return tuple(pieces)


def fitted(text: str, width: int) -> str:
    """The text in exactly so many cells: cut in its middle, or with blanks behind."""
    if width <= 0:
        return ""
    text = truncate_middle(text, width)
    return text + " " * (width - cell_len(text))
