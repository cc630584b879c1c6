"""`experiment prepare`, `experiment clean` and `history sync`: what targets hold besides a run that is going on."""

from __future__ import annotations

import sys

from tui_workbench.cli.asking import settle_login
from tui_workbench.cli.output import HISTORY_COLUMNS, add_output_options, add_project_option, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tui_workbench.runs.cleaning import Found

CLEAN_COLUMNS = ("target", "kind", "name", "size", "note", "removed", "problem")


class Printer:
    """A target's report on stderr."""

    interrupted = -1

    def begin(self, step: str, title: str) -> None:
        """What is done now."""
        self.line(title)

    def done(self, step: str, **facts: object) -> None:
        """Nothing: the next line tells it."""

    def line(self, text: str) -> None:
        """A line of what a preparation prints."""
        from tui_workbench.cli.progress_bar import shared

        shared().line(text)

    def lost(self, reason: str) -> None:
        """That the target is out of reach."""
        self.line(reason)

    def regained(self) -> None:
        """Nothing."""


def configure_prepare(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment prepare`."""
    parser.add_argument(
        "-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to prepare for"
    )
    parser.add_argument("-t", "--target", metavar="TARGET", default="", help="instead of its Target")
    add_project_option(parser)


def run_prepare(arguments: argparse.Namespace) -> int:
    """Make the environment, its progress on stderr and its name on stdout."""
    from tui_workbench.runs.environments import prepare_environment

    project = Project.find(arguments.project)
    settle_login(project.target_of(project.run_configuration(arguments.run_configuration), arguments.target))
    name = prepare_environment(project, arguments.run_configuration, arguments.target, Printer())
    sys.stdout.write(f"{visible(name)}\n")
    return 0


def configure_clean(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment clean`."""
    parser.add_argument(
        "-t", "--target", metavar="TARGET", action="append", default=[], help="only this one (default: all)"
    )
    parser.add_argument("--dry-run", action="store_true", help="list what is left and remove nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_output_options(parser)


def run_clean(arguments: argparse.Namespace) -> int:
    """List what is left of the project's runs, ask, and remove it."""
    from tui_workbench.runs.cleaning import Cleaning

    cleaning = Cleaning(Runs(Project.find(arguments.project)), arguments.target)
    found = cleaning.find()
    removed = False
    if not arguments.dry_run and any(each.leftover for each in found) and (arguments.yes or _is_agreed(found)):
        removed = True
        found = [cleaning.remove(each) for each in found]
    emit([_row(each, removed=removed) for each in found], arguments, CLEAN_COLUMNS)
    return 1 if any(each.problem for each in found) else 0


def _is_agreed(found: Sequence[Found]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("this removes things, and there is nobody to ask", remedy="Give --yes, or --dry-run to look.")
    for each in found:
        if each.leftover is not None:
            what = f"{each.target}: {each.leftover.kind} {each.leftover.name} {_size(each.leftover.size)}"
            sys.stderr.write(f"{visible(what.rstrip())}\n")
    sys.stderr.write("Remove all of it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _row(found: Found, *, removed: bool) -> dict[str, object]:
    leftover = found.leftover
    return {
        "target": found.target,
        "kind": leftover.kind if leftover else None,
        "name": leftover.name if leftover else None,
        "size": _size(leftover.size) or None if leftover else None,
        "bytes": leftover.size if leftover and leftover.size >= 0 else None,
        "note": leftover.note or None if leftover else None,
        "removed": removed and leftover is not None and not found.problem,
        "problem": found.problem or None,
    }


def _size(number: int) -> str:
    if number < 0:
        return ""
    value, unit = float(number), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def configure_sync(parser: argparse.ArgumentParser) -> None:
    """Options of `history sync`."""
    parser.add_argument("-t", "--target", metavar="TARGET", required=True, help="the target to look at")
    add_output_options(parser)


def run_sync(arguments: argparse.Namespace) -> int:
    """Bring the runs that other machines submitted to the target into the history here, and print them."""
    from tui_workbench.runs.adoption import adopt_runs
    from tui_workbench.runs.history import history_record

    project = Project.find(arguments.project)
    settle_login(project.target(arguments.target))
    adopted = adopt_runs(project, arguments.target)
    runs = Runs(project)
    runs.resume()
    emit([history_record(runs.get(run_id)) for run_id in adopted], arguments, HISTORY_COLUMNS)
    return 0
