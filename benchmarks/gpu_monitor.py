"""The GPU monitor with eight machines of eight busy GPUs each, one sample per second.

    python -m benchmarks.gpu_monitor [SECONDS]

The workbench runs in a pseudo-terminal of 200 x 60. This script writes the files of the samplers: each second one
sample per machine with all values changed. Reading them is measured, querying a driver is not (see `gpu_sampling`).
The baseline is a Textual app with one `Static` that shows as many lines.
"""

from __future__ import annotations

import fcntl
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.harness import MILLISECONDS, PERCENT, Unit, check, finish, note, percentile, processor_seconds, python
from benchmarks.terminal import Terminal
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.feed import LISTENERS, SAMPLER_LOCK, SAMPLES
from tui_workbench.targets.gpu.gpus import machine_key
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode

MACHINES, GPUS = 8, 8
COLUMNS, ROWS = 200, 60
SECONDS = 20.0
PAST_SECONDS = 300
KEY_LIMIT = 0.033
PROCESSOR_LIMIT = 0.06
"""Share of one processor: watching 64 GPUs must leave the machine to training."""

BYTES_LIMIT = 20_000
BYTES = Unit("bytes/s", 1.0, 0)

STATIC = """
import sys, time
from textual.app import App
from textual.widgets import Static
class Bare(App):
    CSS = "Static {{ height: 1fr; }}"
    def compose(self):
        yield Static(markup=False)
    def on_mount(self):
        self.number = 0
        self.set_interval(1.0, self.tick)
    def tick(self):
        self.number += 1
        with open({frames!r}) as file:
            frames = file.read().split("\\f")
        self.query_one(Static).update(frames[self.number % len(frames)])
Bare().run()
"""


class Farm:
    """The files of the samplers, with locks that prevent real samplers from starting."""

    def __init__(self, project: str, state: str) -> None:
        self._random = random.Random(7)
        self._folders = []
        self._locks = []
        self._machine = Machine(
            tuple(Device(n, f"GPU-{n:08d}", "NVIDIA H200", 143771.0, 700.0) for n in range(GPUS)),
            "550.54",
            "12.4",
            "nvml",
        )
        configuration = os.path.join(project, "aml_config")
        os.makedirs(configuration)
        write(os.path.join(project, "train.py"), b"print(1)\n")
        for number in range(MACHINES):
            write(
                os.path.join(configuration, f"box{number}.compute"),
                f'type: "remote"\naddress: "box{number}"\nusername: "me"\n'.encode(),
            )
            target = ComputeTarget(f"box{number}", "", "remote", address=f"box{number}", username="me")
            self._folders.append(os.path.join(state, "workbench-tui", "gpu", machine_key(target)))
        now = time.time()
        for folder in self._folders:
            os.makedirs(folder)
            write(os.path.join(folder, LISTENERS), b"")
            lock = os.open(os.path.join(folder, SAMPLER_LOCK), os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._locks.append(lock)
            past = b"".join(self._sample(now - PAST_SECONDS + second) for second in range(PAST_SECONDS))
            write(os.path.join(folder, SAMPLES), encode(self._machine) + past)

    def tell(self) -> None:
        """A sample of each machine."""
        now = time.time()
        for folder in self._folders:
            with open(os.path.join(folder, SAMPLES), "ab") as file:
                file.write(self._sample(now))

    def _sample(self, moment: float) -> bytes:
        whole = self._random.uniform
        readings = tuple(
            Reading(n, round(whole(0, 100)), round(whole(9e3, 1e5), 1), round(whole(80, 700), 1), round(whole(40, 80)),
                    round(whole(300, 1980)), 2619.0, self._random.choice((0, 4)), 0)
            for n in range(GPUS)
        )  # fmt: skip
        processes = tuple(
            Process(1000 + n, n, round(whole(9e3, 1e5), 1), round(whole(0, 100)), "alice", "python")
            for n in range(GPUS)
        )
        return encode(Sample(moment, readings, processes))


class Watched:
    """Processor time, memory and key times of a program."""

    def __init__(self) -> None:
        self.processor = 0.0
        self.bytes = 0.0
        self.keys: list[float] = []


def main(seconds: float) -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        project, state = os.path.join(folder, "project"), os.path.join(folder, "state")
        farm = Farm(project, state)
        changes = {
            name: os.path.join(folder, name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        }
        changes |= {"XDG_STATE_HOME": state, "HOME": folder}
        frames: list[str] = []
        with monitor(project, folder, changes) as terminal:
            ours = watch(terminal, farm.tell, seconds, frames.append, with_keys=True)
        path = os.path.join(folder, "frames")
        write(path, "\f".join(frames).encode())
        with Terminal(
            [python(), "-c", STATIC.format(frames=path)], columns=COLUMNS, rows=ROWS, directory=folder
        ) as bare:
            bare.until_text("H200")
            theirs = watch(bare, lambda: None, seconds, lambda _: None, with_keys=False)
    ratio = ours.processor / theirs.processor
    check("processor, of one, with 64 GPUs at 1 Hz", ours.processor, PROCESSOR_LIMIT, PERCENT,
          note=f"bare Static {theirs.processor:.1%}, ratio {ratio:.2f}")  # fmt: skip
    check("written to the terminal", ours.bytes, BYTES_LIMIT, BYTES, note=f"bare Static {theirs.bytes:,.0f} bytes/s")
    check(
        "a key, p95",
        percentile(ours.keys, 95),
        KEY_LIMIT,
        note=f"median {MILLISECONDS.show(statistics.median(ours.keys))}",
    )
    note(f"{MACHINES} machines with {GPUS} GPUs, {COLUMNS} x {ROWS}, {seconds:g} s each; faked samplers")
    return finish()


@contextmanager
def monitor(project: str, folder: str, changes: dict[str, str]) -> Iterator[Terminal]:
    """The workbench on its monitor."""
    command = [python(), "-m", "tui_workbench", project]
    with Terminal(command, columns=COLUMNS, rows=ROWS, directory=folder, changes=changes) as terminal:
        terminal.until_text("train.py")
        terminal.send("7")
        terminal.until_text("64 GPUs")
        terminal.until_text("alice")
        yield terminal


def watch(
    terminal: Terminal, tell: Callable[[], None], seconds: float, keep: Callable[[str], None], *, with_keys: bool
) -> Watched:
    """Write a sample and press a key each second; keep the screen after each key."""
    found = Watched()
    before, received = processor_seconds(terminal.pid), terminal.received
    start = time.perf_counter()
    for number in range(int(seconds)):
        tell()
        key_at = start + number + 0.8
        while time.perf_counter() < key_at:
            terminal.pump(0.01)
        keep("\n".join(terminal.screen.display))
        if with_keys:
            seen = terminal.received
            pressed = terminal.send("j" if number % 2 else "k")
            while terminal.received == seen and time.perf_counter() < pressed + 1:
                terminal.pump(0.001)
            found.keys.append(time.perf_counter() - pressed)
        while time.perf_counter() < start + number + 1:
            terminal.pump(0.01)
    passed = time.perf_counter() - start
    found.processor = (processor_seconds(terminal.pid) - before) / passed
    found.bytes = (terminal.received - received) / passed
    return found


def write(path: str, data: bytes) -> None:
    """Write a file."""
    with open(path, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
