"""The log while a run writes 100,000 lines a second: what is lost, how late it is shown, how late keys are answered.

    python -m benchmarks.log_follow [SECONDS]

Seen from outside, in a pseudo-terminal, in turns with Textual's own `Log`. Every line holds its number and the moment
it was written, so the terminal's side knows how old what it shows is. Lag is that of each line: until it, or a later
one, is on the screen.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks import log_apps
from benchmarks.harness import (
    COUNT,
    MILLISECONDS,
    PERCENT,
    check,
    environment,
    finish,
    note,
    percentile,
    processor_seconds,
    python,
)
from benchmarks.terminal import Terminal

LINES_A_SECOND = 100_000
LAG_LIMIT = 0.033
KEY_LIMIT = 0.033
PROCESSOR_LIMIT = 0.15
ROUNDS = 3

LINE_BYTES = 100
STAMP = re.compile(rb"#(\d{9}) (\d{7}\.\d{6})")
STAMP_BYTES = 25

WRITER = """
import os, sys, time
path, seconds, rate = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
batch = rate // 1000
filler = " loss 0.1234 accuracy 0.9876 throughput 12345 images/s"
start = time.perf_counter()
number = 0
while (now := time.perf_counter()) - start < seconds:
    due = int((now - start) * rate)
    if due - number < batch:
        time.sleep(0.0005)
        continue
    stamp = "%014.6f" % now
    lines = "".join(["#%09d %s%s\\n" % (n, stamp, filler.ljust(73)) for n in range(number, due)])
    os.write(out, lines.encode())
    number = due
print(number)
"""


class Seen(NamedTuple):
    """What came to the terminal: when, the newest line in it, and when that was written."""

    time: float
    number: int
    written: float


class Round(NamedTuple):
    """One program, watched for a while."""

    lost: int
    lags: list[float]
    keys: list[float]
    log_keys: list[float]
    processor: float


def main(seconds: float) -> int:
    """Runs both in turns and prints what was measured."""
    rounds: dict[str, list[Round]] = {"ours": [], "stock": []}
    for _ in range(ROUNDS):
        rounds["ours"].append(watch("ours", seconds / ROUNDS))
        rounds["stock"].append(watch("stock", seconds / ROUNDS / 2))
    ours = rounds["ours"]
    lags, baseline_lags = all_of(ours, "lags"), all_of(rounds["stock"], "lags")
    keys = all_of(ours, "keys") + all_of(ours, "log_keys")
    stock = f"Textual's Log: {percentile(baseline_lags, 95) * 1000:.0f} ms"
    check("bytes lost", sum(it.lost for it in ours), 0, COUNT)
    check("display lag p95", percentile(lags, 95), LAG_LIMIT, note=stock)
    stock = f"Textual's Log: {percentile(all_of(rounds['stock'], 'keys'), 95) * 1000:.0f} ms"
    check("key to repaint p95", percentile(keys, 95), KEY_LIMIT, note=stock)
    stock = f"Textual's Log: {max(it.processor for it in rounds['stock']) * 100:.0f} %"
    check("processor", max(it.processor for it in ours), PROCESSOR_LIMIT, PERCENT, note=stock)
    medians = [MILLISECONDS.show(percentile(values, 50)) for values in (lags, keys)]
    note(f"ours: lag median {medians[0]}, key median {medians[1]}")
    return finish()


def all_of(rounds: list[Round], field: str) -> list[float]:
    """One list of what several rounds measured."""
    return [value for it in rounds for value in getattr(it, field)]


def watch(kind: str, seconds: float) -> Round:
    """Follows a log that a process writes for so long, and presses keys meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "output.log")
        open(path, "wb").close()
        command = log_apps.command(kind, path)
        with Terminal(command, columns=120, rows=36, emulate=False) as terminal:
            watcher = Watcher(terminal)
            watcher.until(b"ready")
            terminal.settle()
            writer = subprocess.Popen(
                [python(), "-c", WRITER, path, str(seconds), str(LINES_A_SECOND)],
                stdout=subprocess.PIPE,
                env=environment(),
            )
            before, started = processor_seconds(terminal.pid), time.perf_counter()
            while writer.poll() is None:
                watcher.press_and_watch(b"x", b"key %d" % (len(watcher.keys) + 1), watcher.keys)
                watcher.watch_for(0.15)
                if kind == "ours":
                    watcher.press_and_watch(b"k", b"paused", watcher.log_keys)
                    watcher.press_and_watch(b"G", b"following", watcher.log_keys)
                    watcher.watch_for(0.15)
            processor = (processor_seconds(terminal.pid) - before) / (time.perf_counter() - started)
            assert writer.stdout is not None
            written = int(writer.stdout.read())
            watcher.watch_for(1.0)
            lost = (written - 1 - max(it.number for it in watcher.seen)) * LINE_BYTES
            if kind == "ours":
                lost += abs(written - watcher.shown_count()) * LINE_BYTES
            return Round(lost, watcher.lags(), watcher.keys, watcher.log_keys, processor)


class Watcher:
    """Reads what the program draws, as it comes, without emulating a terminal: that would take the second core."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        terminal.watch = self._take
        self.seen: list[Seen] = []
        self.keys: list[float] = []
        self.log_keys: list[float] = []
        self._recent = b""
        self._paused = False
        self._text = b""

    def _take(self, data: bytes, now: float) -> None:
        self._recent += data
        self._text = (self._text + data)[-200_000:]
        stamps = STAMP.findall(self._text[-len(data) - STAMP_BYTES :])
        if stamps and not self._paused:
            number, written = max(stamps)
            if not self.seen or int(number) > self.seen[-1].number:
                self.seen.append(Seen(now, int(number), float(written)))

    def until(self, wanted: bytes, seconds: float = 10.0) -> float:
        """Reads until the bytes came; the moment they did."""
        return self.terminal.until(lambda: wanted in self._recent, seconds)

    def press_and_watch(self, key: bytes, answer: bytes, times: list[float]) -> None:
        """Presses a key, and notes how long it took until its answer was drawn."""
        self._recent = b""
        pressed = self.terminal.send(key)
        self._paused = self._paused or key == b"k"
        times.append(self.until(answer) - pressed)
        if key == b"G":
            self._paused = False
            self.seen.append(Seen(0.0, -1, 0.0))  # lines that came while the view was left are no lag

    def watch_for(self, seconds: float) -> None:
        """Reads for a while."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.terminal.pump(0.005)

    def lags(self) -> list[float]:
        """For lines all over the log, how long after they were written they were shown: 20 samples a frame."""
        lags = []
        for before, now in zip(self.seen, self.seen[1:], strict=False):
            if before.number < 0 or now.number < 0:
                continue
            for part in range(1, 21):
                written = before.written + (now.written - before.written) * part / 20
                lags.append(now.time - written)
        return lags

    def shown_count(self) -> int:
        """The number of lines that the border tells."""
        counts = re.findall(rb"following, ([\d,]+) line", self._text)
        return int(counts[-1].replace(b",", b"")) if counts else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
