"""The working copy where there is no git: files are copied, what the ignore files exclude is linked.

The result is what a snapshot's working copy is. Only this fallback imports this module.
"""

from __future__ import annotations

import os
import shutil
import stat

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.ignore import is_excluded, read_ignore_file
from tui_workbench.runs.rundir import OUTPUTS
from tui_workbench.runs.snapshot import is_never_taken, redirect_link

if TYPE_CHECKING:
    from tui_workbench.runs.ignore import IgnoreFile

IGNORE_FILE = ".gitignore"


def copy_tree(source: str, destination: str, extra_ignore_file: str) -> None:
    """Copy the project at `source` into the existing folder `destination`. Raises OSError.

    `extra_ignore_file` is the name of a file in the project's root that excludes as `.gitignore` does, and cannot be
    overruled by one.
    """
    always = read_ignore_file(source, "", extra_ignore_file)
    _copy_folder(source, destination, "", always, ())
    os.makedirs(os.path.join(destination, OUTPUTS), exist_ok=True)


def _copy_folder(source: str, destination: str, folder: str, always: IgnoreFile, above: tuple[IgnoreFile, ...]) -> None:
    # What the deepest folder's file says counts.
    files = (read_ignore_file(source, folder, IGNORE_FILE), *above)
    with os.scandir(os.path.join(source, folder)) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if is_never_taken(path):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            copy = os.path.join(destination, path)
            if (
                always.verdict(path, is_folder=is_folder)
                or is_excluded(path, is_folder=is_folder, files=files)
                or not (entry.is_symlink() or os.access(entry.path, os.R_OK))
            ):
                os.symlink(entry.path, copy)
            elif is_folder:
                os.mkdir(copy)
                _copy_folder(source, destination, path, always, files)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), copy)
                redirect_link(source, destination, path)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                shutil.copy2(entry.path, copy)
