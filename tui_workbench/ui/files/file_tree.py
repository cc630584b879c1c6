"""The project's files as a tree that is read a folder at a time; no Textual, and only the two readers block.

Paths are relative to the root, with `/`; the root itself is the empty string. A folder that is not open is not read.
`read_folder` and `walk` touch the disk, and are called from threads; everything else only looks at what they brought.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from tui_workbench.core.progress import meter
from tui_workbench.runs.snapshots.ignore import IgnoreFile, is_excluded, read_ignore_file

NEVER_SHOWN = frozenset({".git", ".workbench", "__pycache__", ".azuremlhistory_git"})
"""What nobody opens: the insides of git, of ours, of Python, and of the original's snapshots."""

WALK_LIMIT = 50_000
"""Files that a search looks through at most: a project with more holds a data set, which nobody searches."""

FIRST_OPEN = ("", "aml_config")
"""Folders that stand open at first."""


IGNORE_FILES = (".amlignore", ".gitignore")
"""Only those of the root are read; the snapshot itself honors them all. The first that speaks of a file counts."""


class Entry(NamedTuple):
    """One name in a folder. A link counts as what it points to."""

    path: str
    name: str
    is_folder: bool


class Listing(NamedTuple):
    """What a folder holds, folders first; `error` says why it could not be read."""

    entries: tuple[Entry, ...] = ()
    error: str = ""


class TreeRow(NamedTuple):
    """One visible line of the tree. `entry` is None on the line that tells a folder's `error`."""

    depth: int
    entry: Entry | None
    is_open: bool = False
    error: str = ""


class FileTree:
    """Which folders are open, and what is in them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.open_folders: set[str] = set(FIRST_OPEN)
        self._listings: dict[str, Listing] = {}

    def accept(self, folder: str, listing: Listing) -> bool:
        """Take over what a folder holds. True when that is something new."""
        if self._listings.get(folder) == listing:
            return False
        self._listings[folder] = listing
        return True

    def to_read(self) -> list[str]:
        """Folders that are open and visible, but were never read."""
        return [folder for folder in self.shown_folders() if folder not in self._listings]

    def shown_folders(self) -> list[str]:
        """The open folders whose parents are all open and, as far as known, exist."""
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
        """The entry of a path, if its folder was read."""
        listing = self._listings.get(parent_of(path), Listing())
        return next((entry for entry in listing.entries if entry.path == path), None)

    def toggle(self, folder: str) -> None:
        """Open the folder, or close it."""
        self.open_folders ^= {folder}

    def rows(self) -> list[TreeRow]:
        """The visible lines, from top to bottom."""
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
    """The folder of a path."""
    return path.rpartition("/")[0]


def read_folder(root: str, folder: str) -> Listing:
    """What a folder holds. Blocks; never raises: what is wrong with the folder stands in the listing."""
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(os.path.join(root, folder)) as found:
            shown = (item for item in found if item.name not in NEVER_SHOWN and not item.name.endswith(".pyc"))
            entries = [Entry(prefix + item.name, item.name, _is_folder(item)) for item in shown]
    except OSError as error:
        return Listing(error=error.strerror or type(error).__name__)
    entries.sort(key=lambda entry: (not entry.is_folder, entry.name.lower(), entry.name))
    return Listing(tuple(entries))


def walk(root: str, is_canceled: Callable[[], bool] = lambda: False) -> list[str]:
    """Every file of the project that a person may look for, sorted; what was found so far once `is_canceled` says so.

    Blocks. Links to folders and virtual environments are left out.
    """
    found: list[str] = []
    folders = [""]
    with meter("listing", "files") as listing:
        while folders and len(found) < WALK_LIMIT and not is_canceled():
            folder = folders.pop()
            for entry in read_folder(root, folder).entries:
                if not entry.is_folder:
                    found.append(entry.path)
                elif not entry.name.startswith(".") and not _is_foreign(os.path.join(root, entry.path)):
                    folders.append(entry.path)
            listing.update(len(found))
    return sorted(found[:WALK_LIMIT], key=lambda path: (path.count("/"), path.lower()))


def scripts_among(files: list[str]) -> list[str]:
    """The files that a run can start."""
    return [path for path in files if path.endswith(".py")]


def read_ignore_files(root: str) -> tuple[IgnoreFile, ...]:
    """What the ignore files of the project say. Blocks; a file that cannot be read says nothing."""
    return tuple(read_ignore_file(root, "", name) for name in IGNORE_FILES)


def is_ignored(path: str, files: tuple[IgnoreFile, ...], *, is_folder: bool) -> bool:
    """Whether the ignore files exclude the path or a folder that it is in."""
    folder = parent_of(path)
    return is_excluded(path, is_folder=is_folder, files=files) or (
        bool(folder) and is_ignored(folder, files, is_folder=True)
    )


def is_changeable(path: str) -> bool:
    """Whether the commands that change configuration files as a whole apply to the file."""
    return path.endswith((".compute", ".runconfig"))


def _is_folder(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link whose target cannot be looked at
        return False


def _is_foreign(path: str) -> bool:
    """A link, which may lead round in a circle, or an environment with thousands of files of others."""
    return os.path.islink(path) or os.path.exists(os.path.join(path, "pyvenv.cfg")) or path.endswith("node_modules")
