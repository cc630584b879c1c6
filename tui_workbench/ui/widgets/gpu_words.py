"""What a GPU does in words and numbers: units always with them, and a dash for what the driver does not tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.safetext import safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.model import Run
    from tui_workbench.targets.gpu.fleet import MachineState
    from tui_workbench.targets.gpu.sample import Device, Process, Reading

UNTOLD = "—"
HOT, TOO_HOT = 80.0, 90.0
"""°C from which on a temperature is shown as a warning, and as an error."""

AT_WORK = 5.0
"""% from which on a GPU counts as computing, as in the verdict."""

_BRANDS = ("NVIDIA ", "GeForce ")
LONGEST = 200


class Known(NamedTuple):
    """What the owner of a monitor knows of runs: those of the project by id, and which one is selected.

    `held` are the runs of processes that do not tell it themselves, by the name of the target and the process id.
    """

    runs: Mapping[str, Run] = {}
    selected: str = ""
    held: Mapping[tuple[str, int], str] = {}


class Whose(NamedTuple):
    """Whose a process is: the text, its colour, a glyph, and the run that it belongs to ("" for none of ours)."""

    text: str
    role: str
    glyph: str
    run_id: str = ""


def whose(process: Process, state: MachineState, known: Known) -> Whose:
    """Whose it is: the selected run's, another run's of ours, or somebody's."""
    held = [known.held[name, process.pid] for name in state.targets if (name, process.pid) in known.held]
    if run_id := process.run or "".join(held[:1]):
        run = known.runs.get(run_id)
        title = f"{run.script_name} [{run.run_number}]" if run is not None else run_id
        glyph, role = ("●", "running") if run_id == known.selected else ("○", "success")
        return Whose(safe_text(title[:LONGEST]), role, glyph, run_id)
    if state.machine is not None and state.machine.hides_processes and not process.user:
        return Whose("not told in a container", "muted", "?")
    return Whose(safe_text((process.user or "somebody")[:LONGEST]), "warning", "◇")


def short_name(device: Device) -> str:
    """The device's name without its maker's."""
    name = device.name
    for brand in _BRANDS:
        name = name.removeprefix(brand)
    return safe_text(name[:LONGEST])


def percent(value: float | None) -> str:
    """`83 %`, right-aligned."""
    return (UNTOLD if value is None else f"{value:.0f} %").rjust(5)


def size(mib: float | None) -> str:
    """`8.1 GiB`, `512 MiB`."""
    if mib is None:
        return UNTOLD
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def memory(used: float | None, total: float | None) -> str:
    """`8.1/15.0 GiB`."""
    if used is None:
        return size(total) if total is None else f"{UNTOLD}/{total / 1024:.1f} GiB"
    if total is None:
        return size(used)
    return f"{used / 1024:.1f}/{total / 1024:.1f} GiB"


def watts(value: float | None, limit: float | None = None) -> str:
    """`61 W`, `61/70 W`."""
    if value is None:
        return UNTOLD
    return f"{value:.0f}/{limit:.0f} W" if limit else f"{value:.0f} W"


def degrees(value: float | None) -> str:
    """`55 °C`."""
    return UNTOLD if value is None else f"{value:.0f} °C"


def heat_role(value: float | None) -> str:
    """The colour of a temperature."""
    if value is None:
        return "muted"
    return "error" if value >= TOO_HOT else "warning" if value >= HOT else "text"


def megahertz(value: float | None) -> str:
    """`1590 MHz`."""
    return UNTOLD if value is None else f"{value:.0f} MHz"


def troubles(state: MachineState, device: Device, reading: Reading | None) -> list[tuple[str, str]]:
    """What is wrong with a device and what holds it down, each with its colour; the worst first."""
    found = []
    if reading is None:
        if state.sample is not None:
            found.append(("✗ tells nothing any more", "error"))
    elif reading.ecc:
        found.append((f"✗ {reading.ecc} ECC error{'s' if reading.ecc > 1 else ''}", "error"))
    for note in reversed(state.notes):
        if note.device == device.number:
            when = time.strftime("%H:%M", time.localtime(note.time))
            found.append((f"✗ {when} {safe_text(note.text[:LONGEST])}", "error"))
    if device.slices:
        found.append(("▲ MIG: its use is not told", "warning"))
    if reading is not None:
        found += [(f"▲ {word}", "warning") for word in reading.throttled_by]
    return found


def has_none(state: MachineState) -> bool:
    """True for a machine that answers, and has no GPU."""
    machine = state.machine
    return machine is not None and not machine.devices and state.problem == machine.problem


def problem_lines(state: MachineState, width: int) -> list[tuple[str, str]]:
    """Why a machine is not seen, or not now, and what to do; each line with its colour, as safe text."""
    if state.machine is None and not state.problem:
        return [("◌ looking for GPUs…", "muted")]
    remedy = _wrapped("  ", state.remedy or _REMEDY, "muted", width)
    if state.problem:
        glyph, role = ("·", "muted") if has_none(state) else ("✗", "error")
        return _wrapped(f"{glyph} ", state.problem, role, width) + remedy
    if state.silent:
        return [(f"▲ no answer for {state.silent:.0f} s; what stands here is old", "warning")]
    if state.machine is not None and not state.machine.devices:
        return [("· it tells of no GPU", "muted"), *remedy]
    return []


def _wrapped(before: str, text: str, role: str, width: int) -> list[tuple[str, str]]:
    from textwrap import wrap

    parts = wrap(safe_text(text[:LONGEST]), max(20, width - len(before) - 2))
    return [(f"{before if place == 0 else '  '}{part}", role) for place, part in enumerate(parts)]


_REMEDY = "t checks it step by step and asks for what is missing; r looks again"
