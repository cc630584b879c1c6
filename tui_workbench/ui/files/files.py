"""The Files pane: the project as a tree, or search results. Folders are read in threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Input
from textual.worker import get_current_worker

from tui_workbench.core.progress import listening
from tui_workbench.runs.snapshots.ignore import IgnoreFile
from tui_workbench.ui.commands.main_commands import CHANGES, FILES
from tui_workbench.ui.files import file_tree
from tui_workbench.ui.messages import (
    ChangeRequested,
    EditorRequested,
    FileChosen,
    ProgressReported,
    ScriptChosen,
    Update,
)
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField, matches

MOST_RESULTS = 1000  # limit of shown search results, because each takes time at every key press


class FileLooks:
    """The appearance of files and folders in rows. Unsaved files are marked; ignored and hidden files are muted."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.dirty: frozenset[str] = frozenset()  # absolute paths of files with unsaved edits
        self.ignored: tuple[IgnoreFile, ...] = ()
        self.problem = ""  # of an ignore file that cannot be used

    def tree_row(self, row: file_tree.TreeRow) -> Row:
        indent = "  " * row.depth
        if row.entry is None:
            return Row("", Piece(f"{indent}cannot read this folder: {safe_text(row.error)}", "error"))
        path, is_folder = row.entry.path, row.entry.is_folder
        mark = Piece("▾ " if row.is_open else "▸ ", "muted") if is_folder else self._mark(path)
        name = Piece(safe_text(row.entry.name), self._role(path, is_folder=is_folder))
        return Row(path, name, before=(Piece(indent), mark))

    def result_row(self, path: str) -> Row:
        return Row(path, Piece(safe_text(path), self._role(path)), before=(self._mark(path),))

    def _role(self, path: str, *, is_folder: bool = False) -> str:
        hidden = path.rpartition("/")[2].startswith(".")
        return "muted" if hidden or file_tree.is_ignored(path, self.ignored, is_folder=is_folder) else "text"

    def _mark(self, path: str) -> Piece:
        return Piece("● ", "warning") if f"{self._root}/{path}" in self.dirty else Piece("  ")


