"""Read the snapshots of runs: their files, the content of a file, and the diff of two snapshots.

Only plumbing commands of git are used, without configuration, because repositories are not trusted. The repositories
are not changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.git import GitError, reading_environment, run_git

REPOSITORY = "snapshots.git"  # the hidden repository in the state directory of the project

_WRITTEN = ("objects", "objects/pack", "refs", "refs/runs")  # the folders of a repository that git writes to

IMPORTED_PREFIX = "snapshots-imported-"
"""Prefix of repositories that this user did not create here, for example because they came with the project."""

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The object ID of an empty tree, which exists in every repository."""

EXECUTABLE, LINK = "100755", "120000"
"""Modes in git of executable files and of links."""

SHORTEST = 4  # minimum length of a commit ID
LIMIT_SECONDS = 20.0  # time limit of a git command; also for a disk that does not respond
LARGEST_DIFF = 4 << 20  # maximum size of a diff in bytes


def object_directories(state_directory: str) -> list[str]:
    """Return the folders of git objects: that of the hidden repository, and those of imported repositories."""
    try:
        names = sorted(name for name in os.listdir(state_directory) if name.startswith(IMPORTED_PREFIX))
    except OSError:
        names = []
    return [os.path.join(state_directory, name, "objects") for name in (REPOSITORY, *names)]


def imported_name(state_directory: str) -> str:
    """Return the path for a repository that this user did not create here."""
    number = 1
    while os.path.lexists(path := os.path.join(state_directory, f"{IMPORTED_PREFIX}{number}.git")):
        number += 1
    return path


def make_folder(repository: str) -> None:
    """Create the folder of a hidden repository if it is missing. Only this user can read it.

    Raises OSError, also if the repository, or a folder in it that git would write to, is a link to another place.
    """
    for path in (repository, *(os.path.join(repository, name) for name in _WRITTEN)):
        if os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    os.makedirs(repository, mode=0o700, exist_ok=True)


def read_with_git(state_directory: str, *arguments: str, more: Sequence[str] = ()) -> bytes:
    """Return the output of a git command that reads the snapshots of a project. Raises StorageError.

    `more` are further folders of git objects.
    """
    repository = os.path.join(state_directory, REPOSITORY)
    objects = [*object_directories(state_directory), *more]
    for folder in objects:
        _refuse_special_objects(folder)
    with storage_errors("read", repository):
        environment = reading_environment(state_directory, objects)
    try:
        return run_git("-c", "core.quotePath=false", *arguments, environment=environment, timeout=LIMIT_SECONDS)
    except GitError as error:
        remedy = error.remedy or "Check the repository: `git --git-dir=.workbench/snapshots.git fsck` reports damage."
        raise StorageError(f"cannot read the snapshot: {error.message}", remedy=remedy, file=repository) from error


def object_type(state_directory: str, commit: str, path: str = "") -> bytes:
    """Return the type of a file of a commit, or `commit`. Raises StorageError if it does not exist or is damaged."""
    name = f"{commit}:{path}" if path else f"{commit}^{{commit}}"
    return read_with_git(state_directory, "cat-file", "-t", name).strip()


def damage(state_directory: str, commit: str, path: str = "") -> str:
    """Return git's description of a damaged object that `object_type` needs; "" if there is none."""
    try:
        object_type(state_directory, commit, path)
    except StorageError as error:
        return error.message.rpartition("fatal: ")[2] if error.message.endswith(" is corrupt") else ""
    return ""


def _refuse_special_objects(objects: str) -> None:
    """Raise StorageError for a pipe or device in a folder of git objects, because git would wait for it."""
    folders = [objects]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file() and os.path.exists(entry.path):
                    message = "cannot read the snapshot, because this object is not a regular file"
                    raise StorageError(message, remedy="Remove it.", file=entry.path)


class SnapshotFile(NamedTuple):
    """A file of a snapshot. `name` is the object ID of its content."""

    path: str
    name: str
    size: int
    is_link: bool = False
    is_executable: bool = False


def snapshot_files(state_directory: str, commit: str) -> list[SnapshotFile]:
    """Return the files of a snapshot. Raises StorageError."""
    files = []
    for path, (mode, _, name, size) in snapshot_entries(state_directory, commit, "--long"):
        length = int(size) if size.isdigit() else 0
        files.append(SnapshotFile(path, name, length, mode == LINK, mode == EXECUTABLE))
    return files


def snapshot_entries(state_directory: str, commit: str, *options: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each file of a snapshot, and its mode, type and object ID.

    With the option `--long`, which is slow, its size follows. Raises StorageError.
    """
    output = read_with_git(state_directory, "ls-tree", "-r", "-z", *options, _checked(commit))
    for line in os.fsdecode(output).split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        yield path, facts.split()


def snapshot_content(state_directory: str, commit: str, path: str) -> bytes:
    """Return the content of a file in a snapshot. Raises StorageError, for example if there is no such file."""
    return read_with_git(state_directory, "cat-file", "blob", f"{_checked(commit)}:{path}")


def snapshot_diff(state_directory: str, before: str, after: str, paths: Sequence[str] = ()) -> str:
    """Return the unified diff between two snapshots, or only that of `paths`. Raises StorageError.

    An empty commit ID means an empty project. A diff larger than LARGEST_DIFF is cut, and its last line says so.
    """
    options = ("-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
    chosen = [f":(literal){path}" for path in paths]
    trees = (_checked(before or EMPTY_TREE), _checked(after or EMPTY_TREE))
    text = read_with_git(state_directory, "diff-tree", *options, *trees, "--", *chosen)
    cut = text if len(text) <= LARGEST_DIFF else text[: text.rfind(b"\n", 0, LARGEST_DIFF) + 1]
    more = "" if cut is text else f"({len(text) - len(cut):,} more bytes not shown)\n"
    return cut.decode("utf-8", "replace") + more


def _checked(commit: str) -> str:
    """Check a commit ID, which another user may have written, and return it. Raises StorageError."""
    if len(commit) < SHORTEST or not set(commit) <= set("0123456789abcdef"):
        raise StorageError(
            f"invalid commit ID {commit!r}", remedy="Choose another run: the record of this run is damaged."
        )
    return commit
