"""Measure the log view: large logs, a run that writes 100,000 lines per second, and a run with its log open.

    python -m benchmarks.logs

Large logs: the time from the start of the workbench to the frame with the last line, compared with a log of a hundred
lines, and searching, compared with `grep -c`. Memory is private memory after all lines are counted.

Following: the workbench runs in a pseudo-terminal with its log zoomed, and then Textual's `Log` on the log of another
run of the same script. Lost bytes, lag, the time to respond to a key, and processor time are measured. Each line
contains its number and its time. The lag of a line ends when this line or a later one is visible.

Duration: a script that prints many lines, compared with output to a file. Both are unbuffered. The duration of the
run is read from its run directory; the screen follows the log meanwhile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from benchmarks import log_programs
from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    MICROSECONDS,
    MILLISECONDS,
    check,
    compare,
    compare_values,
    finish,
    private_memory,
    process_time,
    processor_seconds,
    python,
    scratch_folder,
    until_idle,
)
from benchmarks.terminal import Seen, Terminal
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.runs.logs.log_search import Pattern, Search

BIG, SMALL = 1 << 28, 10_000
"""Bytes of the logs that are opened."""

OPEN_LIMIT, OPEN_ROUNDS = 1.2, 2
MEMORY_LIMIT = 1.1
SEARCH_LIMIT, SEARCH_ROUNDS = 2.0, 3
DENSE_LIMIT = 3.0
"""Limit for a text that is in every line. This case is rare, and Python creates an object for each match."""

LAST = b"Needle: the last line of the log"

LINES_A_SECOND = 100_000
LAG_LIMIT, KEY_LIMIT, PROCESSOR_LIMIT = 1.0, 2.0, 0.45
"""Limits of the median lag, the median key time and the processor time, as multiples of Textual's `Log`."""
LAG_MARGIN = 0.1  # seconds; a delay up to this value is not noticed while lines arrive faster than a person can read

SECONDS = 7.0
"""Seconds for which each program follows the log."""

DURATION_LIMIT, DURATION_ROUNDS = 1.25, 2
PRINTED = 200_000
PRINT = f"for number in range({PRINTED}):\n    print(f'step {{number}} loss 0.1234 accuracy 0.9876')\n"

LINE_BYTES = 100
STAMP = re.compile(rb"#(\d{9}) (\d{7}\.\d{6})")
STAMP_BYTES = 26
SAMPLES = 20
"""Number of evenly spaced lines per frame whose lag is counted."""

SCRIPT = """
import os, sys, time
seconds, rate = float(sys.argv[1]), int(sys.argv[2])
filler = " loss 0.1234 accuracy 0.9876 throughput 12345 images/s".ljust(73)
start = time.perf_counter()
number = 0
while (now := time.perf_counter()) - start < seconds:
    due = int((now - start) * rate)
    if due - number < rate // 1000:
        time.sleep(0.0005)
        continue
    stamp = "%014.6f" % now
    os.write(1, "".join(["#%09d %s%s\\n" % (n, stamp, filler) for n in range(number, due)]).encode())
    number = due
"""


class Drawn(NamedTuple):
    """A chunk of output: its time, the number of its newest line, and the time when that line was written."""

    time: float
    number: int
    written: float


class Following(NamedTuple):
    """The measurements of a program that follows the log."""

    lost: int
    lags: list[float]
    keys: list[float]
    processor: float  # processor seconds per line of the log


def main() -> int:
    with scratch_folder() as folder:
        measure_large(folder)
    measure_following()
    measure_duration()
    return finish()


def measure_large(folder: str) -> None:
    """Compare a large log with a small one, and its search with `grep`."""
    big, log = project_with_log(os.path.join(folder, "big"), BIG)
    small, _ = project_with_log(os.path.join(folder, "small"), SMALL)
    opening = Opening(big), Opening(small)
    size = f"log of {BIG >> 20} MiB"
    compare(f"{size} opened at its end", *opening, OPEN_LIMIT, OPEN_ROUNDS, baseline_name="100 lines")
    memory, least = (median(each.memory) for each in opening)
    compare_values(f"{size}, memory", memory, least, MEMORY_LIMIT, baseline_name="100 lines", unit=MEGABYTES)
    for text, where, limit in (("Needle", "the last line", SEARCH_LIMIT), ("Throughput", "every line", DENSE_LIMIT)):
        name = f"{size} searched for a word in {where}"
        grep = partial(run, ["grep", "-c", text, log])
        compare(name, partial(count, log, text), grep, limit, SEARCH_ROUNDS, baseline_name="`grep -c`")


