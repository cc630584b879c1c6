"""An idle workbench uses less than 1 % of a core and writes nothing to the terminal or disk."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time

from benchmarks.first_frame import SAMPLE, FirstFrame
from benchmarks.harness import COUNT, PERCENT, check, finish, note, processor_seconds, python
from benchmarks.terminal import Terminal

SECONDS = 20.0
PROCESSOR_LIMIT = 0.01


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        project = shutil.copytree(SAMPLE, os.path.join(folder, "sample"), ignore=shutil.ignore_patterns(".workbench"))
        command = [python(), "-m", "tui_workbench", project]
        environment = FirstFrame(command, [], folder).environment()
        with Terminal(command, columns=120, rows=36, changes=environment, directory=folder) as terminal:
            terminal.until_text("train.py")
            terminal.settle(1.0)
            before, used = _written(terminal.pid), processor_seconds(terminal.pid)
            start = time.perf_counter()
            terminal.settle(SECONDS, SECONDS)
            elapsed = time.perf_counter() - start
            share = (processor_seconds(terminal.pid) - used) / elapsed
            written = _written(terminal.pid) - before
        check(f"idle for {elapsed:.0f} s, processor", share, PROCESSOR_LIMIT, PERCENT)
        check("idle, bytes written", written, 0, COUNT)
        note("both count every thread; written are all bytes given to write calls, whatever the file")
    return finish()


def _written(pid: int) -> int:
    """Return the bytes that the process has passed to write calls."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        fields = dict(line.split(": ") for line in file.read().splitlines())
    return int(fields["wchar"])


if __name__ == "__main__":
    sys.exit(main())
