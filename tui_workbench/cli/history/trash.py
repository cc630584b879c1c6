"""`history delete|restore|purge`: move runs to the trash and back, and free their disk space."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial

from tui_workbench.cli.shared.output import emit, notify, output
from tui_workbench.cli.shared.parser import number_of, option, options
from tui_workbench.cli.shared.prompts import confirm_list
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.files import folder_size
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import metered, size_text
from tui_workbench.projects.project import Project
from tui_workbench.runs.cleanup import Cleanup
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.ownership import PURGED_PREFIX

COLUMNS = ("run_number", "run_id", "script_name", "size", "deleted", "problem")
MOST_LISTED = 20
"""Maximum number of runs that a confirmation prompt lists."""

_YES = option("-y", "--yes", action="store_true", help="do not ask for confirmation")
_REMEDY = "Add `--yes` to continue without confirmation."

configure_delete = options(
    option("runs", metavar="ID", nargs="*", help="the runs, by ID or number"),
    option("--keep-last", metavar="N", type=number_of("runs"),
           help="delete all but the N newest runs; always keep pinned and active runs, and runs with missing outputs"),
    _YES,
    output(),
    usage="%(prog)s (ID... | --keep-last N) [--yes]",
    epilog="""\
`history restore` moves the runs back. `history purge` frees the disk space.""",
)  # fmt: skip
configure_restore = options(
    option("runs", metavar="ID", nargs="+", help="the runs, by ID or number; `history list --deleted` lists them"),
    output(),
)
configure_purge = options(
    option("runs", metavar="ID", nargs="*", help="only these runs, by ID or number (default: all in the trash)"),
    option("--targets", action="store_true", help="also delete your copies of these runs on the compute targets"),
    _YES,
    output(),
    epilog="""\
A purge cannot be undone. Snapshots that only these runs used are deleted too.""",
)


def run_delete(arguments: argparse.Namespace) -> int:
    runs = Runs(Project.find(arguments.project))
    if bool(arguments.runs) == (arguments.keep_last is not None):
        raise UsageError(
            "expected either IDs or --keep-last",
            remedy="Give the runs, for example `workbench-tui history delete 7 8`, or `--keep-last N`.",
        )
    chosen = _named(runs, arguments.runs) if arguments.runs else runs.outdated(arguments.keep_last)
    sizes = {run.run_id: folder_size(run.directory) for run in metered("measuring", "runs", chosen)}
    question = f"Move {_summary(sizes)} to the trash?"
    if not arguments.yes and chosen and not confirm_list(_lines(chosen, sizes), question, _REMEDY):
        return 1
    rows = [_delete(runs, run, sizes[run.run_id]) for run in metered("deleting", "runs", chosen)]
    emit(rows, arguments, COLUMNS)
    if any(row["deleted"] for row in rows):
        notify("`workbench-tui history purge` frees the disk space of the runs in the trash")
    return 1 if any(row["problem"] for row in rows) else 0


def _named(runs: Runs, names: Sequence[str]) -> list[Run]:
    """Return the given runs. Raises RunNotFound, or UsageError if one of them cannot be deleted."""
    run_ids = dict.fromkeys(runs.directory(name).run_id for name in names)
    for run_id in run_ids:
        runs.check_deletable(run_id)
    return [run for run in runs.list() if run.run_id in run_ids]


def _delete(runs: Runs, run: Run, size: int) -> dict[str, object]:
    problem = None
    try:
        runs.delete(run.run_id)
    except WorkbenchError as error:  # for example, another process has deleted the run or started it again
        problem = str(error)
    row = {"run_number": run.run_number, "run_id": run.run_id, "script_name": run.script_name}
    return {**row, "size": size_text(size), "bytes": size, "deleted": problem is None, "problem": problem}


def _lines(chosen: Sequence[Run], sizes: dict[str, int]) -> list[str]:
    lines = [
        # The record of an unreadable run has no number.
        f"{run.run_number or run.run_id}  {run.script_name}  {size_text(sizes[run.run_id])}"
        for run in chosen[:MOST_LISTED]
    ]
    more = len(chosen) - len(lines)
    return [*lines, f"and {counted(more, 'other run')}"] if more else lines


def _summary(sizes: dict[str, int]) -> str:
    return f"{counted(len(sizes), 'run')} ({size_text(sum(sizes.values()))})"


def run_restore(arguments: argparse.Namespace) -> int:
    runs = Runs(Project.find(arguments.project))
    run_ids = dict.fromkeys(run.run_id for run in runs.deleted(arguments.runs))
    return emit([{"run_id": runs.undelete(run_id)} for run_id in run_ids], arguments)


def run_purge(arguments: argparse.Namespace) -> int:
    runs = Runs(Project.find(arguments.project))
    folder = os.path.join(runs.project.runs_directory, PURGED_PREFIX)
    # A purge renames runs before it removes them, so an interrupted purge leaves renamed folders.
    unfinished = {run_id: folder_size(folder + run_id) for run_id in runs.unfinished_purge()}
    in_trash = [name for name in arguments.runs if name not in unfinished]
    chosen = runs.deleted(in_trash) if in_trash or not arguments.runs else []
    sizes = {run.run_id: folder_size(run.directory) for run in metered("measuring", "runs", chosen)}
    question = f"Permanently delete {_summary(sizes | unfinished)}? This cannot be undone."
    lines = [*_lines(chosen, sizes), *(f"{run_id}  (interrupted purge)" for run_id in unfinished)]
    if lines and not arguments.yes and not confirm_list(lines, question, _REMEDY):
        return 1
    run_ids = [run.run_id for run in chosen]
    purged = runs.purge(run_ids, partial(_on_targets, runs)) if arguments.targets else runs.purge(run_ids)
    if arguments.output == "json" or arguments.query:
        result = {"runs": list(purged.run_ids), "bytes": purged.size, "snapshot_bytes": purged.snapshot_size}
        emit({**result, "problems": list(purged.problems)}, arguments)
    else:
        all_sizes = sizes | unfinished
        emit([{"run_id": run_id, "size": size_text(all_sizes[run_id])} for run_id in purged.run_ids], arguments)
        notify(f"freed {size_text(purged.size)} of run files and {size_text(purged.snapshot_size)} of snapshots")
    notify(*purged.problems)
    return 1 if purged.problems else 0


def _on_targets(runs: Runs, run_ids: frozenset[str]) -> list[str]:
    """Delete the copies of runs on the targets, and return the errors."""
    results = Cleanup(runs).remove_runs(run_ids) if run_ids else []
    return [f"{result.target}: {result.problem}" for result in results if result.problem]
