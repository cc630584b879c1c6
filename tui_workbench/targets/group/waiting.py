"""Wait for the ends of the parts of a run on the members of a group. If one part fails, the other parts are ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from tui_workbench.core.causes import MEMBER, MEMBER_LOST, NOT_STARTED, Cause
from tui_workbench.core.errors import NeverStarted, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import BackgroundCall, Backoff, Interrupted, wait_ready
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.values import Outcome

SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_FACTOR = 0.05, 0.5, 1.3
"""Shortest and longest pause in seconds between two reads of the logs, and its growth factor without output."""

FAREWELL_SECONDS = 2.0
"""Seconds from the failure of a part until the other parts are ended, so that all ranks can write their last lines."""

GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL for parts that are ended because another part failed."""

LOST_SECONDS = 300.0
"""Seconds without an answer of a member after which its part is given up, with `onLostMember: end`."""


class _Part:
    """A part of a run, with a thread that waits for its end and a thread that ends it if another part fails."""

    def __init__(self, target: Target, spec: RunSpec, interrupted: int) -> None:
        self.name = spec.target.name
        self.outcome: Outcome | None = None
        self.order = (False, 0)  # True if another part caused the end, and the round of the end
        self._target, self._spec, self._interrupted = target, spec, interrupted
        self._stopping: BackgroundCall | None = None
        self._result: Outcome | None = None  # set by the thread
        self._waiting = BackgroundCall(self._wait)
        self.descriptor = self._waiting.descriptor  # readable when the part has ended

    @property
    def has_failed(self) -> bool:
        return self.outcome is not None and self.outcome.exit_code != 0

    def end(self, round_number: int) -> None:
        """Note the outcome of the part, which has ended."""
        self._waiting.result()
        self.outcome = self._result
        self.order = (self._stopping is not None, round_number)

    def give_up(self, reason: str, round_number: int) -> None:
        """Note that the member of the part has not answered for LOST_SECONDS, for this reason."""
        minutes = f"{LOST_SECONDS / 60:g}"
        causes = (Cause(MEMBER_LOST, {"minutes": minutes, "error": reason}),)
        self.outcome = Outcome(None, causes, causes, has_failed=True)
        self.order = (self._stopping is not None, round_number)

    def stop(self) -> None:
        """Start ending the part, unless `stop` was called before."""
        self._stopping = self._stopping or BackgroundCall(self._stop)

    def close(self) -> None:
        """Wait for the threads, which end because their descriptor `interrupted` is readable."""
        for call in filter(None, (self._waiting, self._stopping)):
            with call, contextlib.suppress(WorkbenchError, Interrupted):
                call.result()

    def _wait(self) -> None:
        try:
            self._result = self._target.wait(self._spec, self._interrupted)
        except NeverStarted as error:
            self._result = Outcome(None, (Cause(NOT_STARTED, {"error": error.message}),), has_failed=True)

    def _stop(self) -> None:
        pauses = Backoff()
        while True:
            try:
                self._target.stop(self._spec, grace=GRACE_SECONDS)
                return
            except WorkbenchError:
                pauses.take(self._interrupted)  # the member may not answer now


def no_member(running: Collection[str]) -> Mapping[str, str]:
    """Return no members, so that no part is given up."""
    return {}


def wait_for_parts(
    parts: Sequence[tuple[Target, RunSpec]],
    interrupted: int,
    copy_logs: Callable[[], bool],
    lost: Callable[[Collection[str]], Mapping[str, str]] = no_member,
) -> Outcome:
    """Wait for the ends of all parts. Return the outcome of the part that failed first; exit code 0 if none failed.

    `copy_logs` is called repeatedly, and returns True if there was new output. `lost` returns the members whose parts
    are given up, with the reasons why they do not answer; see `LostMembers.given_up`. Raises Interrupted.
    """
    reading, writing = os.pipe()
    watched = [_Part(target, spec, reading) for target, spec in parts]
    try:
        _follow(watched, interrupted, copy_logs, lost)
    finally:
        os.close(writing)  # makes `reading` readable
        for part in watched:
            part.close()
        os.close(reading)
    return _outcome(watched)


def _follow(
    parts: Sequence[_Part],
    interrupted: int,
    copy_logs: Callable[[], bool],
    lost: Callable[[Collection[str]], Mapping[str, str]],
) -> None:
    pause, number, failed = SHORTEST_PAUSE, 0, 0.0
    while running := [part for part in parts if part.outcome is None]:
        number += 1
        watched = [part.descriptor for part in running] + ([interrupted] if interrupted >= 0 else [])
        ready = wait_ready(watched, timeout=pause)
        pause = SHORTEST_PAUSE if copy_logs() else min(pause * PAUSE_FACTOR, LONGEST_PAUSE)
        if interrupted in ready:
            raise Interrupted
        # After a failure, the run cannot continue, even if only the connection of this machine is lost.
        given_up = lost([] if failed else [part.name for part in running])
        for part in running:
            if part.descriptor in ready:
                part.end(number)
            elif part.name in given_up:
                part.give_up(given_up[part.name], number)
        if any(part.has_failed for part in parts):
            failed = failed or time.monotonic()
            if time.monotonic() - failed >= FAREWELL_SECONDS:
                for part in running:
                    part.stop()


def _outcome(parts: Sequence[_Part]) -> Outcome:
    """Return the outcome of the run, with the notes of all parts."""
    ended = [(part, part.outcome) for part in parts if part.outcome is not None]
    named = ((Cause(MEMBER, {"name": part.name}), *outcome.notes) for part, outcome in ended if outcome.notes)
    notes = tuple(itertools.chain.from_iterable(named))
    failed = [(part, outcome) for part, outcome in ended if outcome.exit_code != 0]
    if not failed:
        return Outcome(0, notes=notes)
    # If several ends were noticed at once, the parts that a signal ended are probably not the cause.
    part, outcome = min(failed, key=lambda item: (*item[0].order, (item[1].exit_code or 0) > 128))
    # The rank that failed names its member.
    name = (Cause(MEMBER, {"name": part.name}),) if outcome.exit_code is None else ()
    return outcome._replace(causes=name + outcome.causes, notes=notes)
