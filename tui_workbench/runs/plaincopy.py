"""The working copy where there is no git: files are copied, what the ignore files exclude is linked.

Only this module imports pathspec, and only this fallback imports this module.
"""

from __future__ import annotations

import os
import shutil

from tui_workbench.runs.rundir import OUTPUTS, storage_error


def copy_tree(source: str, destination: str, never_taken: tuple[str, ...], ignore_file: str) -> None:
    """Copy the project at `source` into the existing folder `destination`. Raises StorageError."""
    from pathspec import GitIgnoreSpec

    lines: list[str] = []
    for name in (".gitignore", ignore_file):
        path = os.path.join(source, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                lines += file.read().splitlines()
    excluded = GitIgnoreSpec.from_lines(lines)
    try:
        for folder, folders, files in os.walk(source):
            relative = os.path.relpath(folder, source)
            for name in list(folders):
                path = os.path.normpath(os.path.join(relative, name))
                if name in never_taken:
                    folders.remove(name)
                elif excluded.match_file(path + "/") or os.path.islink(os.path.join(folder, name)):
                    folders.remove(name)
                    _link(os.path.join(source, path), os.path.join(destination, path))
                else:
                    os.makedirs(os.path.join(destination, path), exist_ok=True)
            for name in files:
                path = os.path.normpath(os.path.join(relative, name))
                if excluded.match_file(path):
                    _link(os.path.join(source, path), os.path.join(destination, path))
                else:
                    shutil.copy2(os.path.join(source, path), os.path.join(destination, path), follow_symlinks=False)
        os.makedirs(os.path.join(destination, OUTPUTS), exist_ok=True)
    except OSError as error:
        raise storage_error("copy", error.filename or source, error) from error


def _link(source: str, link: str) -> None:
    if os.path.islink(source):
        source = os.path.join(os.path.dirname(source), os.readlink(source))
    os.symlink(source, link)
