"""The screens from the first frame to the last line in the terminal."""

from __future__ import annotations

import sys

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.ui import crash
from tui_workbench.ui.app import WorkbenchApp
from tui_workbench.ui.blocking import wait_for_exit_holds
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.formatting import count, run_title
from tui_workbench.ui.session_state import load_session
from tui_workbench.ui.terminal.capabilities import Terminal, prepare_for_browser
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes import themes


def show(project: Project, terminal: Terminal, trouble: WorkbenchError | None = None) -> int:
    """Show a project until the user leaves; gives the exit code. `trouble` is said once the screens stand."""
    saved, memory_trouble = load_session(project.root)
    theme, theme_trouble = themes.saved_theme()
    in_browser = prepare_for_browser()
    tree = FileTree(project.root)
    if folders := saved.part("files").texts("folders"):
        tree.open_folders = {"", *folders}
    for folder in tree.to_read():
        tree.accept(folder, read_folder(project.root, folder))
    app = WorkbenchApp(project, tree, theme, theme_trouble or trouble or memory_trouble, terminal, saved)
    with crash.thread_errors_to(app.fail_later), crash.quit_signal_to(app.end_with, app.restore_terminal):
        going_on = app.run() or []
    wait_for_exit_holds()
    if app.crash_report is not None:
        sys.stderr.write(f"{crash.closing_line(app.crash_report)}\n")
    # A browser has no terminal behind the screens.
    for line in [] if in_browser else farewell(going_on):
        sys.stdout.write(f"{line}\n")
    return app.return_code or 0


def farewell(active: list[Run]) -> list[str]:
    """What stands in the terminal after the screens: which runs go on, and how to follow one from there."""
    if not active:
        return []
    names = ", ".join(safe_text(run_title(run)) for run in active)
    verb = "goes" if len(active) == 1 else "go"
    return [
        f"{count(len(active), 'run')} {verb} on: {names}",
        f"Follow with: workbench-tui logs -f {active[0].run_number}",
    ]
