"""The GPUs of this machine, asked of NVIDIA's management library. The one module that knows pynvml.

Each question stands alone: what a driver does not answer is None, and the rest is told all the same.
"""

from __future__ import annotations

import time

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.gpu.owners import Owners, hides_processes
from tui_workbench.targets.gpu.sample import Device, Machine, Note, Process, Reading, Sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MIB = 1 << 20


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
        library = self._library
        if self._problem:
            return Machine(source="nvml", problem=self._problem)
        count = self._try(library.nvmlDeviceGetCount) or 0
        for index in range(count):
            handle = self._try(library.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                self._handles[index] = handle
        version = self._try(library.nvmlSystemGetCudaDriverVersion_v2) or self._try(
            library.nvmlSystemGetCudaDriverVersion
        )
        cuda = f"{version // 1000}.{version % 1000 // 10}" if version else ""
        self._listen()
        problem = "" if self._handles else "the NVIDIA driver lists no GPU"
        return Machine(
            tuple(self._device(index, handle) for index, handle in self._handles.items()),
            _text(self._try(library.nvmlSystemGetDriverVersion)),
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
            self._try(self._library.nvmlShutdown)

    def _try(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except (self._library.NVMLError, self._library.NVMLLibraryMismatchError, UnicodeDecodeError):
            return None

    def _device(self, index: int, handle: Any) -> Device:
        library = self._library
        memory = self._try(library.nvmlDeviceGetMemoryInfo, handle)
        limit = self._try(library.nvmlDeviceGetEnforcedPowerLimit, handle)
        return Device(
            index,
            _text(self._try(library.nvmlDeviceGetUUID, handle)),
            _text(self._try(library.nvmlDeviceGetName, handle)) or "GPU",
            round(memory.total / _MIB) if memory is not None else None,
            _thousandth(limit),
            self._slices(handle),
        )

    def _slices(self, handle: Any) -> tuple[str, ...]:
        library = self._library
        mode = self._try(library.nvmlDeviceGetMigMode, handle)
        if not mode or not mode[0]:
            return ()
        found = []
        for number in range(self._try(library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            part = self._try(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if part is not None:
                found.append(_text(self._try(library.nvmlDeviceGetUUID, part)))
        return tuple(found) or ("MIG",)

    def _reading(self, index: int, handle: Any) -> Reading:
        library = self._library
        rates = self._try(library.nvmlDeviceGetUtilizationRates, handle)
        memory = self._try(library.nvmlDeviceGetMemoryInfo, handle)
        return Reading(
            index,
            rates.gpu if rates is not None else None,
            round(memory.used / _MIB, 1) if memory is not None else None,
            _thousandth(self._try(library.nvmlDeviceGetPowerUsage, handle)),
            self._try(library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU),
            self._try(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM),
            self._try(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_MEM),
            self._try(library.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
            self._try(
                library.nvmlDeviceGetTotalEccErrors,
                handle,
                library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                library.NVML_VOLATILE_ECC,
            ),
        )

    def _processes(self, index: int, handle: Any) -> list[Process]:
        computing = self._running("nvmlDeviceGetComputeRunningProcesses", handle)
        drawing = self._running("nvmlDeviceGetGraphicsRunningProcesses", handle)
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
            listed = self._try(getattr(self._library, question + version), handle)
            if listed is not None:
                return {each.pid: each.usedGpuMemory for each in listed}
        return {}

    def _shares(self, index: int, handle: Any) -> dict[int, float]:
        """What part of the device each process had since it was last asked, in %."""
        listed = self._try(self._library.nvmlDeviceGetProcessUtilization, handle, self._asked.get(index, 0)) or ()
        newest: dict[int, tuple[int, float]] = {}
        for each in listed:
            if each.timeStamp >= newest.get(each.pid, (0, 0.0))[0]:
                newest[each.pid] = (each.timeStamp, each.smUtil)
        self._asked[index] = max((stamp for stamp, _ in newest.values()), default=self._asked.get(index, 0))
        return {pid: share for pid, (_, share) in newest.items()}

    def _listen(self) -> None:
        """Hear of Xid errors, where the driver tells of them."""
        library = self._library
        self._events = self._try(library.nvmlEventSetCreate)
        if self._events is not None:
            for handle in self._handles.values():
                self._try(library.nvmlDeviceRegisterEvents, handle, library.nvmlEventTypeXidCriticalError, self._events)

    def _befallen(self, now: float) -> list[Note]:
        found: list[Note] = []
        while self._events is not None and len(found) < 64:
            event = self._try(self._library.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                break
            index = self._index_of(event.device)
            found.append(Note(now, f"Xid {event.eventData} on GPU {index}", index))
        return found

    def _index_of(self, handle: Any) -> int:
        index = self._try(self._library.nvmlDeviceGetIndex, handle)
        return -1 if index is None else int(index)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _thousandth(value: Any) -> float | None:
    return None if value is None else round(value / 1000, 1)
