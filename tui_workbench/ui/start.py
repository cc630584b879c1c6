"""Opening the screens: what has to be known before Textual is imported, and before a widget binds a key."""

from __future__ import annotations

import os

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.command import use_keys
from tui_workbench.ui.commands.keymap import load_keymap
from tui_workbench.ui.terminal.capabilities import detect_terminal, textual_environment


def run(project_path: str, *, ascii_only: bool = False) -> int:
    """Open the project at `project_path`, or in its nearest parent that is one, until the user leaves. Returns 0.

    Raises ProjectNotFound when there is none, and UnsupportedTerminal when the terminal cannot show the screens.
    `ascii_only` keeps to ASCII even where more can be shown.
    """
    terminal = detect_terminal(ascii_only=ascii_only)
    project = Project.find(project_path)
    trouble = use_keymap()
    with textual_environment(terminal):
        # Textual reads its environment, and our widgets bind their keys, when they are imported.
        from tui_workbench.ui.program import show

    return show(project, terminal, trouble)


def use_keymap() -> WorkbenchError | None:
    """Have the commands the keys that the user has chosen for them. Gives what is wrong with the keymap, if anything.

    What is right in it counts, whatever is wrong with the rest.
    """
    if not os.path.lexists(directories.keymap_path()):
        return None
    keymap = load_keymap()
    use_keys(keymap.keys)
    if len(keymap.errors) < 2:
        return next(iter(keymap.errors), None)
    first = keymap.errors[0]
    remedy = f"{first.remedy} {len(keymap.errors) - 1} more: run `workbench-tui keys`.".lstrip()
    return ConfigurationError(first.message, file=first.file, line=first.line, column=first.column, remedy=remedy)
