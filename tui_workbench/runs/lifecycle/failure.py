"""Find the cause of a failed run: the exception at the end of its log, or a project file that was not copied for it."""

from __future__ import annotations

from tui_workbench.core.causes import ATTEMPT, EXCEPTION, SPARK_STAGE, Cause
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs import log_traceback, ranks
from tui_workbench.runs.logs.spark_failure import spark_failure, stage_failure
from tui_workbench.runs.snapshots import project_files
from tui_workbench.runs.store.rundir import OUTPUT, Ending, Record, RunDirectory

_EXECUTOR_ERROR = "Py4JJavaError"
"""The exception in Python for every error in Spark's executors; it does not contain the cause."""


def with_cause(directory: RunDirectory, record: Record, ending: Ending) -> Ending:
    """Return the ending. If the run failed and the cause is found, the ending has it."""
    # The functions below look for the exit code at the beginning, so the number of the attempt is added at the end.
    prefix = tuple(cause for cause in ending.causes[:1] if cause.kind == ATTEMPT)
    ending = ending._replace(causes=ending.causes[len(prefix) :])
    configuration = record.spec.run_configuration
    if configuration.uses_spark and (cause := spark_failure(directory.file(OUTPUT))):
        if ending.state == RunState.FAILED and ending.exit_code:
            ending = ending._replace(causes=(cause,))
    elif configuration.processes_per_node:
        ending = ranks.with_cause(directory.path, ending)
    else:
        start = next((attempt.start for attempt in reversed(directory.attempts())), 0)
        ending = log_traceback.with_cause(directory.file(OUTPUT), ending, start)
        first, *others = ending.causes or (Cause(""),)
        is_of_executor = first.kind == EXCEPTION and _EXECUTOR_ERROR in first.error
        if is_of_executor and (failure := stage_failure(directory.path, record.spec.run_id)):
            ending = ending._replace(causes=(Cause(SPARK_STAGE, {"error": failure}), *others))
    ending = project_files.with_missing_file_cause(record, ending)
    return ending._replace(causes=prefix + ending.causes)
