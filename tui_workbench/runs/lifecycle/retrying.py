"""Start a run again after its script has ended, as `Retry` of its run configuration says.

An attempt is an event, which is recorded before anything else happens. If a controller is killed, a new controller
therefore continues at the same step. The attempts of a run share its directory, its log and its working copy.
"""

from __future__ import annotations

import os
import signal
import time

from tui_workbench.config.schema.retry import FAILED, LOST, OUT_OF_MEMORY, TIMEOUT, retry_of
from tui_workbench.core.causes import of_attempt
from tui_workbench.core.model import RunState
from tui_workbench.runs.store.attempts import last_number, planned_attempt
from tui_workbench.runs.store.rundir import ATTEMPT, FOLLOWED, OUTPUT, Attempt, Ending, Record, RunDirectory

_KILLED = 128 + signal.SIGKILL  # the exit code if the kernel ends the script because the memory is exhausted


def plan_attempt(directory: RunDirectory, record: Record, ending: Ending) -> bool:
    """Record another attempt after this ending if `Retry` requests one. Return True if so. Raises StorageError.

    A run of another machine is started again by that machine.
    """
    if os.path.lexists(directory.file(FOLLOWED)):
        return False
    retry = retry_of(record.spec.run_configuration)
    if not retry.times or cause_of(directory, ending) not in retry.on or directory.cancel_requested:
        return False
    planned = [attempt for attempt in directory.attempts() if attempt.due]
    # After `experiment resume`, the attempts are counted again from the one that the user has started.
    first = max((number for number, attempt in enumerate(planned, 1) if attempt.anew), default=0)
    if len(planned) >= first + retry.times:
        return False
    add_attempt(directory, ending, delay=retry.delay)
    return True


def add_attempt(directory: RunDirectory, ending: Ending, *, delay: float = 0.0, anew: bool = False) -> None:
    """Record another attempt after this ending; `anew` if the run has ended. Raises StorageError."""
    path = directory.file(OUTPUT)
    size = os.stat(path).st_size if os.path.exists(path) else 0
    due, ended = round(time.time() + delay, 3), round(ending.end or directory.end_time(), 6)
    number = last_number(directory) + 1
    attempt = Attempt(number, size, ending.causes, due, ending.exit_code, ending.state, ended, anew)
    directory.append_event(ATTEMPT, **attempt._asdict())


def with_attempt(directory: RunDirectory, ending: Ending) -> Ending:
    """Return the ending, with the number of the last attempt.

    The ending is unchanged if the run has completed, or if the workbench has started its script only once.
    """
    if planned_attempt(directory) is None or ending.state == RunState.COMPLETED:
        return ending
    return ending._replace(causes=of_attempt(last_number(directory), ending.causes))


def cause_of(directory: RunDirectory, ending: Ending) -> str:
    """Return the value of `Retry.on` that describes an ending; "" if no further attempt is useful."""
    if ending.state == RunState.CANCELED and directory.status().limit:
        return TIMEOUT
    if ending.state not in (RunState.FAILED, RunState.UNKNOWN) or ending.error_code:
        return ""
    if ending.retry is not None:
        return ending.retry
    if ending.state == RunState.UNKNOWN:
        return LOST
    return OUT_OF_MEMORY if ending.exit_code == _KILLED else FAILED
