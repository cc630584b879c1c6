"""`experiment prepare|collect|clean|resume` and `history sync`: maintain environments, files and runs on targets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, TEXT, emit, notify, output
from tui_workbench.cli.shared.parser import OPTIONAL_RUN, option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.prompts import confirm, confirm_list, ensure_login
from tui_workbench.core import target_types
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import visible
from tui_workbench.core.progress import size_text
from tui_workbench.projects.project import Project
from tui_workbench.runs.cleanup import Cleanup, CleanupResult
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.history_record import history_record
from tui_workbench.runs.lifecycle.adoption import adopt_runs, refuse_unless_new
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.plan_details import plan_text
from tui_workbench.runs.submission.planning import nothing_to_prepare, prepare_environment
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.values import Report

CLEAN_COLUMNS = ("target", "kind", "name", "size", "note", "removed", "problem")

configure_prepare = options(
    option(
        "-c",
        "--run-configuration",
        metavar="NAME",
        required=True,
        help="prepare the environment of this run configuration",
    ),
    option("-t", "--target", metavar="TARGET", default="", help="override Target of the run configuration"),
    output(TEXT),
    epilog="""\
Only Docker targets, and local targets with `userManagedEnvironment: false`,
have an environment. On other targets, runs use a Python that you manage.""",
)
configure_collect = options(
    option("-r", "--run", metavar="ID", default="", help="the ID or number of the run (default: all)"),
    output(),
    epilog="""\
Files that could not be fetched when a run ended, for example because the disk
was full, stay on the target. This command fetches the missing files; you can
repeat it.""",
)
configure_clean = options(
    option(
        "-t",
        "--target",
        metavar="TARGET",
        action="append",
        default=[],
        help="only this target (default: all that you have contacted)",
    ),
    option("--dry-run", action="store_true", help="print the items and remove nothing"),
    option("-y", "--yes", action="store_true", help="do not ask for confirmation"),
    output(),
)
configure_sync = options(option("-t", "--target", metavar="TARGET", required=True, help="the target"), output())
configure_resume = options(
    OPTIONAL_RUN,
    option("-y", "--yes", action="store_true", help="take over an imported run without asking"),
    output(),
    epilog="""\
Starts a new controller for each of your active runs whose controller has died,
or only for the run that --run names. The screens do this automatically.
If the run that --run names failed, was canceled or is lost, its script is
executed again with the same log, in the same working copy. The script of an
untracked run works in the project itself.
An imported run, which you did not submit on this machine, is shown with every
command that it would execute. The run is taken over only if you agree and it
has not started.""",
)


class Printer(Report):
    """A receiver of a target's progress reports that prints them to stderr."""

    def begin(self, step: str, title: str) -> None:
        self.line(title)

    def line(self, text: str) -> None:
        shared().line(text)

    def lost(self, reason: str) -> None:
        self.line(reason)


def run_prepare(arguments: argparse.Namespace) -> int:
    """Build the environment. Print progress to stderr, and the name of the environment to stdout."""
    project = Project.find(arguments.project)
    target = project.target_of(project.run_configuration(arguments.run_configuration), arguments.target)
    if (refusal := nothing_to_prepare(target)) is not None:
        raise refusal
    ensure_login(target)
    name = prepare_environment(project, arguments.run_configuration, arguments.target, Printer())
    return emit({"environment": name, "target": target.name}, arguments, text=[name])


