"""Measure the monitor of 64 GPUs, the sampler, the verdict of a long run, and the GPU check before a run.

    python -m benchmarks.gpu [SECONDS]

Monitor: the workbench runs in a pseudo-terminal of 200 x 60 with eight machines of eight busy GPUs. This script writes
the files of the samplers: each second one sample per machine, in which all values have changed. The time to read the
files is measured, not the time to query a driver. The baseline is a Textual app with one `Static` of as many lines.

The drivers of the sampler and of the check are the stand-ins of the tests. A real driver takes additional time. The
baseline of the check is one call to `nvidia-smi`; the baseline of the verdict parses the same file. The sampler has no
baseline; its limit is a share of a core.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.harness import (
    PERCENT,
    Unit,
    check,
    compare,
    compare_values,
    finish,
    on_processor,
    processor_seconds,
    python,
    time_on_processors,
)
from benchmarks.terminal import Terminal
from tests.conftest import write_project
from tests.gpu import frameworks
from tests.gpu.standin import Standin, build, gpu, process
from tui_workbench.core.model import ComputeTarget, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.gate import check_gpu
from tui_workbench.runs.gpu.judging import fresh_verdict
from tui_workbench.runs.gpu.usage import OWN, SUM_EVERY, Usage, sum_line
from tui_workbench.runs.submission import planning
from tui_workbench.targets.gpu.feed import LISTENERS, SAMPLER_LOCK, SAMPLES, Feed
from tui_workbench.targets.gpu.gpus import machine_key
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode

MACHINES, GPUS = 8, 8
COLUMNS, ROWS = 200, 60
SECONDS = 4.0
PAST_SECONDS = 300
KEY_LIMIT = 2.0
PROCESSOR_LIMIT = 12.0
BYTES_LIMIT = 0.6
"""Limit of the bytes that the monitor writes, as a multiple of the bare `Static`."""

BARE = "bare `Static`"
BYTES = Unit("bytes/s", 1.0, 0)

SAMPLER_LIMIT = 0.01
"""Limit of the sampler as a share of one core, which training could use."""

DAY = 24 * 3600
VERDICT_LIMIT = 0.1
CHECK_LIMIT = 10.0

STATIC = """
import sys, time
from textual.app import App
from textual.widgets import Static
class Bare(App):
    CSS = "Static {{ height: 1fr; }}"
    def compose(self):
        yield Static(markup=False)
    def on_key(self, event):
        self.query_one(Static).update(f"key {{event.key}} {{self.number}}")
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
        """Write a new sample of each machine."""
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
    """The processor time, output and key times of a program."""

    def __init__(self) -> None:
        self.processor = 0.0
        self.bytes = 0.0
        self.keys: list[float] = []


def main(seconds: float) -> int:
    measure_monitor(seconds)
    for library in (True, False):
        measure_sampler(GPUS, library=library)
    measure_verdict()
    measure_check()
    return finish()


