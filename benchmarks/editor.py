"""Time from opening a configuration file to its form, and from a key in a long file to its problem.

The workbench runs in a pseudo-terminal with the sample project. The time ends when the bytes of the named text
arrive; nothing is emulated during the measurement.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile

from benchmarks.harness import check, finish, note, percentile, python
from benchmarks.terminal import Terminal

OPEN_LIMIT = 0.050
KEY_LIMIT = 0.033
ROUNDS = 30
KEYS = 80
LINES = 300

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


class Workbench(Terminal):
    """The workbench on a project, with the time of each byte."""

    def __init__(self, project: str) -> None:
        super().__init__(
            [python(), "-m", "tui_workbench", project], emulate=False, changes={"HOME": project}, directory=project
        )
        self._tail = b""
        self._came = 0.0
        self.watch_rows(self._note)

    def _note(self, data: bytes, when: float) -> None:
        self._tail = (self._tail + data)[-65536:]
        self._came = when

    def start(self) -> None:
        """Wait until the screen is complete and the editor's modules are imported."""
        self.until(lambda: b"No runs yet" in self._tail)
        self.settle(1.5)

    def seconds_until(self, keys: str, text: str) -> float:
        """Types the keys; returns the seconds until bytes with the text came, after what came before has settled."""
        self.settle()
        self._tail = b""
        wanted = text.encode()
        pressed = self.send(keys)
        self.until(lambda: wanted in self._tail)
        return self._came - pressed


def opening(project: str) -> None:
    """Enter on gpu-box.compute in the files, until a field of its form is drawn."""
    with Workbench(project) as workbench:
        workbench.start()
        workbench.seconds_until("/gpu-box.compute\r", "nativeSharedDirectory")
        times = []
        for _ in range(ROUNDS):
            workbench.seconds_until("\x17", "enter on a file")
            workbench.seconds_until("1", "enter ")
            times.append(workbench.seconds_until("\r", "nativeSharedDirectory"))
    note(f"median {statistics.median(times) * 1e3:.1f} ms")
    check("enter on a .compute file to its form, p95", percentile(times, 95), OPEN_LIMIT)


def typing(project: str) -> None:
    """A colon at the end of a line of a long dependency file, until the problem that it makes is drawn."""
    packages = "".join(f"  - package{number}=1.{number}\n" for number in range(LINES - 2))
    path = os.path.join(project, "aml_config", "conda_dependencies.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("name: long\ndependencies:\n" + packages)
    with Workbench(project) as workbench:
        workbench.start()
        workbench.seconds_until("/conda_dep\r", "package0=1.0")
        workbench.seconds_until("\x14", "YAML")  # from the form to the text
        workbench.seconds_until("\x06:150\r", "package147=")
        workbench.send("\x1b")
        workbench.settle()
        workbench.send("\x1b[F")
        times = []
        for _ in range(KEYS):
            times.append(workbench.seconds_until(":", "▲"))
            workbench.settle()
            workbench.send("\x7f")
    note(f"median {statistics.median(times) * 1e3:.1f} ms")
    check(f"key in a file of {LINES} lines to its problem on the screen, p95", percentile(times, 95), KEY_LIMIT)


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as directory:
        project = os.path.join(directory, "sample_project")
        shutil.copytree(SAMPLE, project)
        opening(project)
        typing(project)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
