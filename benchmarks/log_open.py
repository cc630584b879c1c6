"""Measure the time to open and to search a log of 1 GB.

    python -m benchmarks.log_open

Opening is the time from the start of the workbench to the frame with the last line. The baseline is a log of a
hundred lines. Memory is private memory after all lines are counted. Searching is compared with `grep -c`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

from benchmarks import log_programs
from benchmarks.harness import MEGABYTES, check, compare, finish, percentile, private_memory
from benchmarks.terminal import Seen, Terminal
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.runs.logs.log_search import Pattern, Search

OPEN_LIMIT = 1.2
MEMORY_LIMIT = 10e6
SEARCH_LIMIT = 2.0
DENSE_LIMIT = 3.0
"""Limit for a text that is in every line. This case is rare, and Python creates an object for each match."""

GIGABYTE = 1 << 30
LAST = b"Needle: the last line of the log"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        big, log = project_with_log(os.path.join(folder, "big"), GIGABYTE)
        small, _ = project_with_log(os.path.join(folder, "small"), 10_000)
        opening = partial(time_to_last_line, big), partial(time_to_last_line, small)
        compare("1 GB log opened at its end", *opening, OPEN_LIMIT, 8, baseline_name="100 lines")
        extra = percentile([memory_with(big) - memory_with(small) for _ in range(3)], 50)
        check("1 GB log: additional private memory, compared with 100 lines", extra, MEMORY_LIMIT, MEGABYTES)
        for text, options, limit in (
            ("Needle", [], SEARCH_LIMIT),
            ("needle", ["-i"], SEARCH_LIMIT),
            ("Throughput", [], DENSE_LIMIT),
        ):
            grep = ["grep", "-c", *options, text, log]
            name = f"1 GB log searched for {text!r}"
            compare(name, partial(count, log, text), partial(run, grep), limit, 4, baseline_name=" ".join(grep[:-1]))
    return finish()


def project_with_log(root: str, size: int) -> tuple[str, str]:
    """Create a project with an ended run and a log of about this number of bytes. Return the paths of both."""
    runs = log_programs.write_project(root, "print('a run')\n")
    ended = runs.submit(RunRequest("local", "script.py"))
    while ended.is_active:
        time.sleep(0.05)
        ended = runs.get(ended.run_id)
    with open(ended.log_path, "wb") as file:
        number = 0
        while file.tell() < size:
            file.write(b"".join(line(number + offset) for offset in range(100)))
            number += 100
        file.write(LAST + b"\n")
    return root, ended.log_path


def line(number: int) -> bytes:
    """Return a line of a training log."""
    loss = number * 7919 % 10007
    return b"epoch %d step %d loss 0.%05d accuracy 0.%04d lr 0.001 Throughput %d images/s\n" % (
        number // 1000,
        number,
        loss,
        10007 - loss,
        9000 + loss % 977,
    )


def time_to_last_line(project: str) -> float:
    """Return the seconds from the start of the program until the screen shows the last line."""
    with Terminal(log_programs.workbench(project), emulate=False) as terminal:
        return Seen(terminal).until(LAST) - terminal.started


def memory_with(project: str) -> int:
    """Return the private memory of the program when it has counted all lines."""
    with Terminal(log_programs.workbench(project), emulate=False) as terminal:
        Seen(terminal).until(LAST, b" lines ")
        terminal.settle(0.5)
        return private_memory(terminal.pid)


def count(path: str, text: str) -> None:
    """Search the whole log as the log view does."""
    with LogFile(path) as log:
        search = Search(log, Pattern(text))
        while not search.count():
            pass
        assert search.matches


def run(command: list[str]) -> None:
    """Run grep with output to a pipe, because with output to /dev/null it stops at the first match."""
    subprocess.run(command, stdout=subprocess.PIPE, check=True)


if __name__ == "__main__":
    sys.exit(main())
