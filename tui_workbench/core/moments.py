"""Moments that tell how much time has passed even if the clock is set meanwhile.

A moment holds the time of the clock and the time since the machine was started, which nobody can set. The second
counts while the machine has not been started again.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

SET = 2.0
"""Seconds by which the clock and the time since boot may differ before the clock counts as set."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Moment(NamedTuple):
    """A moment on this machine."""

    time: float  # seconds since the epoch
    up: float = 0.0  # seconds since the machine was started; 0.0 if not known
    boot: str = ""  # identifies that start of the machine

    @property
    def seconds_since(self) -> float:
        """The seconds that have passed since this moment."""
        now = this_moment()
        if self.boot and self.boot == now.boot:
            return max(0.0, now.up - self.up)
        return max(0.0, now.time - self.time)

    @property
    def now(self) -> float:
        """The time now, by the clock as it was at this moment."""
        return self.time + self.seconds_since

    @property
    def shown(self) -> float:
        """The moment by the clock as it is now."""
        moved = float(round(time.time() - self.seconds_since))
        return moved if abs(moved - self.time) > SET else self.time


def this_moment() -> Moment:
    """The moment of this call."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read(8)
        return Moment(round(time.time(), 6), round(time.clock_gettime(time.CLOCK_BOOTTIME), 6), boot)
    except (OSError, AttributeError):
        return Moment(round(time.time(), 6))


def moment_of(event: dict[str, Any]) -> Moment | None:
    """The moment that an event names; None when it is not of our form."""
    found, up, boot = event.get("time", 0.0), event.get("up", 0.0), event.get("boot", "")
    if not (isinstance(found, int | float) and isinstance(up, int | float) and isinstance(boot, str)):
        return None
    return Moment(float(found), float(up), boot)
