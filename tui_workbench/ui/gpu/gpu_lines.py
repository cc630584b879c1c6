"""Draw machines, GPUs and processes as lines of any width, with aligned columns.

All graphs of utilization and memory have the same scale, so that devices can be compared. A missing value is blank; 0
is a line at the bottom.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.gpu.fleet import CELL_SECONDS, MachineState, RecentCurves
from tui_workbench.targets.gpu.sample import Device, Process, Reading
from tui_workbench.targets.reservations.watching import HeldGpu
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.units import amount, memory, size, watts
from tui_workbench.ui.widgets.pieces import Piece, hanging, width_of
from tui_workbench.ui.widgets.text_view import Line

HOT, TOO_HOT = 80.0, 90.0  # temperatures in °C from which a warning and an error are shown
BUSY_PERCENT = 5.0  # utilization from which a GPU counts as busy, as in the verdict
LONGEST = 200


class KnownRuns(NamedTuple):
    """The runs of the project by ID, and the ID of the selected run.

    `held` holds the run IDs of processes that do not carry their run ID, keyed by target name and process ID. `stalled`
    holds the IDs of stalled runs.
    """

    by_id: Mapping[str, Run] = {}
    selected: str = ""
    held: Mapping[tuple[str, int], str] = {}
    stalled: frozenset[str] = frozenset()


class Owner(NamedTuple):
    """The owner of a process: text, color, glyph, and the ID of the user's run ("" for other owners)."""

    text: str
    role: str
    glyph: str
    run_id: str = ""


def owner_of(process: Process, state: MachineState, runs: KnownRuns) -> Owner:
    """Return the owner of a process: the selected run, another run, or a user, whose name may be unknown or hidden."""
    run_ids = [runs.held[name, process.pid] for name in state.targets if (name, process.pid) in runs.held]
    if run_id := process.run or "".join(run_ids[:1]):
        run = runs.by_id.get(run_id)
        title = run_title(run) if run is not None else run_id
        glyph, role = ("●", "running") if run_id == runs.selected else ("○", "success")
        if run_id in runs.stalled:
            glyph, role = "■", "error"
        return Owner(safe_text(title[:LONGEST]), role, glyph, run_id)
    if state.machine is not None and state.machine.hides_processes and not process.user:
        return Owner("hidden in this container", "muted", "?")
    return Owner(safe_text((process.user or "unknown user")[:LONGEST]), "warning", "◇")


def short_name(device: Device) -> str:
    """Return the device's name without vendor and brand."""
    name = device.name
    for word in ("NVIDIA ", "GeForce ", "AMD ", "Instinct ", "Radeon "):
        name = name.removeprefix(word)
    return safe_text(name[:LONGEST])


def has_no_gpus(state: MachineState) -> bool:
    """Return True for a reachable machine without GPUs."""
    machine = state.machine
    return machine is not None and not machine.devices and state.problem == machine.problem


def problem_lines(state: MachineState, width: int) -> list[Line]:
    """Describe the problem of a machine or of its GPUs, and the remedy; empty without a problem."""
    if state.machine is None and not state.problem:
        return [(Piece(" ◌ looking for GPUs...", "muted"),)]
    text = (state.remedy or _REMEDY) if state.is_contacted else _CONTACT
    remedy = hanging((Piece("   "),), text[:LONGEST], width, "muted")
    if state.problem:
        glyph, role = ("·", "muted") if has_no_gpus(state) or not state.is_contacted else ("✗", "error")
        return [*hanging((Piece(f" {glyph} ", role),), state.problem[:LONGEST], width, role), *remedy]
    if state.reserved is not None and state.reserved.problem:
        reason = f"reservations are unknown: {state.reserved.problem}"[:LONGEST]
        return hanging((Piece(" ▲ ", "warning"),), reason, width, "warning")
    if state.silent:
        return [(Piece(f" ▲ no answer for {state.silent:.0f} s; values are stale", "warning"),)]
    if state.machine is not None and not state.machine.devices:
        return [(Piece(" · no GPU found", "muted"),), *remedy]
    return []


_REMEDY = f"{shown_key('gpus.check', 't')} diagnoses the machine, {shown_key('gpus.retry', 'r')} retries"
_CONTACT = f"{shown_key('gpus.retry', 'r')} connects to the machine"


