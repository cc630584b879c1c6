"""Open the screens: detect the terminal and apply the keymap before Textual is imported."""

from __future__ import annotations

import os

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError, ProjectNotFound, WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.command import use_keys
from tui_workbench.ui.terminal.capabilities import detect_terminal, textual_environment


def run(project_path: str = "", *, ascii_only: bool = False) -> int:
    """Show a project until the user leaves, and return the exit code.

    The project is the folder `project_path`, or the nearest parent folder that is a project. If `project_path` is "",
    the search begins in the current folder; if it finds no project, the start screen is shown.

    Raises ProjectNotFound if `project_path` is not in a project, and UnsupportedTerminal if the terminal cannot show
    the screens. `ascii_only` limits the screens to ASCII on any terminal.
    """
    root = _root_of(project_path)
    terminal = detect_terminal(ascii_only=ascii_only)
    keymap_error = use_keymap()
    with textual_environment(terminal):
        # Textual reads its environment, and the widgets bind their keys, when they are imported.
        from tui_workbench.ui.app import show

    return show(root, terminal, keymap_error)


def _root_of(path: str) -> str:
    try:
        return Project.find(path or ".").root
    except ProjectNotFound:
        if path:
            raise
        return ""


def use_keymap() -> WorkbenchError | None:
    """Apply the valid lines of the user's keymap; return the first error, if any."""
    if not os.path.lexists(directories.keymap_path()):
        return None
    # Without a keymap, which is the usual case, the first frame does not need the registry of commands.
    from tui_workbench.ui.commands.keymap import load_keymap

    keymap = load_keymap()
    use_keys(keymap.keys)
    if len(keymap.errors) < 2:
        return next(iter(keymap.errors), None)
    first = keymap.errors[0]
    remedy = f"{first.remedy} `workbench-tui keys` lists all {len(keymap.errors)} errors.".lstrip()
    return ConfigurationError(first.message, file=first.file, line=first.line, column=first.column, remedy=remedy)
