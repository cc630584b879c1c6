"""Totals of the GPU samples of a run, updated with each sample in constant memory.

`gpu.jsonl` in the run directory has one line for each sample, in the format of `targets/gpu/sample.py`. The `user` of a
process of the run is OWN. After every SUM_EVERY samples, a line contains the totals so far, so that only the end of a
long file must be read. Time without samples is neither use nor idle time. Before the samples of each attempt after the
first, a line contains the number of the attempt. `GpuCurves` reads only the lines that are new since its last refresh.
"""

from __future__ import annotations

import contextlib
import json
import os
from array import array
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, BinaryIO, NamedTuple

from tui_workbench.core.files import LARGEST, open_regular, read_end
from tui_workbench.core.holes import lines as lines_of
from tui_workbench.core.json_values import parse_json, read_as
from tui_workbench.runs.gpu.stall import Progress
from tui_workbench.runs.metrics.tail import Tail
from tui_workbench.runs.store.rundir import GPU_SAMPLES
from tui_workbench.targets.gpu.sample import (
    BY_HEAT,
    BY_POWER,
    THROTTLED,
    Machine,
    Note,
    Process,
    Reading,
    Sample,
    decode,
    encode,
)

OWN = "own"  # the owner of processes of the run; other processes have a run ID or a user name
INTERVAL = 1.0
LONGEST_GAP = 5.0  # a longer time between two samples, in seconds, counts as not observed
LONGEST_PAUSE = 30.0  # longest time in seconds for which a GPU waits between two phases of work; it is idle if longer
BUSY_PERCENT = 5.0  # minimum utilization of a computing GPU; a GPU that only draws a screen has less
LONGEST_START = 3.0  # seconds for which a process that loads CUDA and its first data may use a part of the GPU
SUM_EVERY = 300  # samples between two lines of totals
_TAIL = 1 << 20
_SUM_MARK, _ATTEMPT_MARK, _MACHINE_MARK = b'{"sum":', b'{"attempt":', b'{"machine":'
_MOST_NOTES, _MOST_OTHERS = 20, 8
# Maximum number of sample lines to read after the last totals. The workbench writes totals more often.
_MOST_LINES = 100_000
# Errors that invalid values in the file may raise.
UNSOUND = (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError)


