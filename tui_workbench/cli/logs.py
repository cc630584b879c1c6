"""`logs [-f] [--tail N] [--rank N|all] ID`: what a run wrote, to the byte when it goes to a file or a pipe."""

from __future__ import annotations

from tui_workbench.cli.output import add_project_option
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse

    from tui_workbench.runs.rundir import RunDirectory


def configure_logs(parser: argparse.ArgumentParser) -> None:
    """Options of `logs`."""
    parser.epilog = """\
A file or a pipe gets every byte that the run wrote to stdout and stderr. A terminal gets its text and colours;
other control sequences are shown and not obeyed. Ctrl-C ends following, not the run."""
    parser.add_argument("id", metavar="ID", help="the run's id, or its number")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--tail", metavar="N", type=_count, help="only the last N lines")
    parser.add_argument(
        "--rank", metavar="N", type=_rank, help="what this process of torchrun wrote; all (the default): every process"
    )
    parser.add_argument("--plain", action="store_true", help="for screen readers: complete lines of plain text")
    add_project_option(parser)


def run_logs(arguments: argparse.Namespace) -> int:
    """Print a run's output. Ctrl-C ends following, not the run."""
    from tui_workbench.cli.stream import OutputStream

    runs = Runs(Project.find(arguments.project))
    directory = runs.directory(arguments.id)
    path = _file_of(directory, arguments.rank)
    with OutputStream(runs, directory, plain=arguments.plain, path=path) as stream:
        if arguments.tail is not None:
            stream.skip_to_last(arguments.tail)
        if arguments.follow:
            stream.follow()
        else:
            stream.copy_new()
    return 0


def _file_of(directory: RunDirectory, rank: int | None) -> str:
    """The file of a rank, "" for the output of all. Raises UsageError when the run has no such rank."""
    if rank is None:
        return ""
    from tui_workbench.runs.ranks import file_of_rank

    return file_of_rank(directory, rank)


def _rank(text: str) -> int | None:
    return None if text == "all" else _count(text, "is no rank: write a number, or all")


def _count(text: str, complaint: str = "is no number of lines") -> int:
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} {complaint}")
    return int(text)
