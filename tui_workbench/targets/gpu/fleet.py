"""The GPUs of many machines at once, as they are now and as they were in the last half hour.

The invariant: targets on the same machine with the same login are one machine, which is listened to once; a machine
that cannot be seen says why, and the others are shown all the same.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.gpu.gpus import machine_key
from tui_workbench.targets.gpu.sample import Device, Machine, Note, Reading, Sample

CELL_SECONDS = 2.0
"""What one value of a course covers: a curve that moves every other second is one that a slow line can carry."""

MOST_CELLS = 1024
PAST_BYTES = 1 << 19
"""Of what was told before somebody came: minutes of eight GPUs."""

STALE_SECONDS = 5.0
"""A machine that has told nothing for so long counts as silent."""

MOST_NOTES = 4


class Course:
    """What one GPU did, a value every `CELL_SECONDS`: means, and no number where nobody looked.

    `utilization` and `memory` in %, `power` in W.
    """

    __slots__ = ("_count", "memory", "newest", "power", "utilization")

    def __init__(self) -> None:
        self.utilization = array("f")
        self.memory = array("f")
        self.power = array("f")
        self.newest = 0  # the number of the last cell, counted from the epoch
        self._count = 0

    def add(self, moment: float, reading: Reading, device: Device) -> None:
        """Add what was read at a moment (seconds since the epoch)."""
        cell = int(moment // CELL_SECONDS)
        passed = cell - self.newest
        if passed > 0:
            missing = min(passed - 1, MOST_CELLS) if self.newest else 0
            for values in (self.utilization, self.memory, self.power):
                values.extend([nan] * (missing + 1))
                if len(values) > 2 * MOST_CELLS:
                    del values[:-MOST_CELLS]
            self.newest, self._count = cell, 0
        self._count += 1
        share = 100 * reading.memory / device.memory if reading.memory is not None and device.memory else None
        told = (reading.utilization, share, reading.power)
        for values, value in zip((self.utilization, self.memory, self.power), told, strict=True):
            if value is not None:
                before = values[-1]
                values[-1] = value if isnan(before) else before + (value - before) / self._count

    def last(self, values: array[float], cells: int, newest: int) -> Sequence[float]:
        """The last so many of some values of this course, up to the cell `newest`; no numbers where it has none."""
        behind = max(0, min(cells, newest - self.newest))
        found = values[max(0, len(values) - (cells - behind)) :] if cells > behind else array("f")
        return [nan] * (cells - behind - len(found)) + list(found) + [nan] * behind


class MachineState(NamedTuple):
    """One machine. `problem` says why nothing is to be seen of it, and `remedy` what to do; both empty else."""

    key: str
    targets: tuple[str, ...]  # their names
    address: str = ""  # empty for this machine
    machine: Machine | None = None  # None until it has answered
    sample: Sample | None = None
    courses: Mapping[int, Course] = {}  # by the device's number
    notes: tuple[Note, ...] = ()  # what befell its devices, the newest last
    problem: str = ""
    remedy: str = ""
    silent: float = 0.0  # seconds for which it has told nothing, once that is long

    @property
    def newest(self) -> int:
        """The number of the last cell of its courses."""
        return max((course.newest for course in self.courses.values()), default=0)


class Fleet(contextlib.AbstractContextManager["Fleet"]):
    """Listens to the machines of some targets. Everything blocks for as long as reading a few files takes."""

    def __init__(self, targets: Iterable[ComputeTarget] = ()) -> None:
        self._listeners: dict[str, _Listener] = {}
        self.follow(targets)

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, targets: Iterable[ComputeTarget]) -> None:
        """Listen to these targets' machines from now on, and to no others."""
        wanted: dict[str, list[ComputeTarget]] = {}
        for target in targets:
            if target.problem is not None or target.kind.has_gpus:
                wanted.setdefault(_key_of(target), []).append(target)
        before, self._listeners = self._listeners, {}
        for key, group in wanted.items():
            listener = before.pop(key, None)
            if listener is not None and listener.login != _login(group[0]):
                listener.close()
                listener = None
            if listener is None:
                listener = _Listener(key, group[0])
            listener.name(tuple(target.name for target in group))
            self._listeners[key] = listener
        for listener in before.values():
            listener.close()

    def read(self) -> bool:
        """Take in what was told since the last call; True when anything was, or when silence has grown."""
        # A list, because each of them is to be read.
        return any(list(self.read_each()))

    def read_each(self) -> Iterator[bool]:
        """The same, a machine at a time."""
        for listener in list(self._listeners.values()):
            yield listener.read()

    def retry(self, key: str) -> None:
        """Listen anew to a machine that could not be seen."""
        if listener := self._listeners.get(key):
            listener.close()

    @property
    def states(self) -> tuple[MachineState, ...]:
        """Every machine, in the order of its first target."""
        return tuple(listener.state for listener in self._listeners.values())

    def close(self) -> None:
        """Listen no more."""
        for listener in self._listeners.values():
            listener.close()


