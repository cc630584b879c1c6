"""Save the session and unsaved edits every second, and restore them at the next start.

The invariants: a change is on disk within a second; nothing is written while nothing changes; the event loop writes
only once, at the end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from textual.timer import Timer

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import read_text_file
from tui_workbench.ui.editor.editor import preload
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.recovery import Recovery, Unsaved
from tui_workbench.ui.session_state import Values, save_session

INTERVAL = 1.0  # seconds between comparisons with the last written state


class Autosave:
    """A timer that saves the unsaved edits and the screen's `state`."""

    def __init__(self, context: MainContext, state: Callable[[], dict[str, object]]) -> None:
        self._context = context
        self._state = state
        self._root = context.project.root
        self._editor = context.panes.editor
        self._recovery = Recovery(self._root)
        self._values: dict[str, object] = {}
        self._kept: dict[str, int] = {}
        self._last_error = ""
        self._begun = False
        self._writing = threading.Lock()
        self._ended = False
        self._timer: Timer | None = None

    async def begin(self, saved: Values) -> None:
        """Restore open files and unsaved edits, and start to save."""
        editor = saved.part("editor")
        left, errors = await asyncio.to_thread(self._recovery.take_over)
        left = await asyncio.to_thread(_still_unsaved, left)
        if editor.parts("tabs") or left:
            await asyncio.to_thread(preload)
            await self._editor.restore(editor)
        for unsaved in left:
            await self._editor.restore_unsaved(unsaved)
        self._begun = True
        await self._save_changes()
        # The texts of ended processes are deleted only when they have been written again.
        if not self._last_error:
            await asyncio.to_thread(self._recovery.delete_taken)
        for error in errors:
            self._context.show_error(error)
        self._timer = self._context.screen.set_interval(INTERVAL, self._save_changes)

    async def _save_changes(self) -> None:
        values, unsaved = self._state(), self._editor.unsaved()
        if values == self._values and unsaved == self._kept:
            return
        texts = self._editor.unsaved_texts(self._changed(unsaved))
        error = await asyncio.to_thread(self._save_unless_ended, values, texts, self._kept.keys() - unsaved.keys())
        self._values, self._kept = values, unsaved
        message = str(error or "")
        if error is not None and message != self._last_error:
            self._context.show_error(error)
        self._last_error = message

    def _changed(self, unsaved: dict[str, int]) -> Iterable[str]:
        return [path for path, changes in unsaved.items() if self._kept.get(path) != changes]

    def _save_unless_ended(
        self, values: dict[str, object], texts: dict[str, Unsaved], saved: set[str]
    ) -> StorageError | None:
        with self._writing:
            return None if self._ended else self._save(values, texts, saved)

    def _save(self, values: dict[str, object], texts: dict[str, Unsaved], saved: set[str]) -> StorageError | None:
        """Write texts and values, and delete the recovery files of saved texts. Return the first error. Blocks."""
        first_error = None
        try:
            self._recovery.keep(texts)
        except StorageError as error:
            first_error = error
        self._recovery.drop(saved)
        try:
            if values != self._values:
                save_session(self._root, values)
        except StorageError as error:
            first_error = first_error or error
        return first_error

    def end(self, *, keep_texts: bool) -> None:
        """Write all changes now. If `keep_texts`, keep unsaved texts for the next start; otherwise delete them."""
        if not self._begun:
            return
        self._begun = False
        if self._timer is not None:
            self._timer.stop()
        values, unsaved = self._state(), self._editor.unsaved()
        texts = self._editor.unsaved_texts(self._changed(unsaved)) if keep_texts else {}
        with self._writing:
            # A thread that waits for the lock must not write older values afterwards.
            self._ended = True
            self._save(values, texts, self._kept.keys() - unsaved.keys())
            if not keep_texts or not unsaved:
                self._recovery.close()


def _still_unsaved(left: list[Unsaved]) -> list[Unsaved]:
    """Return the texts that differ from their files, or whose files cannot be read. Blocks."""
    texts = []
    for unsaved in left:
        try:
            is_saved = read_text_file(unsaved.file.path).text == unsaved.text
        except StorageError:
            is_saved = False
        if not is_saved:
            texts.append(unsaved)
    return texts