class FilesPane(Pane):
    """The pane of a `FileTree`, with a search."""

    number = 1
    title = "Files"
    about = (
        "The files of the project. Open folders are updated every second. "
        "Internal files of git, Python and the workbench are hidden."
    )
    BINDINGS = FILES.bindings + CHANGES.bindings

    class FilesWalked(Update):
        """Posted when all files and the ignore files have been read. `files` holds paths relative to the project."""

        files: list[str]
        ignored: tuple[IgnoreFile, ...]
        problem: str  # of an ignore file that cannot be used, or ""

    @dataclass(eq=False)
    class FolderRead(Message):
        """Posted when a thread has read a folder."""

        folder: str
        listing: file_tree.Listing

    class FolderToggled(Update):
        """Posted when a folder was opened or closed."""

    def __init__(self, tree: file_tree.FileTree, *, id: str) -> None:
        super().__init__(id=id)
        self.file_tree = tree
        self._list = RowList()
        self._search: SearchField | None = None
        self.all_files: list[str] | None = None  # relative paths; None until the files are listed for the first time
        self._looks = FileLooks(tree.root)
        self._to_select = ""  # the path to select when its folders are read

    def compose(self) -> ComposeResult:
        yield self._list

    def on_mount(self) -> None:
        self._show()
        self._read_missing()

    def take_focus(self) -> None:
        self.screen.set_focus(self._list)

    def why_not(self, action: str) -> str:
        entry = self._entry()
        searching = self._search is not None
        if action == "clear_search":
            return "" if searching else "No active search."
        if action in ("open", "use_script") and entry is None:
            return "No file is under the cursor."
        if action == "edit" and (entry is None or entry.is_folder):
            return "No file is under the cursor."
        if action == "use_script" and entry is not None and not file_tree.is_script(entry.path):
            return "Only a Python file or a notebook can be the script of a run."
        if action in ("expand", "collapse") and searching:
            return "Search results contain no folders."
        if action == "change_file" and not self.changeable_file():
            return "No compute target or run configuration is under the cursor."
        return ""

    def changeable_file(self) -> str:
        """Return the file under the cursor if it is a target or a run configuration, else ""."""
        path = self._path
        return path if file_tree.is_changeable(path) else ""

    @property
    def saved_state(self) -> dict[str, object]:
        search = self._search.value if self._search is not None else None
        return {"folders": sorted(self.file_tree.open_folders), "cursor": self._list.current, "search": search}

    async def restore(self, saved: Values) -> None:
        """Restore the cursor and the search; open folders are restored with the tree."""
        self._to_select = saved.text("cursor")
        self._show()
        if search := saved.text("search"):
            (await self._open_search()).value = search

    def reread(self, folders: Iterable[str]) -> None:
        """Read these folders again, if they are shown."""
        for folder in set(folders) & set(self.file_tree.shown_folders()):
            self._read(folder)

    def show_dirty(self, paths: frozenset[str]) -> None:
        """Mark the files with unsaved edits, given by absolute paths."""
        if paths != self._looks.dirty:
            self._looks.dirty = paths
            self._show()

    @work(thread=True, group="files")
    def _read(self, folder: str) -> None:
        self.post_message(self.FolderRead(folder, file_tree.read_folder(self.file_tree.root, folder)))

    @on(FolderRead)
    def _folder_read(self, event: FolderRead) -> None:
        event.stop()
        if self.file_tree.accept(event.folder, event.listing):
            self._show()
            # The files are not listed after every change, because a run may write a file every second.
            if self._search is not None or self._scripts_changed(event.folder, event.listing):
                self.walk_all()
        self._read_missing()

    def _read_missing(self) -> None:
        for unread in self.file_tree.to_read():
            self._read(unread)

    def _scripts_changed(self, folder: str, listing: file_tree.Listing) -> bool:
        before = {path for path in file_tree.scripts_among(self.all_files or []) if file_tree.parent_of(path) == folder}
        now = set(file_tree.scripts_among([entry.path for entry in listing.entries if not entry.is_folder]))
        return self.all_files is not None and before != now

    @work(thread=True, group="walk", exclusive=True)
    def walk_all(self) -> None:
        """List all files of the project in a thread, for searches and for the run bar."""
        worker = get_current_worker()
        with listening(lambda progress: self.post_message(ProgressReported(progress))):
            files = file_tree.walk(self.file_tree.root, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.post_message(self.FilesWalked(files, *file_tree.read_ignore_files(self.file_tree.root)))

    @on(FilesWalked)
    def _files_walked(self, event: FilesWalked) -> None:
        if event.files == self.all_files:
            event.stop()
        looks = self._looks
        if (event.files, event.ignored, event.problem) != (self.all_files, looks.ignored, looks.problem):
            self.all_files, looks.ignored, looks.problem = event.files, event.ignored, event.problem
            self._show()

    def _entry(self) -> file_tree.Entry | None:
        key = self._list.current
        if self._search is not None:
            return file_tree.Entry(key, key.rpartition("/")[2], False) if key else None
        return self.file_tree.entry(key)

    @property
    def _path(self) -> str:
        entry = self._entry()
        return f"{self.file_tree.root}/{entry.path}" if entry is not None else ""

    def _show(self) -> None:
        if self._search is not None:
            self._show_results(self._search.value)
            return
        rows = [self._looks.tree_row(row) for row in self.file_tree.rows()]
        if self._looks.problem:
            rows.append(Row("", Piece(safe_text(self._looks.problem), "error")))
        is_shown = any(row.key == self._to_select for row in rows)
        self._list.show_rows(
            rows,
            empty=("This folder is empty.",) if "" not in self.file_tree.to_read() else (),
            current=self._to_select if is_shown else None,
        )
        if is_shown:
            self._to_select = ""
        self.refresh_bindings()

    def _show_results(self, needle: str) -> None:
        paths = matches(needle, self.all_files or ())
        rows = [self._looks.result_row(path) for path in paths[:MOST_RESULTS]]
        if len(paths) > MOST_RESULTS:
            rows.append(Row("", Piece(f"{len(paths) - MOST_RESULTS:,} more: type more characters", "muted")))
        self._list.show_rows(rows, empty=("No matching file.",))
        self.set_title(f"{len(paths):,} of {len(self.all_files or ()):,}" if needle else "")
        self.refresh_bindings()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self.refresh_bindings()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        entry = self._entry()
        # The second click of a double click would close the folder again.
        if entry is not None and not (entry.is_folder and event.count > 1):
            self.action_open()

    def action_open(self) -> None:
        entry = self._entry()
        if entry is not None and entry.is_folder:
            self._toggle(entry.path)
        elif entry is not None:
            self.post_message(FileChosen(self._path))

    def action_expand(self) -> None:
        entry = self._entry()
        if entry is not None and entry.path in self.file_tree.open_folders:
            self._list.step(1)
        elif entry is not None and entry.is_folder:
            self._toggle(entry.path)

    def action_collapse(self) -> None:
        entry = self._entry()
        if entry is not None and entry.is_folder and entry.path in self.file_tree.open_folders:
            self._toggle(entry.path)
        elif entry is not None and (parent := file_tree.parent_of(entry.path)):
            self._list.show_rows(self._list.rows, current=parent)

    def action_refresh_files(self) -> None:
        self.reread(self.file_tree.shown_folders())
        self.walk_all()

    def action_use_script(self) -> None:
        entry = self._entry()
        if entry is not None:
            self.post_message(ScriptChosen(entry.path))

    def action_edit(self) -> None:
        if path := self._path:
            self.post_message(EditorRequested(path))

    def action_change_file(self, kind: str) -> None:
        self.post_message(ChangeRequested(kind, self.changeable_file()))

    action_new_file = action_change_file

    def _toggle(self, folder: str) -> None:
        self.file_tree.toggle(folder)
        self._to_select = ""
        self._show()
        # The old content is shown until the folder is read again.
        if folder in self.file_tree.open_folders:
            self._read(folder)
        self.post_message(self.FolderToggled())

    async def action_search(self) -> None:
        self.screen.set_focus(await self._open_search())

    async def _open_search(self) -> SearchField:
        if self._search is not None:
            return self._search
        self._search = field = SearchField(placeholder="/ part of a path")
        await self.mount(field)
        self.walk_all()
        self._show()
        return field

    def action_clear_search(self) -> None:
        if self._search is None:
            return
        path = self._list.current
        self._search.remove()
        self._search = None
        self.set_title()
        folder = file_tree.parent_of(path)
        while folder:
            self.file_tree.open_folders.add(folder)
            folder = file_tree.parent_of(folder)
        self._to_select = path
        self._show()
        self._read_missing()
        self.post_message(self.FolderToggled())
        self.screen.set_focus(self._list)

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
        if path := self._path:
            self.action_clear_search()
            self.post_message(FileChosen(path))