class DeviceUse:
    """Totals of one device during the run, in seconds, MiB, % and joules."""

    def __init__(self) -> None:
        self.watched = 0.0  # seconds with samples
        self.work = 0.0  # seconds times utilization, by all processes
        self.first_memory: float | None = None
        self.peak_all: float | None = None
        # Seconds with a process of the run on the device. The values below, except `ecc`, cover only this time.
        self.held = 0.0
        self.busy = 0.0
        self.untold = 0.0  # seconds in which the driver did not report the utilization
        self.gpu_seconds = 0.0
        self.energy = 0.0
        self.histogram: dict[int, float] = {}  # seconds by utilization
        self.peak: float | None = None
        self.own_seconds = 0.0  # seconds times the share of the run's processes, if reported
        self.own_known = 0.0
        self.shared = 0.0
        self.others: list[str] = []
        self.throttled = 0.0
        self.by_power = 0.0  # seconds with clocks reduced because of limited power
        self.by_heat = 0.0
        self.peak_held: float | None = None  # peak memory in use by all processes
        self.pause = 0.0  # seconds since it last computed
        self.pauses = 0  # number of times it waited between two phases of work
        self.paused = 0.0  # seconds of these pauses
        self.ecc_first: int | None = None
        self.ecc: int | None = None
        self.ranks: list[int] = []  # of processes of the run

    def to_json(self) -> dict[str, Any]:
        values = {name: round(value, 2) if isinstance(value, float) else value for name, value in vars(self).items()}
        return {**values, "histogram": {str(key): round(seconds, 2) for key, seconds in self.histogram.items()}}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> DeviceUse:
        """Read the output of `to_json`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        use = cls()
        # Files of earlier versions lack some of the totals.
        vars(use).update({name: values[name] for name in vars(use) if name in values})
        use.histogram = {int(key): float(seconds) for key, seconds in values["histogram"].items()}
        use.others = [str(name) for name in values["others"]]
        use.ranks = [int(rank) for rank in values.get("ranks", ())]
        return use

    @property
    def mean_utilization(self) -> float | None:
        """Mean utilization in % while the run held memory of the device; None if the driver did not report it."""
        reported = self.held - self.untold
        return 100 * self.gpu_seconds / reported if reported > 0 else None

    @property
    def idle_percent(self) -> float | None:
        """Percentage of `held` in which the device did not compute; None if the utilization was not reported."""
        reported = self.held - self.untold
        return max(0.0, 100 * (1 - self.busy / reported)) if reported > 0 else None

    @property
    def has_computed(self) -> bool:
        """True if the device computed while the run held its memory. The mean utilization also shows short bursts."""
        is_busy = self.busy >= max(LONGEST_START, self.held * BUSY_PERCENT / 100)
        return is_busy or (self.mean_utilization or 0.0) >= BUSY_PERCENT

    def quantile(self, share: float) -> float | None:
        """Return the utilization in % at a quantile of the time (`share` from 0 to 1), or None without samples."""
        left = share * sum(self.histogram.values())
        for percent in sorted(self.histogram):
            left -= self.histogram[percent]
            if left <= 1e-9:
                return float(percent)
        return None

    def add(self, reading: Reading, processes: Sequence[Process], passed: float) -> None:
        """Add a sample of the device and its processes, which represents `passed` seconds."""
        self.watched += passed
        if reading.utilization is not None:
            self.work += passed * reading.utilization / 100
        if reading.memory is not None:
            self.first_memory = reading.memory if self.first_memory is None else self.first_memory
            self.peak_all = max(reading.memory, self.peak_all or 0.0)
        if reading.ecc is not None:
            self.ecc_first = reading.ecc if self.ecc_first is None else self.ecc_first
            self.ecc = reading.ecc
        own = [process for process in processes if process.user == OWN]
        if own:
            self._add_own(reading, own, passed)
            self._add_others([process for process in processes if process.user != OWN], passed)

    def _add_own(self, reading: Reading, own: Sequence[Process], passed: float) -> None:
        self.held += passed
        for rank in sorted({process.rank for process in own} - {-1, *self.ranks}):
            if len(self.ranks) < _MOST_OTHERS:
                self.ranks.append(rank)
        memory = [process.memory for process in own if process.memory is not None]
        if memory:
            self.peak = max(sum(memory), self.peak or 0.0)
        if reading.power is not None:
            self.energy += passed * reading.power
        if reading.throttle and reading.throttle & THROTTLED:
            self.throttled += passed
        self.by_power += passed if (reading.throttle or 0) & BY_POWER else 0.0
        self.by_heat += passed if (reading.throttle or 0) & BY_HEAT else 0.0
        if reading.memory is not None:
            self.peak_held = max(reading.memory, self.peak_held or 0.0)
        shares = [process.utilization for process in own if process.utilization is not None]
        if shares:
            self.own_known += passed
            self.own_seconds += passed * min(100.0, sum(shares)) / 100
        if reading.utilization is None:
            self.untold += passed
            return
        percent = round(reading.utilization)
        self.histogram[percent] = self.histogram.get(percent, 0.0) + passed
        self.gpu_seconds += passed * reading.utilization / 100
        is_busy = (sum(shares) if shares else reading.utilization) >= BUSY_PERCENT
        self.busy += passed if is_busy else 0.0
        self._add_pause(passed, is_busy=is_busy)

    def _add_pause(self, passed: float, *, is_busy: bool) -> None:
        if not is_busy:
            self.pause += passed
            return
        if 0 < self.pause <= LONGEST_PAUSE and self.busy > passed:
            self.pauses += 1
            self.paused += self.pause
        self.pause = 0.0

    def _add_others(self, processes: Sequence[Process], passed: float) -> None:
        others = [process for process in processes if not process.graphics]
        # A process with a reported utilization of 0 only holds memory.
        if all(other.utilization == 0 for other in others):
            return
        self.shared += passed
        for other in others:
            # A machine may report only the IDs of other users' processes.
            name = f"{other.name or 'a process'} ({other.user})" if other.user else other.name or "unknown process"
            if name not in self.others and len(self.others) < _MOST_OTHERS:
                self.others.append(name)


class Usage:
    """The totals of all devices of a run. `facts` describes the processes of the run; see `targets.gpu.activity`."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.devices: dict[int, DeviceUse] = {}
        self.first = 0.0
        self.last = 0.0  # the latest time of a sample
        self._previous = 0.0  # the time of the last sample
        self.samples = 0
        self.unseen = 0.0
        self.notes: list[tuple[float, str]] = []
        self.facts: dict[str, Any] = {}
        self.progress = Progress()
        self.gives_all = False  # True if the run was given all of these devices
        self.attempt = 1
        self.of_attempt: Usage | None = None  # the totals of the current attempt alone, if it is not the first

    def continues_at(self, time: float) -> bool:
        """Return True if there is no gap between the last sample of this attempt and a sample at `time`."""
        return bool(self._previous) and 0 <= time - self._previous <= LONGEST_GAP

    def begin_attempt(self, number: int) -> None:
        """Begin another attempt. The time since the last sample does not count."""
        self.attempt, self._previous = number, 0.0
        self.progress.begin_attempt()
        self.of_attempt = Usage()

    def add(self, sample: Sample) -> None:
        """Add a sample in which the run's processes have the user OWN."""
        # If the clock was set back, the time since the previous sample is not known.
        passed = max(0.0, sample.time - self._previous) if self._previous else INTERVAL
        if passed > LONGEST_GAP:
            self.unseen += passed - INTERVAL
            passed = INTERVAL
        self.first = self.first or sample.time
        self.last, self._previous = max(self.last, sample.time), sample.time
        self.samples += 1
        for reading in sample.readings:
            processes = [process for process in sample.processes if process.device == reading.device]
            self.devices.setdefault(reading.device, DeviceUse()).add(reading, processes, passed)
        self._add_progress(sample, passed)
        if self.of_attempt is not None:
            self.of_attempt.machine = self.machine
            self.of_attempt.add(sample)

    def _add_progress(self, sample: Sample, passed: float) -> None:
        held = {process.device for process in sample.processes if process.user == OWN}
        if self.machine.hides_processes:
            # The owners of processes are not visible, so GPU use by any process counts.
            held = {reading.device for reading in sample.readings if (reading.utilization or 0.0) >= BUSY_PERCENT}
            held |= {process.device for process in sample.processes}
        readings = [reading for reading in sample.readings if reading.device in held]
        loads = [reading.utilization for reading in readings if reading.utilization is not None]
        self.progress.add(sample.quiet, passed, max(loads, default=None), is_held=bool(held))

    def note(self, time: float, text: str) -> None:
        """Add a note. A repetition of the last note, and notes beyond a maximum, are ignored."""
        if len(self.notes) < _MOST_NOTES and (not self.notes or self.notes[-1][1] != text):
            self.notes.append((time, text))
        if self.of_attempt is not None:
            self.of_attempt.note(time, text)

    def add_facts(self, facts: Mapping[str, Any]) -> None:
        """Add facts about the run's processes on one machine. Once `cuda` is True, it stays True."""
        has_cuda = self.facts.get("cuda") is True
        self.facts.update(facts)
        if has_cuda:
            self.facts["cuda"] = True

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": parse_json(encode(self.machine))["machine"],
            "devices": {str(number): use.to_json() for number, use in self.devices.items()},
            "first": round(self.first, 2),
            "last": round(self.last, 2),
            "samples": self.samples,
            "unseen": round(self.unseen, 2),
            "notes": self.notes,
            "facts": self.facts,
            "progress": self.progress.to_json(),
            "gives_all": self.gives_all,
            "attempt": self.attempt,
            **({"of_attempt": self.of_attempt.to_json()} if self.of_attempt is not None else {}),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Usage:
        """Read the output of `to_json`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        usage = cls()
        usage.machine = read_as(Machine, values["machine"])
        usage.devices = {int(number): DeviceUse.from_json(use) for number, use in values["devices"].items()}
        usage.first, usage.last, usage.unseen = (float(values[name]) for name in ("first", "last", "unseen"))
        usage._previous = usage.last
        usage.samples = int(values["samples"])
        usage.notes = [(float(time), str(text)) for time, text in values["notes"]]
        usage.facts = dict(values["facts"])
        if "progress" in values:
            usage.progress = Progress.from_json(values["progress"])
        usage.gives_all = bool(values.get("gives_all"))
        usage.attempt = int(values.get("attempt", 1))
        if "of_attempt" in values:
            usage.of_attempt = cls.from_json(values["of_attempt"])
        return usage

    def add_line(self, line: bytes) -> None:
        """Add a line of `gpu.jsonl`; skip an invalid line."""
        with contextlib.suppress(*UNSOUND):
            if line.startswith(b'{"facts":'):
                self.add_facts(parse_json(line)["facts"])
                return
            if line.startswith(_ATTEMPT_MARK):
                self.begin_attempt(int(parse_json(line)["attempt"]))
                return
            record = sample_in(line)
            if isinstance(record, Sample):
                self.add(record)
            elif isinstance(record, Note):
                self.note(record.time, record.text)
            elif record is not None:
                self.machine = record


def sum_line(usage: Usage) -> bytes:
    """Return the line of `gpu.jsonl` with the totals so far."""
    return json.dumps({"sum": usage.to_json()}, separators=(",", ":")).encode() + b"\n"


def facts_line(facts: dict[str, Any]) -> bytes:
    """Return the line of `gpu.jsonl` with facts about the run's processes."""
    return json.dumps({"facts": facts}, separators=(",", ":")).encode() + b"\n"


