"""The project as it was when a run was submitted: a commit in a hidden repository, and the run's working copy of it.

The user's own repository is never touched or needed: ours is a bare one under `.workbench/`, with its own index, no
user configuration and no filters, so files come back byte for byte. `working_copy` adds its other files.
`outputs/` belongs to a run and is never part of a snapshot. Without git there is only the copy.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core import locks, trace
from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import remove_below, write_if_changed
from tui_workbench.core.foreign_git import path_list, without_fetching
from tui_workbench.core.processes import find_program, has_program
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.runs.snapshots.contents import Contents, contents_of, refuse_large, room_of
from tui_workbench.runs.snapshots.file_copy import can_clone
from tui_workbench.runs.snapshots.project_files import Item, Kind, project_files
from tui_workbench.runs.snapshots.snapshot_view import IMPORTED_PREFIX, REPOSITORY, object_directories, read_with_git
from tui_workbench.runs.snapshots.working_copy import clone_files, fill, redirect_link
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import OUTPUTS

_Entry = tuple[str, str]  # path and mode of a file, link or repository in the index

REFERENCES = "refs/runs"
"""Under it stands each run's commit."""

# Line ends, keywords and LFS filters of the user's .gitattributes would change bytes on the way in or out.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"
_SETTINGS = (
    "core.attributesFile=/dev/null",
    # Names that only Windows or macOS could not hold are good names here.
    "core.protectNTFS=false",
    "core.protectHFS=false",
    # One flush for all objects instead of one for each.
    "core.fsyncMethod=batch",
    "gc.auto=0",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
)
_IDENTITY = "workbench-tui"
_PARTS = ("HEAD", "config", "objects", "refs")
_LOCKS = ("index.lock", "config.lock", "HEAD.lock", "packed-refs.lock")
_LOCK = "workbench.lock"

_EXECUTABLE, _LINK = "100755", "120000"
_LOOK_SECONDS = 0.25
_REMEDY = "Is the disk full? Else move {} away, which loses the snapshots of earlier runs, or set `TrackedRun: false`."


class Snapshot(NamedTuple):
    """A commit id in the hidden repository, empty where there is no git; `kind` is `git`, `copy` or `none`."""

    kind: str
    commit_id: str = ""


