"""What the GPUs of a run did over time, read from `gpu.jsonl` from where the last reading stopped.

The invariant: a line that is torn, foreign or of a later version is passed over, and what is not told is no number.
"""

from __future__ import annotations

import json
import os
from array import array
from math import nan

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.gpu.usage import OWN
from tui_workbench.runs.rundir import GPU_SAMPLES
from tui_workbench.targets.gpu.sample import Machine, machine_from

if TYPE_CHECKING:
    from typing import Any

MOST_POINTS = 1_000_000
"""Of all devices together; what is beyond is counted. Eleven days of one GPU."""


class DeviceCourse:
    """One device, a value a sample in each array: seconds since the epoch, %, MiB and W."""

    __slots__ = ("memory", "own_memory", "power", "times", "utilization")

    def __init__(self) -> None:
        self.times = array("d")
        self.utilization = array("d")
        self.memory = array("d")
        self.own_memory = array("d")  # of the run's own processes; 0 where it has none there
        self.power = array("d")


class GpuCourses:
    """The devices of the run at a directory, by number. `refresh` blocks; the rest does not."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, GPU_SAMPLES)
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._rest = b""
        self.machine = Machine()
        self.devices: dict[int, DeviceCourse] = {}
        self.left_out = 0

    @property
    def points(self) -> int:
        """How many values there are of each kind, of all devices."""
        return sum(len(course.times) for course in self.devices.values())

    def refresh(self) -> bool:
        """Read what is new; True when there was anything."""
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._begin()  # it is another file than before
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        return bool(lines)

    def _take(self, line: bytes) -> None:
        if line.startswith(b'{"sum"'):
            return
        try:
            value = json.loads(line)
            if "d" in value:
                self._add(value)
            elif "machine" in value:
                self.machine = machine_from(value["machine"])
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return

    def _add(self, value: dict[str, Any]) -> None:
        moment = float(value["t"])
        own: dict[int, float] = {}
        for process in value.get("p", ()):
            if len(process) > 4 and process[4] == OWN:
                own[process[1]] = own.get(process[1], 0.0) + (process[2] or 0.0)
        for reading in value["d"]:
            number, utilization, memory, power = (*reading[:4], None, None, None)[:4]
            if self.points >= MOST_POINTS:
                self.left_out += 1
                continue
            told = [nan if each is None else float(each) for each in (utilization, memory, power)]
            course = self.devices.setdefault(int(number), DeviceCourse())
            course.times.append(moment)
            course.utilization.append(told[0])
            course.memory.append(told[1])
            course.power.append(told[2])
            course.own_memory.append(own.get(number, 0.0))
