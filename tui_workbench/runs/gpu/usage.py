"""What the samples of a run add up to, kept up sample by sample in constant memory.

`gpu.jsonl` in the run's directory is a line a sample, as `targets/gpu/sample.py` writes them, with a word in place of a
process's owner: whose it is as seen from this run. Every few hundred lines stands the sum of all before it, so a day
of samples is read from its last lines. Time that nobody looked at is never counted as either use or rest.
"""

from __future__ import annotations

import contextlib
import json
import os

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.gpu.sample import THROTTLED, Machine, Process, Reading, Sample, encode, machine_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

OWN = "own"
"""Whose a process is: this run's; else the id of another run of ours, or a user's name."""

INTERVAL = 1.0
LONGEST_GAP = 5.0
"""Seconds between two samples beyond which nobody knows what happened between them."""

BUSY_PERCENT = 5.0
"""A device computes from here on: drawing a screen or a stray kernel stays below."""

SUM_EVERY = 300
_TOGETHER = 200
"""Lines that are parsed at once."""

_TAIL = 1 << 20
_SUM_MARK = b'\n{"sum":'
_MOST_NOTES, _MOST_OTHERS = 20, 8
_READING, _USUAL = len(Reading._fields), 6
"""Cells of a device of which everything is told, and of a process that computes."""


