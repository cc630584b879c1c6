"""Measure the screens: the start, an idle screen, the Run key, forms and keys of the editor, and the use over SSH.

    python -m benchmarks.screens [--wall]

Start: the baseline of the processor time to the first frame, of the memory and of the idle screen is a minimal Textual
app with one line. Both run in a pseudo-terminal of 120 x 36 with the files of the sample. The first frame is complete
when the terminal has received all of the given texts; `--wall` compares its wall time, which needs a machine without
other work.

Run key: the baseline is `experiment submit`. Both measurements end with the first line of the script. Every run prints
a new token, so that an old frame cannot count.

Editor: the time from a key in a long file to the letter, or to the problem that the key causes, is compared with a key
in Textual's `TextArea`. The time to open the form of a file is compared with a form of Textual's `Input` widgets. No
terminal is emulated during these measurements.

Bytes: the workbench runs in a pseudo-terminal with 256 colors. All bytes that the terminal receives are counted. The
baseline is the same program with Textual's own output.

Delay: an SSH server on this machine is reached through a relay that delays each byte by 100 ms in each direction,
because the kernels of build machines have no netem. The baseline is `cat` on the other side, where the terminal echoes
each key.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    Processor,
    Unit,
    compare,
    compare_values,
    environment,
    finish,
    percentile,
    python,
    resident_memory,
    scratch_folder,
    time_on_processors,
    until_idle,
)
from benchmarks.terminal import Seen, Terminal
from tests.terminal.sshd import SlowLine, Sshd

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

FORM_LIMIT, LETTER_LIMIT, ERROR_LIMIT = 1.0, 5.0, 15.0
FORM_ROUNDS, LETTERS, ERROR_ROUNDS = 3, 20, 6
LINES = 300
F2, F3 = "\x1bOQ", "\x1bOR"

WIDGETS = """
import sys
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import Input, Label, TextArea

class Stock(App):
    CSS = "TextArea {{ height: 12; }} Input {{ height: 1; border: none; }}"
    BINDINGS = [("f2", "open", "Open"), ("f3", "close", "Close")]
    form = None

    def compose(self):
        with open({path!r}) as file:
            yield TextArea(file.read(), show_line_numbers=True)

    async def action_open(self):
        fields = [widget for n in range(20) for widget in (Label(f"field{{n:02}}"), Input(f"value{{n:02}}"))]
        self.form = VerticalScroll(*fields)
        await self.mount(self.form)

    async def action_close(self):
        await self.form.remove()
        self.query_one(TextArea).focus()

Stock().run()
"""

BYTES = Unit("bytes", 1.0, 0)
OUTPUT_ROWS = 40
FIRST_SCREEN_LIMIT, BYTES_LIMIT = 0.5, 0.5
"""Limits of the bytes of the first screen and of a key, as multiples of Textual's."""

QUIET = 0.4
"""Seconds without a byte after which a screen is complete."""

TEXTUAL_OUTPUT = """
from textual.app import App
from tui_workbench.ui.terminal.terminal_app import TerminalApp
TerminalApp._display = App._display
from tui_workbench.ui import start
start.run({project!r})
"""