class SnapshotStore:
    """The hidden repository of a project.

    `state_directory` is the project's `.workbench/`; `data` are paths, relative to the project, that are linked and
    never taken; `contents` is the result of `contents_of` now, if it is known.
    """

    def __init__(
        self, project_root: str, state_directory: str, data: Collection[str] = (), contents: Contents | None = None
    ) -> None:
        self._root = project_root
        self._state_directory = state_directory
        self._data = frozenset(data)
        self._contents = contents
        self.repository = os.path.join(state_directory, REPOSITORY)
        self._git = find_program("git") if has_program("git") else ""
        self._lock = -1
        self._index = os.path.join(self.repository, "index")

    @property
    def available(self) -> bool:
        """True where there is git."""
        return bool(self._git)

    def commands(self, working_copy: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The git commands of taking a snapshot and of making the copy, for the plan."""
        git = self._git or "git"
        return (git, "update-index", "--add", "--stdin"), (git, "checkout-index", "--all", f"--prefix={working_copy}/")

    def take(self, run_id: str, working_copy: str) -> Snapshot:
        """Record the project as it is and make `working_copy` of it, which only this user may read.

        Raises StorageError; a half-made copy is then left behind. Two submits at once take turns: they share one index.
        """
        with storage_errors("make", working_copy, exact=True):
            os.makedirs(working_copy, mode=0o700)
            if self.available:
                with self.exclusive():
                    return self._take(run_id, working_copy)
            # The copy holds the files that a snapshot would hold as well.
            items = project_files(self._root, self._data, room=room_of(self._state_directory))
            kinds = {Kind.SNAPSHOT: Kind.COPIED}
            self._complete(working_copy, (item._replace(kind=kinds.get(item.kind, item.kind)) for item in items))
            return Snapshot("copy")

    def record(self, reference: str, message: str, contents: Contents | None = None) -> str:
        """Record the project as it is under a reference, without a copy; returns the commit id. Raises StorageError.

        There must be git.
        """
        with self.exclusive():
            commit = self.git("commit-tree", self.tree(contents), "-m", message).strip()
            self.git("update-ref", reference, commit)
            return commit

    def keep(self, reference: str, commit: str) -> None:
        """Let another reference hold a commit as well. Raises StorageError."""
        with self.exclusive():
            self.git("update-ref", reference, commit)

    def holds(self, commit: str, path: str = "") -> bool:
        """True when the commit is here, and in it a file at `path` where one is named."""
        if not self.available or not os.path.isdir(self._state_directory):
            return False
        name = f"{commit}:{path}" if path else f"{commit}^{{commit}}"
        try:
            kind = read_with_git(self._state_directory, "cat-file", "-t", name)
        except StorageError:
            return False
        return kind.strip() == (b"blob" if path else b"commit")

    def check_out(self, commit: str, working_copy: str) -> None:
        """Make `working_copy`, which only this user may read, of a commit and the project's current ignored files.

        Raises StorageError, or LargeFiles; a half-made copy is then left behind.
        """
        with storage_errors("make", working_copy, exact=True):
            os.makedirs(working_copy, mode=0o700, exist_ok=True)
            with self.exclusive(), self.index_of(commit):
                self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
                self._redirect_links(working_copy, self._entries())
            contents = contents_of(self._root, self._state_directory, self._data, beside=working_copy)
            refuse_large(contents.without_snapshot())
            self._complete(working_copy, contents.items)

    @contextlib.contextmanager
    def index_of(self, commit: str) -> Iterator[None]:
        """Let git commands see an index that holds a commit and not the project."""
        usual, self._index = self._index, os.path.join(self.repository, "commit-index")
        try:
            for path in (self._index, f"{self._index}.lock"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            self.git("read-tree", commit)
            yield
        finally:
            self._index = usual

    def _take(self, run_id: str, working_copy: str) -> Snapshot:
        os.utime(self._lock)
        before = os.fstat(self._lock).st_mtime_ns  # the file system's time
        contents = self._look()
        commit = self.record(f"{REFERENCES}/{run_id}", run_id, contents)
        entries = self._entries()
        self._place(working_copy, entries, before)
        self._redirect_links(working_copy, entries)
        self._complete(working_copy, contents.items)
        return Snapshot("git", commit)

    def _redirect_links(self, working_copy: str, entries: Iterable[_Entry]) -> None:
        for path, mode in entries:
            if mode == _LINK:
                redirect_link(self._root, working_copy, path)

    def _complete(self, working_copy: str, items: Iterable[Item]) -> None:
        """Add the files that are in no snapshot, and an empty `outputs/`."""
        fill(self._root, working_copy, items)
        os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)

    def _place(self, working_copy: str, entries: Sequence[_Entry], before: int) -> None:
        """Put the files of the index into the copy; files older than `before` share blocks where that is possible."""
        sample = next((path for path, mode in entries if mode != _LINK), "")
        if not sample or not can_clone(os.path.join(self._root, sample), working_copy):
            self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
            return
        files = ((path, mode == _EXECUTABLE) for path, mode in entries if mode != _LINK)
        left = clone_files(self._root, working_copy, files, before)
        left += [path for path, mode in entries if mode == _LINK]
        if left:
            self.git("checkout-index", "-z", "--stdin", "--force", f"--prefix={working_copy}/", stdin=left)

    def _look(self) -> Contents:
        """The project's contents: those that are known at the first call, else those of now."""
        contents, self._contents = self._contents, None
        return contents or contents_of(self._root, self._state_directory, self._data)

    def tree(self, contents: Contents | None = None) -> str:
        """Git's name for the project as it is. Raises StorageError, LargeFiles."""
        contents = contents or self._look()
        # Also for a restore: git would read these files to their ends.
        refuse_large(contents._replace(copied=(), uncloned=()))
        with self.exclusive():
            try:
                self._update_index(contents.files)
            except StorageError:
                # A file may have shrunk while git read it. And the index only saves work: a damaged one is made anew.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._index)
                self._update_index(self._look().files)
            return self.git("write-tree").strip()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Have the repository to oneself: two submits at once take turns. Raises StorageError."""
        if self._lock >= 0:
            yield
            return
        with storage_errors("write", self.repository):
            while self._lock < 0:
                self._lock_own()
        try:
            self._prepare()
            yield
        finally:
            os.close(self._lock)
            self._lock = -1

    def _lock_own(self) -> None:
        """Lock the repository, unless it was not this user's own or was renamed: then it is to be tried again.

        A repository that this user did not make here gets another name: git reads its objects and nothing else of it.
        Raises OSError.
        """
        os.makedirs(self.repository, mode=0o700, exist_ok=True)
        path = os.path.join(self.repository, _LOCK)
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            lock = locks.open_lock(path)
            opened.callback(os.close, lock)
            locks.lock(lock)
            if not os.path.samestat(os.fstat(lock), os.lstat(path)):
                return
            is_new = os.listdir(self.repository) == [_LOCK]
            if is_new or ownership.own_record(os.path.join(self.repository, "HEAD")) is not None:
                opened.pop_all()
                self._lock = lock
            else:
                os.rename(self.repository, _free_name(self._state_directory))

    def _prepare(self) -> None:
        # The lock is held, also by every git that was started under it: what a killed git left is not in use.
        for name in _LOCKS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.repository, name))
        for folder in ("objects", os.path.join("objects", "pack")):
            _remove_unfinished(os.path.join(self.repository, folder))
        if not all(os.path.exists(os.path.join(self.repository, name)) for name in _PARTS):
            self.git("init", "--quiet", "--bare", "--template=", self.repository)
            ownership.register(os.path.join(self.repository, "HEAD"))
        write_if_changed(os.path.join(self.repository, "info", "attributes"), _ATTRIBUTES.encode())

    def _update_index(self, files: Collection[str]) -> None:
        """Let the index hold these files of the project, as they are now, and no others. Raises StorageError.

        Files of a repository inside the project are files like any other.
        """
        wanted = set(files)
        stale = [path for path, _ in self._entries() if path not in wanted]
        for option, paths in (("--force-remove", stale), ("--add", files)):
            if paths:
                self.git("update-index", "-z", "--remove", option, "--stdin", stdin=paths)

    def _entries(self) -> list[_Entry]:
        parts = (entry.partition("\t") for entry in self.names("ls-files", "--stage"))
        return [(path, about[:6]) for about, _, path in parts]

    def names(self, command: str, *arguments: str) -> list[str]:
        """What a git command lists."""
        return [name for name in self.git(command, "-z", *arguments).split("\0") if name]

    def git(self, *arguments: str, stdin: Iterable[str] = ()) -> str:
        """The output of a git command; `stdin` are strings that it reads, each ended by a NUL. Raises StorageError."""
        command = [self._git, *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments]
        text = "".join(f"{each}\0" for each in stdin)
        done = run_git(command, self._root, self._environment(arguments[0]), text, (self._lock,))
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise StorageError(
                f"the snapshot failed: git {arguments[0]}: {said or f'exit code {done.returncode}'}",
                remedy=_REMEDY.format(self.repository),
                file=self._root,
            )
        return done.stdout.decode("utf-8", "surrogateescape")

    def _environment(self, command: str) -> dict[str, str]:
        environment = {
            **without_fetching(os.environ),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_DIR": self.repository,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": path_list(object_directories(self._state_directory)[1:]),
            "GIT_INDEX_FILE": self._index,
            "LC_ALL": "C",
            **{f"GIT_{who}_{what}": _IDENTITY for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        return environment if command == "init" else {**environment, "GIT_WORK_TREE": self._root}


def _free_name(state_directory: str) -> str:
    number = 1
    while os.path.lexists(path := os.path.join(state_directory, f"{IMPORTED_PREFIX}{number}.git")):
        number += 1
    return path


def _remove_unfinished(folder: str) -> None:
    """Remove the objects that git has not finished."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith("tmp_"):
                remove_below(folder, name)


def run_git(
    command: Sequence[str], folder: str, environment: Mapping[str, str], text: str, passed: Sequence[int]
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end; it reads `text` and inherits the descriptors `passed`. Raises OSError.

    git says nothing while it takes in a large file; what it has written so far is all that can be seen from outside.
    """
    own = {name: value for name, value in environment.items() if name.startswith("GIT_")}
    data: bytes | None = text.encode("utf-8", "surrogateescape")
    pipe = subprocess.PIPE
    with (
        trace.Call(trace.GIT, command, folder=folder, variables=own, input=text) as call,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=passed
        ) as process,
        meter("snapshot", BYTES) as taking,
    ):
        try:
            while True:
                try:
                    out, err = process.communicate(data, _LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    data = None
                    taking.update(_written(process.pid))
        except BaseException:
            process.kill()
            raise
        call.end(process.returncode, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _written(pid: int) -> int:
    """Bytes that a process has written; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("wchar")), 0)
    except (OSError, ValueError, IndexError):
        return 0