def attempt_line(number: int) -> bytes:
    """Return the line of `gpu.jsonl` before the samples of another attempt."""
    return json.dumps({"attempt": number}, separators=(",", ":")).encode() + b"\n"


def sample_in(line: bytes) -> Machine | Sample | Note | None:
    """Return the record in a line of `gpu.jsonl`, or None for a line of another kind and for an invalid line."""
    record = None if line.startswith((_SUM_MARK, _ATTEMPT_MARK)) else decode(line)
    if isinstance(record, Sample):
        return record._replace(
            readings=tuple(reading for reading in record.readings if isinstance(reading.device, int))
        )
    return record


def read_usage(path: str) -> Usage | None:
    """Return the totals of the samples in a file, or None if the file is unreadable. Invalid lines are skipped."""
    try:
        lines = read_end(path, _TAIL).split(b"\n")[:-1]
        if not any(line.startswith(_SUM_MARK) for line in lines):
            # A file without totals is short, or another program wrote it.
            with open_regular(path) as file:
                lines = file.read(LARGEST).split(b"\n")[:-1]
    except OSError:
        return None
    lines = [line for line in lines if line]  # a malicious file may have millions of blank lines
    usage, first = Usage(), 0
    for number in range(len(lines), 0, -1):
        line = lines[number - 1]
        if line.startswith(_SUM_MARK):
            with contextlib.suppress(*UNSOUND):
                usage, first = Usage.from_json(parse_json(line)["sum"]), number
                break
    for line in lines[first : first + _MOST_LINES]:
        usage.add_line(line)
    return usage


