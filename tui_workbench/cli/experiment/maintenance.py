"""`experiment prepare|collect|clean|resume` and `history sync`: care for environments, files and runs on targets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tui_workbench.cli.experiment.answers import plan_text
from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, output
from tui_workbench.cli.shared.parser import PROJECT, RUN_IF_ANY, option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.prompts import says_yes, settle_login
from tui_workbench.core import target_types
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.plaintext import visible
from tui_workbench.core.progress import size_text
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.adoption import adopt_runs, refuse_unless_new
from tui_workbench.runs.lifecycle.cleaning import Cleaning, Found
from tui_workbench.runs.store.history_record import history_record
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.planning import nothing_to_prepare, prepare_environment
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.base.values import Report

CLEAN_COLUMNS = ("target", "kind", "name", "size", "note", "removed", "problem")

configure_prepare = options(
    option("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to prepare for"),
    option("-t", "--target", metavar="TARGET", default="", help="instead of its Target"),
    PROJECT,
    epilog="""\
Runs on Docker targets, and on local targets with `userManagedEnvironment: false`, have environments to prepare. Runs
on other targets use your own Python.""",
)
configure_collect = options(
    option("-r", "--run", metavar="ID", default="", help="the run id, or the run's number (default: every such run)"),
    output(),
    epilog="""\
A run on another machine whose files could not be brought here when it ended, because the disk was full, keeps them
there. This command fetches them; calling it again fetches what is still missing.""",
)
configure_clean = options(
    option("-t", "--target", metavar="TARGET", action="append", default=[], help="only this one (default: all)"),
    option("--dry-run", action="store_true", help="list what is left and remove nothing"),
    option("-y", "--yes", action="store_true", help="do not ask"),
    output(),
)
configure_sync = options(
    option("-t", "--target", metavar="TARGET", required=True, help="the target to look at"), output()
)
configure_resume = options(
    RUN_IF_ANY,
    option("-y", "--yes", action="store_true", help="take over an imported run without asking"),
    output(),
    epilog="""\
Without --run: gives each of your active runs whose controller has died a new one. The screens do so by themselves.
With --run ID: the same for that run. An imported run, which you did not submit on this machine, is shown with every
command that it would execute; it is taken over only if you agree and it has not started.""",
)


class Printer(Report):
    """A target's report on stderr."""

    def begin(self, step: str, title: str) -> None:
        """What is done now."""
        self.line(title)

    def line(self, text: str) -> None:
        """A line of what a preparation prints."""
        shared().line(text)

    def lost(self, reason: str) -> None:
        """That the target is out of reach."""
        self.line(reason)


def run_prepare(arguments: argparse.Namespace) -> int:
    """Make the environment, its progress on stderr and its name on stdout."""
    project = Project.find(arguments.project)
    target = project.target_of(project.run_configuration(arguments.run_configuration), arguments.target)
    if (refusal := nothing_to_prepare(target)) is not None:
        raise refusal
    settle_login(target)
    name = prepare_environment(project, arguments.run_configuration, arguments.target, Printer())
    sys.stdout.write(f"{visible(name)}\n")
    return 0


def run_collect(arguments: argparse.Namespace) -> int:
    """Fetch what is missing, and print the runs."""
    project = Project.find(arguments.project)
    runs = Runs(project)
    lacking = (run for run in runs.list() if run.lacks_outputs and runs.directory(run.run_id).is_own)
    collected = []
    for run in [runs.get(arguments.run)] if arguments.run else lacking:
        if target_types.find(run.target_type).is_remote:
            settle_login(runs.directory(run.run_id).own_record().spec.target)
        collected.append(runs.collect(run.run_id))
    return emit([history_record(run) for run in collected], arguments, HISTORY_COLUMNS)


def run_clean(arguments: argparse.Namespace) -> int:
    """List what is left of the project's runs, ask, and remove it."""
    cleaning = Cleaning(Runs(Project.find(arguments.project)), arguments.target)
    found = cleaning.find()
    removed = False
    if not arguments.dry_run and any(each.item for each in found) and (arguments.yes or _is_agreed(found)):
        removed = True
        found = [cleaning.remove(each) for each in found]
    emit([_row(each, removed=removed) for each in found], arguments, CLEAN_COLUMNS)
    return 1 if any(each.problem for each in found) else 0


def _is_agreed(found: Sequence[Found]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("this removes things, and there is nobody to ask", remedy="Give --yes, or --dry-run to look.")
    for each in found:
        if each.item is not None:
            what = f"{each.target}: {each.item.kind} {each.item.name} {_size(each.item.size)}"
            sys.stderr.write(f"{visible(what.rstrip())}\n")
    return says_yes("Remove all of it?")


def _row(found: Found, *, removed: bool) -> dict[str, object]:
    item = found.item
    return {
        "target": found.target,
        "kind": item.kind if item else None,
        "name": item.name if item else None,
        "size": _size(item.size) or None if item else None,
        "bytes": item.size if item and item.size >= 0 else None,
        "note": item.note or None if item else None,
        "removed": removed and item is not None and not found.problem,
        "problem": found.problem or None,
    }


def _size(number: int) -> str:
    return size_text(number) if number >= 0 else ""


def run_sync(arguments: argparse.Namespace) -> int:
    """Bring the runs that other machines submitted to the target into the history here, and print them."""
    project = Project.find(arguments.project)
    settle_login(project.target(arguments.target))
    adopted = adopt_runs(project, arguments.target)
    runs = Runs(project)
    runs.resume()
    return emit([history_record(runs.get(run_id)) for run_id in adopted], arguments, HISTORY_COLUMNS)


def run_resume(arguments: argparse.Namespace) -> int:
    """Adopt runs and print their records."""
    runs = Runs(Project.find(arguments.project))
    if not arguments.run:
        return emit([history_record(runs.get(run_id)) for run_id in runs.resume()], arguments, HISTORY_COLUMNS)
    run = runs.get(arguments.run)
    if run.imported:
        _agree(runs.directory(run.run_id), yes=arguments.yes)
        runs.take_in(run.run_id)
    elif not run.is_active:
        raise UsageError(f"run {run.run_id} has ended already ({run.state})", remedy="Nothing is left to resume.")
    return emit(history_record(runs.get(run.run_id, adopt=True)), arguments, HISTORY_COLUMNS)


def _agree(directory: RunDirectory, *, yes: bool) -> None:
    """Show what an imported run would execute, and ask. Raises UsageError unless the user agrees."""
    refuse_unless_new(directory)
    sys.stderr.write(_description(directory))
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("taking over an imported run needs your consent", remedy="Add --yes if you trust it.")
    if not says_yes("Take over this run and execute it as you?"):
        raise UsageError(f"run {directory.run_id} was not taken over", remedy="Nothing was changed.")


def _description(directory: RunDirectory) -> str:
    record = directory.read_record()
    target = record.spec.target
    place = f"{target.username}@{target.address}" if target.address else "this machine"
    head = (
        f"Imported run {record.run_id}, not submitted by you on this machine.\n"
        f"project      {record.spec.project_root}\nplace        {place}\n"
    )
    text = "".join(visible(line) + "\n" for line in head.splitlines()) + plan_text(record.plan)
    try:
        now = target_for(target).plan(record.spec)
    except WorkbenchError as error:
        return f"{text}Its target cannot run it now: {visible(str(error))}\n"
    start, recorded = now.step("start"), record.plan.step("start")
    if start is not None and (recorded is None or recorded.command != start.command):
        text += f"Its files plan this instead:\n{plan_text(now)}"
    return text