ONE_WAY = 0.1
BURST = "abcdefghijklmnopqrstuvwxyz0123"
SINGLE = 10
DELAY_LIMIT, BURST_LIMIT = 1.5, 2.5
"""Limits of a key and of a burst, as multiples of the delay of the connection."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


def main(*, wall: bool) -> int:
    with scratch_folder() as folder:
        project = _sample(folder)
        measure_start(project, folder, wall=wall)
        measure_idle(project, folder)
        measure_run_key(folder)
    for measurement in (measure_editor, measure_bytes, measure_delay):
        with scratch_folder() as folder:
            measurement(folder)
    return finish()


def _sample(folder: str, *left_out: str) -> str:
    """Copy the sample project, without its runs and these files. Return its folder."""
    ignored = shutil.ignore_patterns(".workbench", "outputs", "__pycache__", *left_out)
    return shutil.copytree(SAMPLE, os.path.join(folder, "sample_project"), ignore=ignored)


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
    changes = {"PATH": _path(), "HOME": folder}
    return Terminal(command, columns=COLUMNS, rows=ROWS, emulate=False, changes=changes, directory=folder)


def _path() -> str:
    return f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


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


def measure_editor(folder: str) -> None:
    """Compare forms, and keys in a long file, with Textual's widgets."""
    project = _sample(folder, "readme.md")
    path = os.path.join(project, "aml_config", "conda_dependencies.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("name: long\ndependencies:\n" + "".join(f"  - package{n}=1.{n}\n" for n in range(LINES - 2)))
    with program([python(), "-m", "tui_workbench", project], folder) as terminal:
        ours = Seen(terminal)
        ours.until(b"No runs yet")
        terminal.settle(1.0)
        with program([python(), "-c", WIDGETS.format(path=path)], folder) as bare:
            theirs = Seen(bare)
            theirs.until(b"package0")
            _measure_form(ours, bare, theirs)
            _measure_keys(terminal, ours, bare, theirs)


def _measure_form(ours: Seen, bare: Terminal, theirs: Seen) -> None:
    """Compare opening the form of gpu-box.compute with mounting a form of Textual's `Input` widgets."""
    ours.after("/gpu-box.compute\r", b"nativeSharedDirectory")

    def open_form() -> float:
        ours.after("\x17", b"press enter")
        ours.after("1", b"enter Open")
        return ours.after("\r", b"nativeSharedDirectory")

    def open_stock() -> float:
        taken = theirs.after(F2, b"field05")
        bare.send(F3)
        return taken

    compare("key press on a `.compute` file until its form is shown", open_form, open_stock, FORM_LIMIT, FORM_ROUNDS,
            baseline_name="form of 20 `Input` widgets")  # fmt: skip


def _measure_keys(terminal: Terminal, ours: Seen, bare: Terminal, theirs: Seen) -> None:
    """Compare a letter, and a key that causes an error, with a key in Textual's editor."""
    ours.after("\x17", b"press enter")
    ours.after("1", b"enter Open")
    ours.after("/conda_dep\r", b"package0=1.0")
    ours.after("\x14", b"YAML")  # switches from the form to the text
    ours.after("\x06:150\r", b"package147=")
    terminal.send("\x1b")
    terminal.settle()
    terminal.send("\x1b[F")

    def letter(seen: Seen, into: Terminal) -> float:
        """Return the time that only 5 % of the keys exceed."""
        times = []
        for _ in range(LETTERS):
            times.append(seen.after("Q", b"Q"))
            into.settle(0.05)
            into.send("\x7f")
            into.settle(0.05)
        return percentile(times, 95)

    name = f"letter typed in a {LINES}-line file until it is shown, 95th percentile"
    compare_values(
        name, letter(ours, terminal), letter(theirs, bare), LETTER_LIMIT, baseline_name="Textual's `TextArea`"
    )

    def with_problem() -> float:
        taken = ours.after(":", "▲".encode())
        terminal.settle()
        terminal.send("\x7f")
        return taken

    def plain() -> float:
        taken = theirs.after("~", b"~")
        bare.send("\x7f")
        return taken

    name = f"key press that causes an error in a {LINES}-line file, until the error is shown"
    compare(name, with_problem, plain, ERROR_LIMIT, ERROR_ROUNDS, baseline_name="key press in Textual's `TextArea`")


def measure_bytes(folder: str) -> None:
    """Compare the workbench's output with Textual's."""
    project = _sample(folder)
    ours = [python(), "-m", "tui_workbench", project]
    stock = [python(), "-c", TEXTUAL_OUTPUT.format(project=project)]
    theirs, mine = watch(stock, folder), watch(ours, folder)
    for what, number in mine.items():
        limit = FIRST_SCREEN_LIMIT if what == "first screen" else BYTES_LIMIT
        name = f"{what}, bytes at {COLUMNS} x {OUTPUT_ROWS}"
        compare_values(name, number, theirs[what], limit, baseline_name="Textual's output", unit=BYTES)


def watch(command: Sequence[str], home: str) -> Mapping[str, int]:
    """Return the number of bytes of each action by its name."""
    counted: dict[str, int] = {}
    with Terminal(command, columns=COLUMNS, rows=OUTPUT_ROWS, changes=_variables(home)) as terminal:
        terminal.until_text("train.py")
        terminal.settle(2 * QUIET)
        counted["first screen"] = terminal.received

        def press(what: str, keys: str) -> None:
            before = terminal.received
            terminal.send(keys)
            terminal.settle(QUIET)
            counted[what] = terminal.received - before

        terminal.send("G")
        terminal.settle(QUIET)
        press("a row up in a list", "\x1b[A")
        terminal.send("\x1b[B\r")
        terminal.until_text("Train a small")
        terminal.settle(2 * QUIET)
        press("a letter in the editor", "x")
        press("a line break in the editor", "\r")
    return counted


def _variables(home: str) -> dict[str, str]:
    """Return the environment of a terminal with 256 colors and an empty state directory."""
    return {"TERM": "xterm-256color", "COLORTERM": "", "HOME": home, "PATH": _path(), "XDG_STATE_HOME": ""}


def measure_delay(folder: str) -> None:
    """Compare keys in the workbench with keys in `cat`, over the same connection."""
    home, project = Path(folder, "home"), _sample(folder)
    home.mkdir()
    with Sshd(Path(folder)) as sshd, SlowLine(sshd.port, ONE_WAY) as line:
        with Terminal(sshd.command(["sh", "-c", "echo there; exec cat"], {}, port=line.port)) as terminal:
            terminal.until_text("there")
            delay = percentile(_typed_alone(terminal), 50)
        with sshd.workbench(project, home, port=line.port) as terminal:
            terminal.until_text("ready")
            terminal.send("1/train.py\r")
            terminal.until_text("Train a small")
            terminal.settle(1.0)
            keys = _typed_alone(terminal)
            terminal.send("\r")
            terminal.settle(1.0)
            burst = typed(terminal, BURST, BURST)
    baseline = "`cat`, echo of a key"
    compare_values(
        "key press until its effect is visible, delay of 200 ms",
        percentile(keys, 50),
        delay,
        DELAY_LIMIT,
        baseline_name=baseline,
    )
    compare_values(
        f"{len(BURST)} keys at once, until the effect of the last key is visible",
        burst,
        delay,
        BURST_LIMIT,
        baseline_name=baseline,
    )


def _typed_alone(terminal: Terminal) -> list[float]:
    return [typed(terminal, key, BURST[: place + 1]) for place, key in enumerate(BURST[:SINGLE])]


def typed(terminal: Terminal, keys: str, seen: str) -> float:
    """Return the seconds from typing until the text is on the screen."""
    pressed = terminal.send(keys)
    return terminal.until_text(seen) - pressed


if __name__ == "__main__":
    sys.exit(main(wall="--wall" in sys.argv))