def read_attempt(path: str, number: int) -> Usage | None:
    """Return the totals of the samples of one attempt, or None without samples or if the file is unreadable."""
    try:
        with open_regular(path) as file:
            usage = _seek_attempt(file, number)
            for line in lines_of(file, LARGEST):
                if line.startswith(_ATTEMPT_MARK) and _attempt_in(line) not in (0, number):
                    break
                usage.add_line(line)
    except OSError:
        return None
    attempt = usage if number == 1 else usage.of_attempt
    if attempt is None or not attempt.samples:
        return None
    attempt.machine, attempt.gives_all, attempt.facts = usage.machine, usage.gives_all, usage.facts
    attempt.attempt = number
    return attempt


def _seek_attempt(file: BinaryIO, number: int) -> Usage:
    """Move to the line after the last totals of an attempt, and return these totals.

    Without totals, move to the first line of the attempt. If the file does not contain the attempt, move to the end of
    the file. Samples are not decoded here.
    """
    usage, totals, current, first, after = Usage(), b"", 1, 0, 0
    for line in lines_of(file, LARGEST):
        if line.startswith(_SUM_MARK):
            totals, after = line, file.tell()
        elif line.startswith(_MACHINE_MARK):
            usage.add_line(line)
        elif line.startswith(_ATTEMPT_MARK) and (following := _attempt_in(line)) > current:
            if following > number:
                break
            current, totals, first = following, b"", file.tell() - len(line)
    if current != number:
        file.seek(0, os.SEEK_END)
        return usage
    with contextlib.suppress(*UNSOUND):
        stored = Usage.from_json(parse_json(totals)["sum"])
        if stored.samples and (number == 1 or stored.of_attempt is not None):
            file.seek(after)
            return stored
    file.seek(first)
    return usage


