"""Forward the progress of the members of a group to the report of the group, and note members that do not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping

from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.group import waiting
from tui_workbench.targets.values import Report, Times


class LostMembers:
    """The members of a group that do not answer. Calls come from several threads."""

    def __init__(self, group: Target) -> None:
        self._group = group
        self._reasons: dict[str, tuple[str, float]] = {}  # why members do not answer, and since when
        self._lock = threading.RLock()

    def lose(self, name: str, reason: str) -> None:
        """Report that a member does not answer."""
        with self._lock:
            _, since = self._reasons.get(name, ("", time.monotonic()))
            self._reasons[name] = (reason, since)
            self._report()

    def regain(self, name: str) -> None:
        """Report that a member answers again."""
        with self._lock:
            if self._reasons.pop(name, None) is not None:
                self._report()

    def restart(self) -> None:
        """Measure the time without an answer from now on."""
        with self._lock:
            now = time.monotonic()
            self._reasons = {name: (reason, now) for name, (reason, _) in self._reasons.items()}

    def given_up(self, running: Collection[str]) -> Mapping[str, str]:
        """Return the members that have not answered for LOST_SECONDS, with the reasons.

        If none of the members `running` answers, return no member: the connection of this machine is probably lost,
        and the run may continue. The time is then measured from the first answer.
        """
        with self._lock:
            if running and self._reasons.keys() >= set(running):
                self.restart()
                return {}
            latest = time.monotonic() - waiting.LOST_SECONDS
            return {name: reason for name, (reason, since) in self._reasons.items() if since <= latest}

    def _report(self) -> None:
        if self._reasons:
            texts = (f"member {name}: {reason}" for name, (reason, _) in sorted(self._reasons.items()))
            self._group.report.lost("; ".join(texts))
        else:
            self._group.report.regained()


def joined_times(parts: Collection[Times]) -> Times:
    """Return the times of a run with these parts. The end is unknown if that of a part is."""
    starts, ends = [part.start for part in parts if part.start], [part.end for part in parts]
    return Times(min(starts, default=0.0), max(ends) if ends and all(ends) else 0.0)


class MemberReport(Report):
    """A report that forwards the progress of a member to the report of its group."""

    def __init__(self, name: str, group: Target, lost: LostMembers) -> None:
        self._name = name
        self._group = group
        self._lost = lost
        self.times = Times()  # of the part, as its member has recorded

    @property
    def interrupted(self) -> int:  # type: ignore[override]
        return self._group.report.interrupted

    def begin(self, step: str, title: str) -> None:
        self._group.report.begin(step, f"{self._name}: {title}" if title else "")

    def done(self, step: str, **facts: object) -> None:
        self._group.report.done(step, member=self._name, **facts)

    def line(self, text: str) -> None:
        self._group.report.line(f"{self._name}: {text.strip()}")

    def lost(self, reason: str) -> None:
        self._lost.lose(self._name, reason)

    def ran(self, times: Times) -> None:
        self.times = times

    def regained(self) -> None:
        self._lost.regain(self._name)

    def orphaned(self) -> None:
        self._group.report.orphaned()
