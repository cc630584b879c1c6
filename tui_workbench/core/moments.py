"""Timestamps that measure elapsed time even if the clock is changed.

A moment holds the time of the clock, and the time since boot, which cannot be changed. Elapsed time is computed from
the time since boot. After a restart, and on systems without a boot ID, it is computed from the clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tui_workbench.core import system

SET = 2.0
"""Number of seconds by which the clock may deviate from the time since boot before it counts as changed."""


class Moment(NamedTuple):
    """A timestamp of this machine."""

    time: float  # seconds since the epoch
    up: float = 0.0  # seconds since boot; 0.0 if unknown
    boot: str = ""  # boot ID

    @property
    def seconds_since(self) -> float:
        now = this_moment()
        if self.boot and self.boot == now.boot:
            return max(0.0, now.up - self.up)
        return max(0.0, now.time - self.time)

    @property
    def now(self) -> float:
        """The current time, as if the clock had not been changed since this moment."""
        return self.time + self.seconds_since

    def at(self, time: float) -> Moment:
        """Return the moment at another time of the same clock."""
        return Moment(time, self.up + time - self.time, self.boot)

    @property
    def shown(self) -> float:
        """The time of this moment according to the current clock."""
        moved = float(round(time.time() - self.seconds_since))
        return moved if abs(moved - self.time) > SET else self.time


def this_moment() -> Moment:
    """Return the current time as a moment."""
    if (boot := system.boot_id()) == "-":
        return Moment(round(time.time(), 6))
    return Moment(round(time.time(), 6), round(system.seconds_since_boot(), 6), boot[:8])


def moment_of(event: Mapping[str, Any]) -> Moment | None:
    """Return the moment of an event in `events.jsonl`, or None if its values are invalid."""
    seconds, up, boot = event.get("time", 0.0), event.get("up", 0.0), event.get("boot", "")
    if not (isinstance(seconds, int | float) and isinstance(up, int | float) and isinstance(boot, str)):
        return None
    return Moment(float(seconds), float(up), boot)


def utc(seconds: float) -> str | None:
    """Convert seconds since the epoch to ISO 8601; 0, which means never, and invalid times become None."""
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
