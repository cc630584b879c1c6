"""The state of a GPU according to `nvidia-smi`, queried by the suite itself, without code of the workbench."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from typing import NamedTuple

PERIOD_MILLISECONDS = 200
FIELDS = {
    "utilization": "utilization.gpu",
    "memory": "memory.used",
    "power": "power.draw",
    "temperature": "temperature.gpu",
    "sm_clock": "clocks.current.sm",
    "memory_clock": "clocks.current.memory",
    "throttle": "clocks_throttle_reasons.active",
    "ecc": "ecc.errors.uncorrected.volatile.total",
}
"""The fields of a reading of the workbench, and their names in nvidia-smi."""

DEVICE = ("name", "uuid", "memory.total", "driver_version")
FORMAT = "--format=csv,noheader,nounits"


class Seen(NamedTuple):
    """The first GPU at one moment (seconds since the epoch). A value that nvidia-smi does not report is None."""

    time: float
    values: dict[str, float | None]
    processes: frozenset[int]


class Integral(NamedTuple):
    """The use of the first GPU while one of some processes held its memory."""

    gpu_seconds: float
    watt_hours: float
    seconds: float


class Observer(contextlib.AbstractContextManager["Observer"]):
    """Records the first GPU, several times a second, until the context ends."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._processes: frozenset[int] = frozenset()
        self._program: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._is_over = threading.Event()

    def __enter__(self) -> Observer:
        query = f"--query-gpu={','.join(FIELDS.values())}"
        words = ["nvidia-smi", query, FORMAT, "-i", "0", "-lms", str(PERIOD_MILLISECONDS)]
        self._program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self._threads = [threading.Thread(target=each) for each in (self._read, self._list_processes)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._program is not None:
            self._program.kill()
            self._program.wait()
        for thread in self._threads:
            thread.join()

    def integral(self, pids: frozenset[int]) -> Integral:
        """Integrate utilization and power over the time in which one of the processes held memory of the GPU."""
        gpu_seconds = joules = seconds = 0.0
        for before, after in zip(self.seen, self.seen[1:], strict=False):
            if pids & after.processes:
                passed = after.time - before.time
                seconds += passed
                gpu_seconds += passed * (after.values["utilization"] or 0.0) / 100
                joules += passed * (after.values["power"] or 0.0)
        return Integral(gpu_seconds, joules / 3600, seconds)

    def between(self, start: float, end: float) -> list[Seen]:
        """Return what was seen in this time."""
        return [each for each in self.seen if start <= each.time <= end]

    def _read(self) -> None:
        if self._program is None or self._program.stdout is None:
            return
        with self._program.stdout as lines:
            for line in lines:
                cells = [number(cell) for cell in line.split(",")]
                if len(cells) == len(FIELDS):
                    self.seen.append(Seen(time.time(), dict(zip(FIELDS, cells, strict=True)), self._processes))

    def _list_processes(self) -> None:
        while not self._is_over.wait(PERIOD_MILLISECONDS / 1000):
            self._processes = processes_on_gpu()


def ask(option: str, *more: str) -> list[list[str]]:
    """Return the rows of one query. Raises CalledProcessError."""
    done = subprocess.run(["nvidia-smi", option, FORMAT, *more], capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def device() -> dict[str, str]:
    """Describe the first GPU. Raises CalledProcessError or FileNotFoundError without a driver."""
    return dict(zip(DEVICE, ask(f"--query-gpu={','.join(DEVICE)}", "-i", "0")[0], strict=True))


def processes_on_gpu() -> frozenset[int]:
    """Return the IDs of the processes that hold memory of a GPU for computing."""
    return frozenset(int(row[0]) for row in ask("--query-compute-apps=pid") if row[0].isdigit())


def number(text: str) -> float | None:
    """Parse a value of nvidia-smi; None for `[N/A]` and similar texts."""
    text = text.strip()
    try:
        return float(int(text, 16)) if text[:2].lower() == "0x" else float(text)
    except ValueError:
        return None
