"""Run the application, then print the closing lines."""

from __future__ import annotations

import sys

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.ui import crash
from tui_workbench.ui.app import WorkbenchApp
from tui_workbench.ui.blocking import wait_for_exit_holds
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.projects.opening import open_project
from tui_workbench.ui.terminal.capabilities import Terminal, prepare_for_browser
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes import themes


def show(root: str, terminal: Terminal, startup_error: WorkbenchError | None = None) -> int:
    """Show the project at `root`, or the start screen if `root` is "", until the user quits. Return the exit code.

    `startup_error` is shown after the first frame.
    """
    opened = open_project(root) if root else None
    theme, theme_error = themes.saved_theme()
    in_browser = prepare_for_browser()
    error = theme_error or startup_error
    if opened is None:
        app = WorkbenchApp(None, None, theme, error, terminal)
    else:
        app = WorkbenchApp(opened.project, opened.tree, theme, error or opened.error, terminal, opened.saved)
    with crash.thread_errors_to(app.fail_later), crash.quit_signal_to(app.end_with, app.restore_terminal):
        active_runs = app.run() or []
    wait_for_exit_holds()
    if app.crash_report is not None:
        sys.stderr.write(f"{crash.closing_line(app.crash_report)}\n")
    for line in [] if in_browser else closing_lines(active_runs):
        sys.stdout.write(f"{line}\n")
    return app.return_code or 0


def closing_lines(active: list[Run]) -> list[str]:
    """Return the lines to print after the screens close: the active runs, and the command to follow the first.

    Return [] if no run is active.
    """
    if not active:
        return []
    names = ", ".join(safe_text(run_title(run)) for run in active)
    return [
        f"{counted(len(active), 'active run')}: {names}",
        f"Follow with: workbench-tui logs -f {active[0].run_number}",
    ]
