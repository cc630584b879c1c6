"""The supervising shell: a few lines of POSIX `sh` that start a script and record its process and exit code.

The script's output goes directly to the log. The controller, the screens and the connection may all end meanwhile.

The shell writes two files into the run directory; both end with a newline when complete. `pid` is created exclusively,
so a run cannot start twice. Its lines are the shell's process ID, the host's boot ID and `/proc/PID/stat`, whose 22nd
field, the start time, distinguishes the shell from a later process with the same ID. On systems without /proc, the
boot ID is `-`, and the third line is the start time as `ps -o lstart=` prints it. `exit` contains the script's exit
code as a shell sees it: 128 + N for signal N. The shell allocates the space of `exit` before the script starts, so that
the code can be written to a full disk. It writes through an open descriptor, and therefore does not follow a link that
has replaced the file. If the shell cannot create these files, it starts nothing.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from tui_workbench.core import system
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import read_below, unlink_below
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.shell_scripts import shell_script

OUTPUT = "output.log"
PID = "pid"
EXIT = "exit"

OUTPUTS, WORKING_COPY, METRICS = "outputs", "work", "metrics.jsonl"
"""Names of the files and folders in a run's directory that the script writes."""

RANKS = "ranks"
"""The folder of the ranks' output in a run's directory."""

GPU = "gpu"
"""The folder in a run's directory for the GPU samples that the run's own Slurm job takes."""

SPARK = "spark"
"""The folder of Spark's event log in a run's directory."""

SPARK_BYTES = 128 << 20
"""Maximum number of bytes of an event log to fetch and read; a task takes about 4 kB."""

LARGEST = 4096
"""Maximum number of bytes to read from `pid` or `exit`, which have a few hundred."""

TEXT = shell_script("targets/hosts/scripts/supervise.sh")
"""Arguments: run directory, working directory, the script's argument vector."""

CONTAINER_TEXT = shell_script("targets/hosts/scripts/supervise_in_container.sh")
"""The same for a container, where `pid`, `exit` and `output.log` exist as empty files that cannot be replaced."""

# Executed on another machine, but not stored there. A script that waits also reads its input, so that it ends when the
# connection is lost.
START = shell_script("targets/hosts/scripts/start.sh")
WAIT = shell_script("targets/hosts/scripts/wait.sh")
LEFT = shell_script("targets/hosts/scripts/left.sh")
WARN = shell_script("targets/hosts/scripts/warn.sh")
STOP = shell_script("targets/hosts/scripts/stop.sh")
FOLLOW_RUNS = shell_script("targets/hosts/scripts/follow_runs.sh")

VARIABLES = frozenset(("boot", "code", "dir", "mask", "run", "stat"))
"""The variables that TEXT sets."""


class Supervisor(NamedTuple):
    """The content of the `pid` file."""

    pid: int
    boot_id: str
    start_time: str

    @property
    def same_boot(self) -> bool:
        """False if the machine was restarted after the shell had started."""
        return self.boot_id in ("-", system.boot_id())

    @property
    def started_at(self) -> int:
        """The start time as in `system.Process`; 0 if unknown or before the last restart."""
        return (whole_number(self.start_time) or 0) if self.same_boot else 0

    @property
    def is_alive(self) -> bool:
        """True while the shell is running. A later process with the same ID does not count."""
        if not self.same_boot:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        state, start = system.process_stat(self.pid)
        return state not in ("Z", "X") and (not start or system.is_same_start(self.start_time, start))


def read_supervisor(run_directory: str) -> Supervisor | None:
    """Read the `pid` file. Return None while it is missing or incomplete."""
    text = _text(run_directory, PID)
    lines = text.split("\n")
    # Signals to process 0 would go to the process group of the sender.
    if len(lines) < 4 or not (pid := whole_number(lines[0])):
        return None
    return Supervisor(pid, lines[1], system.start_time(lines[2]))


def read_exit_code(run_directory: str) -> int | None:
    """Read the `exit` file. Return None while it is missing or incomplete."""
    text = _text(run_directory, EXIT)
    return whole_number(text.strip()) if text.endswith("\n") else None


def forget(run_directory: str) -> None:
    """Remove the files of the supervising shell, so that the run can be started again. Raises StorageError."""
    for name in (PID, EXIT):
        with storage_errors("remove", f"{run_directory}/{name}"), contextlib.suppress(FileNotFoundError):
            unlink_below(run_directory, name)


def _text(run_directory: str, name: str) -> str:
    """Return the beginning of a file, which the script may have made large; "" if it cannot be read."""
    try:
        return read_below(run_directory, name, LARGEST).decode("ascii", "replace")
    except OSError:
        return ""