class _Listener:
    """Listens to one machine; its state is the same object until there is news."""

    def __init__(self, key: str, target: ComputeTarget) -> None:
        self.login = _login(target)
        self.state = MachineState(key, (target.name,), _address(target) if target.kind.is_remote else "")
        self._target = target
        self._feed: Feed | None = None
        self._is_open = False

    def name(self, targets: tuple[str, ...]) -> None:
        """Set the names of the machine's targets."""
        if self.state.targets != targets:
            self.state = self.state._replace(targets=targets)

    def close(self) -> None:
        """Listen no more, and forget."""
        self._close_feed()
        self._is_open = False
        self.state = MachineState(*self.state[:3])

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def read(self) -> bool:
        """Take in what was told; True when anything was, or when silence has grown."""
        try:
            if not self._is_open:
                self._is_open = True
                problem = self._target.problem
                if problem is not None:
                    self.state = self.state._replace(problem=problem.message, remedy=problem.remedy)
                else:
                    self._feed = Feed(self._target, PAST_BYTES)
                return True
            if self._feed is None:
                return False
            told = self._feed.read()
            for thing in told:
                self._take(thing)
            return bool(told) or self._listen_to_silence()
        except WorkbenchError as error:
            self._close_feed()
            self.state = self.state._replace(problem=error.message, remedy=error.remedy)
            return True

    def _listen_to_silence(self) -> bool:
        """True when it tells nothing, and that has lasted a second longer than when it was last said."""
        if self.state.sample is None:
            return False
        silent = time.time() - self.state.sample.time
        if silent < STALE_SECONDS or int(silent) == int(self.state.silent):
            return False
        self.state = self.state._replace(silent=silent)
        return True

    def _take(self, thing: Machine | Sample | Note) -> None:
        state = self.state
        if isinstance(thing, Machine):
            self.state = state._replace(machine=thing, problem=thing.problem)
        elif isinstance(thing, Sample):
            courses = self._courses_with(thing)
            self.state = state._replace(sample=thing, courses=courses, silent=0.0, problem="")
        elif thing.device < 0:
            self.state = state._replace(problem=thing.text)
        else:
            self.state = state._replace(notes=(*state.notes, thing)[-MOST_NOTES:])

    def _courses_with(self, sample: Sample) -> Mapping[int, Course]:
        machine, courses = self.state.machine, self.state.courses
        devices = {device.number: device for device in machine.devices} if machine else {}
        for reading in sample.readings:
            if reading.device in devices:
                # A copy of the mapping: courses of new devices come while somebody draws.
                courses = courses if reading.device in courses else {**courses, reading.device: Course()}
                courses[reading.device].add(sample.time, reading, devices[reading.device])
        return courses


def _key_of(target: ComputeTarget) -> str:
    """The machine's key; a broken file may be any machine's, and stands for itself."""
    return f"file {target.path}" if target.problem is not None else machine_key(target)


def _login(target: ComputeTarget) -> ComputeTarget:
    """What of a target its machine is reached by: a change of something else is no reason to listen anew."""
    return target._replace(name="", path="", values={}, base_docker_image="", gpus="")


def _address(target: ComputeTarget) -> str:
    return f"{target.username}@{target.address}" if target.username else target.address
