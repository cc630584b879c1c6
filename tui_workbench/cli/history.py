"""`history list|last|info`."""

from __future__ import annotations

import sys

from tui_workbench.cli.output import HISTORY_COLUMNS, add_output_options, emit
from tui_workbench.errors import RunNotFound
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `history list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every run, newest first."""
    runs = Runs(Project.find(arguments.project))
    if arguments.output == "json" and not arguments.query:
        # The records lie ready as text; parsing and printing 10,000 of them again would be most of the work.
        sys.stdout.flush()
        sys.stdout.buffer.writelines((*runs.history_json(), b"\n"))
        return 0
    emit(runs.history_records(), arguments, HISTORY_COLUMNS)
    return 0


def configure_last(parser: argparse.ArgumentParser) -> None:
    """Options of `history last`."""
    add_output_options(parser)


def run_last(arguments: argparse.Namespace) -> int:
    """The newest run."""
    from tui_workbench.runs.history import history_record

    project = Project.find(arguments.project)
    run = Runs(project).last()
    if run is None:
        raise RunNotFound(
            f"{project.root} has no runs yet", remedy="Start one: `workbench-tui experiment submit -c NAME SCRIPT`."
        )
    emit(history_record(run), arguments, HISTORY_COLUMNS)
    return 0


def configure_info(parser: argparse.ArgumentParser) -> None:
    """Options of `history info`."""
    add_run_option(parser)
    add_output_options(parser)


def run_info(arguments: argparse.Namespace) -> int:
    """One run."""
    from tui_workbench.runs.history import history_record

    emit(history_record(Runs(Project.find(arguments.project)).get(arguments.run)), arguments, HISTORY_COLUMNS)
    return 0


def add_run_option(parser: argparse.ArgumentParser) -> None:
    """`--run ID`, also as a plain number."""
    parser.add_argument("-r", "--run", metavar="ID", required=True, help="the run id, or the run's number")
