"""Write the records of the attempts of a run, each with its GPU verdict."""

from __future__ import annotations

import os

from tui_workbench.runs.gpu.judging import attempt_verdict
from tui_workbench.runs.store.attempts import FILE, attempts_of, current_attempt, write_attempt
from tui_workbench.runs.store.rundir import Ending, Record, RunDirectory


def record_attempts(directory: RunDirectory, record: Record, ending: Ending | None) -> None:
    """Write the missing records of ended attempts.

    `ending` is the ending of the last attempt, or None if this attempt has not ended. The call can be repeated. Raises
    StorageError.
    """
    configuration = record.spec.run_configuration
    ended = attempts_of(directory)[:-1]
    last = current_attempt(directory, ending) if ending is not None else None
    for attempt in (*ended, *((last,) if last is not None else ())):
        if not os.path.lexists(directory.file(f"{attempt.folder}/{FILE}")):
            write_attempt(directory, attempt, attempt_verdict(directory.path, attempt, configuration))
