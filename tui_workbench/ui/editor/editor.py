"""The editor pane: open files in tabs, or the project's readme if no file is open.

The invariants: files are read in threads, and the text area is imported only after the screen has started, or when a
file is opened.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import events, work
from textual.app import ComposeResult
from textual.message import Message

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import TextFile, read_text_file, reread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.editor_commands import EDITOR
from tui_workbench.ui.commands.jump import JumpPlace
from tui_workbench.ui.files.readme_view import ReadmeView
from tui_workbench.ui.messages import Update
from tui_workbench.ui.recovery import Unsaved
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.tab_title import Label, TabTitle, short_names, tab_title

if TYPE_CHECKING:  # importing a text area and its grammars takes 130 ms, too long for the first frame
    from tui_workbench.ui.editor.config_view import Checker
    from tui_workbench.ui.editor.file_view import FileView

DISK_INTERVAL = 1.0  # seconds between checks of the open files on disk
PRELOAD_AFTER = 1.0  # seconds after the start until a thread imports the text area
EMPTY = f"Select a file and press {shown_key('files.open', 'enter')}"
MIDDLE_BUTTON = 2
TITLE_OFFSET, NARROW_TITLE_OFFSET = 3, 1  # cells before the title, with and without a left border


class EditorPane(Pane):
    """The pane of open files in tabs."""

    BINDINGS = EDITOR.bindings

    number = 3
    title = "Editor"
    about = "Text files of the project, in tabs. Saving is atomic and keeps all bytes that you did not edit."

    class FileSaved(Update):
        """Posted when a file was written."""

        path: str

    class Left(Message):
        """Posted when the user leaves the editor. The focus should return to the previous pane."""

    class DirtyChanged(Update):
        """Posted when the set of files with unsaved edits has changed."""

        paths: frozenset[str]

    def __init__(self, root: str = "", *, id: str = "editor") -> None:
        """`root` is the folder of the project."""
        self.empty = ReadmeView(root, EMPTY)
        self._views: list[FileView] = []
        self._active: FileView | None = None
        self._adding = asyncio.Lock()  # held while a view is added, so that a file has one tab
        self._requested = ""  # the path of the latest call of `open_file`
        self._posted_dirty: frozenset[str] = frozenset()
        self._tabs = BorderTabs(self)
        self._checker: Checker | None = None
        self._images_used: tuple[str, ...] = ()
        self._cursors: dict[str, tuple[int, int]] = {}  # the saved line and column of the cursor, from 1
        super().__init__(id=id)

    def compose(self) -> ComposeResult:
        yield self.empty

    def on_mount(self) -> None:
        self.set_timer(PRELOAD_AFTER, partial(self.run_worker, preload, thread=True, group="editor-preload"))
        self.set_interval(DISK_INTERVAL, lambda: self.check_disk() if self._views and self.is_on_screen else None)

    async def open_file(self, path: str, line: int = 0, column: int = 0, *, focus: bool = True) -> bool:
        """Open the file at an absolute path, at `line` and `column` (from 1) unless `line` is 0. Call this in a worker.

        Return False when the file cannot be read; the pane then shows the error.
        """
        self._requested = path
        view = self._view_of(path)
        if view is None:
            try:
                file = await asyncio.to_thread(read_text_file, path)
            except StorageError as error:
                pane = self._active or self.empty
                pane.show_error(f"{os.path.basename(path)}: {error.message}. {error.remedy}")
                return False
            with self.app.batch_update():
                view = await self._add(file)
                self._show(view, line, column, focus=focus)
        else:
            self._show(view, line, column, focus=focus)
        return True

    def _show(self, view: FileView, line: int, column: int, *, focus: bool) -> None:
        if line:
            view.go_to(line, column)
        # While the file was read, the user may have requested another file.
        if self._requested == view.path:
            self._activate(view, focus=focus)

    async def save_all(self) -> list[str]:
        """Save all edited files.

        Return the paths of the files that cannot be saved. Their tabs show an error or a question.
        """
        return await self.save({view.path for view in self._views})

    async def save(self, paths: Collection[str]) -> list[str]:
        """Save the edited files among `paths`; like `save_all`, return the paths of files that cannot be saved."""
        views = [view for view in self._views if view.path in paths]
        for view in views:
            await view.flush_input()
        dirty = [view for view in views if view.dirty]
        failed = [view for view in dirty if not await view.save()]
        if failed and self._active not in failed:
            self._activate(failed[0])
        return [view.path for view in failed]

    async def drop_file(self, path: str) -> None:
        """Close the tab of a file that the workbench has deleted, unless it has unsaved edits."""
        view = self._view_of(path)
        if view is not None and not view.has_edits:
            await self._remove(view)

    def dirty_paths(self) -> frozenset[str]:
        """Return the paths of the files with unsaved edits, including values that are being typed in a form."""
        return frozenset(view.path for view in self._views if view.has_edits)

    @property
    def active(self) -> str:
        return self._active.path if self._active else ""

    @property
    def saved_state(self) -> dict[str, object]:
        """The open files and the position in each; rows and columns count from 0."""
        cursors = [(view.path, *view.editor.cursor_location) for view in self._views]
        tabs = [{"path": path, "row": row, "column": column} for path, row, column in cursors]
        return {"tabs": tabs, "active": self.active}

    async def restore(self, saved: Values) -> None:
        """Open the files of the saved session that still exist. If the pane has the focus, the focus stays in it."""
        had_focus = self.screen.focused is self.empty
        for tab in saved.parts("tabs"):
            path = tab.text("path")
            self._cursors[path] = (tab.number("row") + 1, tab.number("column") + 1)
            if await asyncio.to_thread(os.path.isfile, path):
                await self.open_file(path, focus=False)
                if view := self._view_of(path):
                    view.editor.go_to(*self._cursors[path])
        if view := self._view_of(saved.text("active")) or self._active:
            self._activate(view, focus=had_focus and self.screen.focused in (None, self.empty))

    def unsaved(self) -> dict[str, int]:
        """Return the paths of the files with unsaved edits, each with a number that every change increases."""
        return {view.path: view.changes for view in self._views if view.dirty}

    def unsaved_texts(self, paths: Iterable[str]) -> dict[str, Unsaved]:
        chosen = set(paths)
        return {view.path: Unsaved(view.file, view.editor.source) for view in self._views if view.path in chosen}

    async def restore_unsaved(self, unsaved: Unsaved) -> None:
        """Restore an unsaved text as an edit. If the file has changed since, ask which version to keep."""
        view = self._view_of(unsaved.file.path)
        if view is None:
            with self.app.batch_update():
                view = await self._add(unsaved.file)
                self._activate(view, focus=False)
        await view.restore_unsaved(unsaved)
        view.editor.go_to(*self._cursors.get(view.path, (1, 1)))
        self._draw()

    def others_changed(self) -> None:
        """Check the shown file again, because other files have changed."""
        if self._active is not None:
            self._active.presenter.others_changed()

    def show_images_used(self, images: tuple[str, ...]) -> None:
        """Suggest these images of earlier runs for image fields."""
        self._images_used = images
        if self._checker is not None:
            self._checker.images_used = images

    def take_focus(self) -> None:
        if self._active is None:
            self.screen.set_focus(self.empty)
        else:
            self._active.take_focus()

    # --- Tabs

    def _view_of(self, path: str) -> FileView | None:
        return next((view for view in self._views if view.path == path), None)

    async def _add(self, file: TextFile) -> FileView:
        from tui_workbench.ui.editor.config_view import Checker, view_of

        async with self._adding:
            if view := self._view_of(file.path):
                return view
            self._checker = self._checker or Checker(self._images_used)
            view = view_of(file, self._checker)
            view.presenter.root.display = False
            await self.mount(view.presenter.root)
            self._views.append(view)
            return view

    def _activate(self, view: FileView, *, focus: bool = True) -> None:
        self._active = view
        self.empty.display = False
        for other in self._views:
            other.presenter.root.display = other is view
        if focus:
            view.take_focus()
        self._draw()

    async def _remove(self, view: FileView) -> None:
        had_focus = view.has_focus_within
        position = self._views.index(view)
        self._views.remove(view)
        if view is self._active:
            self._active = None
            if self._views:
                self._activate(self._views[min(position, len(self._views) - 1)], focus=had_focus)
            else:
                self.empty.display = True
                self.empty.read()
                if had_focus:
                    self.take_focus()
        await view.presenter.root.remove()
        if self._checker is not None:
            await asyncio.to_thread(self._checker.forget, view.path)
        self._draw()

    async def _close(self, view: FileView) -> None:
        await view.flush_input()
        if view.holds_unsaved_text:
            self._activate(view)
            await view.ask_to_close()
        else:
            await self._remove(view)

    def on_file_view_changed(self) -> None:
        self._draw()

    def on_file_view_saved(self, event: FileView.Saved) -> None:
        self.post_message(self.FileSaved(event.view.path))

    async def on_file_view_closing_decided(self, event: FileView.ClosingDecided) -> None:
        await self._remove(event.view)

    @work(group="editor-disk", exclusive=True)
    async def check_disk(self) -> None:
        """Check the open files for changes on disk."""
        checked = [(view, view.theirs or view.file) for view in self._views if not view.busy.locked()]
        versions = await asyncio.to_thread(_versions, [version for _, version in checked])
        for (view, before), now in zip(checked, versions, strict=True):
            unchanged = now is before or (now is None and view.deleted)
            # While the thread read, the view may have been saved or closed.
            is_current = (view.theirs or view.file) is before and not view.busy.locked()
            if is_current and not unchanged and view in self._views:
                await view.disk_changed(now)

    # --- Commands

    def why_not(self, action: str) -> str:
        if action in ("close_tab", "next_tab") and self._active is None:
            return "No file is open."
        if action == "next_tab" and len(self._views) < 2:
            return "Only one file is open."
        return ""

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_text_editor_left(self, event: Message) -> None:
        event.stop()
        self.action_leave()

    def action_close_tab(self) -> None:
        if self._active is not None:
            self.run_worker(self._close(self._active))

    def action_next_tab(self, direction: int) -> None:
        if self._active is not None:
            position = self._views.index(self._active) + direction
            self._activate(self._views[position % len(self._views)])

    def on_click(self, event: events.Click) -> None:
        if event.widget is self and event.y == self.outer_size.height - 1 and self._active is not None:
            self._active.presenter.subtitle_clicked()
        if event.widget is self and event.y == 0 and (view := self._tabs.view_at(event.x)) is not None:
            event.stop()
            if event.button == MIDDLE_BUTTON:
                self.run_worker(self._close(view))
            else:
                self._activate(view)

    def jump_places(self) -> list[JumpPlace]:
        places = self._tabs.places()
        return [JumpPlace(x, y, partial(self._activate, view)) for x, y, view in places if view is not self._active]

    # --- Border and layout

    def on_resize(self) -> None:
        self._tabs.show(self._views, self._active)

    def _draw(self) -> None:
        self._tabs.show(self._views, self._active)
        self.refresh_bindings()
        dirty = frozenset(view.path for view in self._views if view.dirty)
        if dirty != self._posted_dirty:
            self._posted_dirty = dirty
            self.post_message(self.DirtyChanged(dirty))


class BorderTabs:
    """The tabs in the border of a pane, one for each view."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._views: Sequence[FileView] = ()
        self._title: TabTitle | None = None
        self._shown: tuple[object, ...] | None = None

    def show(self, views: Sequence[FileView], active: FileView | None) -> None:
        """Show a tab for each view; without an active view, show the title of the pane."""
        pane, self._views = self._pane, tuple(views)
        if active is None:
            self._title = self._shown = None
            pane.set_title()
            pane.border_subtitle = ""
            return
        names = short_names([view.path for view in views])
        marks = ["✗" if view.deleted else "●" if view.dirty else "" for view in views]
        labels = [Label(name, mark) for name, mark in zip(names, marks, strict=True)]
        width = max(pane.outer_size.width - 6, 10)
        self._title = title = tab_title(pane.number, labels, views.index(active), width, palette_of(pane))
        subtitle = active.presenter.subtitle
        shown = (title.content, title.content.spans, subtitle, subtitle.spans)
        if shown != self._shown:  # `shown` includes the spans, because `Content` compares only texts
            self._shown = shown
            pane.border_title, pane.border_subtitle = title.content, subtitle

    def view_at(self, x: int) -> FileView | None:
        index = self._title.tab_at(x - self._offset) if self._title is not None else None
        return self._views[index] if index is not None else None

    def places(self) -> Iterator[tuple[int, int, FileView]]:
        left = self._pane.region.x + self._offset - 1
        for start, _, index in self._title.spans if self._title is not None else ():
            yield left + start, self._pane.region.y, self._views[index]

    @property
    def _offset(self) -> int:
        return TITLE_OFFSET if self._pane.styles.border_left[0] else NARROW_TITLE_OFFSET


def preload() -> None:
    """Import and compile everything that is needed to show a file. Call this in a thread."""
    from tui_workbench.ui.editor.config_view import preload

    preload()


def _versions(files: Sequence[TextFile]) -> list[TextFile | None]:
    """Return the current version of each file, None if deleted; unreadable files count as unchanged."""
    versions: list[TextFile | None] = []
    for file in files:
        try:
            versions.append(reread(file))
        except StorageError:
            versions.append(file)
    return versions
