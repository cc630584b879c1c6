"""The clock of a machine, and the times when a script began and ended.

The times of a script are those of the files that its supervising shell writes. The clock of another machine, or of its
file server, may differ from the clock here. The answer of the machine therefore contains the time of a file that it has
just created, and the times are converted with the difference. A clock that is changed while a script runs does not
affect the start, which is derived from the time since boot where the system has one.
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from tui_workbench.core import system
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.numbers import whole_number
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.values import Times

_SECONDS = re.compile(r"(\d{1,12})(\.\d{1,9}(?!\d))?")
_TICKS = 100.0  # per second; Linux shows this unit to programs on all common processors


class Clock(NamedTuple):
    """Bounds of the time, in seconds, by which a machine's clock is ahead of the clock of this machine."""

    least: float
    most: float


def clock_of(host: Host) -> Clock:
    """Read the clock of a machine. Raises TargetUnreachable or WorkbenchError."""
    before = time.time()
    output = host.check(["date", "-u", "+%s"]).text
    there = whole_number(output)
    if there is None:
        raise WorkbenchError(
            f"{host.label}: `date` printed {output[:80]!r}, which is not a time",
            remedy="Check that `date -u +%s` prints a number in an SSH login on that machine.",
        )
    # `date` cuts off fractions of a second, and running it takes time.
    return Clock(there - time.time(), there + 1 - before)


def seconds_of(text: str) -> float:
    """Parse a time that `time_of` or `clock` has printed; 0.0 if it is not a time. Not every `date` knows %N."""
    match = _SECONDS.match(text.strip())
    return float(match[1] + (match[2] or "")) if match is not None else 0.0


def difference(there: float, before: float, after: float) -> float:
    """Return the seconds to add to a time of a machine.

    `there` is the time that the machine printed between the times `before` and `after` of this machine; 0.0 if unknown.
    """
    return (before + after) / 2 - there if there else 0.0


def times_there(lines: str, pid: str, boot: str, *, has_ended: bool, restarted: bool, ahead: float) -> Times:
    """Return the times of a run on another machine.

    Args:
        lines: The answer of the machine: its time, the seconds since boot, and the times of `pid` and `exit`.
        pid: The content of the `pid` file.
        boot: The machine's present boot ID.
        has_ended: True if `exit` contains an exit code.
        restarted: True if the machine was restarted after the script had begun.
        ahead: As `difference` returns it.

    """
    now, up, began, ended = ([*lines.split("\n"), *[""] * 4])[:4]
    fields = pid.split("\n")
    start, end = seconds_of(began), seconds_of(ended) if has_ended else 0.0
    booted = seconds_of(now) - seconds_of(up) if seconds_of(now) and seconds_of(up) else 0.0
    if booted and len(fields) > 2 and boot and fields[1] == boot:
        ticks = whole_number(system.start_time(fields[2]))
        start = start if ticks is None else booted + ticks / _TICKS
    if restarted and not has_ended:
        end = booted
    return Times(start and start + ahead, end and end + ahead)


def times_here(directory: str, *, restarted: bool) -> Times:
    """Return the times of a run in a directory of this machine; see `times_there`."""
    shell = supervisor.read_supervisor(directory)
    if shell is None:
        return Times()
    start = _changed(directory, supervisor.PID)
    if system.has_boot_times() and shell.started_at:
        start = time.time() - system.seconds_since_boot() + shell.started_at / _TICKS
    if supervisor.read_exit_code(directory) is not None:
        return Times(start, _changed(directory, supervisor.EXIT))
    return Times(start, time.time() - system.seconds_since_boot() if restarted else 0.0)


def _changed(directory: str, name: str) -> float:
    try:
        return os.lstat(os.path.join(directory, name)).st_mtime
    except OSError:
        return 0.0