UTILIZATION, MEMORY, POWER = "success", "function", "number"  # colors of the three curves
LEAST_NAME, MOST_NAME = 8, 24
LEAST_WHO, MOST_WHO = 14, 28
MOST_TITLE = 44
LABEL_CELLS = 6


class Columns(NamedTuple):
    """The widths of the parts of a GPU's line; 0 for a part that does not fit."""

    name: int
    temperature: int
    meter: int
    memory_meter: int
    memory: int
    power: int
    limit: bool  # True if the power limit is shown
    clock: int
    trouble: int
    who: int
    spark: int


class GpuState(NamedTuple):
    """The current state of a GPU."""

    state: MachineState
    device: Device
    reading: Reading
    processes: tuple[Process, ...]
    is_reported: bool = True  # True if the latest sample includes this GPU

    @property
    def curves(self) -> RecentCurves:
        return self.state.curves.get(self.device.number, RecentCurves())

    @property
    def is_busy(self) -> bool:
        return (self.reading.utilization or 0.0) >= BUSY_PERCENT

    @property
    def held(self) -> HeldGpu | None:
        """The reservation of this GPU on a shared machine, or None."""
        return self.state.reserved.gpus.get(self.device.uuid) if self.state.reserved is not None else None

    def troubles(self) -> list[tuple[str, str]]:
        """Return errors and reasons for throttling, each with its color, the worst first."""
        troubles, ecc = [], self.reading.ecc
        if not self.is_reported and self.state.sample is not None:
            troubles.append(("✗ stopped responding", "error"))
        if ecc:
            troubles.append((f"✗ {counted(ecc, 'ECC error')}", "error"))
        for note in reversed(self.state.notes):
            if note.device == self.device.number:
                when = time.strftime("%H:%M", time.localtime(note.time))
                troubles.append((f"✗ {when} {safe_text(note.text[:LONGEST])}", "error"))
        if self.device.slices:
            troubles.append(("▲ MIG: use not reported", "warning"))
        return troubles + [(f"▲ {word}", "warning") for word in self.reading.throttled_by]


def columns_for(width: int, devices: Sequence[Device], *, is_head: bool = False) -> Columns:
    """Return the columns of these devices for a line of this width.

    With `is_head`, graphs and processes are on separate lines below the GPU's line.
    """
    names = max((cell_len(short_name(device)) for device in devices), default=LEAST_NAME)
    memory_cells = max((len(memory(device.memory or 0.0, device.memory)) for device in devices), default=8)
    power = max((len(watts(device.power_limit, device.power_limit)) for device in devices), default=5)
    name = min(names, LEAST_NAME)
    room = width - 2 - (3 + name + 2 + 5 + 2 + memory_cells)

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
        name, temperature, max(0, bar - 1), max(0, memory_bar - 1), memory_cells, 5 + limit if has_power else 0,
        bool(limit), max(0, clock - 2), trouble, max(0, who - 4), max(0, spark - 2),
    )  # fmt: skip


def device_line(gpu: GpuState, columns: Columns, runs: KnownRuns) -> Line:
    """Draw a GPU in one line."""
    device, reading = gpu.device, gpu.reading
    is_old = bool(not gpu.is_reported or gpu.state.silent or gpu.state.problem)
    ink = "muted" if is_old else "text"
    name = fitted(short_name(device), columns.name)
    pieces = [Piece(f" {device.number:>2} ", "muted"), Piece(name, ink, bold=not is_old), Piece("  ")]
    if columns.meter:
        share = None if reading.utilization is None else reading.utilization / 100
        pieces += _meter(share, columns.meter, UTILIZATION)
    pieces += [Piece(amount(reading.utilization, "%").rjust(5), ink, bold=not is_old), Piece("  ")]
    if columns.memory_meter:
        share = reading.memory / device.memory if reading.memory is not None and device.memory else None
        pieces += _meter(share, columns.memory_meter, MEMORY)
    pieces.append(Piece(memory(reading.memory, device.memory).rjust(columns.memory), ink))
    if columns.power:
        text = watts(reading.power, device.power_limit if columns.limit else None)
        pieces.append(Piece(text.rjust(columns.power + 2), ink))
    if columns.temperature:
        heat = reading.temperature or 0.0
        role = "error" if heat >= TOO_HOT else "warning" if heat >= HOT else ink
        text = amount(reading.temperature, "°C").rjust(columns.temperature)
        pieces.append(Piece(text, "muted" if is_old or reading.temperature is None else role))
    if columns.clock:
        pieces.append(Piece(amount(reading.sm_clock, "MHz").rjust(columns.clock + 2), "muted"))
    pieces += _trouble(gpu, columns.trouble)
    if columns.who:
        pieces += _who(gpu, runs, columns.who)
    if columns.spark:
        values = gpu.curves.last(gpu.curves.utilization, columns.spark, gpu.state.newest)
        pieces += [Piece("  "), Piece(graph(values, columns.spark, 1, 100.0)[0], UTILIZATION)]
    return tuple(pieces)


