"""Measure the workbench and a baseline alternately on the same machine.

Ratios of values that were measured alternately can be compared between machines: a busy moment affects both. Each
printed line is a result: its name, the medians of the workbench and of the baseline, their ratio, and the limit. A
script ends with `sys.exit(finish())`; its exit status is 1 if a limit was exceeded. `python -m benchmarks` runs all
scripts and writes the results to docs/performance.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

Measure = Callable[[], "float | None"]
"""A round of a measurement. It returns the measured value (seconds, bytes, ...), or None to measure its wall time."""


class Unit(NamedTuple):
    """The unit of a printed value. A value is divided by `scale` and followed by the name."""

    name: str
    scale: float
    digits: int = 1

    def show(self, value: float) -> str:
        """Return a value with its unit, as text."""
        return f"{value / self.scale:,.{self.digits}f} {self.name}".rstrip()


MILLISECONDS = Unit("ms", 1e-3)
SECONDS = Unit("s", 1.0, 2)
MICROSECONDS = Unit("us", 1e-6, 2)
MEGABYTES = Unit("MB", 1e6)
PERCENT = Unit("%", 0.01)
COUNT = Unit("", 1.0, 0)


class Promise(NamedTuple):
    """A result, as text. `baseline` and `ratio` are empty if the limit is a fixed value."""

    name: str
    ours: str
    baseline: str
    ratio: str
    limit: str
    kept: bool


RESULTS = "WORKBENCH_BENCHMARK_RESULTS"
"""The variable that names the file to which each script appends its results, one JSON object per line."""

REFERENCE_START = 0.010
"""Seconds that `python -c pass` takes on the machine for which a `margin` is stated."""

LONGEST_START, IDLE_SHARE = 30.0, 0.02
LONGEST_END = 30.0

_failures: list[str] = []


def compare(
    name: str,
    ours: Measure,
    baseline: Measure,
    limit: float,
    rounds: int = 20,
    *,
    baseline_name: str,
    margin: float = 0.0,
    unit: Unit = MILLISECONDS,
    warmup: int = 1,
) -> tuple[float, float]:
    """Measure the workbench and a baseline alternately, and print the result.

    The limit of the workbench's median is `limit` x the median of the baseline + `margin`.

    `margin` is in seconds on a machine where `python -c pass` takes `REFERENCE_START`. Each round measures this, too,
    and a slower machine has a proportionally larger margin. The first `warmup` rounds are not counted. The order of the
    two alternates between rounds. Return both medians.
    """
    pair = (ours, baseline)
    measured: tuple[list[float], list[float]] = ([], [])
    starts: list[float] = []
    for number in range(-warmup, rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            value = measure(pair[which])
            if number >= 0:
                measured[which].append(value)
        if margin:
            starts.append(process_time([python(), "-c", "pass"]))
    extra = margin * _slowness(starts) if starts else 0.0
    mine, theirs = (statistics.median(values) for values in measured)
    compare_values(name, mine, theirs, limit, baseline_name=baseline_name, margin=extra, unit=unit)
    return mine, theirs


def compare_values(
    name: str,
    ours: float,
    baseline: float,
    limit: float,
    *,
    baseline_name: str,
    margin: float = 0.0,
    unit: Unit = MILLISECONDS,
) -> None:
    """Print two values of the same kind, measured in this run. The limit is `limit` x `baseline` + `margin`."""
    kept = ours <= limit * baseline + margin
    ratio = f"{ours / baseline:.2f}" if baseline else ""
    limit_text = f"{limit:g} x" + (f" + {unit.show(margin)}" if margin else "")
    if not limit:
        limit_text = unit.show(margin)  # the baseline is only for comparison
    _report(Promise(name, unit.show(ours), f"{baseline_name}: {unit.show(baseline)}", ratio, limit_text, kept))


def check(name: str, value: float, limit: float, unit: Unit = MILLISECONDS) -> None:
    """Print a value and its fixed limit, which is independent of the machine."""
    _report(Promise(name, unit.show(value), "", "", unit.show(limit), value <= limit))


def note(text: str) -> None:
    """Print what is not measured, and why."""
    print(f"        not measured: {text}", flush=True)
    _record({"note": text})


def text(paragraph: str) -> None:
    """Print a paragraph or table of the page."""
    print(paragraph, flush=True)
    _record({"text": paragraph})


def finish() -> int:
    """Return the exit status of the script: 1 if a limit was exceeded."""
    if _failures:
        print("over the limit: " + "; ".join(_failures), flush=True)
    return 1 if _failures else 0


def slowness() -> float:
    """Return the factor by which a margin is larger on this machine."""
    return _slowness([process_time([python(), "-c", "pass"]) for _ in range(10)])


def _slowness(starts: Sequence[float]) -> float:
    return max(1.0, statistics.median(starts) / REFERENCE_START)


def measure(call: Measure) -> float:
    """Run a round and return its value or its wall time in seconds."""
    start = time.perf_counter()
    value = call()
    elapsed = time.perf_counter() - start
    return elapsed if value is None else value


def on_processor(call: Callable[[], object]) -> Callable[[], float]:
    """Return a round that measures the processor seconds of a call in this process instead of its wall time."""

    def measured() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return measured


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of the values by nearest rank."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a measured process, without variables that disable bytecode files or buffering."""
    kept = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    }
    return {**kept, **(changes or {})}


