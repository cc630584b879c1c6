"""Measure the workbench and a baseline alternately on the same machine.

Ratios of values that were measured alternately can be compared between machines: a busy moment affects both. Each line
names the comparison, both medians, both 95th percentiles, the ratio of the medians, and whether the limit is kept.
A script ends with `sys.exit(finish())`; its exit status is 1 if a limit was exceeded.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Measure = Callable[[], "float | None"]
"""A round of a measurement. It returns the measured value (seconds, bytes, ...), or None to measure its wall time."""


class Unit(NamedTuple):
    """The unit of a printed value. A value is divided by `scale` and followed by the name."""

    name: str
    scale: float
    digits: int = 1

    def show(self, value: float) -> str:
        """Format a value."""
        return f"{value / self.scale:,.{self.digits}f} {self.name}"


MILLISECONDS = Unit("ms", 1e-3)
SECONDS = Unit("s", 1.0, 2)
MEGABYTES = Unit("MB", 1e6)
PERCENT = Unit("%", 0.01)
COUNT = Unit("", 1.0, 0)


class Comparison(NamedTuple):
    """The result of `compare`."""

    name: str
    ours: tuple[float, ...]
    baseline: tuple[float, ...]
    bound: float
    passed: bool

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        return statistics.median(self.ours) / statistics.median(self.baseline)


_failures: list[str] = []

REFERENCE_START = 0.010
"""Seconds that `python -c pass` takes on the machine for which a `margin` is stated."""

LONGEST_START, IDLE_SHARE = 30.0, 0.02


def compare(
    name: str,
    ours: Measure,
    baseline: Measure,
    limit: float,
    rounds: int = 20,
    *,
    baseline_name: str = "baseline",
    margin: float = 0.0,
    unit: Unit = MILLISECONDS,
    warmup: int = 1,
) -> Comparison:
    """Measure both alternately and print one line.

    The limit of our median is `limit` x the baseline's median + `margin`.

    `margin` is in seconds on a machine where `python -c pass` takes `REFERENCE_START`. Each round measures this, too,
    and a slower machine has a proportionally larger margin. The first `warmup` rounds are not counted. The order of the
    two alternates between rounds.
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
    slowness = max(1.0, statistics.median(starts) / REFERENCE_START) if starts else 1.0
    bound = limit * statistics.median(measured[1]) + margin * slowness
    passed = statistics.median(measured[0]) <= bound
    result = Comparison(name, tuple(measured[0]), tuple(measured[1]), bound, passed)
    bound_text = f"{limit:g} x" + (f" + {unit.show(margin)} x {slowness:.1f}" if margin else "")
    _report(
        name,
        passed,
        f"{_spread(result.ours, unit)}  {baseline_name} {_spread(result.baseline, unit)}  "
        f"ratio {result.ratio:.2f}, limit {bound_text}",
    )
    return result


def check(name: str, value: float, limit: float, unit: Unit = MILLISECONDS, *, note: str = "") -> bool:
    """Print a value and its fixed limit. Return True if `value <= limit`."""
    passed = value <= limit
    _report(name, passed, f"{unit.show(value)}, limit {unit.show(limit)}" + (f"  ({note})" if note else ""))
    return passed


def note(text: str) -> None:
    """Print a value without a limit, such as that of a baseline, or the type of the machine."""
    print(f"        {text}", flush=True)


def finish() -> int:
    """Return the exit status of the script: 1 if a limit was exceeded."""
    if _failures:
        print("over the limit: " + "; ".join(_failures), flush=True)
    return 1 if _failures else 0


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


def proportional_memory(pid: int) -> int:
    """Return the bytes of memory of the process in RAM, with only its share of shared memory."""
    return _smaps(pid, ("Pss",))


def _smaps(pid: int, names: tuple[str, ...]) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.partition(":")[0] in names)


def _spread(values: Sequence[float], unit: Unit) -> str:
    return f"{unit.show(statistics.median(values))} (p95 {unit.show(percentile(values, 95))})"


def _report(name: str, passed: bool, text: str) -> None:
    print(f"{'pass' if passed else 'OVER'}    {name}: {text}", flush=True)
    if not passed:
        _failures.append(name)


def python() -> str:
    """Return the interpreter of measured processes: the one that runs the benchmark."""
    return sys.executable
