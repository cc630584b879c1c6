"""Run a shell in the terminal of the workbench."""

from __future__ import annotations

import os
from typing import Any

from textual.app import App, SuspendNotSupported

from tui_workbench.core import processes, trace
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.core.plaintext import visible
from tui_workbench.runs.shell import Shell


def enter_shell(app: App[Any], shell: Shell) -> int:
    """Suspend the screens, run a shell in the terminal, and return its exit code.

    Raises StorageError when the shell cannot be started, and UsageError when the screens cannot be suspended.
    """
    try:
        with app.suspend():
            print(f"\n{visible(shell.notice)}" if shell.notice else "")  # noqa: T201  the screens are suspended
            print("`exit` or ctrl+d returns to the workbench.", flush=True)  # noqa: T201
            environment = {**os.environ, **shell.environment, "PWD": shell.directory}
            own, folder = trace.changed_variables(environment), shell.directory
            done = processes.run(
                shell.argv, folder=folder, environment=environment, variables=own, output=None, log_start=True
            )
            return done.returncode
    except SuspendNotSupported as error:
        raise UsageError(
            "cannot open a shell in a browser",
            remedy="In a terminal, run `workbench-tui shell`, with `-r ID` for the files of a run.",
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot start the shell {shell.argv[0]}: {error.strerror}",
            remedy=f"Check that the folder {shell.directory} exists, or set SHELL to another shell before you start "
            "the workbench: `export SHELL=/bin/bash`.",
        ) from error
