"""`experiment cancel`."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, output
from tui_workbench.cli.shared.parser import RUN_IF_ANY, option, options, seconds
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.history_record import history_record
from tui_workbench.runs.store.rundir import DEFAULT_GRACE

configure_cancel = options(
    RUN_IF_ANY,
    option("-g", "--group", metavar="SWEEP", default="", help="a sweep, as in `sweep-1`"),
    option("--all", action="store_true", help="with --group: also the runs that go on"),
    option("--grace", metavar="SECONDS", type=seconds, default=DEFAULT_GRACE, help="default: %(default)g"),
    # The original asked for the target as well.
    option("-t", "--target", help="not needed: the run knows its target"),
    output(),
    epilog="""\
Asks every process of the run to end, and makes those end that have not after the grace. Returns when none is left.
A process that has cleared its environment and left its session, as some daemons do, cannot be found and goes on.
Of a sweep, only the runs that have not begun are canceled; with --all those that go on as well.""",
)


def run_cancel(arguments: argparse.Namespace) -> int:
    """Cancel and wait until nothing is left; a run that had ended before is an error."""
    runs = Runs(Project.find(arguments.project))
    if bool(arguments.run) == bool(arguments.group):
        raise UsageError("one of --run and --group says what to cancel", remedy="Name a run or a sweep.")
    if arguments.group:
        canceled = runs.stop_group(arguments.group, all_of_it=arguments.all, grace=arguments.grace)
        return emit([history_record(run) for run in canceled], arguments, HISTORY_COLUMNS)
    before = runs.get(arguments.run)
    if not (before.is_active or before.imported):
        raise UsageError(f"run {before.run_id} has ended already ({before.state})", remedy="Nothing is left to cancel.")
    return emit(history_record(runs.cancel(arguments.run, grace=arguments.grace)), arguments, HISTORY_COLUMNS)
