"""Time to the first frame with the files of the sample, compared with a minimal Textual app with one line.

Both run in a pseudo-terminal of 120 x 36. The time ends when the bytes arrive that complete the named texts; the
screen is emulated after the measurement. Resident memory is read when the output has stopped, so that modules loaded
after the first frame count.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile

import pyte

from benchmarks.harness import MEGABYTES, check, compare, finish, note, python, resident_memory
from benchmarks.terminal import Terminal

COLUMNS, ROWS = 120, 36
FRAME_LIMIT = 1.2
MEMORY_LIMIT = 1.6
ROUNDS = 20

MINIMAL = """
from textual.app import App, ComposeResult
from textual.widgets import Static

class Minimal(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("a minimal Textual app")

Minimal().run()
"""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


class FirstFrame:
    """Starts a program and waits until its screen shows all `texts`. Keeps the resident memory of each start."""

    def __init__(self, command: list[str], texts: list[str], directory: str) -> None:
        self.command = command
        self.texts = texts
        self.directory = directory
        self.memory: list[float] = []

    def __call__(self) -> float:
        """Return the seconds from the start to the last necessary byte."""
        chunks: list[tuple[bytes, float]] = []
        with Terminal(
            self.command,
            columns=COLUMNS,
            rows=ROWS,
            emulate=False,
            changes=self.environment(),
            directory=self.directory,
        ) as terminal:
            terminal.watch = lambda data, when: chunks.append((data, when))
            terminal.until(lambda: all(text.encode() in b"".join(data for data, _ in chunks) for text in self.texts))
            terminal.settle(0.3)
            self.memory.append(float(resident_memory(terminal.pid)))
            return self._moment(chunks) - terminal.started

    def environment(self) -> dict[str, str]:
        """Put the interpreter of the benchmark first on the PATH for local targets."""
        return {"PATH": f"{os.path.dirname(python())}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def _moment(self, chunks: list[tuple[bytes, float]]) -> float:
        screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.ByteStream(screen)
        for data, when in chunks:
            stream.feed(data)
            shown = "\n".join(screen.display)
            if all(text in shown for text in self.texts):
                return when
        raise AssertionError(f"never on the screen: {self.texts}")


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        project = shutil.copytree(
            SAMPLE,
            os.path.join(folder, "sample"),
            ignore=shutil.ignore_patterns(".workbench", "outputs", "__pycache__"),
        )
        names = [name for name in os.listdir(project) if not name.startswith(".")]
        names += os.listdir(os.path.join(project, "aml_config"))
        ours = FirstFrame([python(), "-m", "tui_workbench", project], names, folder)
        minimal = FirstFrame([python(), "-c", MINIMAL], ["a minimal Textual app"], folder)
        compare("first frame, files listed", ours, minimal, FRAME_LIMIT, ROUNDS, baseline_name="minimal Textual app")
        least = statistics.median(minimal.memory)
        check("resident memory", statistics.median(ours.memory), MEMORY_LIMIT * least, MEGABYTES)
        note(f"minimal Textual app {MEGABYTES.show(least)}, promised {MEMORY_LIMIT} x of it")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
