"""A log of a gigabyte, opened at its end and searched whole.

    python -m benchmarks.log_open

Opening is compared with opening a log of a hundred lines, in the same program, from its start to the frame that shows
the last line; memory is what only that process has when all lines are counted; searching is compared with `grep -c`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks import log_apps
from benchmarks.harness import MEGABYTES, check, compare, finish, percentile, private_memory
from benchmarks.terminal import Terminal
from tui_workbench.runs.logfile import LogFile
from tui_workbench.runs.logsearch import Pattern, Search

OPEN_LIMIT = 1.1
MEMORY_LIMIT = 10e6
SEARCH_LIMIT = 2.0
DENSE_LIMIT = 3.0
"""For what is in every line, as no one searches for it: Python makes an object of each match."""

GIGABYTE = 1 << 30
LAST = b"Needle: the last line of the log"


def main() -> int:
    """Makes the logs and runs everything."""
    with tempfile.TemporaryDirectory() as directory:
        big = write_log(os.path.join(directory, "big"), GIGABYTE)
        small = write_log(os.path.join(directory, "small"), 10_000)
        opening = partial(time_to_last_line, big), partial(time_to_last_line, small)
        compare("1 GB log opened at its end", *opening, OPEN_LIMIT, 20, baseline_name="100 lines")
        extra = percentile([memory_with(big) - memory_with(small) for _ in range(3)], 50)
        check("1 GB log: private memory more than for 100 lines", extra, MEMORY_LIMIT, MEGABYTES)
        for text, options, limit in (
            ("Needle", [], SEARCH_LIMIT),
            ("needle", ["-i"], SEARCH_LIMIT),
            ("Throughput", [], DENSE_LIMIT),
        ):
            grep = ["grep", "-c", *options, text, log_in(big)]
            name = f"1 GB log searched for {text!r}"
            compare(name, partial(count, big, text), partial(run, grep), limit, 7, baseline_name=" ".join(grep[:-1]))
    return finish()


def log_in(directory: str) -> str:
    """The log of a run's directory."""
    return os.path.join(directory, "output.log")


def write_log(directory: str, size: int) -> str:
    """A run's directory with a log of about so many bytes, as a training writes it."""
    os.mkdir(directory)
    with open(log_in(directory), "wb") as file:
        number = 0
        while file.tell() < size:
            file.write(b"".join(line(number + offset) for offset in range(100)))
            number += 100
        file.write(LAST + b"\n")
    return directory


def line(number: int) -> bytes:
    """One line of a training that goes on for ever."""
    loss = number * 7919 % 10007
    return b"epoch %d step %d loss 0.%05d accuracy 0.%04d lr 0.001 Throughput %d images/s\n" % (
        number // 1000,
        number,
        loss,
        10007 - loss,
        9000 + loss % 977,
    )


def time_to_last_line(directory: str) -> float:
    """Seconds from the start of the program until the last line of the log is on the screen."""
    with Terminal(log_apps.command("ours", log_in(directory), active=False), emulate=False) as terminal:
        return see(terminal, LAST) - terminal.started


def memory_with(directory: str) -> int:
    """Bytes that only the program has when it shows the log and has counted its lines."""
    with Terminal(log_apps.command("ours", log_in(directory), active=False), emulate=False) as terminal:
        see(terminal, b" lines ")
        terminal.settle()
        return private_memory(terminal.pid)


def see(terminal: Terminal, wanted: bytes) -> float:
    """Reads until the program has drawn this; the moment it had."""
    drawn = bytearray()
    terminal.watch = lambda data, _: drawn.extend(data)
    return terminal.until(lambda: wanted in drawn)


def count(directory: str, text: str) -> None:
    """Searches the whole log as the view does."""
    with LogFile(log_in(directory)) as log:
        search = Search(log, Pattern(text))
        while not search.count():
            pass
        assert search.matches


def run(command: list[str]) -> None:
    """Runs grep to its end: into a pipe, because into /dev/null it stops at the first match."""
    subprocess.run(command, stdout=subprocess.PIPE, check=True)


if __name__ == "__main__":
    sys.exit(main())
