"""The attempts of a run: the executions of its script.

They are derived from the events of the run. If a run has several attempts, each ended attempt has a folder
`attempts/NUMBER` in the run directory, with its record in `attempt.json` and its GPU verdict in `gpu.json`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core.causes import Causes, read_causes, stored, text_of, without_attempt
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import make_folders
from tui_workbench.core.model import RunState
from tui_workbench.runs.store.rundir import ATTEMPT, GPU_VERDICT, OUTPUT, RAN, Attempt, Ending, RunDirectory, json_bytes
from tui_workbench.runs.store.status import times_of

FOLDER, FILE = "attempts", "attempt.json"


class AttemptRecord(NamedTuple):
    """One execution of the script of a run. Times are in seconds since the epoch; 0.0 before the start or the end."""

    number: int = 1
    state: str = RunState.QUEUED
    causes: Causes = ()
    exit_code: int | None = None
    start: float = 0.0
    end: float = 0.0
    log_start: int = 0  # the offset of its first byte in output.log
    log_end: int | None = None  # the offset after its last byte; None for the end of output.log

    @property
    def reason(self) -> str:
        return text_of(self.causes)

    @property
    def folder(self) -> str:
        """The path of the folder of the attempt, relative to the run directory."""
        return f"{FOLDER}/{self.number}"


def attempts_of(directory: RunDirectory) -> list[AttemptRecord]:
    """Return the attempts in order; empty for a run whose script was executed at most once."""
    attempts = [AttemptRecord()]
    seen_end = 0.0  # when the script of the current attempt ended, or its job was put back in the queue
    for event in directory.events():
        current, moment = attempts[-1], event.get("time")
        if not isinstance(moment, int | float):
            continue
        if event["event"] == "state":
            attempts[-1] = _after_state(current, event, float(moment))
            seen_end = attempts[-1].end or seen_end
        elif event["event"] == RAN:
            began, ended = times_of(event)
            attempts[-1] = current._replace(start=began or current.start)
            if len(attempts) > 1 and 0 < began < attempts[-2].end:
                # The end of an attempt without an exit code was seen late.
                attempts[-2] = attempts[-2]._replace(end=began)
            seen_end = ended or seen_end
        elif event["event"] == ATTEMPT and (attempt := Attempt.from_event(event)) is not None:
            attempts[-1] = _closed(current, attempt, seen_end or float(moment))
            seen_end = 0.0
            attempts.append(AttemptRecord(attempt.number, log_start=attempt.start))
    if attempts[-1].end:
        attempts[-1] = attempts[-1]._replace(log_end=_log_size(directory))
    return attempts if len(attempts) > 1 else []


def _log_size(directory: RunDirectory) -> int:
    path = directory.file(OUTPUT)
    return os.stat(path).st_size if os.path.exists(path) else 0


def _after_state(current: AttemptRecord, event: Mapping[str, Any], moment: float) -> AttemptRecord:
    state, code, end = (event.get(key) for key in ("state", "exit_code", "end"))
    if not isinstance(state, str) or not isinstance(code, int | None):
        return current
    if state == RunState.RUNNING:
        return current._replace(state=state, start=current.start or moment, end=0.0)
    if state == RunState.QUEUED and current.start:
        return current._replace(state=state, end=moment)  # a scheduler has put the job back in its queue
    if event.get("final"):
        ended = float(end) if isinstance(end, int | float) else moment
        causes = without_attempt(read_causes(event, code))
        return current._replace(state=state, causes=causes, exit_code=code, end=ended)
    return current._replace(state=state)


def _closed(current: AttemptRecord, following: Attempt, end: float) -> AttemptRecord:
    """Return the current attempt with its end, which the event of the following attempt describes.

    `end` is the best known time of the end, unless the event contains it.
    """
    if following.anew:  # the final state of the run was its end
        return current._replace(log_end=following.start)
    return current._replace(
        state=following.state,
        causes=following.causes,
        exit_code=following.exit_code,
        end=following.ended or end,
        log_end=following.start,
    )


def planned_attempt(directory: RunDirectory) -> Attempt | None:
    """Return the last attempt that the workbench has planned; None for the first execution of the script."""
    return next((attempt for attempt in reversed(directory.attempts()) if attempt.due), None)


def attempt_number(directory: RunDirectory) -> int:
    """Return the number of the last attempt that the workbench has started or planned; numbers start at 1."""
    attempt = planned_attempt(directory)
    return attempt.number if attempt is not None else 1


def last_number(directory: RunDirectory) -> int:
    """Return the number of the last attempt. A scheduler may have started it."""
    return max((attempt.number for attempt in directory.attempts()), default=1)


def current_attempt(directory: RunDirectory, ending: Ending) -> AttemptRecord | None:
    """Return the last attempt with its ending, or None if the script was executed at most once."""
    attempts = attempts_of(directory)
    if not attempts:
        return None
    return attempts[-1]._replace(
        state=ending.state,
        causes=without_attempt(ending.causes),
        exit_code=ending.exit_code,
        end=ending.end or directory.end_time(),
        log_end=_log_size(directory),
    )


def write_attempt(directory: RunDirectory, attempt: AttemptRecord, verdict: Mapping[str, Any] | None = None) -> None:
    """Write the record of an ended attempt, and the content of its `gpu.json`, if any. Raises StorageError."""
    with storage_errors("create", directory.file(attempt.folder)):
        make_folders(directory.path, attempt.folder)
    if verdict is not None:
        directory.write(f"{attempt.folder}/{GPU_VERDICT}", json_bytes(verdict, indent=1))
    directory.write(f"{attempt.folder}/{FILE}", json_bytes({**attempt._asdict(), **stored(attempt.causes)}, indent=1))
