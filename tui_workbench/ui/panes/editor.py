"""The editor: the open files in tabs.

The invariants: nothing slow happens on the event loop (files are read and looked at in threads), and nothing of a text
area is imported before the screen has stood for a while or a file is opened.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content
from textual.message import Message

from tui_workbench.errors import StorageError
from tui_workbench.files import read_text_file, reread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import EDITOR
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.recovery import Unsaved
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.themes import palette_of
from tui_workbench.ui.widgets.tab_title import Label, TabTitle, short_names, tab_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.timer import Timer

    from tui_workbench.files import TextFile
    from tui_workbench.ui.jump import Place
    from tui_workbench.ui.panes.checker import Checker
    from tui_workbench.ui.panes.file_view import FileView

DISK_INTERVAL = 1.0
"""Seconds between looks at the open files on disk, while the pane is shown: one `stat` a file, in a thread."""

PRELOAD_AFTER = 1.0
"""Seconds after which the screen counts as started, and importing 50 ms of modules in a thread disturbs nobody."""

EMPTY = "enter on a file opens it here"

TITLE_OFFSET, NARROW_TITLE_OFFSET = 3, 1
"""Cells of the border before its title: the corner, a line and a blank; without a border at the left the line alone."""

MIDDLE_BUTTON = 2


class TabState(NamedTuple):
    """Where a person was in a file; rows and columns count from 0."""

    path: str
    row: int = 0
    column: int = 0


class EditorState(NamedTuple):
    """What the editor can be restored from: plain values that JSON can hold."""

    tabs: tuple[TabState, ...] = ()
    active: str = ""


class EditorPane(Pane):
    """Open files in tabs. Hand it paths with `open_file`; ask it with `save_all`, `dirty_paths` and `state`."""

    DEFAULT_CSS = "EditorPane { content-align: center middle; color: $text-muted; }"

    BINDINGS = bindings(EDITOR)

    number = 3
    title = "Editor"
    about = "Edits any text file of the project. Saving is atomic, and bytes that you did not edit stay as they are."

    class FileOpened(Message):
        """A file was opened in a tab, or its tab was shown again."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    class FileSaved(FileOpened):
        """A file was written."""

    class FileClosed(FileOpened):
        """The tab of a file was closed."""

    class Left(Message):
        """The focus should go back to where it was before it came here."""

    class DirtyChanged(Message):
        """Other files than before hold edits that are not saved."""

        def __init__(self, paths: frozenset[str]) -> None:
            super().__init__()
            self.paths = paths

    def __init__(self, *, id: str = "editor") -> None:
        self._views: list[FileView] = []
        self._active: FileView | None = None
        self._wanted = ""
        self._trouble = ""
        self._told_dirty: frozenset[str] = frozenset()
        self._title: TabTitle | None = None
        self._watch: Timer | None = None
        self._checker: Checker | None = None
        self._images_used: tuple[str, ...] = ()
        super().__init__(id=id)
        self.can_focus = True

    def on_mount(self) -> None:
        """Import what the first file needs before somebody waits for it."""
        self.set_timer(PRELOAD_AFTER, self._preload)

    def _preload(self) -> None:
        self.run_worker(preload, thread=True, group="editor-preload")

    # --- What others ask of it

    async def open_file(self, path: str, line: int = 0, column: int = 0, *, focus: bool = True) -> bool:
        """Show the file in its tab, in a new one if it has none, at `line` and `column` (from 1) unless 0.

        `path` is absolute. Gives False when the file could not be read; the pane then says why. It waits for the disk,
        so call it from a worker.
        """
        self._wanted = path
        view = self._view_of(path)
        if view is None:
            try:
                file = await asyncio.to_thread(read_text_file, path)
            except StorageError as error:
                self._tell(f"{os.path.basename(path)}: {error.message}. {error.remedy}")
                return False
            # The screen is laid out once for the new view in its place, and not for each step on the way.
            with self.app.batch_update():
                view = self._view_of(path) or await self._add(file)
                self._show(view, line, column, focus=focus)
        else:
            self._show(view, line, column, focus=focus)
        return True

    def _show(self, view: FileView, line: int, column: int, *, focus: bool) -> None:
        if line:
            view.go_to(line, column)
        if self._wanted == view.path:
            self._activate(view, focus=focus)

    async def save_all(self) -> list[str]:
        """Save every file that has edits. Gives the paths that could not be saved; their tabs say why or ask."""
        for view in self._views:
            await view.settle()
        dirty = [view for view in self._views if view.dirty]
        failed = [view for view in dirty if not await view.save()]
        if failed and self._active not in failed:
            self._activate(failed[0])
        return [view.path for view in failed]

    async def drop_file(self, path: str) -> None:
        """Close the tab of a file that is gone on purpose, unless it holds text that nothing else holds."""
        view = self._view_of(path)
        if view is not None and not view.has_edits:
            await self._remove(view)

    def dirty_paths(self) -> frozenset[str]:
        """The files that hold edits that are not saved, a value being typed in a form among them."""
        return frozenset(view.path for view in self._views if view.has_edits)

    @property
    def state(self) -> EditorState:
        """The open files and where the person is in each."""
        tabs = tuple(TabState(view.path, *view.editor.cursor_location) for view in self._views)
        return EditorState(tabs, self._active.path if self._active else "")

    async def restore(self, state: EditorState) -> None:
        """Open the files of a state that are still there; the focus comes along when the pane had it, and still has."""
        had_focus = self.has_focus
        for path, row, column in state.tabs:
            if await asyncio.to_thread(os.path.isfile, path):
                await self.open_file(path, focus=False)
                if view := self._view_of(path):
                    view.editor.go_to(row + 1, column + 1)
        if view := self._view_of(state.active) or self._active:
            self._activate(view, focus=had_focus and self.screen.focused in (None, self))

    def unsaved(self) -> dict[str, int]:
        """Each file that holds edits, with the number of changes that were made in it: another one, another text."""
        return {view.path: view.changes for view in self._views if view.dirty}

    def unsaved_texts(self, paths: Iterable[str]) -> dict[str, Unsaved]:
        """What is not saved of these files, to be kept."""
        wanted = set(paths)
        return {view.path: Unsaved(view.file, view.editor.source) for view in self._views if view.path in wanted}

    async def bring_back(self, unsaved: Unsaved, place: TabState) -> None:
        """Put a text that was not saved back over its file, as an edit; a file that is another now is asked about."""
        view = self._view_of(unsaved.file.path)
        if view is None:
            with self.app.batch_update():
                view = await self._add(unsaved.file)
                self._activate(view, focus=False)
        await view.bring_back(unsaved)
        view.editor.go_to(place.row + 1, place.column + 1)
        self._draw()

    def others_changed(self) -> None:
        """Other files say something else than before: look again for problems in the one that is shown."""
        if self._active is not None:
            self._active.others_changed()

    def show_images_used(self, images: tuple[str, ...]) -> None:
        """Images of earlier runs, newest first: they are suggested where an image is asked for."""
        self._images_used = images
        if self._checker is not None:
            self._checker.images_used = images

    def take_focus(self) -> None:
        """Put the focus into the text, or on the pane when no file is open."""
        if self._active is None:
            self.focus()
        else:
            self._active.take_focus()

    # --- Tabs

    def _view_of(self, path: str) -> FileView | None:
        return next((view for view in self._views if view.path == path), None)

    async def _add(self, file: TextFile) -> FileView:
        from tui_workbench.ui.panes.checker import Checker, is_configuration
        from tui_workbench.ui.panes.config_view import ConfigView
        from tui_workbench.ui.panes.file_view import FileView
        from tui_workbench.ui.widgets.source_document import has_stand_ins

        if not file.read_only and has_stand_ins(file.text):
            file = file._replace(read_only="it holds characters of a private range that the editor needs itself")
        if is_configuration(file.path) and not file.read_only:
            self._checker = self._checker or Checker(self._images_used)
            view: FileView = ConfigView(file, self._checker)
        else:
            view = FileView(file)
        self._views.append(view)
        view.display = False
        await self.mount(view)
        return view

    def _activate(self, view: FileView, *, focus: bool = True) -> None:
        self._active, self._trouble = view, ""
        self.can_focus = False
        for other in self._views:
            other.display = other is view
        if focus:
            view.take_focus()
        self._draw()
        self._watch_disk()
        self.post_message(self.FileOpened(view.path))

    async def _remove(self, view: FileView) -> None:
        had_focus = view.has_focus_within
        position = self._views.index(view)
        self._views.remove(view)
        if view is self._active:
            self._active = None
            if self._views:
                self._activate(self._views[min(position, len(self._views) - 1)], focus=had_focus)
            else:
                self.can_focus = True
                if had_focus:
                    self.focus()
        await view.remove()
        if self._checker is not None:
            await asyncio.to_thread(self._checker.forget, view.path)
        self._draw()
        self._watch_disk()
        self.post_message(self.FileClosed(view.path))

    async def _close(self, view: FileView) -> None:
        await view.settle()
        if view.holds_unsaved_text:
            self._activate(view)
            await view.ask_to_close()
        else:
            await self._remove(view)

    def on_file_view_changed(self) -> None:
        """A file is dirty, clean, deleted, or asks something."""
        self._draw()

    def on_file_view_saved(self, event: FileView.Saved) -> None:
        """A file was written."""
        self.post_message(self.FileSaved(event.view.path))

    async def on_file_view_closing_decided(self, event: FileView.ClosingDecided) -> None:
        """A file may be closed."""
        await self._remove(event.view)

    # --- The disk

    def _watch_disk(self) -> None:
        if self._watch is None:
            self._watch = self.set_interval(DISK_INTERVAL, self.check_disk, pause=True)
        if self._views and self.is_on_screen:
            self._watch.resume()
        else:
            self._watch.pause()

    def on_show(self) -> None:
        """Look at the files again while the pane is shown."""
        self._watch_disk()

    def on_hide(self) -> None:
        """Leave the disk alone while the pane is not shown."""
        self._watch_disk()

    def check_disk(self) -> None:
        """Look whether the open files changed on disk, in a thread, and tell what did."""
        self.run_worker(self._check_disk(), group="editor-disk", exclusive=True)

    async def _check_disk(self) -> None:
        known = [(view, view.latest) for view in self._views if not view.busy.locked()]
        versions = await asyncio.to_thread(_versions, [version for _, version in known])
        for (view, before), now in zip(known, versions, strict=True):
            unchanged = now is before or (now is None and view.deleted)
            if not unchanged and view in self._views and view.latest is before and not view.busy.locked():
                await view.meet(now)

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action in ("close_tab", "next_tab") and self._active is None:
            return "No file is open."
        if action == "next_tab" and len(self._views) < 2:
            return "Only one file is open."
        return ""

    def action_leave(self) -> None:
        """Leave the focus to whoever had it before."""
        self.post_message(self.Left())

    def on_text_editor_left(self, event: Message) -> None:
        """Escape in a text means the same as elsewhere in the pane."""
        event.stop()
        self.action_leave()

    def action_close_tab(self) -> None:
        """Close the tab that is shown, at once when nothing would be lost."""
        if self._active is not None:
            self.run_worker(self._close(self._active))

    def action_next_tab(self, direction: int) -> None:
        """Show the next or the previous tab."""
        if self._active is not None:
            position = self._views.index(self._active) + direction
            self._activate(self._views[position % len(self._views)])

    def on_click(self, event: events.Click) -> None:
        """Show a tab when its name in the border is clicked; the middle button closes it. Below, change the view."""
        if event.widget is self and event.y == self.outer_size.height - 1 and self._active is not None:
            self._active.subtitle_clicked()
        if event.widget is self and event.y == 0 and self._title is not None:
            index = self._title.tab_at(event.x - self._title_offset)
            if index is not None:
                event.stop()
                if event.button == MIDDLE_BUTTON:
                    self.run_worker(self._close(self._views[index]))
                else:
                    self._activate(self._views[index])

    @property
    def _title_offset(self) -> int:
        return TITLE_OFFSET if self.styles.border_left[0] else NARROW_TITLE_OFFSET

    def jump_places(self) -> list[Place]:
        """The tabs in the border that are not shown."""
        from tui_workbench.ui.jump import Place

        spans = self._title.spans if self._title is not None else ()
        left = self.region.x + self._title_offset - 1  # the letter stands on the first one of the name
        return [
            Place(left + start, self.region.y, partial(self._activate, self._views[index]))
            for start, _, index in spans
            if self._views[index] is not self._active
        ]

    # --- Drawing

    def render(self) -> Content:
        """What an editor without files says."""
        return Content("" if self._views else self._trouble or EMPTY)

    def on_resize(self) -> None:
        """Fit the tabs into the border again."""
        self._draw_title()

    def _tell(self, trouble: str) -> None:
        if self._active is not None:
            self._active.tell(trouble)
        else:
            self._trouble = safe_text(trouble)
            self.refresh()

    def _draw(self) -> None:
        self._draw_title()
        self.refresh_bindings()
        dirty = frozenset(view.path for view in self._views if view.dirty)
        if dirty != self._told_dirty:
            self._told_dirty = dirty
            self.post_message(self.DirtyChanged(dirty))

    def _draw_title(self) -> None:
        if self._active is None:
            self._title = None
            self.set_title()
            self.border_subtitle = ""
            return
        names = short_names([view.path for view in self._views])
        marks = ["✗" if view.deleted else "●" if view.dirty else "" for view in self._views]
        labels = [Label(name, mark) for name, mark in zip(names, marks, strict=True)]
        active = self._views.index(self._active)
        title = tab_title(self.number, labels, active, max(self.outer_size.width - 6, 10), palette_of(self))
        self._title = title
        if not _look_the_same(title.content, self._border_title):
            self.border_title = title.content
        if not _look_the_same(self._active.subtitle, self._border_subtitle):
            self.border_subtitle = self._active.subtitle


def _look_the_same(one: Content, other: Content | None) -> bool:
    # Contents count as equal when their texts are, whatever their colours.
    return other is not None and (one.plain, one.spans) == (other.plain, other.spans)


def preload() -> None:
    """Import all that showing a file needs, and compile what highlighting needs; for a thread."""
    from importlib import import_module

    from tui_workbench.ui.widgets import source_document

    import_module("tui_workbench.config.checks")
    import_module("tui_workbench.ui.panes.config_view")
    source_document.preload()


def _versions(files: Sequence[TextFile]) -> list[TextFile | None]:
    """What stands on disk now for each; a file that cannot be looked at at the moment counts as not changed."""
    versions: list[TextFile | None] = []
    for file in files:
        try:
            versions.append(reread(file))
        except StorageError:
            versions.append(file)
    return versions
