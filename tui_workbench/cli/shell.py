"""`shell`: the original's command prompt."""

from __future__ import annotations

import os
import sys

from tui_workbench import trace
from tui_workbench.cli.output import add_project_option
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import StorageError, UsageError
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse
    from typing import NoReturn

    from tui_workbench.cli.parser import Parser
    from tui_workbench.runs.shell import Shell


def configure_shell(parser: Parser) -> None:
    """Options of `shell`. What follows them is a command of its own."""
    parser.names_script = True
    parser.usage = "%(prog)s [-c NAME | -r ID] [--project DIR] [-- COMMAND [ARGS...]]"
    parser.epilog = """\
Your own shell, in the project folder, with the interpreter of the target first on the PATH, what scripts may import to
log, and the variables of the run configuration. In it the lines of the original's pages work, as

    az ml experiment submit -c local train.py

Every other `az` line goes to the real az, if there is one. With -r the shell is in a copy of the project as the run had
it, with what the run changed; the run itself stays as it is.

examples:
  workbench-tui shell
  workbench-tui shell -c docker
  workbench-tui shell -r 7 -- python train.py --epochs 1"""
    parser.add_argument(
        "-c", "--run-configuration", metavar="NAME", default="", help="default: the first that runs on this machine"
    )
    parser.add_argument("-r", "--run", metavar="ID", default="", help="in the copy of this run, by id or number")
    add_project_option(parser)
    parser.add_argument("script", metavar="COMMAND", nargs="?", default="", help="a command in place of a shell")
    parser.add_argument("arguments", metavar="ARGS", nargs="...", help="its arguments")


def run_shell(arguments: argparse.Namespace) -> int:
    """Become the shell or the command."""
    if arguments.run and arguments.run_configuration:
        raise UsageError("a run has its own run configuration", remedy="Leave out -c or -r.")
    is_interactive = not arguments.script and sys.stdin.isatty()
    runs = Runs(Project.find(arguments.project))
    shell = runs.shell(arguments.run_configuration, arguments.run, is_interactive=is_interactive)
    if shell.notice:
        sys.stderr.write(f"workbench-tui: {visible(shell.notice)}\n")
    if arguments.script:
        shell = shell._replace(argv=(arguments.script, *arguments.arguments))
    _become(shell)


def _become(shell: Shell) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(shell.directory)
        # Of its PWD a shell believes what it is told.
        environment = {**shell.environment, "PWD": shell.directory}
        trace.Call(trace.PROCESS, shell.argv, folder=shell.directory, variables=trace.differing(environment)).end(
            None, note="replaced"
        )
        os.execvpe(shell.argv[0], shell.argv, environment)
    except OSError as error:
        raise StorageError(
            f"cannot start {shell.argv[0]}: {error.strerror}", remedy="Name a command that is on the PATH."
        ) from error