def _meter(share: float | None, width: int, role: str) -> list[Piece]:
    filled, rest = meter(share, width)
    return [Piece(filled, role), Piece(f"{rest} ", "faint")]


def _trouble(gpu: GpuState, width: int) -> list[Piece]:
    """Draw the worst problem, or only its glyph in a narrow line."""
    troubles = gpu.troubles()
    text, role = troubles[0] if troubles else ("", "text")
    if len(troubles) > 1 and width > 8:
        text = f"{truncate_middle(text, width - 5)} +{len(troubles) - 1}"
    if not width:
        return [Piece("  "[: 2 - len(text[:1])] + text[:1], role)]
    return [Piece("  "), Piece(fitted(text, width - 2), role)]


def in_order(gpu: GpuState, runs: KnownRuns) -> list[tuple[Process, Owner]]:
    """Return the processes on a GPU and their owners: first the selected run, then the user's runs, then others.

    Graphics processes are last.
    """

    def rank(pair: tuple[Process, Owner]) -> tuple[bool, bool, bool, float, int]:
        process, owner = pair
        is_selected = bool(owner.run_id) and owner.run_id == runs.selected
        return (process.graphics, not is_selected, not owner.run_id, -(process.memory or 0.0), process.pid)

    return sorted(((process, owner_of(process, gpu.state, runs)) for process in gpu.processes), key=rank)


def _who(gpu: GpuState, runs: KnownRuns, width: int) -> list[Piece]:
    """Draw the owners of the processes on a GPU."""
    owners = list(dict.fromkeys(owner for process, owner in in_order(gpu, runs) if not process.graphics))
    if not owners:
        if gpu.held is not None:
            return [Piece("  "), held_piece(gpu.held, width)]
        text = "" if not gpu.is_reported or gpu.state.problem else "unknown" if gpu.is_busy else "free"
        return [Piece("  "), Piece(fitted(text, width), "muted")]
    more, first = f" +{len(owners) - 1}" if len(owners) > 1 else "", owners[0]
    text = fitted(f"{first.glyph} {first.text}", width - len(more))
    return [Piece("  "), Piece(text, first.role), Piece(more, "muted")]


def held_piece(held: HeldGpu, width: int, before: str = "") -> Piece:
    """Draw a reservation, with a text before its holder: `◇ bob until 14:30`.

    A narrow line has only `◇ bob 14:30` or, if the reservation ends on another day, `◇ bob Fri`.
    """
    glyph, role = ("○", "success") if held.is_own else ("◇", "warning")
    text = f"{glyph} {before}{safe_text(held.text[:LONGEST])}"
    if cell_len(text) > width and held.until:
        name, _, end = text.rpartition(" until ")
        text = f"{name} {end.split()[0]}"
    return Piece(fitted(text, width), role)


def graph_lines(gpu: GpuState, width: int, height: int, *, with_span: bool = False) -> list[Line]:
    """Draw the curves of utilization, memory and, from 75 columns, power side by side.

    Each label shows the maximum of the axis. With `with_span`, a line below the curves shows the time that they span.
    """
    curves = gpu.curves
    most_power = gpu.device.power_limit or max((power for power in curves.power if power == power), default=100.0)
    number = 3 if width >= 75 else 2
    room = (width - 4) // number
    cells = max(1, room - LABEL_CELLS - 1)
    parts = []
    for name, label, role, unit in _GRAPHS[:number]:
        values = curves.last(getattr(curves, name), cells, gpu.state.newest)
        top = most_power if name == "power" else 100.0
        parts.append(((f"{top:.0f} {unit}", label)[-height:], role, graph(values, cells, height, top)))
    lines = []
    for row in range(height):
        pieces = [Piece("    ")]
        for labels, role, rows in parts:
            label = labels[row] if row < len(labels) else ""
            pieces += [Piece(label.ljust(LABEL_CELLS), "muted"), Piece(rows[row], role), Piece(" ")]
        lines.append(tuple(pieces))
    if with_span:
        seconds = cells * CELL_SECONDS
        span = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        text = fitted(f"{' ' * LABEL_CELLS}├ {span} ", LABEL_CELLS + cells + 1)
        lines.append((Piece("    "), *[Piece(text, "faint")] * len(parts)))
    return lines