def _attempt_in(line: bytes) -> int:
    """Return the number in a mark of an attempt, or 0 for an invalid line."""
    try:
        return int(parse_json(line)["attempt"])
    except UNSOUND:
        return 0


def own_processes(directory: str) -> frozenset[int]:
    """Return the IDs of the run's processes in the last GPU sample of the run at `directory`. This blocks."""
    try:
        lines = read_end(os.path.join(directory, GPU_SAMPLES), 1 << 16).split(b"\n")[:-1]
    except OSError:
        return frozenset()
    samples = (record for line in reversed(lines) if isinstance(record := sample_in(line), Sample))
    last = next(samples, Sample(0.0, ()))
    return frozenset(process.pid for process in last.processes if process.user == OWN)


# Maximum number of points of all devices, which is enough for 11 days of one GPU. Further points are only counted.
MOST_POINTS = 1_000_000


class DeviceCurves(NamedTuple):
    """The samples of one device: seconds since the epoch, %, MiB and W."""

    times: array[float]
    utilization: array[float]
    memory: array[float]
    power: array[float]
    own_memory: array[float]  # of processes of the run


class GpuCurves:
    """The curves of the devices of the run in `directory`, by device number. Only `refresh` blocks."""

    def __init__(self, directory: str) -> None:
        self._tail = Tail(os.path.join(directory, GPU_SAMPLES))
        self._begin()

    def _begin(self) -> None:
        self.machine = Machine()
        self.devices: dict[int, DeviceCurves] = {}
        self.left_out = 0

    @property
    def points(self) -> int:
        return sum(len(curves.times) for curves in self.devices.values())

    def refresh(self) -> bool:
        """Read new lines. Return True if there were any."""
        has_new_lines = False
        for block in self._tail.blocks():
            if self._tail.restarted and not has_new_lines:
                self._begin()
            has_new_lines = True
            for line in block.splitlines():
                record = sample_in(line)
                if isinstance(record, Machine):
                    self.machine = record
                elif isinstance(record, Sample):
                    with contextlib.suppress(TypeError, ValueError, OverflowError):  # invalid values
                        self._add(record)
        return has_new_lines

    def _add(self, sample: Sample) -> None:
        for reading in sample.readings:
            if self.points >= MOST_POINTS:
                self.left_out += 1
                continue
            own = (process for process in sample.processes if (process.device, process.user) == (reading.device, OWN))
            memory = sum(process.memory or 0.0 for process in own)
            point = (sample.time, reading.utilization, reading.memory, reading.power, memory)
            values = [nan if value is None else float(value) for value in point]
            curves = self.devices.setdefault(reading.device, DeviceCurves(*(array("d") for _ in DeviceCurves._fields)))
            for column, value in zip(curves, values, strict=True):
                column.append(value)
