"""The log view while a run writes 100,000 lines per second: lost lines, lag, and time to answer a key.

    python -m benchmarks.log_follow [SECONDS]

The workbench runs in a pseudo-terminal with its log zoomed, in turns with Textual's `Log` on the same file. Each line
holds its number and its time. The lag of a line ends when it or a later line is visible.
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
    check,
    finish,
    percentile,
    processor_seconds,
)
from benchmarks.terminal import Terminal
from tui_workbench.core.model import RunRequest

LINES_A_SECOND = 100_000
LAG_LIMIT = 0.033
KEY_LIMIT = 0.033
PROCESSOR_LIMIT = 0.15
ROUNDS = 3

LONGEST_START, IDLE_SHARE = 10.0, 0.02

LINE_BYTES = 100
STAMP = re.compile(rb"#(\d{9}) (\d{7}\.\d{6})")
STAMP_BYTES = 26
SAMPLES = 20
"""Lines per frame whose lag is counted, evenly spaced."""

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


class Seen(NamedTuple):
    """A chunk of output: its time, its newest line, and when that line was written."""

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
    """Run the benchmark."""
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
        medians = [MILLISECONDS.show(percentile(it, 50)) for it in (values, baseline)]
        theirs = MILLISECONDS.show(percentile(baseline, 95))
        check(
            f"{name} p95",
            percentile(values, 95),
            limit,
            note=f"median {medians[0]}; Textual's Log {theirs}, {medians[1]}",
        )
    check("processor", processor, PROCESSOR_LIMIT, PERCENT, note=f"Textual's Log {PERCENT.show(stock_processor)}")
    return finish()


def summary(rounds: list[Round]) -> tuple[list[float], list[float], float]:
    """All lags, all key times, and the mean share of a processor."""
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


def until_idle(pid: int) -> None:
    """Wait until a program has finished its start."""
    end = time.perf_counter() + LONGEST_START
    while time.perf_counter() < end:
        measured = Processor(pid)
        time.sleep(0.5)
        if measured.share() < IDLE_SHARE:
            return


class Processor:
    """The share of a processor that a process uses from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used, self._since = processor_seconds(pid), time.perf_counter()

    def share(self) -> float:
        """The share; 1.0 is one processor."""
        return (processor_seconds(self._pid) - self._used) / (time.perf_counter() - self._since)


class Watcher:
    """Reads the output of a program without emulating a terminal, which would use the second core."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        terminal.watch_rows(self._take)
        self.keys: list[float] = []
        self.newest = -1
        self._seen: list[Seen | None] = []  # None where the end was left: lines that came then are no lag
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
                self._seen.append(Seen(now, int(number), float(written)))
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
        """Read for some seconds."""
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
        """Return the last number of lines in the border."""
        counts = re.findall(rb"(?:following, | )([\d,]+) lines ", self._tail)
        return int(counts[-1].replace(b",", b"")) if counts else 0


if __name__ == "__main__":
    sys.exit(main(max(15.0, float(sys.argv[1])) if len(sys.argv) > 1 else 60.0))