def measure_monitor(seconds: float) -> None:
    """Compare the monitor with a bare widget."""
    with tempfile.TemporaryDirectory() as folder:
        project, state = os.path.join(folder, "project"), os.path.join(folder, "state")
        farm = Farm(project, state)
        changes = {
            name: os.path.join(folder, name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        }
        changes |= {"XDG_STATE_HOME": state, "HOME": folder}
        frames: list[str] = []
        with monitor(project, folder, changes) as terminal:
            ours = watch(terminal, farm.tell, seconds, frames.append)
        path = os.path.join(folder, "frames")
        write(path, "\f".join(frames).encode())
        with Terminal(
            [python(), "-c", STATIC.format(frames=path)], columns=COLUMNS, rows=ROWS, directory=folder
        ) as bare:
            bare.until_text("H200")
            theirs = watch(bare, lambda: None, seconds, lambda _: None)
    name = f"monitor of {MACHINES * GPUS} GPUs at 1 Hz"
    keys, their_keys = statistics.median(ours.keys), statistics.median(theirs.keys)
    compare_values(f"{name}, share of a core", ours.processor, theirs.processor, PROCESSOR_LIMIT, baseline_name=BARE,
                   unit=PERCENT)  # fmt: skip
    compare_values(f"{name}, output", ours.bytes, theirs.bytes, BYTES_LIMIT, baseline_name=BARE, unit=BYTES)
    compare_values(f"{name}, key press until the repaint", keys, their_keys, KEY_LIMIT, baseline_name=BARE)


@contextmanager
def monitor(project: str, folder: str, changes: dict[str, str]) -> Iterator[Terminal]:
    """Run the workbench with its monitor open while the context is active."""
    command = [python(), "-m", "tui_workbench", project]
    with Terminal(command, columns=COLUMNS, rows=ROWS, directory=folder, changes=changes) as terminal:
        terminal.until_text("train.py")
        terminal.send("7")
        terminal.until_text("64 GPUs")
        terminal.until_text("alice")
        yield terminal


def watch(terminal: Terminal, tell: Callable[[], None], seconds: float, keep: Callable[[str], None]) -> Watched:
    """Write a sample and press a key each second. Call `keep` with the screen after each key."""
    found = Watched()
    before, received = processor_seconds(terminal.pid), terminal.received
    start = time.perf_counter()
    for number in range(int(seconds)):
        tell()
        key_at = start + number + 0.8
        while time.perf_counter() < key_at:
            terminal.pump(0.01)
        keep("\n".join(terminal.screen.display))
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
    with open(path, "wb") as file:
        file.write(data)


def sampling(state: str) -> list[int]:
    """Return the sampler with this state directory, and the shell that reads the output of `nvidia-smi`.

    The processes of the stand-in itself are not returned.
    """
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            words, variables = (Path("/proc", name, file).read_bytes() for file in ("cmdline", "environ"))
            if state.encode() in variables and any(mark in words for mark in (b"gpu.sampler", b"nvidia-smi --query")):
                found.append(int(name))
    return found


def measure_sampler(gpus: int, *, library: bool) -> None:
    """Measure the processor time of the sampler and its children, with the driver's library or `nvidia-smi`."""
    with tempfile.TemporaryDirectory(prefix="wb-gpu-") as name:
        os.environ["XDG_STATE_HOME"] = name
        parts = build(Path(name))
        standin = Standin(Path(name, "gpus"), parts)
        standin.write(*(gpu(each) for each in range(gpus)), *(process(os.getpid(), each) for each in range(gpus)))
        os.environ.update(standin.variables)
        if not library:
            (parts.libraries / "libnvidia-ml.so.1").unlink()
        with Feed(ComputeTarget("local", "/x", "local")) as feed:
            while not feed.machine:
                feed.read()
                time.sleep(0.1)
            time.sleep(2)
            processes = sampling(name)
            before, began = sum(map(time_on_processors, processes)), time.monotonic()
            while time.monotonic() < began + SECONDS:
                feed.read()
                time.sleep(1)
            share = (sum(map(time_on_processors, processes)) - before) / (time.monotonic() - began)
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while sampling(name):
            time.sleep(0.1)
    how = "NVML" if library else "nvidia-smi"
    check(f"sampler of {gpus} GPUs with {how}, share of a core", share, SAMPLER_LIMIT, PERCENT)


def write_day(path: Path) -> None:
    """Record a day of one GPU at 1 Hz, as a controller does."""
    usage = Usage()
    usage.machine = Machine((Device(0, "GPU-0", "Tesla T4", 15360, 70.0),), "550.54", "12.4", "nvml")
    with path.open("wb") as file:
        file.write(encode(usage.machine))
        for number in range(DAY):
            reading = Reading(0, (7 * number) % 101, 9000.0, 60.0 + number % 10, 70, 1590, 5000, 4, 0)
            process = Process(4242, 0, 8500.0 + number % 7, None, OWN, "python")
            sample = Sample(1.7e9 + number, (reading,), (process,))
            usage.add(sample)
            file.write(encode(sample))
            if (number + 1) % SUM_EVERY == 0 and number + 50 < DAY:
                file.write(sum_line(usage))


def measure_verdict() -> None:
    """Compare the verdict of a day-long run, from its last stored sum, with parsing the lines of its samples."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "gpu.jsonl")
        write_day(path)

        def parse() -> None:
            for line in path.read_bytes().split(b"\n")[:-1]:
                json.loads(line)

        def verdict() -> None:
            found = fresh_verdict(name, {})
            assert found is not None
            assert found.samples == DAY

        compare("verdict of a run of one day", on_processor(verdict), on_processor(parse), VERDICT_LIMIT, 5,
                baseline_name="parsing its samples")  # fmt: skip


def measure_check() -> None:
    """Compare the GPU checks before a run in a known environment with one call to `nvidia-smi`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        standin = Standin(folder / "gpus", build(folder))
        os.environ.update(standin.variables)
        standin.write(gpu(0))
        frameworks.torch(folder / "packages")
        root = write_project(folder / "project")
        (root / "train.py").write_text("import torch\n")
        path = root / "aml_config" / "local.runconfig"
        path.write_text(path.read_text().replace("{}", f"{{PYTHONPATH: {folder / 'packages'}}}"))
        with (root / "aml_config" / "local.compute").open("a") as file:
            file.write("gpus: all\n")
        spec = planning.prepare(Project.find(str(root)), RunRequest("local", "train.py")).spec
        assert "a matrix product was correct" in check_gpu(spec).text

        def again() -> None:
            assert check_gpu(spec).refusal is None

        def only_the_driver() -> None:
            os.system("nvidia-smi --query-gpu=name,driver_version,memory.total,uuid --format=csv,noheader >/dev/null")

        name = "check before a run that requests a GPU"
        compare(name, again, only_the_driver, CHECK_LIMIT, 7, baseline_name="one `nvidia-smi`")


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