def project_with_log(root: str, size: int) -> tuple[str, str]:
    """Create a project with an ended run and a log of about this number of bytes. Return the paths of both."""
    runs = log_programs.write_project(root, "print('a run')\n")
    ended = runs.submit(RunRequest("local", "script.py"))
    while ended.is_active:
        time.sleep(0.05)
        ended = runs.get(ended.run_id)
    with open(ended.log_path, "wb") as file:
        number = 0
        while file.tell() < size:
            file.write(b"".join(line(number + offset) for offset in range(100)))
            number += 100
        file.write(LAST + b"\n")
    return root, ended.log_path


def line(number: int) -> bytes:
    """Return a line of a training log."""
    loss = number * 7919 % 10007
    return b"epoch %d step %d loss 0.%05d accuracy 0.%04d lr 0.001 Throughput %d images/s\n" % (
        number // 1000,
        number,
        loss,
        10007 - loss,
        9000 + loss % 977,
    )


class Opening:
    """A measurement of the time from the start of the program until its screen shows the last line.

    `memory` holds the private memory of each start, measured when all lines are counted.
    """

    def __init__(self, project: str) -> None:
        self._project = project
        self.memory: list[float] = []

    def __call__(self) -> float:
        with Terminal(log_programs.workbench(self._project), emulate=False) as terminal:
            seen = Seen(terminal)
            taken = seen.until(LAST) - terminal.started
            seen.until(LAST, b" lines ")
            terminal.settle(0.5)
            self.memory.append(float(private_memory(terminal.pid)))
            return taken


def count(path: str, text: str) -> None:
    """Search the whole log as the log view does."""
    with LogFile(path) as log:
        search = Search(log, Pattern(text))
        while not search.count():
            pass
        assert search.matches


def run(command: list[str]) -> None:
    """Run grep with output to a pipe, because with output to /dev/null it stops at the first match."""
    subprocess.run(command, stdout=subprocess.PIPE, check=True)


def measure_following() -> None:
    """Compare the log view with Textual's `Log`."""
    ours, stock = watch_workbench(SECONDS), watch_stock(SECONDS)
    speed = f"{LINES_A_SECOND:,} lines per second"
    check(f"{speed}, bytes lost", ours.lost, 0, COUNT)
    for name, mine, theirs, limit, margin, unit in (
        ("display lag", median(ours.lags), median(stock.lags), LAG_LIMIT, LAG_MARGIN, MILLISECONDS),
        ("key press until the repaint", median(ours.keys), median(stock.keys), KEY_LIMIT, 0.0, MILLISECONDS),
        ("processor time per line", ours.processor, stock.processor, PROCESSOR_LIMIT, 0.0, MICROSECONDS),
    ):
        compare_values(
            f"{speed}, {name}", mine, theirs, limit, baseline_name="Textual's `Log`", margin=margin, unit=unit
        )


def watch_workbench(seconds: float) -> Following:
    """Run the script from the workbench with its log zoomed, and press keys meanwhile."""
    with scratch_folder() as folder:
        project = os.path.join(folder, "project")
        runs = log_programs.write_project(project, SCRIPT, (str(seconds), str(LINES_A_SECOND)))
        with Terminal(log_programs.workbench(project), columns=120, rows=36, emulate=False) as terminal:
            watcher = Watcher(terminal)
            watcher.until(b"script.py", b"Python 3")
            terminal.settle(0.5)
            until_idle(terminal.pid)
            terminal.send(log_programs.CTRL_R + "4z")
            watcher.until(b"#000")
            before = processor_seconds(terminal.pid)
            end = time.perf_counter() + seconds - 1.0
            while time.perf_counter() < end:
                watcher.press("k", b"paused", leaves=True)
                watcher.press("G", b"following", returns=True)
                watcher.read_for(0.3)
            while (run := runs.last()) is None or run.is_active:
                watcher.read_for(0.2)
            terminal.settle(1.0)
            written = count_lines(run.log_path)
            lost = abs(written - 1 - watcher.newest) + abs(written - watcher.told_count())
            used = processor_seconds(terminal.pid) - before
            return Following(lost * LINE_BYTES, watcher.lags(), watcher.keys, used / written)