def run_collect(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    runs = Runs(project)
    if arguments.run:
        return emit([history_record(_collect(runs, runs.get(arguments.run)))], arguments, HISTORY_COLUMNS)
    collected: list[Run] = []
    failed: list[tuple[Run, WorkbenchError]] = []
    for run in runs.list():
        if run.lacks_outputs and runs.directory(run.run_id).is_own:
            try:
                collected.append(_collect(runs, run))
            except WorkbenchError as error:  # for example, its machine is off; the files of others can be fetched
                failed.append((run, error))
    emit([history_record(run) for run in collected], arguments, HISTORY_COLUMNS)
    notify(*(f"{run.run_id}: {error}" for run, error in failed))
    return failed[0][1].exit_code if failed else 0


def _collect(runs: Runs, run: Run) -> Run:
    if target_types.find(run.target_type).is_remote:
        ensure_login(runs.directory(run.run_id).own_record().spec.target)
    return runs.collect(run.run_id)


def run_clean(arguments: argparse.Namespace) -> int:
    cleaning = Cleanup(Runs(Project.find(arguments.project)), arguments.target)
    results = cleaning.find()
    removed = False
    if not arguments.dry_run and any(result.item for result in results) and (arguments.yes or _is_agreed(results)):
        removed = True
        results = [cleaning.remove(result) for result in results]
    emit([_row(result, removed=removed) for result in results], arguments, CLEAN_COLUMNS)
    return 1 if any(result.problem for result in results) else 0


def _is_agreed(results: Sequence[CleanupResult]) -> bool:
    items = [(result.target, result.item) for result in results if result.item is not None]
    lines = (f"{target}: {item.kind} {item.name} {_size(item.size)}" for target, item in items)
    remedy = "Add `--yes` to remove the items without asking, or `--dry-run` to only list them."
    return confirm_list(lines, "Remove all of these?", remedy)


def _row(result: CleanupResult, *, removed: bool) -> dict[str, object]:
    item = result.item
    return {
        "target": result.target,
        "kind": item.kind if item else None,
        "name": item.name if item else None,
        "size": _size(item.size) or None if item else None,
        "bytes": item.size if item and item.size >= 0 else None,
        "note": (item.note if item else result.note) or None,
        "removed": removed and item is not None and not result.problem,
        "problem": result.problem or None,
    }


def _size(number: int) -> str:
    return size_text(number) if number >= 0 else ""


def run_sync(arguments: argparse.Namespace) -> int:
    """Fetch the runs that other machines submitted to the target, and print their records."""
    project = Project.find(arguments.project)
    ensure_login(project.target(arguments.target))
    adopted = adopt_runs(project, arguments.target)
    runs = Runs(project)
    runs.resume()  # starts controllers for the adopted runs, which have none on this machine
    return emit([history_record(runs.get(run_id)) for run_id in adopted], arguments, HISTORY_COLUMNS)


def run_resume(arguments: argparse.Namespace) -> int:
    """Start missing controllers of active runs, or resume the run that `--run` names. Print the records of the runs."""
    runs = Runs(Project.find(arguments.project))
    if not arguments.run:
        return emit([history_record(runs.get(run_id)) for run_id in runs.resume()], arguments, HISTORY_COLUMNS)
    run = runs.get(arguments.run)
    if run.imported:
        _agree(runs.directory(run.run_id), yes=arguments.yes)
        runs.take_over_imported(run.run_id)
    elif not run.is_active:
        directory = runs.directory(run.run_id)
        if directory.is_own and (target := directory.own_record().spec.target).kind.is_remote:
            ensure_login(target)
        runs.start_again(run.run_id)
    return emit(history_record(runs.get(run.run_id, adopt=True)), arguments, HISTORY_COLUMNS)


def _agree(directory: RunDirectory, *, yes: bool) -> None:
    """Show the commands that an imported run would execute, and ask for consent.

    Raises UsageError if the user refuses.
    """
    refuse_unless_new(directory)
    # The record comes from another machine: the commands of its plan are shown before anything is executed.
    sys.stderr.write(_description(directory))
    if yes:
        return
    if not sys.stdin.isatty():
        message = f"cannot ask whether to take over run {directory.run_id}: not a terminal"
        raise UsageError(message, remedy="Add `--yes` if you trust the run.")
    if not confirm("Take over this run and execute it as your user?"):
        remedy = "Nothing was changed. To take over the run, answer y."
        raise UsageError(f"run {directory.run_id} was not taken over", remedy=remedy)


def _description(directory: RunDirectory) -> str:
    record = directory.read_record()
    target = record.spec.target
    machine = f"{target.username}@{target.address}" if target.address else "this machine"
    head = (
        f"Run {record.run_id} was imported: you did not submit it on this machine.\n"
        f"project      {record.spec.project_root}\nplace        {machine}\n"
    )
    text = "".join(visible(line) + "\n" for line in head.splitlines()) + plan_text(record.plan)
    try:
        now = target_for(target).plan(record.spec)
    except WorkbenchError as error:
        return f"{text}The target cannot execute the run now: {visible(str(error))}\n"
    start, recorded = now.step("start"), record.plan.step("start")
    if start is not None and (recorded is None or recorded.command != start.command):
        text += f"This machine would now execute a different plan:\n{plan_text(now)}"
    return text
