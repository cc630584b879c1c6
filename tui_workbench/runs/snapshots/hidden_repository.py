"""The hidden repository of a project, in `.workbench/`: its lock, and the git commands in it.

The repository is bare. Git uses only its objects, references and index, and no configuration of the project or the user
and no filters, so that no program is executed and the bytes of files do not change.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator

from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import remove_below, write_below
from tui_workbench.core.git import (
    GitError,
    config_text,
    isolated_environment,
    make_repository,
    path_list,
    run_git,
)
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.core.repository import LARGEST_INDEX, copy_with_times
from tui_workbench.runs.snapshots.snapshot_view import REPOSITORY, imported_name, make_folder, object_directories
from tui_workbench.runs.snapshots.spare import Spare
from tui_workbench.runs.store import ownership

Entry = tuple[str, str]
"""The path and the mode of a file, link or repository in the index."""

# Line endings, keywords and LFS filters in the user's .gitattributes would change the bytes of files.
_ATTRIBUTES = b"* -text -filter -ident -working-tree-encoding\n"
_SETTINGS = {
    "core.bare": "true",
    "core.attributesFile": "/dev/null",
    # Allow names that Windows or macOS cannot store.
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    # Flush all objects at once.
    "core.fsyncMethod": "batch",
    "gc.auto": "0",
    # Compare the change time of files, which programs cannot set.
    "core.trustCtime": "true",
}
_IDENTITY = "workbench-tui"
_PARTS = ("HEAD", "config", "objects", "refs")
_LOCKS = ("index.lock", "config.lock", "HEAD.lock", "packed-refs.lock")
_LOCK = "workbench.lock"
_REMEDY = (
    "If files of the project were changing, try again. If the disk is full, free some space. Otherwise, move {} away "
    "(earlier runs then lose their snapshots), or for runs on this machine set `TrackedRun: false`."
)


class HiddenRepository:
    """The hidden repository of the project at `root`, with this state directory.

    `preview` is an empty folder for a repository that only returns the tree of the project: git writes to that folder
    instead of the state directory, and stores no files.
    """

    def __init__(self, root: str, state_directory: str, preview: str = "") -> None:
        self._root = root
        self._state_directory = state_directory
        self.is_preview = bool(preview)
        self.path = os.path.join(preview or state_directory, REPOSITORY)
        self._lock = -1
        self._git_directory = ""  # an own repository for git, while the lock is held
        self.index = os.path.join(self.path, "index")
        self._work_tree = root

    @property
    def is_own(self) -> bool:
        """True if this user created the repository here."""
        return ownership.own_record(os.path.join(self.path, "HEAD")) is not None

    def clock(self) -> int:
        """Return the time of the file system's clock in nanoseconds. The lock must be held. Raises OSError."""
        os.utime(self._lock)
        return os.fstat(self._lock).st_mtime_ns

    @contextlib.contextmanager
    def index_of(self, commit: str) -> Iterator[None]:
        """Use an index of a commit, instead of the index of the project, for git commands in this context."""
        project_index, self.index = self.index, os.path.join(self.path, "commit-index")
        try:
            for path in (self.index, f"{self.index}.lock"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            self.git("read-tree", commit)
            yield
        finally:
            self.index = project_index

    @contextlib.contextmanager
    def in_spare(self, spare: Spare) -> Iterator[None]:
        """Use the index and the copy of a spare for git commands in this context."""
        project_index, project_root = self.index, self._work_tree
        self.index, self._work_tree = spare.index, spare.copy
        try:
            yield
        finally:
            self.index, self._work_tree = project_index, project_root

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the repository, so that concurrent submissions wait. Raises StorageError."""
        if self._lock >= 0:
            yield
            return
        with storage_errors("write", self.path, exact=True):
            while self._lock < 0:
                self._try_lock()
        with contextlib.ExitStack() as held:
            held.callback(self._unlock)
            with storage_errors("write", self.path):
                self._prepare()
                git_directory = held.enter_context(tempfile.TemporaryDirectory(prefix="workbench-git-"))
                self._make_git_directory(git_directory)
            yield

    def _unlock(self) -> None:
        os.close(self._lock)
        self._lock = -1

    def _try_lock(self) -> None:
        """Lock the repository. If it was renamed, the caller must retry.

        A repository that this user did not create here is renamed, because git must not use its configuration or hooks.
        Later snapshots only read its objects. Raises OSError.
        """
        make_folder(self.path)
        path = os.path.join(self.path, _LOCK)
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            lock = locks.open_lock(path)
            opened.callback(os.close, lock)
            locks.lock(lock)
            if not os.path.samestat(os.fstat(lock), os.lstat(path)):
                return
            is_new = self.is_preview or os.listdir(self.path) == [_LOCK]
            if is_new or self.is_own:
                opened.pop_all()
                self._lock = lock
            else:
                os.rename(self.path, imported_name(self._state_directory))

    def _prepare(self) -> None:
        # Each git process inherits the lock, so lock files of a killed git are not in use.
        for name in _LOCKS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, name))
        for folder in (os.path.join(self.path, name) for name in ("objects", "objects/pack")):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if name.startswith("tmp_"):  # an object that a killed git has not completed
                        remove_below(folder, name)
        if not all(os.path.exists(os.path.join(self.path, name)) for name in _PARTS):
            make_repository(self.path, config_text({"core.bare": "true"}))
            os.makedirs(os.path.join(self.path, "objects", "pack"), exist_ok=True)
            if self.is_preview:
                self._copy_index()
            else:
                ownership.register(os.path.join(self.path, "HEAD"))

    def _copy_index(self) -> None:
        """Copy the index of the hidden repository, so that git only reads the files that changed since."""
        hidden = os.path.join(self._state_directory, REPOSITORY)
        with contextlib.suppress(OSError):
            if ownership.own_record(os.path.join(hidden, "HEAD")) is not None:
                copy_with_times(hidden, "index", self.path, LARGEST_INDEX)

    def _make_git_directory(self, folder: str) -> None:
        """Make a repository that has the references of the hidden repository, but its own configuration and attributes.

        Raises OSError.
        """
        make_repository(folder, config_text(_SETTINGS))
        os.rmdir(os.path.join(folder, "refs"))
        for name in ("refs", "packed-refs"):
            os.symlink(os.path.join(self.path, name), os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "info"), 0o700)
        write_below(folder, "info/attributes", _ATTRIBUTES)
        self._git_directory = folder

    def names(self, command: str, *arguments: str) -> list[str]:
        """Return the NUL-separated output of a git command as a list."""
        return [name for name in self.git(command, "-z", *arguments).split("\0") if name]

    def git(self, *arguments: str, stdin: Iterable[str] = (), input: bytes = b"") -> str:
        """Return the output of a git command. The strings `stdin` are terminated by NUL. Raises StorageError."""
        data = input or "".join(f"{text}\0" for text in stdin).encode("utf-8", "surrogateescape")
        try:
            with meter("snapshot", BYTES) as taking:
                output = run_git(
                    *arguments, environment=self._environment(), folder=self._root,
                    # Show the progress, which git does not report while it reads a large file.
                    input=data, passed=(self._lock,), on_written=taking.update,
                )  # fmt: skip
        except GitError as error:
            message = f"`git {arguments[0]}` failed in the snapshot repository: {error.message}"
            raise StorageError(message, remedy=_REMEDY.format(self.path), file=self._root) from error
        return output.decode("utf-8", "surrogateescape")

    def _environment(self) -> dict[str, str]:
        objects, *others = object_directories(self._state_directory)
        if self.is_preview:  # git changes the times of objects that it would have written
            objects, others = os.path.join(self.path, "objects"), []
        return {
            **isolated_environment(),
            "GIT_DIR": self._git_directory,
            "GIT_WORK_TREE": self._work_tree,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": path_list(others),
            "GIT_INDEX_FILE": self.index,
            **{f"GIT_{role}_{field}": _IDENTITY for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")},
        }

    def entries(self) -> list[Entry]:
        """Return the entries of the index."""
        parts = (entry.partition("\t") for entry in self.names("ls-files", "--stage"))
        return [(path, fields[:6]) for fields, _, path in parts]

    def check_out_files(self, paths: Collection[str], folder: str) -> None:
        """Write these files of the index to a folder. Raises StorageError."""
        if paths:
            self.git("checkout-index", "-z", "--stdin", "--force", f"--prefix={folder}/", stdin=paths)
