"""Take snapshots: a commit of the project in a hidden repository, and a working copy of this commit for each run.

The user's own repository is never used. The hidden repository in `.workbench/` is bare. Git uses only its objects,
references and index, and no configuration of the project or the user and no filters, so that no program is executed
and the bytes of files do not change. `working_copy` adds files that are not in the commit. `outputs/` belongs to a run
and is never part of a snapshot. Without git, a run gets only a copy of the files.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.schema.data_references import NO_DATA
from tui_workbench.config.secret_values import copy_for_snapshot
from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import folder_size, remove_below, write_below
from tui_workbench.core.git import (
    GitError,
    config_text,
    isolated_environment,
    make_repository,
    path_list,
    run_git,
)
from tui_workbench.core.processes import has_program
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.core.repository import LARGEST_INDEX, copy_with_times
from tui_workbench.runs.snapshots.contents import (
    Contents,
    contents_of,
    refuse_large,
    refuse_special_attributes,
    room_of,
)
from tui_workbench.runs.snapshots.file_copy import can_clone
from tui_workbench.runs.snapshots.project_files import Item, Kind, project_files
from tui_workbench.runs.snapshots.snapshot_view import (
    EXECUTABLE,
    LINK,
    REPOSITORY,
    imported_name,
    make_folder,
    object_directories,
    object_type,
)
from tui_workbench.runs.snapshots.spare import (
    Spare,
    claimed,
    discard,
    discard_unused,
    keep_unchanged,
    ready,
    remove_discarded,
    tidy,
)
from tui_workbench.runs.snapshots.working_copy import clone_files, fill, redirect_link
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import OUTPUTS

_Entry = tuple[str, str]  # path and mode of a file, link or repository in the index

REFERENCES = "refs/runs"  # prefix of the references to the commits of runs

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
_FILE = "100644"  # mode in git
_SECOND = 1_000_000_000  # nanoseconds
_REMEDY = (
    "If files of the project were changing, try again. If the disk is full, free some space. Otherwise, move {} away "
    "(earlier runs then lose their snapshots), or for runs on this machine set `TrackedRun: false`."
)


class Snapshot(NamedTuple):
    """A snapshot of kind `git`, `copy` or `none`. Only a snapshot of kind `git` has a commit in the repository."""

    kind: str
    commit_id: str = ""


class SnapshotStore:
    """The hidden repository of a project.

    `state_directory` is that of the project. `data` maps linked paths, which are relative to the project and never part
    of a snapshot, to the absolute paths of the data. `contents` is the current result of `contents_of`, if known.
    `preview` is an empty folder for a store that only returns the tree of the project: it writes to that folder instead
    of the state directory, and contains no files.
    """

    def __init__(
        self,
        project_root: str,
        state_directory: str,
        data: Mapping[str, str] = NO_DATA,
        contents: Contents | None = None,
        preview: str = "",
    ) -> None:
        self._root = project_root
        self._state_directory = state_directory
        self.data = data
        self._contents = contents
        self._is_preview = bool(preview)
        self.repository = os.path.join(preview or state_directory, REPOSITORY)
        self.available = has_program("git")
        self._lock = -1
        self._git_directory = ""  # an own repository for git, while the lock is held
        self._index = os.path.join(self.repository, "index")
        self._work_tree = project_root
        self._changed_copies: frozenset[str] = frozenset()  # run configurations whose secrets were replaced

    def take(self, run_id: str, working_copy: str) -> Snapshot:
        """Commit the current project and create `working_copy`, which only this user can read.

        Concurrent calls wait for each other, because they share an index. Raises StorageError or LargeFiles; a partial
        copy can remain.
        """
        with storage_errors("create", working_copy, exact=True):
            os.makedirs(working_copy, mode=0o700)
            if self.available:
                with self.exclusive():
                    return self._take(run_id, working_copy)
            # Without git, the files of a snapshot are copied too.
            items = project_files(self._root, self.data, room=room_of(self._state_directory))
            kinds = {Kind.SNAPSHOT: Kind.COPIED}
            self._complete(working_copy, (item._replace(kind=kinds.get(item.kind, item.kind)) for item in items))
            return Snapshot("copy")

    def reference_of(self, run_id: str) -> str:
        return f"{REFERENCES}/{run_id}"

    def record(self, reference: str, message: str, contents: Contents | None = None) -> str:
        """Commit the current project under a reference, without a copy, and return the commit ID.

        Git must be installed. Raises StorageError or LargeFiles.
        """
        with self.exclusive():
            commit = self.git("commit-tree", self.tree(contents), "-m", message).strip()
            self.git("update-ref", reference, commit)
            return commit

    def keep(self, reference: str, commit: str) -> None:
        """Add another reference to a commit. Raises StorageError."""
        with self.exclusive():
            self.git("update-ref", reference, commit)

    def discard(self) -> int:
        """Remove the references of runs without a folder, the files that no other snapshot contains, and the spare.

        Runs in the trash have a folder. Return the number of freed bytes. Without git, or if this user did not create
        the repository here, nothing changes and 0 is returned. Raises StorageError.
        """
        if not self.available or ownership.own_record(os.path.join(self.repository, "HEAD")) is None:
            return 0
        objects = os.path.join(self.repository, "objects")
        with self.exclusive():
            before = folder_size(self.repository)
            with contextlib.suppress(OSError):  # the folder of the spares is missing or a link
                discard(ready(self.repository).folder)
                discard_unused(self.repository)
            remove_discarded(self.repository)
            gone = self._references_without_run()
            self.git("update-ref", "-z", "--stdin", stdin=[word for name in gone for word in (f"delete {name}", "")])
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._index)  # it lists the files of the last snapshot, which git would keep
            if any(name.endswith(".pack") for name in os.listdir(os.path.join(objects, "pack"))):
                self.git("repack", "-a", "-d", "-q")  # git stores files from 512 MB on in packs
            self.git("prune", "--expire=now")
            return max(0, before - folder_size(self.repository))

    def _references_without_run(self) -> list[str]:
        runs_directory = os.path.join(self._state_directory, "runs")
        names = self.git("for-each-ref", "--format=%(refname)", REFERENCES).split()
        with storage_errors("read", runs_directory):
            return [name for name in names if not ownership.has_folder(runs_directory, os.path.basename(name))]

    def holds(self, commit: str, path: str = "") -> bool:
        """Return True if the commit exists and, if `path` is given, contains that file; False without git."""
        if not self.available or not os.path.isdir(self._state_directory):
            return False
        with contextlib.suppress(StorageError):
            return object_type(self._state_directory, commit, path) == (b"blob" if path else b"commit")
        return False

    def check_out(self, commit: str, working_copy: str) -> None:
        """Create `working_copy`, which only this user can read, from a commit and the current ignored files.

        Raises StorageError or LargeFiles; a partial copy can remain.
        """
        with storage_errors("create", working_copy, exact=True):
            os.makedirs(working_copy, mode=0o700, exist_ok=True)
            with self.exclusive(), self.index_of(commit):
                entries = self._entries()
                if not self._reuse_spare(working_copy, commit, entries):
                    self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
                self._redirect_links(working_copy, entries)
            contents = contents_of(self._root, self._state_directory, self.data, old_root=working_copy)
            refuse_large(contents.without_snapshot())
            self._complete(working_copy, contents.items)

    @contextlib.contextmanager
    def index_of(self, commit: str) -> Iterator[None]:
        """Use an index of a commit, instead of the index of the project, for git commands in this context."""
        project_index, self._index = self._index, os.path.join(self.repository, "commit-index")
        try:
            for path in (self._index, f"{self._index}.lock"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            self.git("read-tree", commit)
            yield
        finally:
            self._index = project_index

    @contextlib.contextmanager
    def _in_spare(self, spare: Spare) -> Iterator[None]:
        """Use the index and the copy of a spare for git commands in this context."""
        project_index, project_root = self._index, self._work_tree
        self._index, self._work_tree = spare.index, spare.copy
        try:
            yield
        finally:
            self._index, self._work_tree = project_index, project_root

    def keep_spare(self, copy: str, commit: str, since_ns: int) -> None:
        """Keep `copy`, the working copy of an ended run, as the spare, or discard it if there is a spare already.

        `copy` is a path of `ended_copy`. Files that were changed after `since_ns`, the time at which the copy was
        complete, are not kept. Git reads the others, to compare them with the commit. Raises StorageError.
        """
        # Git later compares whole seconds, so the index must be written in a later second than all kept files. There is
        # nothing to wait for after a run of at least one second.
        time.sleep(min(1.0, max(0.0, (since_ns // _SECOND + 1) - time.time())))
        new = claimed(self.repository)
        with self.exclusive(), storage_errors("write", new.folder):
            if os.path.lexists(ready(self.repository).folder):
                discard(copy)
            discard(new.folder)
            if os.path.lexists(copy):
                os.mkdir(new.folder, 0o700)
                os.rename(copy, new.copy)
                with self._in_spare(new):
                    self.git("read-tree", commit)
                    keep_unchanged(new, self.names("ls-files"), since_ns)
                    self.git("update-index", "-q", "--ignore-missing", "--refresh")
                if os.stat(new.index).st_mtime_ns // _SECOND > since_ns // _SECOND:
                    os.rename(new.folder, ready(self.repository).folder)
            discard_unused(self.repository)

    def _reuse_spare(self, working_copy: str, commit: str, entries: Sequence[_Entry]) -> bool:
        """Make a working copy of a commit with these entries from the spare. Return False if no usable spare exists.

        Git compares each file with the times and the inode in the index of the spare. The index of this object must be
        that of the commit.
        """
        spare = claimed(self.repository)
        with contextlib.suppress(OSError, RecursionError):
            discard(spare.folder)
            os.rename(ready(self.repository).folder, spare.folder)
            try:
                tidy(spare, [path for path, _ in entries])
                with self._in_spare(spare):
                    different = set(self.names("diff-index", "--name-only", commit))
                self._check_out_files([path for path, _ in entries if path in different], spare.copy)
                os.rename(spare.copy, working_copy)
                return True
            except StorageError:
                return False
            finally:
                discard(spare.folder)
        return False

    def _check_out_files(self, paths: Collection[str], folder: str) -> None:
        """Write these files of the index to a folder."""
        if paths:
            self.git("checkout-index", "-z", "--stdin", "--force", f"--prefix={folder}/", stdin=paths)

    def _take(self, run_id: str, working_copy: str) -> Snapshot:
        os.utime(self._lock)
        before = os.fstat(self._lock).st_mtime_ns  # time of the file system's clock
        contents = self._current_contents()
        commit = self.record(self.reference_of(run_id), run_id, contents)
        entries = self._entries()
        if not self._reuse_spare(working_copy, commit, entries):
            self._copy_files(working_copy, entries, before)
        self._redirect_links(working_copy, entries)
        self._complete(working_copy, contents.items)
        return Snapshot("git", commit)

    def _redirect_links(self, working_copy: str, entries: Iterable[_Entry]) -> None:
        for path, mode in entries:
            if mode == LINK:
                redirect_link(self._root, working_copy, path)

    def _complete(self, working_copy: str, items: Iterable[Item]) -> None:
        """Add the files that are not in the snapshot, and an empty `outputs/`."""
        fill(self._root, working_copy, items)
        os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)

    def _copy_files(self, working_copy: str, entries: Sequence[_Entry], before: int) -> None:
        """Copy the files of the index to the working copy. Files older than `before` share blocks if possible."""
        sample = next((path for path, mode in entries if mode != LINK), "")
        if not sample or not can_clone(os.path.join(self._root, sample), working_copy):
            self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
            return
        special = {path for path, mode in entries if mode == LINK or path in self._changed_copies}
        files = ((path, mode == EXECUTABLE) for path, mode in entries if path not in special)
        left = [*clone_files(self._root, working_copy, files, before), *special]
        self._check_out_files(left, working_copy)

    def _current_contents(self) -> Contents:
        """Return the contents given to the constructor on the first call, and later the current contents."""
        contents, self._contents = self._contents, None
        return contents or contents_of(self._root, self._state_directory, self.data)

    def tree(self, contents: Contents | None = None) -> str:
        """Return the tree ID of the current project. Raises StorageError or LargeFiles."""
        contents = contents or self._current_contents()
        # A restore must also refuse large files, because git reads each file completely.
        refuse_large(contents._replace(copied=(), uncloned=()))
        with self.exclusive():
            try:
                self._update_index(contents.files)
            except StorageError:
                # The index is only a cache and may be damaged, or a file was removed. Retry without the index.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._index)
                self._update_index(self._current_contents().files)
            return self.git("write-tree", *(["--missing-ok"] if self._is_preview else [])).strip()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the repository, so that concurrent submissions wait. Raises StorageError."""
        if self._lock >= 0:
            yield
            return
        with storage_errors("write", self.repository, exact=True):
            while self._lock < 0:
                self._try_lock()
        with contextlib.ExitStack() as held:
            held.callback(self._unlock)
            with storage_errors("write", self.repository):
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
        make_folder(self.repository)
        path = os.path.join(self.repository, _LOCK)
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            lock = locks.open_lock(path)
            opened.callback(os.close, lock)
            locks.lock(lock)
            if not os.path.samestat(os.fstat(lock), os.lstat(path)):
                return
            is_new = self._is_preview or os.listdir(self.repository) == [_LOCK]
            if is_new or ownership.own_record(os.path.join(self.repository, "HEAD")) is not None:
                opened.pop_all()
                self._lock = lock
            else:
                os.rename(self.repository, imported_name(self._state_directory))

    def _prepare(self) -> None:
        # Each git process inherits the lock, so lock files of a killed git are not in use.
        for name in _LOCKS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.repository, name))
        for folder in (os.path.join(self.repository, name) for name in ("objects", "objects/pack")):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if name.startswith("tmp_"):  # an object that a killed git has not completed
                        remove_below(folder, name)
        if not all(os.path.exists(os.path.join(self.repository, name)) for name in _PARTS):
            make_repository(self.repository, config_text({"core.bare": "true"}))
            os.makedirs(os.path.join(self.repository, "objects", "pack"), exist_ok=True)
            if self._is_preview:
                self._copy_index()
            else:
                ownership.register(os.path.join(self.repository, "HEAD"))

    def _copy_index(self) -> None:
        """Copy the index of the hidden repository, so that git only reads the files that changed since."""
        hidden = os.path.join(self._state_directory, REPOSITORY)
        with contextlib.suppress(OSError):
            if ownership.own_record(os.path.join(hidden, "HEAD")) is not None:
                copy_with_times(hidden, "index", self.repository, LARGEST_INDEX)

    def _make_git_directory(self, folder: str) -> None:
        """Make a repository that has the references of the hidden repository, but its own configuration and attributes.

        Raises OSError.
        """
        make_repository(folder, config_text(_SETTINGS))
        os.rmdir(os.path.join(folder, "refs"))
        for name in ("refs", "packed-refs"):
            os.symlink(os.path.join(self.repository, name), os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "info"), 0o700)
        write_below(folder, "info/attributes", _ATTRIBUTES)
        self._git_directory = folder

    def _update_index(self, files: Collection[str]) -> None:
        """Update the index to the current state of these files, including those of nested repositories.

        Other files are removed from the index. Raises StorageError.
        """
        refuse_special_attributes(self._root, files)
        is_stored = not self._is_preview
        copies = {
            path: data for path in files if (data := copy_for_snapshot(self._root, path, store=is_stored)) is not None
        }
        self._changed_copies = frozenset(copies)
        files = [path for path in files if path not in copies]
        indexed = set(self.names("ls-files"))
        removed = indexed.difference(files)
        # Git adds sorted files fastest, and finds the changed ones with several threads.
        added = [path for path in files if path not in indexed]
        changed = [path for path in self.names("diff-files", "--name-only") if path not in removed]
        for option, paths in (("--force-remove", removed), ("--add", [*added, *changed])):
            if paths:
                only = () if is_stored else ("--info-only",)  # git stores no content
                self.git("update-index", *only, "-z", "--remove", option, "--stdin", stdin=paths)
        for path, data in copies.items():
            name = self.git("hash-object", *(["-w"] if is_stored else []), "--stdin", input=data).strip()
            self.git("update-index", "-z", "--index-info", stdin=[f"{_FILE} {name}\t{path}"])

    def _entries(self) -> list[_Entry]:
        parts = (entry.partition("\t") for entry in self.names("ls-files", "--stage"))
        return [(path, fields[:6]) for fields, _, path in parts]

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
            raise StorageError(message, remedy=_REMEDY.format(self.repository), file=self._root) from error
        return output.decode("utf-8", "surrogateescape")

    def _environment(self) -> dict[str, str]:
        objects, *others = object_directories(self._state_directory)
        if self._is_preview:  # git changes the times of objects that it would have written
            objects, others = os.path.join(self.repository, "objects"), []
        return {
            **isolated_environment(),
            "GIT_DIR": self._git_directory,
            "GIT_WORK_TREE": self._work_tree,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": path_list(others),
            "GIT_INDEX_FILE": self._index,
            **{f"GIT_{role}_{field}": _IDENTITY for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")},
        }
