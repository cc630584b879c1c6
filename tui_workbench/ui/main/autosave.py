"""Keeps what the main screen looks like and what is not saved in it, and brings both back at the next start.

The invariants: within a second of a change both are on disk; nothing is written while nothing changes, and nothing on
the event loop but once, when the program ends; who is told to end (the terminal is gone, somebody wants it) leaves as
by the key, only without questions: unsaved texts stay in the recovery file.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterable

from textual.timer import Timer

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import read_text_file
from tui_workbench.ui.editor.editor import preload
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.recovery import Recovery, Unsaved
from tui_workbench.ui.session_state import Values, save_session

INTERVAL = 1.0
"""Seconds between looks at what is in memory; only what differs from what was kept last is written."""

ENDING = (signal.SIGHUP, signal.SIGTERM)
"""The terminal is gone; somebody wants the program to end."""


class Autosave:
    """Watches the editor and the rest of a screen from `begin` to `end`.

    `state` tells what the screen looks like; `leave` ends the program without questions.
    """

    def __init__(
        self, context: MainContext, state: Callable[[], dict[str, object]], leave: Callable[[int], None]
    ) -> None:
        self._context = context
        self._state = state
        self._leave = leave
        self._root = context.project.root
        self._editor = context.panes.editor
        self._recovery = Recovery(self._root)
        self._values: dict[str, object] = {}
        self._kept: dict[str, int] = {}
        self._told = ""
        self._begun = False
        self._writing = threading.Lock()
        self._ended = False
        self._timer: Timer | None = None

    # --- At the start

    async def begin(self, saved: Values) -> None:
        """Open what was open, bring back what was not saved, and remember from now on."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread, as in some tests
                loop.add_signal_handler(number, self._leave, 128 + number)
        editor = saved.part("editor")
        left, errors = await asyncio.to_thread(self._recovery.take_over)
        left = await asyncio.to_thread(_still_unsaved, left)
        if editor.parts("tabs") or left:
            await asyncio.to_thread(preload)
            await self._editor.restore(editor)
        for unsaved in left:
            await self._editor.bring_back(unsaved)
        self._begun = True
        await self._look()
        if self._told == "":
            await asyncio.to_thread(self._recovery.let_go)
        for error in errors:
            self._context.show_error(error)
        self._timer = self._context.screen.set_interval(INTERVAL, self._look)

    # --- While the screen is there

    async def _look(self) -> None:
        """Keep what is different from what was kept last, in a thread."""
        values, unsaved = self._state(), self._editor.unsaved()
        if values == self._values and unsaved == self._kept:
            return
        texts = self._editor.unsaved_texts(self._changed(unsaved))
        trouble = await asyncio.to_thread(self._keep_on, values, texts, self._kept.keys() - unsaved.keys())
        self._values, self._kept = values, unsaved
        self._tell(trouble)

    def _changed(self, unsaved: dict[str, int]) -> Iterable[str]:
        return [path for path, changes in unsaved.items() if self._kept.get(path) != changes]

    def _keep_on(self, values: dict[str, object], texts: dict[str, Unsaved], saved: set[str]) -> StorageError | None:
        """In a thread; what comes too late is not written any more."""
        with self._writing:
            return None if self._ended else self._keep(values, texts, saved)

    def _keep(self, values: dict[str, object], texts: dict[str, Unsaved], saved: set[str]) -> StorageError | None:
        """Blocks. Texts come first: they cannot be had again."""
        trouble = None
        try:
            self._recovery.keep(texts)
        except StorageError as error:
            trouble = error
        self._recovery.drop(saved)
        try:
            if values != self._values:
                save_session(self._root, values)
        except StorageError as error:
            trouble = trouble or error
        return trouble

    def _tell(self, trouble: StorageError | None) -> None:
        """Each trouble once, and not every second."""
        told = str(trouble) if trouble is not None else ""
        if trouble is not None and told != self._told:
            self._context.show_error(trouble)
        self._told = told

    # --- At the end

    def end(self, *, keep_texts: bool) -> None:
        """Write what is not written yet, at once; unsaved texts stay for the next start, or are gone."""
        if not self._begun:
            return
        self._begun = False
        if self._timer is not None:
            self._timer.stop()
        values, unsaved = self._state(), self._editor.unsaved()
        texts = self._editor.unsaved_texts(self._changed(unsaved)) if keep_texts else {}
        with self._writing:
            self._ended = True
            self._keep(values, texts, self._kept.keys() - unsaved.keys())
            if not keep_texts or not unsaved:
                self._recovery.close()


def _still_unsaved(left: list[Unsaved]) -> list[Unsaved]:
    """Those whose text does not stand in their file by now. Blocks."""
    return [unsaved for unsaved in left if _text_on_disk(unsaved.file.path) != unsaved.text]


def _text_on_disk(path: str) -> str | None:
    try:
        return read_text_file(path).text
    except StorageError:
        return None
