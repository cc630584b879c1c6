"""Take snapshots: a commit of the project in a hidden repository, and a working copy of this commit for each run.

The user's own repository is never used; `hidden_repository` describes the other. `working_copy` adds files that are not
in the commit. `outputs/` belongs to a run and is never part of a snapshot. Without git, a run gets only a copy of the
files.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.schema.data_references import NO_DATA
from tui_workbench.config.secret_values import copy_for_snapshot
from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import folder_size
from tui_workbench.core.processes import has_program
from tui_workbench.runs.snapshots.contents import (
    Contents,
    contents_of,
    refuse_large,
    refuse_special_attributes,
    room_of,
)
from tui_workbench.runs.snapshots.file_copy import can_clone
from tui_workbench.runs.snapshots.hidden_repository import Entry, HiddenRepository
from tui_workbench.runs.snapshots.project_files import Item, Kind, project_files
from tui_workbench.runs.snapshots.snapshot_view import (
    EXECUTABLE,
    LINK,
    object_type,
)
from tui_workbench.runs.snapshots.spare import (
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

REFERENCES = "refs/runs"  # prefix of the references to the commits of runs

_FILE = "100644"  # mode in git
_SECOND = 1_000_000_000  # nanoseconds


class Snapshot(NamedTuple):
    """A snapshot of kind `git`, `copy` or `none`. Only a snapshot of kind `git` has a commit in the repository."""

    kind: str
    commit_id: str = ""


class SnapshotStore:
    """The snapshots of a project, in its hidden repository.

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
        self.repository = HiddenRepository(project_root, state_directory, preview)
        self.available = has_program("git")
        self._changed_copies: frozenset[str] = frozenset()  # run configurations whose secrets were replaced

    def take(self, run_id: str, working_copy: str) -> Snapshot:
        """Commit the current project and create `working_copy`, which only this user can read.

        Concurrent calls wait for each other, because they share an index. Raises StorageError or LargeFiles; a partial
        copy can remain.
        """
        with storage_errors("create", working_copy, exact=True):
            os.makedirs(working_copy, mode=0o700)
            if self.available:
                with self.repository.exclusive():
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
        with self.repository.exclusive():
            commit = self.repository.git("commit-tree", self.tree(contents), "-m", message).strip()
            self.repository.git("update-ref", reference, commit)
            return commit

    def keep(self, reference: str, commit: str) -> None:
        """Add another reference to a commit. Raises StorageError."""
        with self.repository.exclusive():
            self.repository.git("update-ref", reference, commit)

    def discard(self) -> int:
        """Remove the references of runs without a folder, the files that no other snapshot contains, and the spare.

        Runs in the trash have a folder. Return the number of freed bytes. Without git, or if this user did not create
        the repository here, nothing changes and 0 is returned. Raises StorageError.
        """
        if not self.available or not self.repository.is_own:
            return 0
        objects = os.path.join(self.repository.path, "objects")
        with self.repository.exclusive():
            before = folder_size(self.repository.path)
            with contextlib.suppress(OSError):  # the folder of the spares is missing or a link
                discard(ready(self.repository.path).folder)
                discard_unused(self.repository.path)
            remove_discarded(self.repository.path)
            gone = self._references_without_run()
            self.repository.git(
                "update-ref", "-z", "--stdin", stdin=[word for name in gone for word in (f"delete {name}", "")]
            )
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.repository.index)  # it lists the files of the last snapshot, which git would keep
            if any(name.endswith(".pack") for name in os.listdir(os.path.join(objects, "pack"))):
                self.repository.git("repack", "-a", "-d", "-q")  # git stores files from 512 MB on in packs
            self.repository.git("prune", "--expire=now")
            return max(0, before - folder_size(self.repository.path))

    def _references_without_run(self) -> list[str]:
        runs_directory = os.path.join(self._state_directory, "runs")
        names = self.repository.git("for-each-ref", "--format=%(refname)", REFERENCES).split()
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
            with self.repository.exclusive(), self.repository.index_of(commit):
                entries = self.repository.entries()
                if not self._reuse_spare(working_copy, commit, entries):
                    self.repository.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
                self._redirect_links(working_copy, entries)
            contents = contents_of(self._root, self._state_directory, self.data, old_root=working_copy)
            refuse_large(contents.without_snapshot())
            self._complete(working_copy, contents.items)

    def keep_spare(self, copy: str, commit: str, since_ns: int) -> None:
        """Keep `copy`, the working copy of an ended run, as the spare, or discard it if there is a spare already.

        `copy` is a path of `ended_copy`. Files that were changed after `since_ns`, the time at which the copy was
        complete, are not kept. Git reads the others, to compare them with the commit. Raises StorageError.
        """
        # Git later compares whole seconds, so the index must be written in a later second than all kept files. There is
        # nothing to wait for after a run of at least one second.
        time.sleep(min(1.0, max(0.0, (since_ns // _SECOND + 1) - time.time())))
        new = claimed(self.repository.path)
        with self.repository.exclusive(), storage_errors("write", new.folder):
            if os.path.lexists(ready(self.repository.path).folder):
                discard(copy)
            discard(new.folder)
            if os.path.lexists(copy):
                os.mkdir(new.folder, 0o700)
                os.rename(copy, new.copy)
                with self.repository.in_spare(new):
                    self.repository.git("read-tree", commit)
                    keep_unchanged(new, self.repository.names("ls-files"), since_ns)
                    self.repository.git("update-index", "-q", "--ignore-missing", "--refresh")
                if os.stat(new.index).st_mtime_ns // _SECOND > since_ns // _SECOND:
                    os.rename(new.folder, ready(self.repository.path).folder)
            discard_unused(self.repository.path)

    def _reuse_spare(self, working_copy: str, commit: str, entries: Sequence[Entry]) -> bool:
        """Make a working copy of a commit with these entries from the spare. Return False if no usable spare exists.

        Git compares each file with the times and the inode in the index of the spare. The index of this object must be
        that of the commit.
        """
        spare = claimed(self.repository.path)
        with contextlib.suppress(OSError, RecursionError):
            discard(spare.folder)
            os.rename(ready(self.repository.path).folder, spare.folder)
            try:
                tidy(spare, [path for path, _ in entries])
                with self.repository.in_spare(spare):
                    different = set(self.repository.names("diff-index", "--name-only", commit))
                self.repository.check_out_files([path for path, _ in entries if path in different], spare.copy)
                os.rename(spare.copy, working_copy)
                return True
            except StorageError:
                return False
            finally:
                discard(spare.folder)
        return False

    def _take(self, run_id: str, working_copy: str) -> Snapshot:
        before = self.repository.clock()
        contents = self._current_contents()
        commit = self.record(self.reference_of(run_id), run_id, contents)
        entries = self.repository.entries()
        if not self._reuse_spare(working_copy, commit, entries):
            self._copy_files(working_copy, entries, before)
        self._redirect_links(working_copy, entries)
        self._complete(working_copy, contents.items)
        return Snapshot("git", commit)

    def _redirect_links(self, working_copy: str, entries: Iterable[Entry]) -> None:
        for path, mode in entries:
            if mode == LINK:
                redirect_link(self._root, working_copy, path)

    def _complete(self, working_copy: str, items: Iterable[Item]) -> None:
        """Add the files that are not in the snapshot, and an empty `outputs/`."""
        fill(self._root, working_copy, items)
        os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)

    def _copy_files(self, working_copy: str, entries: Sequence[Entry], before: int) -> None:
        """Copy the files of the index to the working copy. Files older than `before` share blocks if possible."""
        sample = next((path for path, mode in entries if mode != LINK), "")
        if not sample or not can_clone(os.path.join(self._root, sample), working_copy):
            self.repository.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
            return
        special = {path for path, mode in entries if mode == LINK or path in self._changed_copies}
        files = ((path, mode == EXECUTABLE) for path, mode in entries if path not in special)
        left = [*clone_files(self._root, working_copy, files, before), *special]
        self.repository.check_out_files(left, working_copy)

    def _current_contents(self) -> Contents:
        """Return the contents given to the constructor on the first call, and later the current contents."""
        contents, self._contents = self._contents, None
        return contents or contents_of(self._root, self._state_directory, self.data)

    def tree(self, contents: Contents | None = None) -> str:
        """Return the tree ID of the current project. Raises StorageError or LargeFiles."""
        contents = contents or self._current_contents()
        # A restore must also refuse large files, because git reads each file completely.
        refuse_large(contents._replace(copied=(), uncloned=()))
        with self.repository.exclusive():
            try:
                self._update_index(contents.files)
            except StorageError:
                # The index is only a cache and may be damaged, or a file was removed. Retry without the index.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.repository.index)
                self._update_index(self._current_contents().files)
            return self.repository.git("write-tree", *(["--missing-ok"] if self.repository.is_preview else [])).strip()

    def _update_index(self, files: Collection[str]) -> None:
        """Update the index to the current state of these files, including those of nested repositories.

        Other files are removed from the index. Raises StorageError.
        """
        refuse_special_attributes(self._root, files)
        is_stored = not self.repository.is_preview
        copies = {
            path: data for path in files if (data := copy_for_snapshot(self._root, path, store=is_stored)) is not None
        }
        self._changed_copies = frozenset(copies)
        files = [path for path in files if path not in copies]
        indexed = set(self.repository.names("ls-files"))
        removed = indexed.difference(files)
        # Git adds sorted files fastest, and finds the changed ones with several threads.
        added = [path for path in files if path not in indexed]
        changed = [path for path in self.repository.names("diff-files", "--name-only") if path not in removed]
        for option, paths in (("--force-remove", removed), ("--add", [*added, *changed])):
            if paths:
                only = () if is_stored else ("--info-only",)  # git stores no content
                self.repository.git("update-index", *only, "-z", "--remove", option, "--stdin", stdin=paths)
        for path, data in copies.items():
            name = self.repository.git("hash-object", *(["-w"] if is_stored else []), "--stdin", input=data).strip()
            self.repository.git("update-index", "-z", "--index-info", stdin=[f"{_FILE} {name}\t{path}"])
