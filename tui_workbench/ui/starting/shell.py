"""A shell in the terminal that the workbench has, which comes back when the shell ends."""

from __future__ import annotations

import os
from typing import Any

from textual.app import App, SuspendNotSupported

from tui_workbench.core import processes, trace
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.core.plaintext import visible
from tui_workbench.runs.shell import Shell


def enter_shell(app: App[Any], shell: Shell) -> int:
    """Give the terminal to the shell until it ends; its exit code.

    Raises StorageError when it cannot be started, and UsageError where there is no terminal to give.
    """
    try:
        with app.suspend():
            print(f"\n{visible(shell.notice)}" if shell.notice else "")  # noqa: T201  the terminal is a shell's now
            print("`exit` or ctrl+d comes back to the workbench.", flush=True)  # noqa: T201
            environment = {**os.environ, **shell.environment, "PWD": shell.directory}
            own, folder = trace.changed_variables(environment), shell.directory
            done = processes.run(
                shell.argv, folder=folder, environment=environment, variables=own, output=None, log_start=True
            )
            return done.returncode
    except SuspendNotSupported as error:
        raise UsageError(
            "this terminal cannot be given to a shell", remedy="`workbench-tui shell` opens one."
        ) from error
    except OSError as error:
        raise StorageError(
            f"the shell {shell.argv[0]} cannot be started: {error.strerror}", remedy="Set SHELL to one that is there."
        ) from error
