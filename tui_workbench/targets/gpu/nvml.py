"""The GPUs of this machine, asked of NVIDIA's management library. The one module that knows pynvml.

Each question stands alone: what a driver does not answer is None, and the rest is told all the same.

Whose a process is /proc tells: user, program, run, container, session. The run is what the process carries as
WORKBENCH_RUN_ID, which only its own user may read; a container's id is in its cgroup, which everybody may. An answer is
kept as long as the process lives: ids are given anew, start times are not.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from typing import Any

from tui_workbench.targets.gpu.sample import FIRST_NAMESPACE, Device, Machine, Note, Owner, Process, Reading, Sample
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE

_MIB = 1 << 20

_MARK = b"\0%s=" % RUN_ID_VARIABLE.encode()
_CONTAINER = re.compile(rb"([0-9a-f]{64})")
_MOST_KNOWN = 4096


class NoLibrary(Exception):
    """There is no NVML here; `nvidia-smi`, which brings its own, may still answer."""


class Nvml:
    """The library while it is loaded. Raises NoLibrary when there is none to load."""

    def __init__(self) -> None:
        import pynvml

        self._library: Any = pynvml
        self._problem = ""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise NoLibrary from error
            self._problem = f"the NVIDIA driver does not answer: {error}"
        self._handles: dict[int, Any] = {}
        self._lost: set[int] = set()
        self._asked: dict[int, int] = {}
        self._events: Any = None
        self._owners = Owners()

    def machine(self) -> Machine:
        """What this machine has."""
        if self._problem:
            return Machine(source="nvml", problem=self._problem)
        for index in range(self._ask("DeviceGetCount") or 0):
            handle = self._ask("DeviceGetHandleByIndex", index)
            if handle is not None:
                self._handles[index] = handle
        version = self._ask("SystemGetCudaDriverVersion_v2") or self._ask("SystemGetCudaDriverVersion")
        cuda = f"{version // 1000}.{version % 1000 // 10}" if version else ""
        self._listen()
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
        """One sample of all devices, after notes of what befell any."""
        now = time.time()
        notes: list[Sample | Note] = list(self._befallen(now))
        readings, processes = [], []
        for index, handle in self._handles.items():
            if index in self._lost:
                continue
            try:
                # The one question that every device answers tells whether there still is one.
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
        """Let go of the library."""
        if not self._problem:
            self._ask("Shutdown")

    def _ask(self, question: str, *arguments: Any) -> Any:
        """The answer to one of the library's questions, by its name without `nvml`; None where there is none."""
        try:
            return getattr(self._library, f"nvml{question}")(*arguments)
        except (self._library.NVMLError, self._library.NVMLLibraryMismatchError, UnicodeDecodeError):
            return None

    def _device(self, index: int, handle: Any) -> Device:
        memory = self._ask("DeviceGetMemoryInfo", handle)
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
        found = []
        for number in range(self._ask("DeviceGetMaxMigDeviceCount", handle) or 0):
            part = self._ask("DeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:
                found.append(_text(self._ask("DeviceGetUUID", part)))
        return tuple(found) or ("MIG",)

    def _reading(self, index: int, handle: Any) -> Reading:
        library = self._library
        rates = self._ask("DeviceGetUtilizationRates", handle)
        memory = self._ask("DeviceGetMemoryInfo", handle)
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
        found = []
        for pid, memory in {**drawing, **computing}.items():
            owner = self._owners.of(pid)
            used = round(memory / _MIB, 1) if memory is not None else None
            found.append(Process(pid, index, used, shares.get(pid), *owner, pid not in computing))
        return found

    def _running(self, question: str, handle: Any) -> dict[int, int | None]:
        """Memory in bytes by process; an older driver answers only to an older form of the question."""
        for version in ("_v3", "_v2"):
            listed = self._ask(question + version, handle)
            if listed is not None:
                return {each.pid: each.usedGpuMemory for each in listed}
        return {}

    def _shares(self, index: int, handle: Any) -> dict[int, float]:
        """What part of the device each process had since it was last asked, in %."""
        listed = self._ask("DeviceGetProcessUtilization", handle, self._asked.get(index, 0)) or ()
        newest: dict[int, tuple[int, float]] = {}
        for each in listed:
            if each.timeStamp >= newest.get(each.pid, (0, 0.0))[0]:
                newest[each.pid] = (each.timeStamp, each.smUtil)
        self._asked[index] = max((stamp for stamp, _ in newest.values()), default=self._asked.get(index, 0))
        return {pid: share for pid, (_, share) in newest.items()}

    def _listen(self) -> None:
        """Hear of Xid errors, where the driver tells of them."""
        library = self._library
        self._events = self._ask("EventSetCreate")
        if self._events is not None:
            for handle in self._handles.values():
                self._ask("DeviceRegisterEvents", handle, library.nvmlEventTypeXidCriticalError, self._events)

    def _befallen(self, now: float) -> list[Note]:
        found: list[Note] = []
        while self._events is not None and len(found) < 64:
            event = self._ask("EventSetWait_v2", self._events, 0)
            if event is None:
                break
            index = self._ask("DeviceGetIndex", event.device)
            index = -1 if index is None else int(index)
            found.append(Note(now, f"Xid {event.eventData} on GPU {index}", index))
        return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _thousandth(value: Any) -> float | None:
    return None if value is None else round(value / 1000, 1)


class Owners:
    """Asks /proc, and remembers."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Owner] = {}

    def of(self, pid: int) -> Owner:
        """The owner of a living process; an empty one for one that has ended, or that cannot be seen from here."""
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) < 20:
            return Owner()
        key = (pid, fields[19])
        owner = self._known.get(key)
        if owner is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            owner = self._known[key] = _look(pid, int(fields[3]))
        return owner


def hides_processes() -> bool:
    """True in a container: its process ids are not those that the driver gives."""
    try:
        return os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE
    except OSError:
        return False


def _look(pid: int, session: int) -> Owner:
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    run = environment.partition(_MARK)[2].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    container = _CONTAINER.search(_read(f"/proc/{pid}/cgroup"))
    name = _read(f"/proc/{pid}/comm").strip().decode("utf-8", "replace")
    return Owner(_user_of(pid), name, run, container.group(1).decode() if container else "", session)


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
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
