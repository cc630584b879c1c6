"""One look at the GPUs of a machine, and the lines of text that carry it.

A line is JSON on its own: `{"machine": ...}` says what the machine has and holds until the next such line, `{"t": ...}`
is a sample, `{"note": ...}` what could not be seen since. What a driver does not tell is null and never a guess.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

THROTTLE_REASONS = (
    (0x0000000000000002, "application clocks"),
    (0x0000000000000004, "power cap"),
    (0x0000000000000008, "hardware slowdown"),
    (0x0000000000000010, "sync boost"),
    (0x0000000000000020, "heat (software)"),
    (0x0000000000000040, "heat (hardware)"),
    (0x0000000000000080, "power brake"),
    (0x0000000000000100, "display clocks"),
)
"""Bits of NVML's `nvmlClocksEventReason...`; bit 1, that nothing is to be done, is no throttling."""

THROTTLED = sum(bit for bit, _ in THROTTLE_REASONS)
"""All of them."""

FIRST_NAMESPACE = "pid:[4026531836]"
"""What the kernel calls the namespace that holds all processes (PROC_PID_INIT_INO)."""


class Device(NamedTuple):
    """One GPU as it always is. `memory` in MiB, `power_limit` in W; None where the driver does not tell."""

    number: int  # as nvidia-smi counts: by PCI bus
    uuid: str
    name: str
    memory: float | None = None
    power_limit: float | None = None
    slices: tuple[str, ...] = ()  # ids of its MIG slices; with some, no use of the whole is told


class Machine(NamedTuple):
    """What a machine has. Without devices `problem` says why."""

    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: str = ""  # the newest CUDA that the driver serves
    source: str = ""  # nvml, or nvidia-smi
    problem: str = ""
    hides_processes: bool = False  # it is a container: the driver's process ids are those of another machine's view


class Reading(NamedTuple):
    """What one GPU does. None where the driver does not tell."""

    device: int
    utilization: float | None = None  # %, of the time in which a kernel ran
    memory: float | None = None  # MiB in use
    power: float | None = None  # W
    temperature: float | None = None  # °C
    sm_clock: float | None = None  # MHz
    memory_clock: float | None = None  # MHz
    throttle: int | None = None  # bits of THROTTLE_REASONS
    ecc: int | None = None  # uncorrected errors since the driver was loaded

    @property
    def throttled_by(self) -> tuple[str, ...]:
        """Why its clocks are held down, in words."""
        return tuple(word for bit, word in THROTTLE_REASONS if (self.throttle or 0) & bit)


class Owner(NamedTuple):
    """What is known of a process; empty where nothing is."""

    user: str = ""
    name: str = ""
    run: str = ""
    container: str = ""
    session: int = 0


class Process(NamedTuple):
    """A process that holds memory of a GPU, with what its machine tells of it."""

    pid: int
    device: int
    memory: float | None = None  # MiB
    utilization: float | None = None  # % of the device, its own share; seldom told
    user: str = ""
    name: str = ""
    run: str = ""  # the WORKBENCH_RUN_ID that it carries
    container: str = ""  # the id of the container that it is in
    session: int = 0
    graphics: bool = False  # draws a screen, and does not compute


class Sample(NamedTuple):
    """All GPUs of a machine at one moment (seconds since the epoch)."""

    time: float
    readings: tuple[Reading, ...]
    processes: tuple[Process, ...] = ()


class Note(NamedTuple):
    """Since `time`: why there are no samples, or what befell a device."""

    time: float
    text: str
    device: int = -1  # the one that it is about; -1 for all


def encode(thing: Machine | Sample | Note) -> bytes:
    """The line, with its end."""
    if isinstance(thing, Sample):
        value: dict[str, Any] = {"t": round(thing.time, 2), "d": [_short(reading) for reading in thing.readings]}
        if thing.processes:
            value["p"] = [_short(process) for process in thing.processes]
    elif isinstance(thing, Note):
        value = {"t": round(thing.time, 2), "note": thing.text, "device": thing.device}
    else:
        value = {"machine": {**thing._asdict(), "devices": [device._asdict() for device in thing.devices]}}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Machine | Sample | Note | None:
    """What a line says; None when it is torn or not of our form."""
    try:
        value = json.loads(line)
        if "d" in value:
            readings = tuple(Reading(*reading) for reading in value["d"])
            return Sample(float(value["t"]), readings, tuple(Process(*each) for each in value.get("p", ())))
        if "note" in value:
            return Note(float(value["t"]), str(value["note"]), int(value.get("device", -1)))
        return machine_from(value["machine"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def machine_from(value: dict[str, Any]) -> Machine:
    """The machine that JSON describes. Raises TypeError, KeyError or ValueError when it does not."""
    devices = tuple(Device(**{**each, "slices": tuple(each.get("slices", ()))}) for each in value["devices"])
    return Machine(**{**value, "devices": devices})


def _short(values: Reading | Process) -> list[Any]:
    """The values without those at the end that stand there by default."""
    found: list[Any] = list(values)
    defaults = list(values._field_defaults.values())
    while defaults and found[-1] == defaults.pop():
        found.pop()
    return found
