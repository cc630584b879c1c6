"""`experiment status`: show the state of a run."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, output
from tui_workbench.cli.shared.parser import RUN, options
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.index.history_record import attempt_records, history_record
from tui_workbench.runs.store.rundir import RunDirectory

configure_status = options(RUN, output(example="status"))


def run_status(arguments: argparse.Namespace) -> int:
    """Print the state of a run; its metrics and artifacts, which take longer to read, are in `history info`."""
    project = Project.find(arguments.project)
    run = History(project).get(arguments.run)
    if run.is_active:
        from tui_workbench.runs.facade import Runs

        run = Runs(project).get(run.run_id, adopt=True)
    attempts = attempt_records(RunDirectory(run.directory))
    record = {**history_record(run), **({"attempts": attempts} if attempts else {})}
    return emit(record, arguments, HISTORY_COLUMNS)
