"""`shell`: the original's command prompt."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from tui_workbench.cli.shared.output import tell
from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core import trace
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs import shell as shells
from tui_workbench.runs.history import History
from tui_workbench.runs.shell import Shell

configure_shell = options(
    option(
        "-c", "--run-configuration", metavar="NAME", default="", help="default: the first that runs on this machine"
    ),
    option("-r", "--run", metavar="ID", default="", help="in the copy of this run, by id or number"),
    PROJECT,
    option("script", metavar="COMMAND", nargs="?", default="", help="a command in place of a shell"),
    option("arguments", metavar="ARGS", nargs="...", help="its arguments"),
    names_script=True,
    usage="%(prog)s [-c NAME | -r ID] [--project DIR] [-- COMMAND [ARGS...]]",
    epilog="""\
Your own shell, in the project folder, with the interpreter of the target first on the PATH, what scripts may import to
log, and the variables of the run configuration. In it the lines of the original's pages work, as

    az ml experiment submit -c local train.py

Every other `az` line goes to the real az, if there is one. With -r the shell is in a copy of the project as the run had
it, with what the run changed; the run itself stays as it is.

examples:
  workbench-tui shell
  workbench-tui shell -c docker
  workbench-tui shell -r 7 -- python train.py --epochs 1""",
)


def run_shell(arguments: argparse.Namespace) -> int:
    """Become the shell or the command."""
    if arguments.run and arguments.run_configuration:
        raise UsageError("a run has its own run configuration", remedy="Leave out -c or -r.")
    is_interactive = not arguments.script and sys.stdin.isatty()
    project = Project.find(arguments.project)
    if arguments.run:
        directory = History(project).directory(arguments.run)
        shell = shells.run_shell(project, directory, is_interactive=is_interactive)
    else:
        shell = shells.project_shell(project, arguments.run_configuration, is_interactive=is_interactive)
    if shell.notice:
        tell(shell.notice)
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
        trace.Call(
            trace.PROCESS, shell.argv, folder=shell.directory, variables=trace.changed_variables(environment)
        ).end(None, note="replaced")
        os.execvpe(shell.argv[0], shell.argv, environment)
    except OSError as error:
        raise StorageError(
            f"cannot start {shell.argv[0]}: {error.strerror}", remedy="Name a command that is on the PATH."
        ) from error
