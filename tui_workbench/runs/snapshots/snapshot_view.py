"""Reading the snapshots of runs: their files, the content of a file, the difference of two.

Only git's plumbing is asked, without any configuration; nothing is written, and no repository is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core import processes, trace
from tui_workbench.core.errors import StorageError
from tui_workbench.core.foreign_git import reading_environment

REPOSITORY = "snapshots.git"
"""The hidden repository, in the project's state directory."""

IMPORTED_PREFIX = "snapshots-imported-"
"""Begins the names of repositories that this user did not make here, such as those that came with the project."""

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's name for a folder with nothing in it, which every repository knows."""

SHORTEST = 4
"""Characters that git takes for a commit id."""

LARGEST_DIFF = 4 << 20
"""Bytes of a difference that are given; more is no reading matter."""


def object_directories(state_directory: str) -> list[str]:
    """The folders that hold git objects: that of the hidden repository, then those of imported ones."""
    try:
        names = sorted(name for name in os.listdir(state_directory) if name.startswith(IMPORTED_PREFIX))
    except OSError:
        names = []
    return [os.path.join(state_directory, name, "objects") for name in (REPOSITORY, *names)]


def read_with_git(state_directory: str, *arguments: str) -> bytes:
    """The output of a git command on the objects of a project's snapshots. Raises StorageError."""
    repository = os.path.join(state_directory, REPOSITORY)
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        environment = reading_environment(state_directory, object_directories(state_directory))
        done = processes.run(command, kind=trace.GIT, environment=environment)
    except OSError as error:
        raise StorageError(
            f"the snapshot cannot be read: git: {error.strerror}", remedy="Install git.", file=repository
        ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise StorageError(
            f"the snapshot cannot be read: {said or f'git ended with {done.returncode}'}",
            remedy="Was the repository of snapshots moved away?",
            file=repository,
        )
    return done.stdout


class SnapshotFile(NamedTuple):
    """A file of a snapshot. `name` is git's for the content: the same name is the same content."""

    path: str
    name: str
    size: int
    is_link: bool = False
    is_executable: bool = False


def snapshot_files(state_directory: str, commit: str) -> list[SnapshotFile]:
    """Every file of a snapshot, by path. Raises StorageError when it cannot be read."""
    found = []
    for line in read_with_git(state_directory, "ls-tree", "-r", "-z", "--long", _checked(commit)).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, name, size = facts.decode("ascii").split()
        length = int(size) if size.isdigit() else 0
        found.append(SnapshotFile(os.fsdecode(path), name, length, mode == "120000", mode == "100755"))
    return found


def snapshot_content(state_directory: str, commit: str, path: str) -> bytes:
    """The bytes of a file of a snapshot. Raises StorageError when there is no such file."""
    return read_with_git(state_directory, "cat-file", "blob", f"{_checked(commit)}:{path}")


def snapshot_diff(state_directory: str, before: str, after: str, paths: Sequence[str] = ()) -> str:
    """What changed from one snapshot to another, as a unified diff; of `paths` when some are named.

    An empty commit id stands for nothing at all. Raises StorageError.
    """
    options = ("-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
    chosen = [f":(literal){path}" for path in paths]
    trees = (_checked(before or EMPTY_TREE), _checked(after or EMPTY_TREE))
    text = read_with_git(state_directory, "diff-tree", *options, *trees, "--", *chosen)
    cut = text if len(text) <= LARGEST_DIFF else text[: text.rfind(b"\n", 0, LARGEST_DIFF) + 1]
    said = "" if cut is text else f"(the difference goes on for {len(text) - len(cut):,} bytes)\n"
    return cut.decode("utf-8", "replace") + said


def _checked(commit: str) -> str:
    """The commit id, which comes out of a file. Raises StorageError when it is none."""
    if len(commit) < SHORTEST or not set(commit) <= set("0123456789abcdef"):
        raise StorageError(f"{commit!r} is no commit", remedy="The record of the run has been changed.")
    return commit