def watch_stock(seconds: float) -> Following:
    """Run the script without a screen, and Textual's `Log` on its log."""
    with scratch_folder() as folder:
        runs = log_programs.write_project(os.path.join(folder, "project"), SCRIPT, (str(seconds), str(LINES_A_SECOND)))
        run = runs.submit(RunRequest("local", "script.py", (str(seconds), str(LINES_A_SECOND))))
        with Terminal(log_programs.stock(run.log_path), columns=120, rows=36, emulate=False) as terminal:
            watcher = Watcher(terminal)
            watcher.until(b"#000")
            before = processor_seconds(terminal.pid)
            end = time.perf_counter() + seconds - 1.5
            while time.perf_counter() < end:
                watcher.press("x", b"key %d" % (len(watcher.keys) + 1))
                watcher.read_for(0.3)
            lags = watcher.lags()
            while runs.get(run.run_id).is_active:
                watcher.read_for(0.2)
            # `Log` falls behind on a slow machine, and then draws until it has caught up.
            terminal.settle(1.0)
            used = processor_seconds(terminal.pid) - before
            return Following(0, lags, watcher.keys, used / count_lines(run.log_path))


def count_lines(path: str) -> int:
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


class Watcher:
    """A reader of a program's output. It does not emulate a terminal, which would use the second core."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        terminal.watch_rows(self._take)
        self.keys: list[float] = []
        self.newest = -1
        self._seen: list[Drawn | None] = []  # None where the view has left the end
        self._following = True
        self._recent = bytearray()
        self._tail = b""

    def _take(self, data: bytes, now: float) -> None:
        self._recent += data
        text = self._tail[-STAMP_BYTES:] + data
        self._tail = (self._tail + data)[-100_000:]
        stamps = STAMP.findall(text)
        if stamps:
            number, written = max(stamps)
            if int(number) > self.newest and self._following:
                self._seen.append(Drawn(now, int(number), float(written)))
            self.newest = max(self.newest, int(number))

    def until(self, *wanted: bytes, seconds: float = 20.0) -> float:
        """Read until all texts were drawn since the last key; return the time."""
        return self._terminal.until(lambda: all(it in self._recent for it in wanted), seconds)

    def press(self, key: str, answer: bytes, *, leaves: bool = False, returns: bool = False) -> None:
        """Press a key and record the time until its effect was drawn."""
        self._recent.clear()
        if leaves:
            self._following = False
            self._seen.append(None)
        pressed = self._terminal.send(key)
        self.keys.append(self.until(answer) - pressed)
        self._following = self._following or returns

    def read_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._terminal.pump(0.005)

    def lags(self) -> list[float]:
        """Return the lags of lines that are evenly spaced in each frame."""
        return [
            now.time - (before.written + (now.written - before.written) * part / SAMPLES)
            for before, now in pairwise(self._seen)
            if before is not None and now is not None
            for part in range(1, SAMPLES + 1)
        ]

    def told_count(self) -> int:
        """Return the number of lines that the border showed last."""
        counts = re.findall(rb"(?:following, | )([\d,]+) lines ", self._tail)
        return int(counts[-1].replace(b",", b"")) if counts else 0


def measure_duration() -> None:
    """Compare the duration of a script with its log open with output to a file."""
    with scratch_folder() as folder:
        project = os.path.join(folder, "project")
        runs = log_programs.write_project(project, PRINT)
        with Terminal(log_programs.workbench(project), emulate=False) as terminal:
            workbench = Workbench(terminal, runs)

            def into_a_file() -> float:
                with open(os.path.join(folder, "out"), "wb") as out:
                    return process_time([python(), "-u", "script.py"], directory=project, stdout=out.fileno())

            compare(
                f"script that prints {PRINTED:,} lines while its log is open",
                workbench.run,
                into_a_file,
                DURATION_LIMIT,
                DURATION_ROUNDS,
                baseline_name="`python -u script > file`",
                warmup=0,
            )


class Workbench:
    """The workbench in a terminal, with the log of the last run."""

    def __init__(self, terminal: Terminal, runs: Runs) -> None:
        self._terminal = terminal
        self._runs = runs
        self._drawn = Seen(terminal)
        self._drawn.until(b"script.py", b"Python 3")
        terminal.settle(0.5)

    def run(self) -> float:
        """Start a run and wait for its end; return the seconds that the script ran."""
        self._drawn.forget()
        self._terminal.send(log_programs.CTRL_R)
        self._drawn.until(f" {PRINTED:,} lines".encode(), b"completed", seconds=240)
        self._terminal.settle(0.5)
        run = self._runs.last()
        while run is not None and run.is_active:  # the controller is still reading metrics
            self._terminal.settle(0.1)
            run = self._runs.last()
        assert run is not None
        assert run.duration
        os.unlink(run.log_path)
        return run.duration


if __name__ == "__main__":
    sys.exit(main())
