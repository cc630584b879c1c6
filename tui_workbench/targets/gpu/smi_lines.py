"""Parse lines of nvidia-smi, which a script has marked with their kind, into samples.

The functions of mark_lines.sh print these lines, for GPUs of both vendors. Lines of another form (another version or
language, half a line) are skipped and reported once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tui_workbench.targets.gpu.sample import (
    FIRST_NAMESPACE,
    Device,
    Machine,
    Note,
    Owner,
    Process,
    Reading,
    Sample,
    rank_in,
)
from tui_workbench.targets.gpu.vendors import NVIDIA

_TOGETHER = 0.5  # maximum number of seconds from the first line of a list of processes to its last
# Seconds after which a list of processes is too old for a sample. The tools of AMD list processes less often.
_STALE, _STALE_AMD = 2.5, 8.0

DEVICE = ("index", "uuid", "name", "memory.total", "power.limit", "driver_version", "mig.mode.current")
READING = (
    "index", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu", "clocks.current.sm",
    "clocks.current.memory", "clocks_throttle_reasons.active", "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
RUNNING = ("gpu_uuid", "used_memory", "pid")
"""The fields of `--query-gpu` for devices and their readings, and of `--query-compute-apps`."""

THROTTLE, NEW_THROTTLE = "clocks_throttle_reasons.active", "clocks_event_reasons.active"
"""The older and the newer name of a field. A newer nvidia-smi may not know the older name."""

_INDEX, _UUID = DEVICE[:2]

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


class SmiLines:
    """A parser of the marked lines. `wall` returns the time in seconds since the epoch, `steady` a monotonic time."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self.fields = {"m": DEVICE, "g": READING, "p": RUNNING}
        self.tool = NVIDIA.tool  # the program that answers
        self.heard = steady()  # the time of the last reading
        self.is_outdated = False  # nvidia-smi must be called again, without a field that it does not know
        self._wall = wall
        self._steady = steady
        self._index_of: dict[str, int] = {}
        self._owners: dict[int, Owner] = {}
        self._readings: dict[int, Reading] = {}
        self._processes: list[Process] = []
        self._processes_at = 0.0
        self._lost: set[int] = set()
        self._complaint = ""
        self._count = 0

    def drop_unknown(self, lines: list[str], kind: str) -> bool:
        """Remove or rename a field that this nvidia-smi does not know. Return True if a line names such a field."""
        for line in lines:
            unknown = _UNKNOWN_FIELD.search(line)
            if unknown and unknown.group(1) in self.fields[kind]:
                new = NEW_THROTTLE if unknown.group(1) == THROTTLE else ""
                fields = (new if field == unknown.group(1) else field for field in self.fields[kind])
                self.fields[kind] = tuple(filter(None, fields))
                return True
        return False

    def machine(self, lines: list[str]) -> Machine:
        """Parse the first lines and return the machine. Later calls of `take` recognize its devices."""
        devices, driver, message = [], "", ""
        slices = _slices([line[1:] for line in lines if line[:1] == "l"])
        for line in (line[1:] for line in lines if line[:1] == "m"):
            row = self._row("m", line)
            index = _number(row.get(_INDEX, ""))
            if index is None or not row.get(_UUID):
                message = message or ("" if line.endswith("not found") else line.strip())
                continue
            driver = row.get("driver_version", "")
            parts = slices.get(row[_UUID], ())
            if row.get("mig.mode.current") == "Enabled":
                parts = parts or ("MIG",)
            memory, limit = _number(row.get("memory.total", "")), _number(row.get("power.limit", ""))
            devices.append(Device(int(index), row[_UUID], row.get("name", "GPU"), memory, limit, parts))
        header = {line[:1]: line[1:] for line in lines if line[:1] in ("c", "n", "s")}
        self.tool = header.get("s", self.tool)
        problem = "" if devices else message or f"{self.tool} not found"
        hides = header.get("n", "") not in ("", FIRST_NAMESPACE)
        self._count = len(devices)
        self._index_of = {device.uuid: device.number for device in devices}
        self._index_of |= {part: device.number for device in devices for part in device.slices}
        self.heard = self._steady()
        return Machine(tuple(devices), driver, header.get("c", ""), self.tool, problem, hides)

    def _row(self, kind: str, text: str) -> dict[str, str]:
        cells = [cell.strip() for cell in text.split(",")]
        fields = self.fields[kind]
        return dict(zip(fields, cells, strict=True)) if len(cells) == len(fields) else {}

    def take(self, line: str) -> list[Sample | Note]:
        """Return the records that a line completes."""
        kind, text = line[:1], line[1:]
        if kind == "g":
            return self._take_reading(text)
        if kind == "p":
            self._take_process(text)
        elif kind == "o":
            self._take_owner(text)
        elif kind == "e" and self.drop_unknown([text], "p"):
            self.is_outdated = True
        elif kind == "x":
            return self.complain(f"{self.tool} ended")
        return []

    def _take_reading(self, text: str) -> list[Sample | Note]:
        row = self._row("g", text)
        index = _number(row.get(_INDEX, ""))
        if index is None:
            if self.drop_unknown([text], "g"):
                self.is_outdated = True
                return []
            return self.complain(text.strip()) if text.strip() else []
        records: list[Sample | Note] = []
        if int(index) in self._readings:
            records.append(self._sample())
        self.heard, self._complaint = self._steady(), ""
        row.setdefault(THROTTLE, row.get(NEW_THROTTLE, ""))
        values = [_number(row.get(field, "")) for field in READING[1:]]
        values[6:] = [None if value is None else int(value) for value in values[6:]]
        if any(value is not None for value in values[:4]):
            self._readings[int(index)] = Reading(int(index), *values)  # type: ignore[arg-type]
            self._lost.discard(int(index))
        elif int(index) not in self._lost:
            self._lost.add(int(index))
            records.append(Note(self._wall(), f"GPU {index:.0f} stopped responding: {text.strip()}", int(index)))
        if len(self._readings) >= self._count - len(self._lost):
            records.append(self._sample())
        return records

    def _take_process(self, text: str) -> None:
        row = self._row("p", text)
        pid = _number(row.get("pid", ""))
        if pid is None:
            return
        now = self._steady()
        if now - self._processes_at > _TOGETHER:
            self._processes, self._processes_at = [], now
        index = self._index_of.get(row.get("gpu_uuid", ""), -1)
        owner = self._owners.get(int(pid), Owner())
        memory = _number(row.get("used_memory", ""))
        self._processes.append(Process(int(pid), index, memory, **owner._asdict()))

    def _take_owner(self, text: str) -> None:
        cells = text.split("\t")
        if len(cells) == 6:
            cells.append("")  # a job that an older version of the workbench has submitted prints no rank
        if len(cells) == 7 and cells[0].isdigit():
            session = int(cells[5]) if cells[5].isdigit() else 0
            user, name, run, container = cells[1:5]
            self._owners[int(cells[0])] = Owner(user, name, run, container, session, rank_in(cells[6]))

    def _sample(self) -> Sample:
        readings = tuple(self._readings[index] for index in sorted(self._readings))
        self._readings = {}
        oldest = _STALE if self.tool == NVIDIA.tool else _STALE_AMD
        fresh = self._steady() - self._processes_at < oldest
        return Sample(self._wall(), readings, tuple(self._processes) if fresh else ())

    def complain(self, text: str) -> list[Sample | Note]:
        """Return a note, unless another note was returned since the last reading."""
        if self._complaint:
            return []
        self._complaint = text
        return [Note(self._wall(), text)]


def _slices(lines: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the IDs of MIG slices by the ID of their device, from the output of `nvidia-smi -L`."""
    slices: dict[str, tuple[str, ...]] = {}
    device = ""
    for line in lines:
        match = re.search(r"UUID: ([^)\s]+)\)", line)
        if match and line.startswith("GPU "):
            device = match.group(1)
        elif match and device:
            slices[device] = (*slices.get(device, ()), match.group(1))
    return slices


def _number(text: str) -> float | None:
    """Parse a number of nvidia-smi; None for `[N/A]`, `[Not Supported]` and other text."""
    text = text.strip()
    try:
        return float(int(text, 16)) if text[:2] in ("0x", "0X") else float(text)
    except ValueError:
        return None
