"""The few lines of `sh` that stand between the workbench and a script on a host without Docker.

They start the script with its output going straight to the log, and write down who runs and how it ended. Nothing of
ours need live for that: the controller, the screen and the connection may all die. The text is the same on every host
and needs only a POSIX shell.

Files, in the run directory: `pid` is created exclusively, so a run can never be started twice; its first line is the
shell's process id, the second the host's boot id, the third `/proc/PID/stat` (its 22nd field is the start time, which
tells a process id that was given anew from ours). `exit` is blank until it holds the script's exit code as a shell sees
it: 128 + N for signal N. It is written over a place that was taken beforehand, so a disk that the script has filled
does not lose it, and through a descriptor that was opened before the script ran, so a link that the script puts in its
place leads nowhere. Both end with a newline when complete. A shell that cannot make these files starts nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

from tui_workbench.core.files import read_below

OUTPUT = "output.log"
PID = "pid"
EXIT = "exit"

OUTPUTS, WORKING_COPY, METRICS = "outputs", "work", "metrics.jsonl"
"""What else the script writes in a run's directory."""

RANKS = "ranks"
"""The folder of the ranks' output in a run's directory."""

LARGEST = 4096
"""Bytes that are read of either: what /proc tells of a process has a few hundred."""

MOST_NAMES = 5
"""Names of processes that one clause tells."""

_TEXT = """\
run=$1 dir=$2
shift 2
boot=- stat=- mask=$(umask)
[ -r /proc/sys/kernel/random/boot_id ] && read -r boot </proc/sys/kernel/random/boot_id
[ -r /proc/$$/stat ] && read -r stat </proc/$$/stat
umask 077
: >>"$run/output.log" || exit 1
{claim}
exec 3>&- 4<>"$run/exit"
trap : TERM INT HUP
( umask "$mask" && cd "$dir" && exec "$@" ) </dev/null >>"$run/output.log" 2>&1 4>&-
code=$?
printf '%-4s\\n' "$code" >&4
"""

_CLAIM = """\
set -C
exec 3>"$run/pid" || exit 0
printf '    \\n' >"$run/exit" && printf '%s\\n%s\\n%s\\n' "$$" "$boot" "$stat" >&3 || {
    rm -f "$run/exit" "$run/pid"
    exit 1
}"""

# The container has a name that only it can have; a second start of the same container finds the file filled.
_CLAIM_IN_CONTAINER = """\
[ -s "$run/pid" ] && exit 0
exec 3>>"$run/pid" || exit 1
printf '    \\n' >"$run/exit" && printf '%s\\n%s\\n%s\\n' "$$" "$boot" "$stat" >&3 || exit 1"""

TEXT = _TEXT.replace("{claim}", _CLAIM)
"""Arguments: run directory, working directory, then the script's argument vector."""

CONTAINER_TEXT = _TEXT.replace("{claim}", _CLAIM_IN_CONTAINER)
"""The same for a container, which is given `pid`, `exit` and `output.log` as empty files that it cannot replace."""

VARIABLES = frozenset(("boot", "code", "dir", "mask", "run", "stat"))
"""The names that TEXT gives values to: a variable of the script called so has to get past it."""


class Supervisor(NamedTuple):
    """What the `pid` file says: the supervising shell as it was when it started."""

    pid: int
    boot_id: str
    start_time: str

    @property
    def same_boot(self) -> bool:
        """False when the machine was restarted since."""
        return self.boot_id in ("-", current_boot_id())

    @property
    def started_at(self) -> int:
        """Its start time in clock ticks since this machine's start; 0 where it is not known or was another start's."""
        return int(self.start_time) if self.same_boot and self.start_time.isdigit() else 0

    @property
    def is_alive(self) -> bool:
        """True while this very process runs, not another that was given its number."""
        if not self.same_boot:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return False
        state, start = process_stat(self.pid)
        return state not in ("Z", "X") and self.start_time in ("-", start or self.start_time)


def read_supervisor(run_directory: str) -> Supervisor | None:
    """The `pid` file, or None while it is not there or not complete."""
    text = _text(run_directory, PID)
    lines = text.split("\n")
    if len(lines) < 4 or not lines[0].isdigit():
        return None
    return Supervisor(int(lines[0]), lines[1], _start_time(lines[2]))


def read_exit_code(run_directory: str) -> int | None:
    """The `exit` file, or None while it is not there or not complete."""
    text = _text(run_directory, EXIT)
    return int(text) if text.endswith("\n") and text.strip().isdigit() else None


def _text(run_directory: str, name: str) -> str:
    """The beginning of a file that the script can write, too; "" when there is no such file."""
    try:
        return read_below(run_directory, name, LARGEST).decode("ascii", "replace")
    except OSError:
        return ""


def describe_exit(code: int) -> str:
    """One short clause for an exit code as a shell reports it; empty for 0."""
    if code == 0:
        return ""
    number = code - 128
    if code > 128 and number in {item.value for item in signal.Signals}:
        text = f"killed by signal {number} ({signal.Signals(number).name})"
        if number == signal.SIGKILL:
            text += ": the machine may have run out of memory"
        return text
    return f"exit code {code}"


def describe_left_behind(count: int, names: Iterable[str] = ()) -> str:
    """One short clause for the processes that a script left running and that were ended; empty for none."""
    if not count:
        return ""
    shown = ", ".join(sorted(set(names))[:MOST_NAMES])
    processes = "1 background process" if count == 1 else f"{count} background processes"
    return f"the script left {processes} running, now ended" + (f": {shown}" if shown else "")


def current_boot_id() -> str:
    """What tells this start of the machine from any other; `-` where the system has no such thing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"


def process_stat(pid: int) -> tuple[str, str]:
    """State letter and start time (clock ticks since boot) of a process.

    Two empty strings when there is none or no /proc.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("ascii", "replace")
    except OSError:
        return "", ""
    return text.rpartition(")")[2].split()[0], _start_time(text)


def _start_time(stat: str) -> str:
    # The second field is the command name in parentheses and may hold anything; fields are counted from behind its end.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else "-"
