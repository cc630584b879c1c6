"""The working copy where there is no git: files are copied, what the ignore files exclude is linked.

The result is what a snapshot's working copy is. Only this module imports pathspec, and only this fallback imports this
module.
"""

from __future__ import annotations

import os
import shutil
import stat

from pathspec import GitIgnoreSpec

from tui_workbench.records import NamedTuple
from tui_workbench.runs.rundir import OUTPUTS
from tui_workbench.runs.snapshot import is_never_taken, redirect_link

IGNORE_FILE = ".gitignore"


class _Rules(NamedTuple):
    """The patterns of one ignore file; `folder` is where it lies, relative to the project, "" for its root."""

    folder: str
    spec: GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """Whether the path is excluded, None when no pattern speaks of it."""
        return self.spec.check_file(path[len(self.folder) + 1 :] if self.folder else path).include


def copy_tree(source: str, destination: str, extra_ignore_file: str) -> None:
    """Copy the project at `source` into the existing folder `destination`. Raises OSError.

    `extra_ignore_file` is the name of a file in the project's root that excludes as `.gitignore` does, and cannot be
    overruled by one.
    """
    always = _rules(source, "", extra_ignore_file)
    _copy_folder(source, destination, "", always, ())
    os.makedirs(os.path.join(destination, OUTPUTS), exist_ok=True)


def _copy_folder(source: str, destination: str, folder: str, always: list[_Rules], rules: tuple[_Rules, ...]) -> None:
    # The rules of the deepest folder come first: what they say counts.
    rules = (*_rules(source, folder, IGNORE_FILE), *rules)
    with os.scandir(os.path.join(source, folder)) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and is_never_taken(path):
                continue
            excluded = _is_excluded(f"{path}/" if is_folder else path, always, rules)
            copy = os.path.join(destination, path)
            if excluded or not (os.access(entry.path, os.R_OK) or entry.is_symlink()):
                _link(entry.path, copy)
            elif is_folder:
                os.mkdir(copy)
                _copy_folder(source, destination, path, always, rules)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), copy)
                redirect_link(source, destination, path)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                shutil.copy2(entry.path, copy)


def _is_excluded(path: str, always: list[_Rules], rules: tuple[_Rules, ...]) -> bool:
    if any(rule.verdict(path) for rule in always):
        return True
    return next((verdict for rule in rules if (verdict := rule.verdict(path)) is not None), False)


def _rules(source: str, folder: str, name: str) -> list[_Rules]:
    try:
        with open(os.path.join(source, folder, name), encoding="utf-8-sig", errors="surrogateescape") as file:
            return [_Rules(folder, GitIgnoreSpec.from_lines(file.read().splitlines()))]
    except OSError:
        return []


def _link(source: str, link: str) -> None:
    if os.path.islink(source):
        source = os.path.join(os.path.dirname(source), os.readlink(source))
    os.symlink(source, link)
