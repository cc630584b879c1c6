"""A shell in the terminal that the workbench has, which comes back when the shell ends."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from tui_workbench import trace
from tui_workbench.errors import StorageError, UsageError
from tui_workbench.plaintext import visible

if TYPE_CHECKING:
    from textual.app import App

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
            own = trace.differing(environment)
            with trace.Call(trace.PROCESS, shell.argv, folder=shell.directory, variables=own, lasts=True) as call:
                code = subprocess.run(shell.argv, cwd=shell.directory, env=environment, check=False).returncode
                call.end(code)
            return code
    except SuspendNotSupported as error:
        raise UsageError(
            "this terminal cannot be given to a shell", remedy="`workbench-tui shell` opens one."
        ) from error
    except OSError as error:
        raise StorageError(
            f"the shell {shell.argv[0]} cannot be started: {error.strerror}", remedy="Set SHELL to one that is there."
        ) from error