def process_time(
    command: Sequence[str], *, directory: str | None = None, stdout: int | None = subprocess.DEVNULL
) -> float:
    """Run a process and return its wall time in seconds, from before the fork to after the wait.

    Raises CalledProcessError if the process fails.
    """
    start = time.perf_counter()
    subprocess.run(command, cwd=directory, env=environment(), stdin=subprocess.DEVNULL, stdout=stdout, check=True)
    return time.perf_counter() - start


def processor_time(command: Sequence[str], *, directory: str | None = None) -> float:
    """Run a process and return the processor seconds of the process and of the children that it has waited for.

    Unlike wall time, they hardly depend on other work on the machine. Raises CalledProcessError if the process fails.
    """
    process = subprocess.Popen(
        command, cwd=directory, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def time_on_processors(pid: int) -> float:
    """Return the processor seconds of the living threads of a process, with the resolution of the scheduler."""
    used = 0
    for name in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{name}/schedstat", encoding="ascii") as file:
            used += int(file.read().split()[0])
    return used / 1e9


def processor_seconds(pid: int) -> float:
    """Return the processor seconds (user and system) that all threads of a living process have used so far."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Processor:
    """The share of a core that a process uses from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used, self._since = processor_seconds(pid), time.perf_counter()

    def share(self) -> float:
        """Return the share; 1.0 is one core."""
        return (processor_seconds(self._pid) - self._used) / (time.perf_counter() - self._since)


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """Create a temporary folder, and remove it at the end, when no process uses it any more.

    A controller is still active for a moment after its run has ended. A process uses the folder if an argument or a
    variable of its environment names it.
    """
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:  # the paths of sockets must be short
        try:
            yield folder
        finally:
            end = time.perf_counter() + LONGEST_END
            while _is_used(folder.encode()) and time.perf_counter() < end:
                time.sleep(0.05)


def _is_used(folder: bytes) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
                if int(pid) != os.getpid() and folder in file.read():
                    return True
    return False


def until_idle(pid: int) -> None:
    """Wait until a program uses almost no processor time, which shows that its start is complete."""
    end = time.perf_counter() + LONGEST_START
    while time.perf_counter() < end:
        measured = Processor(pid)
        time.sleep(0.5)
        if measured.share() < IDLE_SHARE:
            return


def private_memory(pid: int) -> int:
    """Return the bytes of memory that only this process uses, without shared libraries."""
    return _smaps(pid, ("Private_Clean", "Private_Dirty"))


def resident_memory(pid: int) -> int:
    """Return the bytes of memory of the process in RAM, including shared memory."""
    return _smaps(pid, ("Rss",))


def proportional_memory(processes: Iterable[int]) -> float:
    """Return the bytes of memory of processes in RAM, with only their shares of shared memory."""
    return float(sum(_smaps(pid, ("Pss",)) for pid in processes))


def processor_shares(groups: Sequence[Collection[int]], seconds: float) -> list[float]:
    """Return the share of a core that each group of processes uses during the next seconds."""
    before, begun = [sum(map(time_on_processors, group)) for group in groups], time.perf_counter()
    time.sleep(seconds)
    after, took = [sum(map(time_on_processors, group)) for group in groups], time.perf_counter() - begun
    return [(last - first) / took for first, last in zip(before, after, strict=True)]


def _smaps(pid: int, names: tuple[str, ...]) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.partition(":")[0] in names)


def _report(promise: Promise) -> None:
    baseline = f"; {promise.baseline}; ratio {promise.ratio or '-'}" if promise.baseline else ""
    kept = "kept" if promise.kept else "OVER"
    print(f"{kept}    {promise.name}: {promise.ours}{baseline}; limit {promise.limit}", flush=True)
    if not promise.kept:
        _failures.append(promise.name)
    _record(promise._asdict())


def _record(result: Mapping[str, object]) -> None:
    if path := os.environ.get(RESULTS):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def python() -> str:
    """Return the interpreter of measured processes: the one that runs the benchmark."""
    return sys.executable
