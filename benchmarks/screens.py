"""Measure the screens: processor time to the first frame, memory, an idle screen, and the Run key.

    python -m benchmarks.screens [--wall]

The baseline of the first three is a minimal Textual app with one line. Both run in a pseudo-terminal of 120 x 36 with
the files of the sample. The first frame is complete when the terminal has received all of the given texts; `--wall`
compares its wall time, which needs a machine without other work. The Run key is compared with `experiment submit`. Both
measurements end with the first line of the script. Every run prints a new token, so that an old frame cannot count.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import time

import pyte

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    Processor,
    compare,
    compare_values,
    environment,
    finish,
    python,
    resident_memory,
    scratch_folder,
    time_on_processors,
    until_idle,
)
from benchmarks.terminal import Terminal

COLUMNS, ROWS = 120, 36
FRAME_LIMIT = 1.2
MEMORY_LIMIT = 1.75
IDLE_SECONDS = 4.0
IDLE_PLUS = 0.01
RUN_LIMIT = 1.0
FRAME_ROUNDS, RUN_ROUNDS = 4, 3
CTRL_R = "\x12"

MINIMAL = """
from textual.app import App, ComposeResult
from textual.widgets import Static

class Minimal(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("a minimal Textual app")

Minimal().run()
"""
MINIMAL_NAME = "minimal Textual app"
MINIMAL_COMMAND, MINIMAL_TEXT = [python(), "-c", MINIMAL], "a minimal Textual app"

SCRIPT = "print(open('token').read(), flush=True)\n"
COMPUTE = 'type: "local"\npythonLocation: "{python}"\n'
RUNCONFIG = 'Target: "local"\nArgumentVector:\n  - "first.py"\nFramework: "Python"\nTrackedRun: false\n'

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


class FirstFrame:
    """A measurement of the start of a program, until its screen shows all `texts`.

    `memory` holds the resident memory of each start, measured when `last` is shown as well.
    """

    def __init__(self, command: list[str], texts: list[str], last: str, directory: str, *, wall: bool) -> None:
        self.command = command
        self.texts = texts
        self.last = last
        self.directory = directory
        self.wall = wall
        self.memory: list[float] = []

    def __call__(self) -> float:
        """Return the processor or wall time from the start to the last necessary byte, in seconds."""
        chunks: list[tuple[bytes, float]] = []
        with program(self.command, self.directory) as terminal:

            def note_chunk(data: bytes, when: float) -> None:
                chunks.append((data, when - terminal.started if self.wall else time_on_processors(terminal.pid)))

            terminal.watch = note_chunk
            wanted = [text.encode() for text in (*self.texts, self.last)]
            terminal.until(lambda: all(text in b"".join(data for data, _ in chunks) for text in wanted))
            terminal.settle(0.3)
            self.memory.append(float(resident_memory(terminal.pid)))
            return self._moment(chunks)

    def _moment(self, chunks: list[tuple[bytes, float]]) -> float:
        screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.ByteStream(screen)
        for data, when in chunks:
            stream.feed(data)
            shown = "\n".join(screen.display)
            if all(text in shown for text in self.texts):
                return when
        raise AssertionError(f"never on the screen: {self.texts}")


def program(command: list[str], folder: str) -> Terminal:
    """Start a program with the interpreter of the benchmark first on the PATH, for local targets."""
    path = f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    changes = {"PATH": path, "HOME": folder}
    return Terminal(command, columns=COLUMNS, rows=ROWS, emulate=False, changes=changes, directory=folder)


def measure_start(project: str, folder: str, *, wall: bool) -> None:
    """Compare the processor time of the first frame, and the memory, with those of a minimal Textual app."""
    names = [name for name in os.listdir(project) if not name.startswith(".")]
    names += os.listdir(os.path.join(project, "aml_config"))
    ours = FirstFrame([python(), "-m", "tui_workbench", project], names, "No runs yet", folder, wall=wall)
    minimal = FirstFrame(MINIMAL_COMMAND, [MINIMAL_TEXT], MINIMAL_TEXT, folder, wall=wall)
    compare("first frame, files listed", ours, minimal, FRAME_LIMIT, FRAME_ROUNDS, baseline_name=MINIMAL_NAME)
    memory, least = statistics.median(ours.memory), statistics.median(minimal.memory)
    compare_values("resident memory", memory, least, MEMORY_LIMIT, baseline_name=MINIMAL_NAME, unit=MEGABYTES)


def measure_idle(project: str, folder: str) -> None:
    """Compare the processor time and the written bytes of idle screens."""
    ours = idle([python(), "-m", "tui_workbench", project], folder)
    minimal = idle(MINIMAL_COMMAND, folder)
    name = "idle, share of a core"
    compare_values(name, ours[0], minimal[0], 1.0, baseline_name=MINIMAL_NAME, margin=IDLE_PLUS, unit=PERCENT)
    compare_values("idle, bytes written to any file", ours[1], minimal[1], 1.0, baseline_name=MINIMAL_NAME, unit=COUNT)


def idle(command: list[str], folder: str) -> tuple[float, int]:
    """Return the share of a core that an idle program uses, and the bytes that it writes to any file."""
    with program(command, folder) as terminal:
        terminal.settle(1.0)
        until_idle(terminal.pid)
        written, measured = _written(terminal.pid), Processor(terminal.pid)
        terminal.settle(IDLE_SECONDS, IDLE_SECONDS)
        return measured.share(), _written(terminal.pid) - written


def _written(pid: int) -> int:
    """Return the bytes that the process has passed to write calls."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        fields = dict(line.split(": ") for line in file.read().splitlines())
    return int(fields["wchar"])


def measure_run_key(folder: str) -> None:
    """Compare the Run key with the command that submits a run."""
    project, other = (_make_project(os.path.join(folder, name)) for name in ("project", "other"))
    tokens = (f"token-{number}-end" for number in itertools.count())
    with Terminal([python(), "-m", "tui_workbench", project], directory=folder, changes={"HOME": folder}) as terminal:
        terminal.until_text("first.py")
        terminal.until_text("ready")
        terminal.settle(0.3)

        def key_to_line() -> float:
            token = _write_token(project, next(tokens))
            pressed = terminal.send(CTRL_R)
            shown = terminal.until_text(token)
            terminal.settle(0.2)
            return shown - pressed

        compare(
            "Run key until the script's first line is in the log view",
            key_to_line,
            lambda: _submitted(other, folder, _write_token(other, next(tokens))),
            limit=RUN_LIMIT,
            rounds=RUN_ROUNDS,
            baseline_name="`experiment submit` until its first line",
        )


def _make_project(root: str) -> str:
    configuration = os.path.join(root, "aml_config")
    os.makedirs(configuration)
    for path, text in (
        (os.path.join(configuration, "local.compute"), COMPUTE.format(python=python())),
        (os.path.join(configuration, "local.runconfig"), RUNCONFIG),
        (os.path.join(root, "first.py"), SCRIPT),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return root


def _write_token(project: str, token: str) -> str:
    with open(os.path.join(project, "token"), "w", encoding="ascii") as file:
        file.write(token)
    return token


def _submitted(project: str, home: str, token: str) -> float:
    command = [python(), "-m", "tui_workbench", "experiment", "submit", "-c", "local", "--project", project]
    variables = environment({"HOME": home})
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if token.encode() in line:
                taken = time.perf_counter() - start
        return taken


def main(*, wall: bool) -> int:
    with scratch_folder() as folder:
        left_out = shutil.ignore_patterns(".workbench", "outputs", "__pycache__")
        project = shutil.copytree(SAMPLE, os.path.join(folder, "sample"), ignore=left_out)
        measure_start(project, folder, wall=wall)
        measure_idle(project, folder)
        measure_run_key(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main(wall="--wall" in sys.argv))
