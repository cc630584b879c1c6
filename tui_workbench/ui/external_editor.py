"""The user's own editor in the terminal that the workbench has, on a file, at a line.

The invariants: the editor is `$VISUAL`, else `$EDITOR`, else nothing; what is only to be read is handed over as a
copy that cannot be written, which is gone when the editor is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import SuspendNotSupported

from tui_workbench import trace
from tui_workbench.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

LARGEST_COPY = 256 << 20
"""Bytes of a file of which a copy is made to be read."""


class Edit(NamedTuple):
    """A file for the editor: absolute path, and the place in it, from 1; 0 where there is none."""

    path: str
    line: int = 0
    column: int = 0


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """The editor's command as words. Raises UsageError when none is set, or what is set is no command."""
    for variable in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(variable, ""))
        except ValueError as error:
            raise UsageError(f"{variable} is no command: {error}", remedy=_REMEDY) from error
        if words:
            return words
    raise UsageError("no editor is set", remedy=_REMEDY)


_REMEDY = "Set VISUAL or EDITOR before the workbench starts: export EDITOR=vim"


def command_for(editor: list[str], edit: Edit) -> list[str]:
    """The editor's command with the file, at its place if the editor is one that is known here."""
    name = os.path.basename(editor[0]).removesuffix(".exe")
    line, column = edit.line, max(edit.column, 1)
    if name in _WAITING and not {"--wait", "-w"} & set(editor):
        editor = [*editor, "--wait"]  # or it would come back at once
    if line < 1:
        return [*editor, edit.path]
    if name in ("vim", "nvim", "gvim", "mvim"):
        return [*editor, f"+call cursor({line},{column})", edit.path]
    if name in ("vi", "view", "nvi", "joe", "jed", "mg", "ne", "pico", "less"):
        return [*editor, f"+{line}", edit.path]
    if name in ("nano", "rnano"):
        return [*editor, f"+{line},{column}", edit.path]
    if name in ("emacs", "emacsclient", "kak", "micro", "gedit", "xemacs"):
        return [*editor, f"+{line}:{column}", edit.path]
    if name in ("hx", "helix", "subl", "zed", "zeditor"):
        return [*editor, f"{edit.path}:{line}:{column}"]
    if name in ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"):
        return [*editor, "--goto", f"{edit.path}:{line}:{column}"]
    if name == "kate":
        return [*editor, "--line", str(line), "--column", str(column), edit.path]
    return [*editor, edit.path]


_WAITING = frozenset(
    ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf", "subl", "zed", "zeditor", "gedit")
)
"""Editors with a window of their own."""


def copy_to_read(path: str) -> str:
    """A copy of the file, in a folder of its own, that nobody can write. Raises StorageError."""
    try:
        if (size := os.path.getsize(path)) > LARGEST_COPY:
            raise StorageError(
                f"the file has {size >> 20:,} MB, too much for a copy to read in an editor",
                remedy="Search it here with /.",
                file=path,
            )
        folder = tempfile.mkdtemp(prefix="workbench-")
        copy = os.path.join(folder, os.path.basename(path))
        shutil.copyfile(path, copy)
        os.chmod(copy, 0o400)
    except OSError as error:
        raise StorageError(f"the file cannot be copied to be read: {error.strerror}", file=path) from error
    return copy


def remove_copy(copy: str) -> None:
    """Remove what `copy_to_read` made."""
    shutil.rmtree(os.path.dirname(copy), ignore_errors=True)


def enter_editor(app: App[Any], edit: Edit) -> None:
    """Give the terminal to the editor until it ends.

    Raises UsageError when no editor is set or there is no terminal to give, and StorageError when the editor cannot be
    started.
    """
    argv = command_for(editor_of(os.environ), edit)
    try:
        with app.suspend(), trace.Call(trace.PROCESS, argv, lasts=True) as call:
            call.end(subprocess.run(argv, check=False).returncode)
    except SuspendNotSupported as error:
        raise UsageError("this terminal cannot be given to an editor", remedy="Open the file with enter.") from error
    except OSError as error:
        raise StorageError(f"the editor {argv[0]} cannot be started: {error.strerror}", remedy=_REMEDY) from error
