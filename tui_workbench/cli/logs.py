"""`logs [-f] [--tail N] [--rank N|all] [--node NAME] [--attempt N] ID`: print the output of a run."""

from __future__ import annotations

import argparse
import json
import sys

from tui_workbench.cli.shared.output import TEXT, notify
from tui_workbench.cli.shared.parser import PROJECT, number_of, option, options
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.index.history_record import state_word
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.runs.logs.rank_files import file_of_node, file_of_rank
from tui_workbench.runs.store.attempts import AttemptRecord, attempts_of
from tui_workbench.runs.store.rundir import OUTPUT, RunDirectory


def _rank(text: str) -> int | None:
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rank; give a number or 'all'")
    return int(text)


configure_logs = options(
    option("id", metavar="ID", nargs="?", default="", help="the ID or number of the run"),
    option("-r", "--run", metavar="ID", default="", help="the same, as in the other commands"),
    option("-f", "--follow", action="store_true", help="follow the output until the run has ended"),
    option("--tail", metavar="N", type=number_of("lines"), help="print only the last N lines"),
    option("--rank", metavar="N", type=_rank, help="print only the output of this torchrun process (default: all)"),
    option("--node", metavar="NAME", help="print only the output of the ranks on this node (default: all)"),
    option("--attempt", metavar="N", type=number_of("an attempt", "the number"),
           help="print only the output of this attempt"),
    option("--plain", action="store_true", help="for screen readers: complete lines of plain text"),
    option("-o", "--output", choices=(TEXT, "json"), default=TEXT,
           help="json: a JSON object for each line, and with -f another for the end of the run"),
    PROJECT,
    epilog="""\
If stdout is a file or a pipe, the output is copied byte by byte, unless --plain
or -o json is given. On a terminal, control sequences other than colors and line
erasing are shown as text. Ctrl-C stops following; the run continues.""",
)  # fmt: skip


def run_logs(arguments: argparse.Namespace) -> int:
    if bool(arguments.id) == bool(arguments.run):
        raise UsageError("expected one run", remedy="Give its ID or number, for example `workbench-tui logs 7`.")
    directory = History(Project.find(arguments.project)).directory(arguments.id or arguments.run)
    path = _path(directory, arguments)
    offset, end = _part(directory, arguments.attempt) if arguments.attempt is not None else (0, None)
    if arguments.tail is not None:
        offset = max(offset, _start_of_last(arguments.tail, path, end))
    as_json, run = arguments.output == "json", None
    with OutputStream(directory, plain=arguments.plain, as_json=as_json, path=path, offset=offset, end=end) as stream:
        if arguments.follow:
            run = stream.follow()
            if run.imported:
                notify(f"cannot follow {run.run_id}: you did not submit it on this machine")
        else:
            stream.copy_new()
    if stream.problem is not None:
        raise stream.problem
    if as_json and run is not None:
        ended = {"status": state_word(run.state), "exit_code": run.exit_code, "reason": run.reason or None}
        sys.stdout.write(json.dumps(ended) + "\n")
    return 0


def _path(directory: RunDirectory, arguments: argparse.Namespace) -> str:
    """Return the path of the output that the options select. Raises UsageError."""
    if [arguments.rank, arguments.node, arguments.attempt].count(None) < 2:
        raise UsageError("--rank, --node and --attempt are mutually exclusive", remedy="Use only one of them.")
    if arguments.attempt is not None and arguments.follow:
        raise UsageError("--follow and --attempt are mutually exclusive", remedy="Omit --follow or --attempt.")
    if arguments.node is not None:
        return file_of_node(directory, arguments.node)
    return directory.file(OUTPUT) if arguments.rank is None else file_of_rank(directory, arguments.rank)


def _part(directory: RunDirectory, number: int) -> tuple[int, int | None]:
    """Return the start and end of the output of an attempt. The end of the last attempt is None. Raises UsageError."""
    attempts = attempts_of(directory) or [AttemptRecord()]
    attempt = next((record for record in attempts if record.number == number), None)
    if attempt is None:
        numbers = ", ".join(str(record.number) for record in attempts)
        raise UsageError(f"the run has no attempt {number}", remedy=f"Choose one of: {numbers}.")
    return attempt.log_start, None if attempt is attempts[-1] else attempt.log_end


def _start_of_last(lines: int, path: str, end: int | None) -> int:
    with LogFile(path, end=end) as log:
        return log.start_before(log.size, lines)
