"""GPU samples of a machine, their JSON lines, and the joined samples of several machines that execute one run.

There are three kinds of lines:

- `{"machine": ...}` describes the machine. The description is valid until the next line of this kind.
- `{"t": ..., "d": ...}` is a sample. A value that the driver does not report is null.
- `{"t": ..., "note": ...}` is an event, or the reason why samples are missing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.json_values import parse_json, read_as

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
"""Bits of NVML's `nvmlClocksEventReason...`; bit 0x1, which marks an idle GPU, does not count as throttling."""

THROTTLED = sum(bit for bit, _ in THROTTLE_REASONS)

BY_POWER, BY_HEAT = 0x84, 0x60
"""The bits of THROTTLE_REASONS for limited power (power cap, power brake) and for heat."""

NODE_STEP = 100
"""The GPUs of node N of a run are numbered from N * NODE_STEP; nodes are counted from 0."""

FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's name of the root PID namespace (PROC_PID_INIT_INO)


class Device(NamedTuple):
    """The constant properties of a GPU. A value is None if the driver does not report it."""

    number: int  # the index of the GPU in the output of nvidia-smi or amd-smi
    uuid: str
    name: str
    memory: float | None = None  # MiB
    power_limit: float | None = None  # W
    slices: tuple[str, ...] = ()  # IDs of its MIG slices; with MIG the driver reports no utilization of the GPU


def on_node(device: Device, first: int, node: str) -> Device:
    """Return the device with its number and name in a run on several nodes; the node's devices start at `first`."""
    return device._replace(number=first + device.number, name=f"{node}: {device.name}")


class Machine(NamedTuple):
    """The GPUs and the driver of a machine. If `devices` is empty, `problem` says why."""

    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: str = ""  # the newest CUDA version that the driver supports
    source: str = ""  # nvml, nvidia-smi, amd-smi or rocm-smi
    problem: str = ""
    hides_processes: bool = False  # it is a container, whose process IDs are not those that the driver reports


class Reading(NamedTuple):
    """The state of one GPU. A value is None if the driver does not report it."""

    device: int
    utilization: float | None = None  # % of the time in which a kernel ran
    memory: float | None = None  # MiB in use
    power: float | None = None  # W
    temperature: float | None = None  # °C
    sm_clock: float | None = None  # MHz
    memory_clock: float | None = None  # MHz
    throttle: int | None = None  # bits of THROTTLE_REASONS
    ecc: int | None = None  # uncorrected errors since the driver was loaded

    @property
    def throttled_by(self) -> tuple[str, ...]:
        return tuple(word for bit, word in THROTTLE_REASONS if (self.throttle or 0) & bit)


class Owner(NamedTuple):
    """The owner of a process; empty fields are not known."""

    user: str = ""
    name: str = ""
    run: str = ""
    container: str = ""
    session: int = 0
    rank: int = -1


def rank_in(text: str) -> int:
    """Return the rank in a value of RANK; -1 for other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


class Process(NamedTuple):
    """A process that holds memory of a GPU, with the fields of its `Owner`."""

    pid: int
    device: int
    memory: float | None = None  # MiB
    utilization: float | None = None  # % of the device that this process uses; seldom reported
    user: str = ""
    name: str = ""
    run: str = ""  # the WORKBENCH_RUN_ID in its environment
    container: str = ""  # the ID of its container
    session: int = 0
    graphics: bool = False  # it draws to a screen and does not compute
    rank: int = -1  # the RANK in its environment, which torchrun sets; -1 without this variable


class Sample(NamedTuple):
    """The state of all GPUs of a machine at `time`, in seconds since the epoch."""

    time: float
    readings: tuple[Reading, ...]
    processes: tuple[Process, ...] = ()
    quiet: float | None = None  # seconds without a change of the files of the run; None if unknown


class Note(NamedTuple):
    """An event of a device, or the reason why samples are missing from `time` on."""

    time: float
    text: str
    device: int = -1  # -1 for all devices


def encode(record: Machine | Sample | Note) -> bytes:
    """Return the record as a line with its line break."""
    if isinstance(record, Sample):
        value: dict[str, Any] = {"t": round(record.time, 2), "d": [_short(reading) for reading in record.readings]}
        if record.processes:
            value["p"] = [_short(process) for process in record.processes]
        if record.quiet is not None:
            value["q"] = round(record.quiet, 1)
    elif isinstance(record, Note):
        value = {"t": round(record.time, 2), "note": record.text, "device": record.device}
    else:
        value = {"machine": {**record._asdict(), "devices": [device._asdict() for device in record.devices]}}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Machine | Sample | Note | None:
    """Return the record of a line, or None if the line is incomplete or has another format."""
    try:
        value = parse_json(line)
        if "d" in value:
            readings = tuple(Reading(*reading) for reading in value["d"])
            quiet = None if value.get("q") is None else float(value["q"])
            processes = tuple(Process(*process) for process in value.get("p", ()))
            return Sample(float(value["t"]), readings, processes, quiet)
        if "note" in value:
            return Note(float(value["t"]), str(value["note"]), int(value.get("device", -1)))
        return read_as(Machine, value["machine"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def _short(values: Reading | Process) -> list[Any]:
    """Return the values as a list, without the fields at the end that have their default values."""
    fields: list[Any] = list(values)
    defaults = list(values._field_defaults.values())
    while defaults and fields[-1] == defaults.pop():
        fields.pop()
    return fields


# -- several machines -------------------------------------------------------------------------------------------------

WAIT_SECONDS = 60.0
"""The longest time that samples of a machine wait for samples of others, measured by the times of the samples."""

_TOGETHER = 0.6  # samples of different machines that are fewer seconds apart count as one


class Source:
    """The samples of one machine that are not joined yet."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque()
        self.last = 0.0  # the time of the last sample


def join(sources: Mapping[int, Source], *, is_last: bool) -> Iterator[tuple[Sample, Mapping[int, Sample]]]:
    """Remove samples from the sources, and yield the joined samples, each with its parts by machine number.

    The samples of all machines at about the same time become one sample. Samples of one machine can arrive later than
    those of others. With `is_last`, no more samples will arrive.
    """
    newest = max((source.last for source in sources.values()), default=0.0)
    while True:
        heads = [source.samples[0].time for source in sources.values() if source.samples]
        first = min(heads, default=0.0)
        is_awaited = any(
            not source.samples and newest - max(source.last, first) < WAIT_SECONDS for source in sources.values()
        )
        if not heads or (is_awaited and len(sources) > 1 and not is_last):
            return
        parts = {
            number: source.samples.popleft()
            for number, source in sources.items()
            if source.samples and source.samples[0].time < first + _TOGETHER
        }
        readings = tuple(reading for part in parts.values() for reading in part.readings)
        processes = tuple(process for part in parts.values() for process in part.processes)
        yield Sample(first, readings, processes), parts


def joined_machine(machines: Sequence[Machine]) -> Machine:
    """Join the descriptions of one or more machines: the GPUs of all, and the driver of the first that has GPUs."""
    devices = tuple(device for machine in machines for device in machine.devices)
    first = next((machine for machine in machines if machine.devices), machines[0])
    return first._replace(devices=devices, hides_processes=any(machine.hides_processes for machine in machines))
