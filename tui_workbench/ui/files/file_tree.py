"""The project's files as a tree, of which only open folders are read. This module does not use Textual.

Paths are relative to the root, with `/`; the root is "". `read_folder`, `walk` and `read_ignore_files` block and are
called from threads; the other functions use their results.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from tui_workbench.core.errors import StorageError
from tui_workbench.core.notebooks import is_notebook
from tui_workbench.core.progress import meter
from tui_workbench.runs.snapshots.ignore import IgnoreFile, is_excluded, read_ignore_file

HIDDEN_FOLDERS = frozenset({".git", ".workbench", "__pycache__", ".azuremlhistory_git"})
WALK_LIMIT = 50_000  # limit of files in a search; a project with more files contains a data set
FIRST_OPEN = ("", "aml_config")  # folders that are open at the first start
IGNORE_FILES = (".amlignore", ".gitignore")  # only those in the root; the first file with a matching pattern applies


class Entry(NamedTuple):
    """A file or folder. `is_folder` is also True for a link to a folder."""

    path: str
    name: str
    is_folder: bool


class Listing(NamedTuple):
    """The content of a folder, folders first, or the error of reading it."""

    entries: tuple[Entry, ...] = ()
    error: str = ""


class TreeRow(NamedTuple):
    """A visible line of the tree: an entry, or the error of a folder."""

    depth: int
    entry: Entry | None
    is_open: bool = False
    error: str = ""


class FileTree:
    """The open folders and their content."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.open_folders: set[str] = set(FIRST_OPEN)
        self._listings: dict[str, Listing] = {}

    def accept(self, folder: str, listing: Listing) -> bool:
        """Store the content of a folder; return True if it has changed."""
        if self._listings.get(folder) == listing:
            return False
        self._listings[folder] = listing
        return True

    def to_read(self) -> list[str]:
        """Return the visible open folders that have not been read yet."""
        return [folder for folder in self.shown_folders() if folder not in self._listings]

    def shown_folders(self) -> list[str]:
        """Return the open folders whose parents are all open, except those that are known not to exist."""
        shown = []
        for folder in sorted(self.open_folders):
            parts = folder.split("/")
            parents = ["", *("/".join(parts[:end]) for end in range(1, len(parts)))] if folder else []
            listing = self._listings.get(parent_of(folder)) if folder else None
            exists = listing is None or any(entry.path == folder and entry.is_folder for entry in listing.entries)
            if exists and all(parent in self.open_folders for parent in parents):
                shown.append(folder)
        return shown

    def entry(self, path: str) -> Entry | None:
        listing = self._listings.get(parent_of(path), Listing())
        return next((entry for entry in listing.entries if entry.path == path), None)

    def toggle(self, folder: str) -> None:
        self.open_folders ^= {folder}

    def rows(self) -> list[TreeRow]:
        rows: list[TreeRow] = []
        self._collect("", 0, rows)
        return rows

    def _collect(self, folder: str, depth: int, rows: list[TreeRow]) -> None:
        listing = self._listings.get(folder, Listing())
        if listing.error:
            rows.append(TreeRow(depth, None, error=listing.error))
        for entry in listing.entries:
            is_open = entry.is_folder and entry.path in self.open_folders
            rows.append(TreeRow(depth, entry, is_open))
            if is_open:
                self._collect(entry.path, depth + 1, rows)


def parent_of(path: str) -> str:
    """Return the folder of a path; "" for a path in the root."""
    return path.rpartition("/")[0]


def read_folder(root: str, folder: str) -> Listing:
    """Read a folder. Blocks; an error is returned in the listing."""
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(os.path.join(root, folder)) as items:
            shown = (item for item in items if item.name not in HIDDEN_FOLDERS and not item.name.endswith(".pyc"))
            entries = [Entry(prefix + item.name, item.name, _is_folder(item)) for item in shown]
    except OSError as error:
        return Listing(error=error.strerror or type(error).__name__)
    entries.sort(key=lambda entry: (not entry.is_folder, entry.name.lower(), entry.name))
    return Listing(tuple(entries))


def walk(root: str, is_canceled: Callable[[], bool] = lambda: False) -> list[str]:
    """Return at most `WALK_LIMIT` files of the project, sorted by depth and path; fewer if canceled. Blocks.

    Linked and hidden folders, virtual environments and `node_modules` are left out.
    """
    files: list[str] = []
    folders = [""]
    with meter("listing", "files") as listing:
        while folders and len(files) < WALK_LIMIT and not is_canceled():
            folder = folders.pop()
            for entry in read_folder(root, folder).entries:
                if not entry.is_folder:
                    files.append(entry.path)
                elif not entry.name.startswith(".") and not _is_foreign(os.path.join(root, entry.path)):
                    folders.append(entry.path)
            listing.update(len(files))
    return sorted(files[:WALK_LIMIT], key=lambda path: (path.count("/"), path.lower()))


def scripts_among(files: list[str]) -> list[str]:
    """Return the files that can be scripts of runs."""
    return [path for path in files if is_script(path)]


def is_script(path: str) -> bool:
    """Return True for Python files and notebooks, which can be scripts of runs."""
    return path.endswith(".py") or is_notebook(path)


def read_ignore_files(root: str) -> tuple[tuple[IgnoreFile, ...], str]:
    """Return the ignore files in the root of the project, and the problem of a file that cannot be used, or "".

    Blocks. In the tree, a file that cannot be used excludes nothing; runs are refused.
    """
    files, problem = [], ""
    for name in IGNORE_FILES:
        try:
            files.append(read_ignore_file(root, "", name))
        except StorageError as error:
            problem = problem or f"{name}: {error.message}"
    return tuple(files), problem


def is_ignored(path: str, files: tuple[IgnoreFile, ...], *, is_folder: bool) -> bool:
    """Return True if the ignore files exclude the path or one of its parents."""
    folder = parent_of(path)
    return is_excluded(path, is_folder=is_folder, files=files) or (
        bool(folder) and is_ignored(folder, files, is_folder=True)
    )


def is_changeable(path: str) -> bool:
    """Return True for a target or run configuration, to which rename, delete and similar commands apply."""
    return path.endswith((".compute", ".runconfig"))


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a broken link
        return False


def _is_foreign(path: str) -> bool:
    """Return True for links, which may form a loop, and for environments and `node_modules`, which are large."""
    return os.path.islink(path) or os.path.exists(os.path.join(path, "pyvenv.cfg")) or path.endswith("node_modules")
