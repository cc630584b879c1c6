"""`experiment cancel`: cancel a run or the runs of a sweep."""

from __future__ import annotations

import argparse
import sys

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, notify, output
from tui_workbench.cli.shared.parser import OPTIONAL_RUN, option, options, seconds
from tui_workbench.cli.shared.prompts import confirm
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.history_record import history_record
from tui_workbench.runs.lifecycle.dependencies import dependents_of
from tui_workbench.runs.store.rundir import DEFAULT_GRACE, RunDirectory

configure_cancel = options(
    OPTIONAL_RUN,
    option("-g", "--group", metavar="SWEEP", default="", help="cancel the queued runs of a sweep, such as `sweep-1`"),
    option("--all", action="store_true", help="with --group, also cancel active runs"),
    option("--grace", metavar="SECONDS", type=seconds, default=DEFAULT_GRACE,
           help="grace period before the remaining processes are killed (default: %(default)g)"),
    option("-y", "--yes", action="store_true", help="cancel without asking, even if other runs wait for this run"),
    # Azure ML Workbench required this option.
    option("-t", "--target", help="ignored: the record of the run names its target"),
    output(),
    epilog="""\
Asks every process of the run to end, kills the remaining processes after the
grace period, and returns when all have ended. Outside containers and Slurm
jobs, a daemon that clears its environment and leaves its session cannot be
found, so it continues to run.""",
)  # fmt: skip


def run_cancel(arguments: argparse.Namespace) -> int:
    runs = Runs(Project.find(arguments.project))
    if bool(arguments.run) == bool(arguments.group):
        raise UsageError(
            "expected either --run or --group",
            remedy="Use `--run ID` or `--group SWEEP`. `workbench-tui history list` prints `run_id` and `sweep_id`.",
        )
    if arguments.group:
        canceled = runs.stop_group(arguments.group, all_of_it=arguments.all, grace=arguments.grace)
        return emit([history_record(run) for run in canceled], arguments, HISTORY_COLUMNS)
    if runs.end_removed(arguments.run, grace=arguments.grace):
        notify(f"The processes of run {arguments.run} have ended. Its directory is missing or cannot be read.")
        return emit([], arguments, HISTORY_COLUMNS)
    before = runs.get(arguments.run)
    if not (before.is_active or before.imported):
        raise UsageError(
            f"run {before.run_id} has already ended ({before.state})",
            remedy="Choose an active run. `workbench-tui status` lists the active runs.",
        )
    dependents = dependents_of(RunDirectory(before.directory))
    if dependents and not arguments.yes and sys.stdin.isatty():
        names = ", ".join(run.run_id for run in dependents)
        if not confirm(f"Cancel {before.run_id}? Runs that wait for it are also canceled: {names}."):
            return 1
    return emit(history_record(runs.cancel(arguments.run, grace=arguments.grace)), arguments, HISTORY_COLUMNS)
