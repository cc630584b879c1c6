"""The GPUs of many machines: their current state, and their values in the last half hour.

Targets on the same machine with the same login share one feed. A machine that cannot be read has a `problem`; the
others are not affected. The fleet does not connect to machines that the user has not contacted.
"""

from __future__ import annotations

import contextlib
import os
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
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.reservations.watching import ReservationWatch, Reserved

CELL_SECONDS = 2.0  # seconds that each value of a curve covers; long enough to redraw it over a slow connection
MOST_CELLS = 1024
PAST_BYTES = 1 << 19  # bytes of the existing samples file to read at first; some minutes of eight GPUs
STALE_SECONDS = 5.0  # seconds without a sample after which a machine counts as silent
MOST_NOTES = 4


class RecentCurves:
    """Means of one GPU over intervals (cells) of `CELL_SECONDS`; NaN if unknown.

    `utilization` and `memory` are in %, `power` is in W.
    """

    __slots__ = ("_count", "memory", "newest", "power", "utilization")

    def __init__(self) -> None:
        self.utilization = array("f")
        self.memory = array("f")
        self.power = array("f")
        self.newest = 0  # the number of the last cell, counted from the epoch
        self._count = 0

    def add(self, moment: float, reading: Reading, device: Device) -> None:
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
        new = (reading.utilization, share, reading.power)
        for values, value in zip((self.utilization, self.memory, self.power), new, strict=True):
            if value is not None:
                before = values[-1]
                values[-1] = value if isnan(before) else before + (value - before) / self._count

    def last(self, values: array[float], cells: int, newest: int) -> Sequence[float]:
        """Return the last `cells` of `values`, ending at the cell `newest`; NaN for cells without a value."""
        behind = max(0, min(cells, newest - self.newest))
        recent = values[max(0, len(values) - (cells - behind)) :] if cells > behind else array("f")
        return [nan] * (cells - behind - len(recent)) + list(recent) + [nan] * behind


class MachineState(NamedTuple):
    """The state of a machine. `problem` is the reason why it cannot be read, or "". `remedy` is the fix, or ""."""

    key: str
    targets: tuple[str, ...]  # their names
    address: str = ""  # empty for this machine; the name of the target's file if its machine is not known
    machine: Machine | None = None  # None until it has answered
    sample: Sample | None = None
    curves: Mapping[int, RecentCurves] = {}  # by the device's number
    notes: tuple[Note, ...] = ()  # events of its devices, the newest last
    problem: str = ""
    remedy: str = ""
    silent: float = 0.0  # seconds since the last sample, once they exceed STALE_SECONDS
    is_shared: bool = False  # a target names the folder of reservations of the machine
    reserved: Reserved | None = None  # the reservations in this folder; None until they are read
    is_contacted: bool = True  # False if the user has not contacted the machine, which is then its `problem`

    @property
    def newest(self) -> int:
        return max((curves.newest for curves in self.curves.values()), default=0)


class Fleet(contextlib.AbstractContextManager["Fleet"]):
    """A reader of the GPU feeds of many machines. Calls block only while a few files are read."""

    def __init__(self, targets: Iterable[ComputeTarget] = ()) -> None:
        self._listeners: dict[str, _Listener] = {}
        self.follow(targets)

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, targets: Iterable[ComputeTarget]) -> None:
        """Follow the machines of these targets from now on, and no others."""
        groups: dict[str, list[ComputeTarget]] = {}
        for target in targets:
            if target.problem is not None or target.kind.has_gpus:
                # The machine of a target with an invalid file is not known, so such a target gets its own key.
                key = f"file {target.path}" if target.problem is not None else machine_key(target)
                groups.setdefault(key, []).append(target)
        before, self._listeners = self._listeners, {}
        for key, group in groups.items():
            listener = before.pop(key, None)
            if listener is not None and listener.login != _login(group[0]):
                listener.close()
                listener = None
            if listener is None:
                listener = _Listener(key, group[0])
            listener.set_targets(group)
            self._listeners[key] = listener
        for listener in before.values():
            listener.close()

    def read(self) -> bool:
        """Read new samples of every machine. Return True if any state changed."""
        # Read all machines first, because `any` stops at the first change.
        return any(list(self.read_each()))

    def read_each(self) -> Iterator[bool]:
        """Read new samples of one machine after the other. For each machine, yield True if its state changed."""
        for listener in list(self._listeners.values()):
            yield listener.read()

    def retry(self, key: str) -> None:
        """Try again to read a machine that could not be read. The user has chosen to contact the machine."""
        if listener := self._listeners.get(key):
            contacts.record(listener.target)
            listener.close()

    def refresh_reservations(self, key: str) -> None:
        """Read the reservations of a machine again now."""
        if listener := self._listeners.get(key):
            listener.refresh_reservations()

    @property
    def states(self) -> tuple[MachineState, ...]:
        return tuple(listener.state for listener in self._listeners.values())

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()


