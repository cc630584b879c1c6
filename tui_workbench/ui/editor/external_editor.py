"""The user's own editor in the terminal that the workbench has, on a file, at a line.

The invariants: the editor is `$VISUAL`, else `$EDITOR`, else nothing; what is only to be read is handed over as a
copy that cannot be written, which is gone when the editor is.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from textual.app import App, SuspendNotSupported

from tui_workbench.core import processes
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.messages import EditorRequested

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
    for names, arguments in _AT_PLACE:
        if name in names.split():
            return [*editor, *(each.format(line=line, column=column, path=edit.path) for each in arguments)]
    return [*editor, edit.path]


_AT_PLACE = (
    ("vim nvim gvim mvim", ("+call cursor({line},{column})", "{path}")),
    ("vi view nvi joe jed mg ne pico less", ("+{line}", "{path}")),
    ("nano rnano", ("+{line},{column}", "{path}")),
    ("emacs emacsclient kak micro gedit xemacs", ("+{line}:{column}", "{path}")),
    ("hx helix subl zed zeditor", ("{path}:{line}:{column}",)),
    ("code code-insiders codium vscodium cursor windsurf", ("--goto", "{path}:{line}:{column}")),
    ("kate", ("--line", "{line}", "--column", "{column}", "{path}")),
)
"""The arguments that open a file at a place, by the names of editors."""

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


async def open_in_editor(context: MainContext, wanted: EditorRequested) -> None:
    """Save a file of the main screen, open it, and read it again. Raises WorkbenchError."""
    editor = context.panes.editor
    if wanted.path in editor.dirty_paths() and wanted.path in await editor.save({wanted.path}):
        return  # its tab says why, or asks
    try:
        if not wanted.read_only:
            enter_editor(context.app, Edit(wanted.path, wanted.line, wanted.column))
            return
        copy = await asyncio.to_thread(copy_to_read, wanted.path)
        try:
            enter_editor(context.app, Edit(copy, wanted.line, wanted.column))
        finally:
            await asyncio.to_thread(remove_copy, copy)
    finally:
        editor.check_disk()
        context.watcher.look_now()


def enter_editor(app: App[Any], edit: Edit) -> None:
    """Give the terminal to the editor until it ends.

    Raises UsageError when no editor is set or there is no terminal to give, and StorageError when the editor cannot be
    started.
    """
    argv = command_for(editor_of(os.environ), edit)
    try:
        with app.suspend():
            processes.run(argv, output=None, log_start=True)
    except SuspendNotSupported as error:
        raise UsageError("this terminal cannot be given to an editor", remedy="Open the file with enter.") from error
    except OSError as error:
        raise StorageError(f"the editor {argv[0]} cannot be started: {error.strerror}", remedy=_REMEDY) from error
