"""Find the cause of a failed run: the exception at the end of its log, or a project file that was not copied for it."""

from __future__ import annotations

from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.retrying import last_number
from tui_workbench.runs.logs import log_traceback, ranks
from tui_workbench.runs.logs.spark_failure import spark_failure, stage_failure
from tui_workbench.runs.snapshots import project_files
from tui_workbench.runs.store.attempts import own_reason
from tui_workbench.runs.store.rundir import OUTPUT, Ending, Record, RunDirectory

_EXECUTOR_ERROR = "Py4JJavaError"
"""The exception in Python for every error in Spark's executors; it does not contain the cause."""


def with_cause(directory: RunDirectory, record: Record, ending: Ending) -> Ending:
    """Return the ending. If the run failed and the cause is found, the reason contains it.

    A prefix such as `attempt 2: ` stays in front of the reason.
    """
    reason = own_reason(ending.reason, last_number(directory))
    found = _with_own_cause(directory, record, ending._replace(reason=reason))
    return found._replace(reason=ending.reason.removesuffix(reason) + found.reason)


def _with_own_cause(directory: RunDirectory, record: Record, ending: Ending) -> Ending:
    """Return the result of `with_cause` for an ending whose reason does not begin with the number of the attempt."""
    if record.spec.run_configuration.uses_spark and (reason := spark_failure(directory.file(OUTPUT))):
        ending = ending._replace(reason=reason) if ending.state == RunState.FAILED and ending.exit_code else ending
    elif record.spec.run_configuration.processes_per_node:
        ending = ranks.with_cause(directory.path, ending)
    else:
        start = next((each.start for each in reversed(directory.attempts())), 0)
        ending = log_traceback.with_cause(directory.file(OUTPUT), ending, start)
        if _EXECUTOR_ERROR in ending.reason and (cause := stage_failure(directory.path, record.spec.run_id)):
            ending = ending._replace(reason=f"{cause} (exit code {ending.exit_code})")
    return project_files.with_missing_file_cause(record, ending)