_GRAPHS = (("utilization", "util", UTILIZATION, "%"), ("memory", "mem", MEMORY, "%"), ("power", "power", POWER, "W"))


def process_line(process: Process, owner: Owner, runs: KnownRuns, width: int) -> Line:
    """Draw the line of a process, which is shown below its GPU."""
    word = "this run" if owner.run_id and owner.run_id == runs.selected else "your run" if owner.run_id else ""
    word = "stalled" if owner.run_id in runs.stalled else word
    right = [
        Piece(f"{word:<8}  ", "muted"),
        Piece(f"{process.pid:>8} ", "muted"),
        Piece(fitted(safe_text(process.name[:60]) + (" (graphics)" if process.graphics else ""), 15), "muted"),
        Piece(size(process.memory).rjust(10)),
        Piece(f"{amount(process.utilization, '%') if process.utilization is not None else '':>5}"),
    ]
    if width < 64:
        right = [right[1], right[3]]
    room = min(MOST_TITLE, width - 8 - width_of(right))
    return (Piece("     "), Piece(f"{owner.glyph} ", owner.role), Piece(fitted(owner.text, room), owner.role), *right)


def machine_line(state: MachineState, width: int) -> Line:
    """Draw the heading of a machine: targets, address, GPUs and driver."""
    machine = state.machine
    pieces = [Piece(f" {truncate_middle(', '.join(state.targets), max(12, width // 3))}", "accent", bold=True)]
    texts = [safe_text(state.address[:LONGEST]) or "this machine"]
    if machine is not None and machine.devices:
        texts.append(counted(len(machine.devices), "GPU"))
        texts += [f"driver {machine.driver}"] if machine.driver else []
        texts += [f"CUDA {machine.cuda}"] if machine.cuda else []
        texts += [machine.source]
    if state.reserved is not None and state.reserved.waiting:
        texts.insert(1, f"{counted(state.reserved.waiting, 'waiting run')}")
    for text in texts:
        piece = Piece(f"  {safe_text(text)}", "muted")
        if width_of(pieces) + width_of((piece,)) < width:
            pieces.append(piece)
    return tuple(pieces)


def fitted(text: str, width: int) -> str:
    """Cut or pad a text to exactly `width` cells."""
    if width <= 0:
        return ""
    text = truncate_middle(text, width)
    return text + " " * (width - cell_len(text))


# --- Graphs and meters

FULL = 8  # steps per cell
_STEPS = " ▁▂▃▄▅▆▇█"
_FILL = "░"  # fills cells below the edge of an area, because full blocks would hide the edge


def graph(values: Sequence[float], width: int, height: int, top: float) -> list[str]:
    """Draw values as an area, one column each. `top` and greater values have the full height."""
    values = values[-width:] if width > 0 else ()
    steps = [_level(value, FULL * height, top) for value in values]
    blank = " " * (width - len(steps))
    feet = range((height - 1) * FULL, -1, -FULL)
    return [
        blank + "".join([_FILL if step - foot > FULL else _STEPS[max(0, step - foot)] for step in steps])
        for foot in feet
    ]


def _level(value: float, most: int, top: float) -> int:
    if value != value or top <= 0:  # NaN
        return 0
    return max(1, round(most * min(1.0, max(0.0, value / top))))


def meter(share: float | None, width: int) -> tuple[str, str]:
    """Return the filled and the empty part of a bar for a share of 0 to 1; a blank bar for None."""
    if share is None or share != share:
        return "", " " * width
    halves = round(2 * width * min(1.0, max(0.0, share)))
    if share > 0 and not halves:
        halves = 1
    whole, half = divmod(halves, 2)
    filled = "━" * whole + "╸" * half
    return filled, "─" * (width - len(filled))
