"""A file in the user's own editor, from the main screen: what is unsaved goes to the disk before, and is read after."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui_workbench.errors import WorkbenchError
from tui_workbench.ui.external_editor import Edit, copy_to_read, enter_editor, remove_copy

if TYPE_CHECKING:
    from tui_workbench.ui.messages import EditorWanted
    from tui_workbench.ui.screens.project_screen import ProjectScreen


async def open_in_editor(screen: ProjectScreen, wanted: EditorWanted) -> None:
    """Open the file; what goes wrong is said on the screen. To be awaited in a worker."""
    if not screen.is_complete:
        return
    editor = screen.parts.editor
    if wanted.path in editor.dirty_paths() and wanted.path in await editor.save_all():
        return  # its tab says why, or asks
    try:
        if wanted.read_only:
            await _show_copy(screen, wanted)
        else:
            enter_editor(screen.app, Edit(wanted.path, wanted.line, wanted.column))
    except WorkbenchError as error:
        screen.show_error(error)
    editor.check_disk()
    screen.look_now()


async def _show_copy(screen: ProjectScreen, wanted: EditorWanted) -> None:
    copy = await asyncio.to_thread(copy_to_read, wanted.path)
    try:
        enter_editor(screen.app, Edit(copy, wanted.line, wanted.column))
    finally:
        await asyncio.to_thread(remove_copy, copy)
