"""Why a run failed: the exception that its log ends with, and why it found a file of the project missing."""

from __future__ import annotations

from tui_workbench.runs.logs import log_traceback, ranks
from tui_workbench.runs.snapshots import project_files
from tui_workbench.runs.store.rundir import OUTPUT, Ending, Record, RunDirectory


def explained(directory: RunDirectory, record: Record, ending: Ending) -> Ending:
    """The ending of a failed run, with the cause in its reason."""
    if record.spec.run_configuration.processes_per_node:
        ending = ranks.explained(directory.path, ending)
    else:
        ending = log_traceback.explained(directory.file(OUTPUT), ending)
    return project_files.with_missing_file_cause(record, ending)
