"""Measure the log view while a run writes 100,000 lines per second, and the duration of a script with its log open.

    python -m benchmarks.log_follow [SECONDS]

Following: the workbench, in a pseudo-terminal with its log zoomed, and Textual's `Log` follow the same script in turn.
Lost bytes, lag, the time to respond to a key, and processor time are measured. Each line contains its number and its
time. The lag of a line ends when this line or a later one is visible.

Duration: a script prints a million lines. The baseline is the same script with output to a file. Both are unbuffered.
The duration of the run is read from its run directory; the screen follows the log meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from itertools import pairwise
from typing import NamedTuple

from benchmarks import log_programs
from benchmarks.harness import (
    COUNT,
    MILLISECONDS,
    PERCENT,
    Processor,
    check,
    compare,
    finish,
    percentile,
    process_time,
    python,
    until_idle,
)
from benchmarks.terminal import Seen, Terminal
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs

LINES_A_SECOND = 100_000
LAG_LIMIT, KEY_LIMIT, PROCESSOR_LIMIT = 1.0, 1.0, 0.45
"""Limits of the median lag, the median key time and the processor time, as multiples of Textual's `Log`."""

ROUNDS = 2
DURATION_LIMIT, DURATION_ROUNDS = 1.25, 4
MILLION = "for number in range(1_000_000):\n    print(f'step {number} loss 0.1234 accuracy 0.9876')\n"

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


class Round(NamedTuple):
    """The measurements of a program."""

    lost: int
    lags: list[float]
    keys: list[float]
    processor: float


def main(seconds: float) -> int:
    measure_following(seconds)
    measure_duration()
    return finish()


def measure_following(seconds: float) -> None:
    """Compare the log view with Textual's `Log`."""
    ours: list[Round] = []
    stock: list[Round] = []
    for _ in range(ROUNDS):
        ours.append(watch_workbench(seconds / ROUNDS))
        stock.append(watch_stock(seconds / ROUNDS / 2))
    lags, keys, processor = summary(ours)
    stock_lags, stock_keys, stock_processor = summary(stock)
    check("bytes lost", sum(it.lost for it in ours), 0, COUNT)
    for name, values, baseline, limit in (
        ("display lag", lags, stock_lags, LAG_LIMIT),
        ("key to repaint", keys, stock_keys, KEY_LIMIT),
    ):
        median = percentile(baseline, 50)
        slow, their_slow = (MILLISECONDS.show(percentile(each, 95)) for each in (values, baseline))
        check(
            f"{name}, median",
            percentile(values, 50),
            limit * median,
            note=f"Textual's Log {MILLISECONDS.show(median)}, limit {limit:g} x; p95 {slow} and {their_slow}",
        )
    bound = PROCESSOR_LIMIT * stock_processor
    theirs = f"Textual's Log {PERCENT.show(stock_processor)}, limit {PROCESSOR_LIMIT} x"
    check("processor", processor, bound, PERCENT, note=theirs)


def summary(rounds: list[Round]) -> tuple[list[float], list[float], float]:
    """Return all lags, all key times, and the mean share of a core."""
    lags = [value for it in rounds for value in it.lags]
    keys = [value for it in rounds for value in it.keys]
    return lags, keys, sum(it.processor for it in rounds) / len(rounds)


def watch_workbench(seconds: float) -> Round:
    """Run the script from the workbench with its log zoomed, and press keys meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        project = os.path.join(folder, "project")
        runs = log_programs.write_project(project, SCRIPT, (str(seconds), str(LINES_A_SECOND)))
        with Terminal(log_programs.workbench(project), columns=120, rows=36, emulate=False) as terminal:
            watcher = Watcher(terminal)
            watcher.until(b"script.py", b"Python 3")
            terminal.settle(0.5)
            until_idle(terminal.pid)
            terminal.send(log_programs.CTRL_R + "4z")
            watcher.until(b"#000")
            measured = Processor(terminal.pid)
            end = time.perf_counter() + seconds - 1.0
            while time.perf_counter() < end:
                watcher.press("k", b"paused", leaves=True)
                watcher.press("G", b"following", returns=True)
                watcher.read_for(0.3)
            processor = measured.share()
            while (run := runs.last()) is None or run.is_active:
                watcher.read_for(0.2)
            terminal.settle(1.0)
            with open(run.log_path, "rb") as file:
                written = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
            lost = abs(written - 1 - watcher.newest) + abs(written - watcher.told_count())
            return Round(lost * LINE_BYTES, watcher.lags(), watcher.keys, processor)


def watch_stock(seconds: float) -> Round:
    """Run the script without a screen, and Textual's `Log` on its log."""
    with tempfile.TemporaryDirectory() as folder:
        runs = log_programs.write_project(os.path.join(folder, "project"), SCRIPT, (str(seconds), str(LINES_A_SECOND)))
        run = runs.submit(RunRequest("local", "script.py", (str(seconds), str(LINES_A_SECOND))))
        with Terminal(log_programs.stock(run.log_path), columns=120, rows=36, emulate=False) as terminal:
            watcher = Watcher(terminal)
            watcher.until(b"#000")
            measured = Processor(terminal.pid)
            end = time.perf_counter() + seconds - 1.5
            while time.perf_counter() < end:
                watcher.press("x", b"key %d" % (len(watcher.keys) + 1))
                watcher.read_for(0.3)
            return Round(0, watcher.lags(), watcher.keys, measured.share())


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
    """Compare the duration of a script whose log is open with its duration when it writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        project = os.path.join(folder, "project")
        runs = log_programs.write_project(project, MILLION)
        with Terminal(log_programs.workbench(project), emulate=False) as terminal:
            workbench = Workbench(terminal, runs)

            def into_a_file() -> float:
                with open(os.path.join(folder, "out"), "wb") as out:
                    return process_time([python(), "-u", "script.py"], directory=project, stdout=out.fileno())

            compare(
                "a script that prints 1,000,000 lines, with its log open",
                workbench.run,
                into_a_file,
                DURATION_LIMIT,
                DURATION_ROUNDS,
                baseline_name="python -u script > file",
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
        self._drawn.until(b" 1,000,000 lines", b"completed", seconds=240)
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
    sys.exit(main(max(12.0, float(sys.argv[1])) if len(sys.argv) > 1 else 24.0))
