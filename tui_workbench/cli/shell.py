"""`shell`: open a shell with the environment of runs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from tui_workbench.cli.shared.output import notify
from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core import trace
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs import shell as shells
from tui_workbench.runs.history import History
from tui_workbench.runs.shell import Shell

configure_shell = options(
    option("-c", "--run-configuration", metavar="NAME", default="",
           help="the .runconfig to use (default: local, or the first for this machine without Docker)"),
    option("-r", "--run", metavar="ID", default="", help="open the shell in the files of this run"),
    PROJECT,
    option("script", metavar="COMMAND", nargs="?", default="", help="a command to run instead of a shell"),
    option("arguments", metavar="ARGS", nargs="...", help="the arguments of the command"),
    names_script=True,
    usage="%(prog)s [-c NAME | -r ID] [--project DIR] [-- COMMAND [ARGS...]]",
    epilog="""\
Opens your shell in the project folder, with the variables of the run
configuration. Scripts can import `workbench` and `azureml.logging`. The
interpreter of a local target is first on the PATH; for other targets, the shell
uses your own Python. Commands of Azure ML Workbench work in this shell:

    az ml experiment submit -c local train.py

Other `az` commands go to the Azure CLI. With -r, the shell opens in a copy of
the run's snapshot, with the files that the run changed or created outside
outputs/; for an active run, in its working copy; for an untracked run, in the
project folder.

examples:
  workbench-tui shell
  workbench-tui shell -c docker
  workbench-tui shell -r 7 -- python train.py --epochs 1""",
)  # fmt: skip


def run_shell(arguments: argparse.Namespace) -> int:
    if arguments.run and arguments.run_configuration:
        raise UsageError("-c cannot be used with -r", remedy="Omit -c: a run has its own run configuration.")
    is_interactive = not arguments.script and sys.stdin.isatty()
    project = Project.find(arguments.project)
    if arguments.run:
        directory = History(project).directory(arguments.run)
        shell = shells.run_shell(project, directory, is_interactive=is_interactive)
    else:
        shell = shells.project_shell(project, arguments.run_configuration, is_interactive=is_interactive)
    if shell.notice:
        notify(shell.notice)
    if arguments.script:
        shell = shell._replace(argv=(arguments.script, *arguments.arguments))
    _execute(shell)


def _execute(shell: Shell) -> NoReturn:
    # `execvpe` replaces this process and discards text in buffers. The call in the trace ends before it.
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(shell.directory)
        # A shell reads its working directory from PWD.
        environment = {**shell.environment, "PWD": shell.directory}
        trace.Call(
            trace.PROCESS, shell.argv, folder=shell.directory, variables=trace.changed_variables(environment)
        ).end(None, note="replaced")
        os.execvpe(shell.argv[0], shell.argv, environment)
    except OSError as error:
        raise StorageError(
            f"cannot start {shell.argv[0]}: {error.strerror}",
            remedy=f"Check that the folder {shell.directory} exists. Give COMMAND as the name of a program on the PATH "
            "or the path of an executable file. Without COMMAND, set SHELL to an installed shell: "
            "`export SHELL=/bin/bash`.",
        ) from error
