"""Run the user's editor in the terminal of the workbench.

The invariants: the editor is `$VISUAL`, else `$EDITOR`; a `read_only` request opens a temporary
read-only copy.
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
from tui_workbench.core.files import open_file, open_new
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.messages import EditorRequested

LARGEST_COPY = 256 << 20  # size limit of a read-only file, in bytes
_CHUNK = 1 << 20


class Edit(NamedTuple):
    """A file to open: absolute path, line and column (from 1; 0: not set)."""

    path: str
    line: int = 0
    column: int = 0


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """Return the editor's command as words. Raises UsageError when no editor is set or its command cannot be parsed."""
    for variable in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(variable, ""))
        except ValueError as error:
            raise UsageError(
                f"cannot parse {variable} {environment[variable]!r}: {str(error).lower()}",
                remedy=f"Correct the quotes and backslashes in {variable} before you start the workbench, or use "
                f"`export {variable}=vim`.",
            ) from error
        if words:
            return words
    raise UsageError("no editor is set", remedy=_REMEDY)


_REMEDY = "Set VISUAL or EDITOR to an installed editor before you start the workbench: `export EDITOR=vim`."


def command_for(editor: list[str], edit: Edit) -> list[str]:
    """Return the command that opens a file in the editor, at its line and column if the editor is known."""
    name = os.path.basename(editor[0]).removesuffix(".exe")
    line, column = edit.line, max(edit.column, 1)
    if name in _WAITING and not {"--wait", "-w"} & set(editor):
        editor = [*editor, "--wait"]
    if line < 1:
        return [*editor, edit.path]
    for names, arguments in _AT_LINE:
        if name in names.split():
            return [*editor, *(argument.format(line=line, column=column, path=edit.path) for argument in arguments)]
    return [*editor, edit.path]


# The arguments that open a file at a line and column, by editor.
_AT_LINE = (
    ("vim nvim gvim mvim", ("+call cursor({line},{column})", "{path}")),
    ("vi view nvi joe jed mg ne pico less", ("+{line}", "{path}")),
    ("nano rnano", ("+{line},{column}", "{path}")),
    ("emacs emacsclient kak micro gedit xemacs", ("+{line}:{column}", "{path}")),
    ("hx helix subl zed zeditor", ("{path}:{line}:{column}",)),
    ("code code-insiders codium vscodium cursor windsurf", ("--goto", "{path}:{line}:{column}")),
    ("kate", ("--line", "{line}", "--column", "{column}", "{path}")),
)

# Graphical editors, whose commands return immediately without `--wait`.
_WAITING = frozenset(
    ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf", "subl", "zed", "zeditor", "gedit")
)


def copy_to_read(path: str) -> str:
    """Make a read-only copy of a file in a temporary folder, and return its path. Raises StorageError."""
    try:
        if (size := os.path.getsize(path)) > LARGEST_COPY:
            raise StorageError(
                f"the file is too large to copy for an editor: {size >> 20:,} MiB",
                remedy="Search the log in the workbench instead.",
                file=path,
            )
        folder = tempfile.mkdtemp(prefix="workbench-")
        copy = os.path.join(folder, os.path.basename(path))
        with open_file(path) as reading, open_new(copy) as writing:
            # Of a log that grows meanwhile, only the bytes that were counted are copied.
            while size > 0 and (data := reading.read(min(size, _CHUNK))):
                size -= writing.write(data)
        os.chmod(copy, 0o400)
    except OSError as error:
        remedy = (
            "Check that the file is readable and that the folder for temporary files (TMPDIR) is writable and has free "
            "space."
        )
        message = f"cannot copy the file for an editor: {error.strerror}"
        raise StorageError(message, remedy=remedy, file=path) from error
    return copy


def remove_copy(copy: str) -> None:
    """Remove a copy that `copy_to_read` made, and its folder."""
    shutil.rmtree(os.path.dirname(copy), ignore_errors=True)


async def open_in_editor(context: MainContext, request: EditorRequested) -> None:
    """Save a file if it has unsaved edits, open it in the user's editor, and reload it. Raises WorkbenchError.

    If the file cannot be saved, it is not opened.
    """
    editor = context.panes.editor
    if request.path in editor.dirty_paths() and request.path in await editor.save({request.path}):
        return  # the tab of the file shows the reason
    try:
        if not request.read_only:
            enter_editor(context.app, Edit(request.path, request.line, request.column))
            return
        copy = await asyncio.to_thread(copy_to_read, request.path)
        try:
            enter_editor(context.app, Edit(copy, request.line, request.column))
        finally:
            await asyncio.to_thread(remove_copy, copy)
    finally:
        editor.check_disk()
        context.watcher.poll_now()


def enter_editor(app: App[Any], edit: Edit) -> None:
    """Suspend the screens and run the editor.

    Raises UsageError when no editor is set or the screens cannot be suspended, and StorageError when the editor cannot
    be started.
    """
    argv = command_for(editor_of(os.environ), edit)
    try:
        with app.suspend():
            processes.run(argv, output=None, log_start=True)
    except SuspendNotSupported as error:
        remedy = "Use the Editor or Log pane of the workbench instead."
        raise UsageError("cannot open an external editor in a browser", remedy=remedy) from error
    except OSError as error:
        # VISUAL has priority, so setting it also helps if EDITOR is invalid.
        raise StorageError(
            f"cannot start the editor {argv[0]}: {error.strerror}",
            remedy="Set VISUAL to an installed editor before you start the workbench: `export VISUAL=vim`.",
        ) from error