class _Listener:
    """A reader of the GPU feed of one machine. `state` is replaced only when a value has changed."""

    def __init__(self, key: str, target: ComputeTarget) -> None:
        self.login = _login(target)
        self.state = MachineState(key, (target.name,), _address_of(target))
        self.target = target
        self._feed: Feed | None = None
        self._is_open = False
        self._folder = ""
        self._reservations: ReservationWatch | None = None

    def set_targets(self, targets: Sequence[ComputeTarget]) -> None:
        """Set the targets on this machine. The first target with a folder of reservations determines the folder."""
        names = tuple(target.name for target in targets)
        if self.state.targets != names:
            self.state = self.state._replace(targets=names)
        sharing = next((target for target in targets if target.gpu_reservations), None)
        folder = sharing.gpu_reservations if sharing is not None else ""
        if folder != self._folder:
            self._close_reservations()
            self._folder = folder
            self._reservations = ReservationWatch(sharing) if sharing is not None else None
            self.state = self.state._replace(is_shared=bool(folder), reserved=None)

    def refresh_reservations(self) -> None:
        if self._reservations is not None:
            self._reservations.refresh()

    def close(self) -> None:
        """Stop, and forget the state, so that the next `read` starts again."""
        self._close_feed()
        self._close_reservations()
        self._is_open = False
        self.state = MachineState(*self.state[:3], is_shared=self.state.is_shared)

    def _close_reservations(self) -> None:
        if self._reservations is not None:
            self._reservations.close()

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def read(self) -> bool:
        """Read new samples. Return True if the state changed."""
        try:
            if not self._is_open:
                return self._open()
            if self._feed is None:
                return False
            records = self._feed.read()
            for record in records:
                self._take(record)
            has_news = self._read_reservations()
            return bool(records) or has_news or self._update_silence()
        except WorkbenchError as error:
            self._close_feed()
            self.state = self.state._replace(problem=error.message, remedy=error.remedy)
            return True

    def _open(self) -> bool:
        """Start to read the machine, unless the user has not contacted it. Return True if the state changed."""
        self._is_open = True
        problem = self.target.problem
        if problem is not None:
            self.state = self.state._replace(problem=problem.message, remedy=problem.remedy)
            return True
        try:
            self._feed = Feed(self.target, PAST_BYTES)
        except contacts.NotContacted as error:
            self._is_open = False  # the next `read` tries again, because the user may contact the machine meanwhile
            has_news = self.state.is_contacted
            self.state = self.state._replace(problem=contacts.NOT_CONTACTED, remedy=error.remedy, is_contacted=False)
            return has_news
        if not self.state.is_contacted:
            self.state = self.state._replace(problem="", remedy="", is_contacted=True)
        return True

    def _read_reservations(self) -> bool:
        # Before the first sample, the machine may not be reachable.
        if self._reservations is None or self.state.sample is None:
            return False
        reserved = self._reservations.poll()
        if reserved is None or reserved == self.state.reserved:
            return False
        self.state = self.state._replace(reserved=reserved)
        return True

    def _update_silence(self) -> bool:
        if self.state.sample is None:
            return False
        silent = time.time() - self.state.sample.time
        if silent < STALE_SECONDS or int(silent) == int(self.state.silent):
            return False
        self.state = self.state._replace(silent=silent)
        return True

    def _take(self, record: Machine | Sample | Note) -> None:
        state = self.state
        if isinstance(record, Machine):
            self.state = state._replace(machine=record, problem=record.problem)
        elif isinstance(record, Sample):
            curves = self._curves_with(record)
            self.state = state._replace(sample=record, curves=curves, silent=0.0, problem="")
        elif record.device < 0:
            self.state = state._replace(problem=record.text)
        else:
            self.state = state._replace(notes=(*state.notes, record)[-MOST_NOTES:])

    def _curves_with(self, sample: Sample) -> Mapping[int, RecentCurves]:
        machine, curves = self.state.machine, self.state.curves
        devices = {device.number: device for device in machine.devices} if machine else {}
        for reading in sample.readings:
            if reading.device in devices:
                # Copy the mapping, because another thread may be drawing it.
                curves = curves if reading.device in curves else {**curves, reading.device: RecentCurves()}
                curves[reading.device].add(sample.time, reading, devices[reading.device])
        return curves


def _address_of(target: ComputeTarget) -> str:
    if target.problem is not None:
        return os.path.basename(target.path)
    address = f"{target.username}@{target.address}" if target.username else target.address
    return address if target.kind.is_remote else ""


def _login(target: ComputeTarget) -> ComputeTarget:
    """Return the target with only the fields that affect the connection to its machine."""
    return target._replace(name="", path="", values={}, base_docker_image="", gpus="", gpu_reservations="")
