"""Made-up states of machines with GPUs."""

from __future__ import annotations

from typing import Any

from tui_workbench.targets.gpu.fleet import MachineState, RecentCurves
from tui_workbench.targets.gpu.sample import Device, Machine, Note, Process, Reading, Sample

NOW = 1_700_000_000.0


def device(number: int = 0, name: str = "Tesla T4", **changes: Any) -> Device:
    """Return a GPU."""
    return Device(number, f"GPU-{number:08d}", name, 15360.0, 70.0)._replace(**changes)


def reading(number: int = 0, **changes: Any) -> Reading:
    """Return the values of a busy GPU."""
    return Reading(number, 83.0, 8294.0, 61.0, 72.0, 1590.0, 5000.0, 0, 0)._replace(**changes)


def rest(number: int = 0) -> Reading:
    """Return the values of an idle GPU."""
    return Reading(number, 0.0, 3.0, 9.0, 31.0, 300.0, 405.0, 1, 0)


def process(pid: int = 4242, number: int = 0, **changes: Any) -> Process:
    """Return a process of another user."""
    return Process(pid, number, 4300.0, None, "alice", "python")._replace(**changes)


def machine(
    *readings: Reading,
    name: str = "local",
    processes: tuple[Process, ...] = (),
    devices: tuple[Device, ...] = (),
    notes: tuple[Note, ...] = (),
    seconds: int = 60,
    **changes: Any,
) -> MachineState:
    """Return a machine whose GPUs have had the same load for some time."""
    devices = devices or tuple(device(each.device) for each in readings)
    curves: dict[int, RecentCurves] = {}
    for each in readings:
        recent = curves[each.device] = RecentCurves()
        for second in range(seconds):
            recent.add(NOW - seconds + second, each, devices[0])
    return MachineState(
        name,
        (name,),
        "",
        Machine(devices, "550.54", "12.4", "nvml"),
        Sample(NOW, readings, processes),
        curves,
        notes,
    )._replace(**changes)


def farm(machines: int, gpus: int, at: float = NOW, work: int = 50) -> tuple[MachineState, ...]:
    """Return many machines with GPUs of different loads."""
    return tuple(
        machine(
            *(reading(number, utilization=float((work + 7 * number + 13 * place) % 101)) for number in range(gpus)),
            name=f"box{place}",
            processes=tuple(process(1000 + number, number) for number in range(gpus)),
            seconds=4,
        )
        for place in range(machines)
    )
