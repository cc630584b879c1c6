"""Start a run again after its script has ended, as `Retry` of its run configuration says.

An attempt is an event, which is recorded before anything else happens, so a new controller continues where an earlier
one was killed. The attempts of a run share its directory, its log and its working copy.
"""

from __future__ import annotations

import os
import signal
import time

from tui_workbench.core.model import RunState
from tui_workbench.core.retry import FAILED, LOST, OUT_OF_MEMORY, retry_of
from tui_workbench.runs.store.rundir import ATTEMPT, OUTPUT, Attempt, Ending, Record, RunDirectory

_KILLED = 128 + signal.SIGKILL


def planned_attempt(directory: RunDirectory, record: Record) -> Attempt | None:
    """Return the last attempt that `Retry` has planned; None for the first execution of the script."""
    if not record.spec.run_configuration.retry:
        return None
    return next(reversed(directory.attempts()), None)


def attempt_number(directory: RunDirectory, record: Record) -> int:
    """Return the number of the current attempt: 1 for the first execution of the script."""
    attempt = planned_attempt(directory, record)
    return attempt.number if attempt is not None else 1


def plan_attempt(directory: RunDirectory, record: Record, ending: Ending) -> bool:
    """Record another attempt after this ending, and return True, if `Retry` asks for it. Raises StorageError."""
    retry = retry_of(record.spec.run_configuration)
    if not retry.times or cause_of(ending) not in retry.on or directory.cancel_requested:
        return False
    number = attempt_number(directory, record) + 1
    if number > retry.times + 1:
        return False
    path = directory.file(OUTPUT)
    size = os.stat(path).st_size if os.path.exists(path) else 0
    attempt = Attempt(number, size, ending.reason, round(time.time() + retry.delay, 3))
    directory.append_event(ATTEMPT, **attempt._asdict())
    return True


def with_attempt(directory: RunDirectory, record: Record, ending: Ending) -> Ending:
    """Return the ending of the last attempt. The reason of a failure names the attempt, if there were several."""
    number = attempt_number(directory, record)
    if number == 1 or ending.state == RunState.COMPLETED:
        return ending
    return ending._replace(reason=f"attempt {number}: {ending.reason}")


def cause_of(ending: Ending) -> str:
    """Return the word for an ending in `Retry.on`; "" for an ending after which no attempt is useful."""
    if ending.state == RunState.UNKNOWN:
        return LOST
    if ending.state != RunState.FAILED or ending.error_code:
        return ""
    return OUT_OF_MEMORY if ending.exit_code == _KILLED else FAILED
