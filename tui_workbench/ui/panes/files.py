"""The Files pane: the project as a tree, or what a search finds in it.

Folders are read in threads; until the first one is there the pane is empty, and says nothing. It never changes a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from tui_workbench.ui.commands import CHANGES, FILES, bindings
from tui_workbench.ui.file_tree import Entry, FileTree, Listing, TreeRow, parent_of, read_folder, scripts_among, walk
from tui_workbench.ui.ignored import Ignored
from tui_workbench.ui.messages import EditorWanted, FileChosen, ScriptChosen, WorkTold
from tui_workbench.ui.panes.config_changes import OffersChanges, is_changeable
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.ui.remembered import Values


MOST_FOUND = 1000
"""Files that a search lists: nobody reads more, and each costs at every key."""


class FilesPane(OffersChanges, Pane):
    """Shows a `FileTree`.

    Posts `FileChosen`, `ScriptChosen`, `ChangeWanted`, `FolderToggled`, and `FilesWalked` for other files.
    """

    number = 1
    title = "Files"
    about = (
        "The files of the project. Folders that are open are looked at every second, so what a run or another program "
        "makes appears by itself. What belongs to git, to Python or to the workbench is left out."
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(FILES, CHANGES)

    class FilesWalked(Message):
        """Every file of the project was listed, as paths relative to it, and what its ignore files exclude."""

        def __init__(self, files: list[str], ignored: Ignored) -> None:
            super().__init__()
            self.files = files
            self.ignored = ignored

    class FolderRead(Message):
        """A thread brought what a folder holds."""

        def __init__(self, folder: str, listing: Listing) -> None:
            super().__init__()
            self.folder = folder
            self.listing = listing

    class FolderToggled(Message):
        """A folder was opened or closed, so other folders than before are shown."""

    def __init__(self, tree: FileTree, *, id: str) -> None:
        super().__init__(id=id)
        self._tree = tree
        self._list = RowList()
        self._search: SearchField | None = None
        self._all_files: list[str] | None = None
        self._dirty: frozenset[str] = frozenset()
        self._ignored = Ignored()
        self._wanted = ""  # a path that gets the cursor once its folders are read

    def compose(self) -> ComposeResult:
        """The list; a search brings its own field."""
        yield self._list

    def on_mount(self) -> None:
        """What was read while the program started is shown at once."""
        self._show()
        for unread in self._tree.to_read():
            self._read(unread)

    @property
    def all_files(self) -> list[str] | None:
        """Every file of the project, relative to it; None until they were listed for the first time."""
        return self._all_files

    def take_focus(self) -> None:
        """To the list."""
        self.screen.set_focus(self._list)

    def why_not(self, action: str) -> str:
        """Commands are about the row under the cursor."""
        entry = self._entry()
        searching = self._search is not None
        if action == "clear_search":
            return "" if searching else "No search is on."
        if action in ("open", "use_script") and entry is None:
            return "No file is under the cursor."
        if action == "edit" and (entry is None or entry.is_folder):
            return "No file is under the cursor."
        if action == "use_script" and entry is not None and not entry.path.endswith(".py"):
            return "Only a Python file can be the script of a run."
        if action in ("expand", "collapse") and searching:
            return "A search shows no folders."
        return self.why_not_change(action)

    def changeable_file(self) -> str:
        """The file under the cursor, when it is a target or a run configuration."""
        entry = self._entry()
        return f"{self._tree.root}/{entry.path}" if entry is not None and is_changeable(entry.path) else ""

    @property
    def memory(self) -> dict[str, object]:
        """What is to be as it was when the program is started again."""
        search = self._search.value if self._search is not None else None
        return {"folders": sorted(self._tree.open_folders), "cursor": self._list.current, "search": search}

    async def recall(self, memory: Values) -> None:
        """Let it be as it was. The folders that stood open are the tree's; here it is the cursor and the search."""
        self._wanted = memory.text("cursor")
        self._show()
        if search := memory.text("search"):
            await self._open_search()
            assert self._search is not None
            self._search.value = search

    def reread(self, folders: Iterable[str]) -> None:
        """Read these folders again, if they are shown."""
        for folder in set(folders) & set(self._tree.shown_folders()):
            self._read(folder)

    def show_dirty(self, paths: frozenset[str]) -> None:
        """Mark the files, by absolute path, that the editor holds unsaved changes of."""
        if paths != self._dirty:
            self._dirty = paths
            self._show()

    @work(thread=True, group="files")
    def _read(self, folder: str) -> None:
        self.post_message(self.FolderRead(folder, read_folder(self._tree.root, folder)))

    @on(FolderRead)
    def _folder_read(self, event: FolderRead) -> None:
        event.stop()
        if self._tree.accept(event.folder, event.listing):
            self._show()
            # A run that writes a file a second must not have the whole project walked each time.
            if self._search is not None or self._scripts_changed(event.folder, event.listing):
                self.walk_all()
        for unread in self._tree.to_read():
            self._read(unread)

    def _scripts_changed(self, folder: str, listing: Listing) -> bool:
        known = {path for path in scripts_among(self._all_files or []) if parent_of(path) == folder}
        there = set(scripts_among([entry.path for entry in listing.entries if not entry.is_folder]))
        return self._all_files is not None and known != there

    @work(thread=True, group="walk", exclusive=True)
    def walk_all(self) -> None:
        """List every file of the project in a thread, for searches and for the run bar."""
        from tui_workbench.progress import listening

        worker = get_current_worker()
        with listening(lambda progress: self.post_message(WorkTold(progress))):
            files = walk(self._tree.root, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.post_message(self.FilesWalked(files, Ignored.read(self._tree.root)))

    @on(FilesWalked)
    def _files_walked(self, event: FilesWalked) -> None:
        if event.files == self._all_files:
            event.stop()
        if event.files != self._all_files or event.ignored != self._ignored:
            self._all_files, self._ignored = event.files, event.ignored
            self._show()

    def _entry(self) -> Entry | None:
        key = self._list.current
        if self._search is not None:
            return Entry(key, key.rpartition("/")[2], False) if key else None
        return self._tree.entry(key)

    def _show(self) -> None:
        if self._search is not None:
            self._show_found(self._search.value)
            return
        rows = [self._row(row) for row in self._tree.rows()]
        found = any(row.key == self._wanted for row in rows)
        self._list.show_rows(
            rows,
            empty=("This folder is empty.",) if "" not in self._tree.to_read() else (),
            current=self._wanted if found else None,
        )
        if found:
            self._wanted = ""
        self.refresh_bindings()

    def _show_found(self, needle: str) -> None:
        found = matches(needle, self._all_files or ())
        rows = [
            Row(path, Piece(safe_text(path), self._role(path)), before=(self._mark(path),))
            for path in found[:MOST_FOUND]
        ]
        if len(found) > MOST_FOUND:
            rows.append(Row("", Piece(f"and {len(found) - MOST_FOUND:,} more: type on to find them", "muted")))
        self._list.show_rows(rows, empty=("No file has this in its path.",))
        self.set_title(f"{len(found):,} of {len(self._all_files or ()):,}" if needle else "")
        self.refresh_bindings()

    def _row(self, row: TreeRow) -> Row:
        indent = "  " * row.depth
        if row.entry is None:
            return Row("", Piece(f"{indent}cannot be read: {safe_text(row.error)}", "error"))
        entry = row.entry
        if entry.is_folder:
            before = Piece(f"{indent}{'▾' if row.is_open else '▸'} ", "muted")
            return Row(
                entry.path, Piece(safe_text(entry.name), self._role(entry.path, is_folder=True)), before=(before,)
            )
        name = Piece(safe_text(entry.name), self._role(entry.path))
        return Row(entry.path, name, before=(Piece(indent), self._mark(entry.path)))

    def _role(self, path: str, *, is_folder: bool = False) -> str:
        """Hidden and ignored files are there, but quiet."""
        hidden = path.rpartition("/")[2].startswith(".")
        return "muted" if hidden or self._ignored.holds(path, is_folder=is_folder) else "text"

    def _mark(self, path: str) -> Piece:
        return Piece("● ", "warning") if f"{self._tree.root}/{path}" in self._dirty else Piece("  ")

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self.refresh_bindings()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        entry = self._entry()
        # The second click of a double click on a folder would close it again.
        if entry is not None and not (entry.is_folder and event.count > 1):
            self.action_open()

    def action_open(self) -> None:
        """Open the file, or open or close the folder."""
        entry = self._entry()
        if entry is None:
            return
        if entry.is_folder:
            self._toggle(entry.path)
        else:
            self.post_message(FileChosen(f"{self._tree.root}/{entry.path}"))

    def action_expand(self) -> None:
        """Open the folder; in an open one go to its first entry."""
        entry = self._entry()
        if entry is None or not entry.is_folder:
            return
        if entry.path in self._tree.open_folders:
            self._list.action_cursor_down()
        else:
            self._toggle(entry.path)

    def action_collapse(self) -> None:
        """Close the folder; from a file or a closed folder go to the folder around it."""
        entry = self._entry()
        if entry is None:
            return
        if entry.is_folder and entry.path in self._tree.open_folders:
            self._toggle(entry.path)
        elif parent := parent_of(entry.path):
            self._list.show_rows(self._list.rows, current=parent)

    def action_refresh_files(self) -> None:
        """Read every shown folder again, and what the ignore files say."""
        self.reread(self._tree.shown_folders())
        self.walk_all()

    def action_use_script(self) -> None:
        """The file becomes the script of the run bar."""
        entry = self._entry()
        if entry is not None:
            self.post_message(ScriptChosen(entry.path))

    def action_edit(self) -> None:
        """Open the file in the user's own editor."""
        entry = self._entry()
        if entry is not None:
            self.post_message(EditorWanted(f"{self._tree.root}/{entry.path}"))

    def _toggle(self, folder: str) -> None:
        self._tree.toggle(folder)
        self._wanted = ""
        self._show()
        # What was read before may be old by now: it is shown, and looked at again.
        if folder in self._tree.open_folders:
            self._read(folder)
        self.post_message(self.FolderToggled())

    async def action_search(self) -> None:
        """Search the paths of the whole project."""
        await self._open_search()
        self.screen.set_focus(self._search)

    async def _open_search(self) -> None:
        if self._search is None:
            self._search = SearchField(placeholder="/ part of a path")
            await self.mount(self._search)
            self.walk_all()
            self._show()

    def action_clear_search(self) -> None:
        """Back to the tree, with the cursor on the file that was found."""
        if self._search is None:
            return
        found = self._list.current
        self._search.remove()
        self._search = None
        self.set_title()
        self._reveal(found)
        self.screen.set_focus(self._list)

    def _reveal(self, path: str) -> None:
        folder = parent_of(path)
        while folder:
            self._tree.open_folders.add(folder)
            folder = parent_of(folder)
        self._wanted = path
        self._show()
        for unread in self._tree.to_read():
            self._read(unread)
        self.post_message(self.FolderToggled())

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._list.step(event.rows)

    @on(SearchField.Left)
    def _search_left(self, event: SearchField.Left) -> None:
        event.stop()
        self.action_clear_search()

    @on(Input.Changed)
    def _search_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()
        self._list.move_to(0)

    @on(Input.Submitted)
    def _search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        entry = self._entry()
        if entry is not None:
            self.action_clear_search()
            self.post_message(FileChosen(f"{self._tree.root}/{entry.path}"))