class DeviceUse:
    """One device while the run went on. Seconds, MiB, %, joules."""

    __slots__ = (
        "busy", "ecc", "ecc_first", "energy", "first_memory", "gpu_seconds", "held", "histogram", "last_busy",
        "last_held", "others", "own_known", "own_seconds", "peak", "peak_all", "shared", "throttled", "untold",
        "watched", "work",
    )  # fmt: skip

    def __init__(self) -> None:
        self.watched = 0.0  # it was looked at
        self.work = 0.0  # seconds times share of all use, whosoever
        self.first_memory: float | None = None
        self.peak_all: float | None = None
        self.held = 0.0  # a process of the run was on it; what follows is of this time alone
        self.busy = 0.0
        self.untold = 0.0  # the driver told no utilisation
        self.gpu_seconds = 0.0
        self.energy = 0.0
        self.histogram: dict[int, float] = {}
        self.peak: float | None = None
        self.own_seconds = 0.0  # seconds times share of the run's own processes, where that is told
        self.own_known = 0.0
        self.shared = 0.0
        self.others: list[str] = []
        self.throttled = 0.0
        self.ecc_first: int | None = None
        self.ecc: int | None = None
        self.last_busy = 0.0
        self.last_held = 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything; numbers rounded to what they were measured with."""
        values = {name: getattr(self, name) for name in self.__slots__}
        histogram = {str(key): round(seconds, 2) for key, seconds in self.histogram.items()}
        rounded = {name: round(value, 2) if isinstance(value, float) else value for name, value in values.items()}
        return {**rounded, "histogram": histogram}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> DeviceUse:
        """What `to_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        made = cls()
        for name in cls.__slots__:
            setattr(made, name, values[name])
        made.histogram = {int(key): float(seconds) for key, seconds in values["histogram"].items()}
        made.others = [str(each) for each in values["others"]]
        return made

    @property
    def mean_utilization(self) -> float | None:
        """% while the run held it; None when the driver did not tell."""
        told = self.held - self.untold
        return 100 * self.gpu_seconds / told if told > 0 else None

    def quantile(self, share: float) -> float | None:
        """The utilisation, in %, that it stayed at or below for this share of the time."""
        left = share * sum(self.histogram.values())
        for percent in sorted(self.histogram):
            left -= self.histogram[percent]
            if left <= 1e-9:
                return float(percent)
        return None


class Counted(NamedTuple):
    """A process of a sample, as a run sees it."""

    pid: int
    device: int
    memory: float | None
    utilization: float | None
    whose: str
    name: str
    graphics: bool


class Usage:
    """The sum."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.devices: dict[int, DeviceUse] = {}
        self.first = self.last = 0.0
        self.samples = 0
        self.unseen = 0.0
        self.notes: list[tuple[float, str]] = []
        self.facts: dict[str, Any] = {}

    def add(self, time: float, readings: Sequence[Sequence[Any]], processes: Sequence[Sequence[Any]]) -> None:
        """Add a sample: a Reading of each device and a Counted for each process, or rows of the same values.

        A day has 86,400 of them, and what is done here for each is most of what reading it costs.
        """
        passed = time - self.last if self.last else INTERVAL
        if passed > LONGEST_GAP:
            self.unseen += passed - INTERVAL
            passed = INTERVAL
        elif passed < 0.0:
            passed = 0.0
        self.first = self.first or time
        if time > self.last:
            self.last = time
        self.samples += 1
        for reading in readings:
            device = reading[0]
            use = self.devices.get(device)
            if use is None:
                use = self.devices[device] = DeviceUse()
            _add_reading(use, reading, passed)
            if processes:
                there = [process for process in processes if process[1] == device]
                _add_processes(use, reading, there, passed, time)

    def note(self, time: float, text: str) -> None:
        """Add what could not be seen, or what befell a device; a part of many."""
        if len(self.notes) < _MOST_NOTES and (not self.notes or self.notes[-1][1] != text):
            self.notes.append((time, text))

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "machine": json.loads(encode(self.machine))["machine"],
            "devices": {str(number): use.to_json() for number, use in self.devices.items()},
            "first": round(self.first, 2),
            "last": round(self.last, 2),
            "samples": self.samples,
            "unseen": round(self.unseen, 2),
            "notes": self.notes,
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Usage:
        """What `to_json` gave. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        made = cls()
        made.machine = machine_from(values["machine"])
        made.devices = {int(number): DeviceUse.from_json(use) for number, use in values["devices"].items()}
        made.first, made.last = float(values["first"]), float(values["last"])
        made.samples, made.unseen = int(values["samples"]), float(values["unseen"])
        made.notes = [(float(time), str(text)) for time, text in values["notes"]]
        made.facts = dict(values["facts"])
        return made


def _add_reading(use: DeviceUse, reading: Sequence[Any], passed: float) -> None:
    _, utilization, memory, _, _, _, _, _, ecc = reading
    use.watched += passed
    if utilization is not None:
        use.work += passed * utilization / 100
    if memory is not None:
        if use.first_memory is None:
            use.first_memory = memory
        if use.peak_all is None or memory > use.peak_all:
            use.peak_all = memory
    if ecc is not None:
        use.ecc_first = ecc if use.ecc_first is None else use.ecc_first
        use.ecc = ecc


def _add_processes(
    use: DeviceUse, reading: Sequence[Any], processes: Sequence[Sequence[Any]], passed: float, time: float
) -> None:
    own, memory, share = 0, None, None
    for process in processes:
        if process[4] == OWN:
            own += 1
            used, part = process[2], process[3]
            if used is not None:
                memory = used + (memory or 0.0)
            if part is not None:
                share = part + (share or 0.0)
    if not own:
        return
    _, utilization, _, power, _, _, _, throttle, _ = reading
    use.held += passed
    use.last_held = time
    if memory is not None and (use.peak is None or memory > use.peak):
        use.peak = memory
    if power is not None:
        use.energy += passed * power
    if throttle and throttle & THROTTLED:
        use.throttled += passed
    if share is not None:
        use.own_known += passed
        use.own_seconds += passed * min(100.0, share) / 100
    if utilization is None:
        use.untold += passed
    else:
        percent = round(utilization)
        use.histogram[percent] = use.histogram.get(percent, 0.0) + passed
        use.gpu_seconds += passed * utilization / 100
        if (utilization if share is None else share) >= BUSY_PERCENT:
            use.busy += passed
            use.last_busy = time
    if own < len(processes):
        _add_others(use, [Counted(*(*process, False)[:7]) for process in processes], passed)


def _add_others(use: DeviceUse, processes: list[Counted], passed: float) -> None:
    others = [process for process in processes if process.whose != OWN and not process.graphics]
    # One whose share is told and nothing only holds memory.
    if any(other.utilization is None or other.utilization > 0 for other in others):
        use.shared += passed
        for other in others:
            # Of other users' processes a machine may tell nothing but that they are there.
            name = f"{other.name or 'a process'} ({other.whose})" if other.whose else other.name or "somebody"
            if name not in use.others and len(use.others) < _MOST_OTHERS:
                use.others.append(name)


# -- the file --------------------------------------------------------------------------------------------------------


def sample_line(sample: Sample, whose: Iterable[str]) -> bytes:
    """A sample's line in `gpu.jsonl`."""
    shown = (
        process._replace(user=word, run="", container="", session=0)
        for process, word in zip(sample.processes, whose, strict=True)
    )
    return encode(sample._replace(processes=tuple(shown)))


def sum_line(usage: Usage) -> bytes:
    """The line that sums up what stands before it."""
    return b'{"sum":' + json.dumps(usage.to_json(), separators=(",", ":")).encode() + b"}\n"


def facts_line(facts: dict[str, Any]) -> bytes:
    """What was learned of the run's processes, other than from samples."""
    return json.dumps({"facts": facts}, separators=(",", ":")).encode() + b"\n"


def read_usage(path: str, *, whole: bool = False) -> Usage | None:
    """What the file adds up to; None when there is none. Lines that are torn or foreign are passed over.

    With `whole` every sample is added anew instead of taking the last sum in the file.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            tail = b""
            if size > _TAIL and not whole:
                file.seek(size - _TAIL)
                tail = file.read()
                if _SUM_MARK not in tail:
                    tail = b""
            if not tail:
                file.seek(0)
                tail = b"\n" + file.read()
    except OSError:
        return None
    usage = Usage()
    at = -1 if whole else tail.rfind(_SUM_MARK)
    while at >= 0:
        line, _, rest = tail[at + 1 :].partition(b"\n")
        try:
            usage = Usage.from_json(json.loads(line)["sum"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            at = tail.rfind(_SUM_MARK, 0, at)
        else:
            tail = rest
            break
    _add_lines(usage, tail)
    return usage


def _add_lines(usage: Usage, text: bytes) -> None:
    # The last part is no whole line.
    lines = text.split(b"\n")[:-1]
    for first in range(0, len(lines), _TOGETHER):
        some = [line for line in lines[first : first + _TOGETHER] if line and not line.startswith(_SUM_MARK[1:])]
        for value in _parsed(some):
            try:
                _add_value(usage, value)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                continue


def _parsed(lines: list[bytes]) -> list[Any]:
    """The lines as JSON, without those that are none."""
    try:
        # All at once: to begin anew with each line costs four times what parsing it does.
        values: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
        if len(values) == len(lines):
            return values
    except (ValueError, RecursionError):
        pass
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return found


def _add_value(usage: Usage, value: Any) -> None:
    if "d" in value:
        readings, processes = value["d"], value.get("p", ())
        for reading in readings:
            if len(reading) != _READING or not isinstance(reading[0], int):
                readings = [Reading(*each) for each in readings if isinstance(each[0], int)]
                break
        for process in processes:
            if len(process) != _USUAL:
                processes = [counted(Process(*each), "") for each in processes]
                break
        usage.add(float(value["t"]), readings, processes)
    elif "note" in value:
        usage.note(float(value["t"]), str(value["note"]))
    elif "machine" in value:
        usage.machine = machine_from(value["machine"])
    elif "facts" in value:
        usage.facts.update(value["facts"])


def counted(process: Process, whose: str) -> Counted:
    """A process as the run sees it; without a word the one that stands in the place of its user."""
    return Counted(
        process.pid, process.device, process.memory, process.utilization, whose or process.user, process.name,
        process.graphics,
    )  # fmt: skip
