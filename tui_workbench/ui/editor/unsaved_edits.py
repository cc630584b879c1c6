"""Edits that were kept when the program ended before they were saved."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tui_workbench.core.text_files import reread
from tui_workbench.ui.blocking import messages_handled
from tui_workbench.ui.recovery import Unsaved

if TYPE_CHECKING:  # loaded when the first file is opened
    from tui_workbench.ui.editor.file_view import FileView


async def bring_back(view: FileView, unsaved: Unsaved) -> None:
    """Make the edits again in the view of their file; undo takes them back."""
    if not view.dirty and not unsaved.file.same_content(view.file):
        view.file = unsaved.file  # the version that they were made from; the one on the disk now is met below
    view.editor.replace_source(unsaved.text)
    await view.settle()
    await messages_handled(view)  # the text tells of the edit by a message
    now = await asyncio.to_thread(reread, view.file)
    if now is not view.file:
        await view.meet(now)
    if view.dirty:
        when = time.strftime("%H:%M", time.localtime(unsaved.kept_at))
        view.note = f"Unsaved edits of {when} are back. Undo takes them away."
    view.draw()
