"""Compare the clock of a machine with the clock of this machine."""

from __future__ import annotations

import time
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.numbers import whole_number
from tui_workbench.targets.hosts.host import Host


class Clock(NamedTuple):
    """Bounds of the time, in seconds, by which a machine's clock is ahead of the clock of this machine."""

    least: float
    most: float


def clock_of(host: Host) -> Clock:
    """Read the clock of a machine. Raises TargetUnreachable or WorkbenchError."""
    before = time.time()
    said = host.check(["date", "-u", "+%s"]).text
    there = whole_number(said)
    if there is None:
        raise WorkbenchError(
            f"{host.label}: `date` printed {said[:80]!r}, which is not a time",
            remedy="Check that `date -u +%s` prints a number in an SSH login on that machine.",
        )
    # `date` cuts off fractions of a second, and running it takes time.
    return Clock(there - time.time(), there + 1 - before)
