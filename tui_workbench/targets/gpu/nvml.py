"""The GPUs of this machine according to NVML. The only module that uses pynvml.

A value that the driver does not report is None; the other values are still reported.

The owner of a process comes from /proc: user, program, run, container, session and rank. The run is WORKBENCH_RUN_ID in
the environment of the process, which only its user may read; the ID of the container is in the cgroup. Owners are
cached by process ID and start time, because IDs are reused.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from typing import Any

from tui_workbench.core.files import read_file
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
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE

_MIB = 1 << 20

_MARK, _RANK_MARK = b"\0%s=" % RUN_ID_VARIABLE.encode(), b"\0RANK="
_CONTAINER = re.compile(rb"([0-9a-f]{64})")
_MOST_CACHED = 4096


class NoLibrary(Exception):
    """NVML cannot be loaded on this machine; `nvidia-smi` may still work."""


class Nvml:
    """The loaded library. Raises NoLibrary if it cannot be found."""

    def __init__(self) -> None:
        import pynvml

        self._library: Any = pynvml
        self._problem = ""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise NoLibrary from error
            self._problem = f"the NVIDIA driver does not work: {error}"
        self._handles: dict[int, Any] = {}
        self._lost: set[int] = set()
        self._last_stamps: dict[int, int] = {}
        self._events: Any = None
        self._owners = Owners()

    def machine(self) -> Machine:
        if self._problem:
            return Machine(source="nvml", problem=self._problem)
        for index in range(self._ask("DeviceGetCount") or 0):
            handle = self._ask("DeviceGetHandleByIndex", index)
            if handle is not None:
                self._handles[index] = handle
        version = self._ask("SystemGetCudaDriverVersion_v2") or self._ask("SystemGetCudaDriverVersion")
        cuda = f"{version // 1000}.{version % 1000 // 10}" if version else ""
        self._register_events()
        problem = "" if self._handles else "the NVIDIA driver lists no GPU"
        return Machine(
            tuple(self._device(index, handle) for index, handle in self._handles.items()),
            _text(self._ask("SystemGetDriverVersion")),
            cuda,
            "nvml",
            problem,
            hides_processes(),
        )

    def look(self) -> list[Sample | Note]:
        """Return a sample of all devices that are not lost, preceded by notes of events."""
        now = time.time()
        notes: list[Sample | Note] = list(self._xid_errors(now))
        readings, processes = [], []
        for index, handle in self._handles.items():
            if index in self._lost:
                continue
            try:
                # Every device answers this, unless it is lost.
                self._library.nvmlDeviceGetMemoryInfo(handle)
            except self._library.NVMLError_GpuIsLost as error:
                self._lost.add(index)
                notes.append(Note(now, f"GPU {index} is lost: {error}", index))
                continue
            except self._library.NVMLError:
                pass
            readings.append(self._reading(index, handle))
            processes += self._processes(index, handle)
        return [*notes, Sample(now, tuple(readings), tuple(processes))]

    def close(self) -> None:
        if not self._problem:
            self._ask("Shutdown")

    def _ask(self, question: str, *arguments: Any) -> Any:
        """Call a function of the library, named without `nvml`. Return None if it fails."""
        try:
            return getattr(self._library, f"nvml{question}")(*arguments)
        except (self._library.NVMLError, self._library.NVMLLibraryMismatchError, UnicodeDecodeError):
            return None

    def _device(self, index: int, handle: Any) -> Device:
        memory = self._memory(handle)
        return Device(
            index,
            _text(self._ask("DeviceGetUUID", handle)),
            _text(self._ask("DeviceGetName", handle)) or "GPU",
            round(memory.total / _MIB) if memory is not None else None,
            _thousandth(self._ask("DeviceGetEnforcedPowerLimit", handle)),
            self._slices(handle),
        )

    def _slices(self, handle: Any) -> tuple[str, ...]:
        mode = self._ask("DeviceGetMigMode", handle)
        if not mode or not mode[0]:
            return ()
        slices = []
        for number in range(self._ask("DeviceGetMaxMigDeviceCount", handle) or 0):
            part = self._ask("DeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:
                slices.append(_text(self._ask("DeviceGetUUID", part)))
        # MIG is on, which callers conclude from a result that is not empty, even before a slice is made.
        return tuple(slices) or ("MIG",)

    def _memory(self, handle: Any) -> Any:
        """Return the memory of a device. As in nvidia-smi, memory that the driver reserves for itself is not used.

        The first version of the function counts it as used. Drivers before version 510 lack the second one.
        """
        newer = self._ask("DeviceGetMemoryInfo", handle, self._library.nvmlMemory_v2)
        return self._ask("DeviceGetMemoryInfo", handle) if newer is None else newer

    def _reading(self, index: int, handle: Any) -> Reading:
        library = self._library
        rates = self._ask("DeviceGetUtilizationRates", handle)
        memory = self._memory(handle)
        return Reading(
            index,
            rates.gpu if rates is not None else None,
            round(memory.used / _MIB, 1) if memory is not None else None,
            _thousandth(self._ask("DeviceGetPowerUsage", handle)),
            self._ask("DeviceGetTemperature", handle, library.NVML_TEMPERATURE_GPU),
            self._ask("DeviceGetClockInfo", handle, library.NVML_CLOCK_SM),
            self._ask("DeviceGetClockInfo", handle, library.NVML_CLOCK_MEM),
            self._ask("DeviceGetCurrentClocksThrottleReasons", handle),
            self._ask(
                "DeviceGetTotalEccErrors", handle, library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC
            ),
        )

    def _processes(self, index: int, handle: Any) -> list[Process]:
        computing = self._running("DeviceGetComputeRunningProcesses", handle)
        drawing = self._running("DeviceGetGraphicsRunningProcesses", handle)
        shares = self._shares(index, handle) if computing else {}
        processes = []
        # A process that both draws and computes counts as one that computes.
        for pid, memory in {**drawing, **computing}.items():
            owner = self._owners.of(pid)
            used = round(memory / _MIB, 1) if memory is not None else None
            is_graphics = pid not in computing
            processes.append(Process(pid, index, used, shares.get(pid), graphics=is_graphics, **owner._asdict()))
        return processes

    def _running(self, question: str, handle: Any) -> dict[int, int | None]:
        """Return the memory in bytes by process ID; None for unknown memory. Old drivers lack the newest function."""
        for version in ("_v3", "_v2"):
            listed = self._ask(question + version, handle)
            if listed is not None:
                return {process.pid: process.usedGpuMemory for process in listed}
        return {}

    def _shares(self, index: int, handle: Any) -> dict[int, float]:
        """Return the latest share of the device, in %, of each process that has used it since the last call."""
        last = self._last_stamps.get(index, 0)
        listed = self._ask("DeviceGetProcessUtilization", handle, last) or ()
        newest: dict[int, tuple[int, float]] = {}
        for sample in listed:
            if sample.timeStamp >= newest.get(sample.pid, (0, 0.0))[0]:
                newest[sample.pid] = (sample.timeStamp, sample.smUtil)
        self._last_stamps[index] = max((stamp for stamp, _ in newest.values()), default=last)
        return {pid: share for pid, (_, share) in newest.items()}

    def _register_events(self) -> None:
        library = self._library
        self._events = self._ask("EventSetCreate")
        if self._events is not None:
            for handle in self._handles.values():
                self._ask("DeviceRegisterEvents", handle, library.nvmlEventTypeXidCriticalError, self._events)

    def _xid_errors(self, now: float) -> list[Note]:
        notes: list[Note] = []
        while self._events is not None and len(notes) < 64:
            # With the timeout 0, this returns an event that has occurred, or fails at once.
            event = self._ask("EventSetWait_v2", self._events, 0)
            if event is None:
                break
            index = self._ask("DeviceGetIndex", event.device)
            gpu, number = ("an unknown GPU", -1) if index is None else (f"GPU {index}", int(index))
            notes.append(Note(now, f"Xid {event.eventData} on {gpu}", number))
        return notes


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _thousandth(value: Any) -> float | None:
    return None if value is None else round(value / 1000, 1)


class Owners:
    """Owners of processes, read from /proc and cached."""

    def __init__(self) -> None:
        self._cache: dict[tuple[int, bytes], Owner] = {}

    def of(self, pid: int) -> Owner:
        """Return the owner of a running process; an empty Owner if the process has ended or is not visible."""
        # After the name, which may contain parentheses itself, the fields of proc(5) begin with the third. The 6th is
        # the session, and the 22nd the start time.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) < 20:
            return Owner()
        key = (pid, fields[19])
        owner = self._cache.get(key)
        if owner is None:
            if len(self._cache) > _MOST_CACHED:
                self._cache.clear()
            owner = self._cache[key] = _read_owner(pid, int(fields[3]))
        return owner


def hides_processes() -> bool:
    """Return True in a container, where process IDs differ from the IDs that the driver reports."""
    try:
        return os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE
    except OSError:
        return False


def _read_owner(pid: int, session: int) -> Owner:
    # With NUL in front of the first variable, a mark matches only the whole name of a variable.
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    run = environment.partition(_MARK)[2].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    container = _CONTAINER.search(_read(f"/proc/{pid}/cgroup"))
    name = _read(f"/proc/{pid}/comm").strip().decode("utf-8", "replace")
    rank = environment.partition(_RANK_MARK)[2].partition(b"\0")[0].decode("ascii", "replace")
    return Owner(_user_of(pid), name, run, container.group(1).decode() if container else "", session, rank_in(rank))


def _user_of(pid: int) -> str:
    try:
        number = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""
