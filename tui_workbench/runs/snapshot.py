"""The project as it was when a run was submitted: a commit in a hidden repository, and the run's working copy of it.

The user's own repository is never touched or needed: ours is a bare one under `.workbench/`, with its own index, no
user configuration and no filters, so files come back byte for byte. What `.gitignore` or `.amlignore` exclude (data
sets) is linked into the copy instead of copied. `outputs/` belongs to a run and is never part of a snapshot. Without
git the copy itself is all there is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import OUTPUTS, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REPOSITORY = "snapshots.git"
REFERENCES = "refs/runs"
"""Under it stands each run's commit."""

IGNORE_FILE = ".amlignore"
NEVER_TAKEN = (".workbench", ".git", "__pycache__")
"""Folders, wherever they are, that are not in the snapshot and not linked either: ours, git's, caches."""

_EXCLUDE = "".join(f"{name}/\n" for name in NEVER_TAKEN) + f"/{OUTPUTS}/\n"
# Line ends, keywords and LFS filters of the user's .gitattributes would change bytes on the way in or out.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"
_SETTINGS = (
    "core.excludesFile=/dev/null",
    "core.attributesFile=/dev/null",
    # Names that only Windows or macOS could not hold are good names here.
    "core.protectNTFS=false",
    "core.protectHFS=false",
    # One flush for all objects instead of one for each.
    "core.fsyncMethod=batch",
    "gc.auto=0",
    "advice.addEmbeddedRepo=false",
)
_IDENTITY = "workbench-tui"
_PEOPLE = ("AUTHOR", "COMMITTER")
_LINK, _REPOSITORY = "120000", "160000"
_REMEDY = "Is the disk full? Else move {} away, which loses the snapshots of earlier runs, or set `TrackedRun: false`."


def is_never_taken(path: str) -> bool:
    """True for a path, relative to the project, that no snapshot holds and no working copy links."""
    parts = path.split(os.sep)
    return parts[0] == OUTPUTS or any(part in NEVER_TAKEN for part in parts)


class Snapshot(NamedTuple):
    """A commit id in the hidden repository, empty where there is no git; `kind` is `git`, `copy` or `none`."""

    kind: str
    commit_id: str = ""


class SnapshotStore:
    """The hidden repository of a project. `state_directory` is the project's `.workbench/`."""

    def __init__(self, project_root: str, state_directory: str) -> None:
        self._root = project_root
        self.repository = os.path.join(state_directory, REPOSITORY)
        self._git = _find_git()
        self._lock = -1
        self._index = os.path.join(self.repository, "index")

    @property
    def available(self) -> bool:
        """True where there is git."""
        return bool(self._git)

    def commands(self, working_copy: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The git commands of taking a snapshot and of making the copy, for the plan."""
        git = self._git or "git"
        return (git, "add", "--all"), (git, "checkout-index", "--all", f"--prefix={working_copy}/")

    def take(self, run_id: str, working_copy: str) -> Snapshot:
        """Record the project as it is and make `working_copy` of it, which only this user may read.

        Raises StorageError; a half-made copy is then left behind. Two submits at once take turns: they share one index.
        """
        try:
            os.makedirs(working_copy, mode=0o700)
            if not self.available:
                from tui_workbench.runs.plaincopy import copy_tree

                copy_tree(self._root, working_copy, IGNORE_FILE)
                return Snapshot("copy")
            with self.exclusive():
                return self._take(run_id, working_copy)
        except OSError as error:
            raise storage_error("make", error.filename or working_copy, error) from error

    def record(self, reference: str, message: str) -> str:
        """Record the project as it is under a reference, without a copy; returns the commit id. Raises StorageError.

        There must be git.
        """
        with self.exclusive():
            return self._record(reference, message)[0]

    def keep(self, reference: str, commit: str) -> None:
        """Let another reference hold a commit as well. Raises StorageError."""
        with self.exclusive():
            self.git("update-ref", reference, commit)

    def holds(self, commit: str, path: str = "") -> bool:
        """True when the commit is here, and in it a file at `path` where one is named."""
        if not self.available or not os.path.isdir(self.repository):
            return False
        name = f"{commit}:{path}" if path else f"{commit}^{{commit}}"
        try:
            with self.exclusive():
                return self.git("cat-file", "-t", name).strip() == ("blob" if path else "commit")
        except StorageError:
            return False

    def check_out(self, commit: str, working_copy: str) -> None:
        """Make `working_copy`, which only this user may read, of a commit; what is excluded is linked as ever.

        Raises StorageError; a half-made copy is then left behind.
        """
        try:
            os.makedirs(working_copy, mode=0o700, exist_ok=True)
            with self.exclusive(), self.index_of(commit):
                self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
                for path, mode in self._entries():
                    if mode == _LINK:
                        redirect_link(self._root, working_copy, path)
                self._link_excluded(working_copy, *self._exclusions_of(working_copy))
            os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)
        except OSError as error:
            raise storage_error("make", error.filename or working_copy, error) from error

    @contextlib.contextmanager
    def index_of(self, commit: str) -> Iterator[None]:
        """Let git commands see an index that holds a commit and not the project."""
        usual, self._index = self._index, os.path.join(self.repository, "commit-index")
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._index)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._index}.lock")
            self.git("read-tree", commit)
            yield
        finally:
            self._index = usual

    def _take(self, run_id: str, working_copy: str) -> Snapshot:
        commit, links = self._record(f"{REFERENCES}/{run_id}", run_id)
        self.git("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
        for path in links:
            redirect_link(self._root, working_copy, path)
        self._link_excluded(working_copy)
        os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)
        return Snapshot("git", commit)

    def tree(self) -> str:
        """Git's name for the project as it is. Raises StorageError."""
        with self.exclusive():
            return self._tree()[0]

    def _record(self, reference: str, message: str) -> tuple[str, list[str]]:
        """The commit of the project as it is, and the symbolic links in it."""
        tree, links = self._tree()
        commit = self.git("commit-tree", tree, "-m", message).strip()
        self.git("update-ref", reference, commit)
        return commit, links

    def _tree(self) -> tuple[str, list[str]]:
        try:
            links = self._update_index()
        except StorageError:
            # The index only saves work. One that a crash of the machine damaged is made anew.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._index)
            links = self._update_index()
        return self.git("write-tree").strip(), links

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Have the repository to oneself: two submits at once take turns. Raises StorageError."""
        if self._lock >= 0:
            yield
            return
        try:
            os.makedirs(self.repository, mode=0o700, exist_ok=True)
            self._lock = os.open(os.path.join(self.repository, "workbench.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise storage_error("write", self.repository, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._prepare()
            yield
        finally:
            os.close(self._lock)
            self._lock = -1

    def _prepare(self) -> None:
        if not os.path.exists(os.path.join(self.repository, "HEAD")):
            self.git("init", "--quiet", "--bare", "--template=", self.repository)
        # Left by a git that was killed: ours is held, and held by every git that we started, so nobody is using it.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._index}.lock")
        exclude = _EXCLUDE
        with (
            contextlib.suppress(OSError),
            open(os.path.join(self._root, IGNORE_FILE), encoding="utf-8-sig", errors="surrogateescape") as file,
        ):
            exclude += file.read()
        _write_if_changed(os.path.join(self.repository, "info", "exclude"), exclude)
        _write_if_changed(os.path.join(self.repository, "info", "attributes"), _ATTRIBUTES)

    def _update_index(self) -> list[str]:
        """Make the index say what the project holds now. Returns the symbolic links in it."""
        complete = self._add_all()
        entries = self._entries()
        nested = [path for path, mode in entries if mode == _REPOSITORY]
        if not complete:
            # Repositories without a commit, which git does not take at all.
            listing = self.names("ls-files", "--others", "--exclude-standard")
            nested += [name.rstrip("/") for name in listing if name.endswith("/")]
        if nested:
            self._add_nested(nested)
            entries = self._entries()
        # What was taken before it was excluded, and what a `!` in an ignore file brings back against an exclusion.
        excluded = set(self.names("ls-files", "--cached", "--ignored", "--exclude-standard"))
        if os.path.isfile(os.path.join(self._root, IGNORE_FILE)):
            excluded.update(self.names("ls-files", "--cached", "--ignored", "-X", IGNORE_FILE))
        excluded.update(path for path, _ in entries if is_never_taken(path))
        if excluded:
            self.git("update-index", "-z", "--force-remove", "--stdin", stdin=excluded)
        return [path for path, mode in entries if mode == _LINK and path not in excluded]

    def _add_all(self) -> bool:
        """Put every file into the index; False when git passed over something. Raises StorageError.

        What cannot be read is passed over, and linked later.
        """
        for attempt in (1, 2):  # a file that shrinks while it is read fails once
            try:
                self.git("add", "--all", "--ignore-errors")
            except StorageError:
                missing = self.names("ls-files", "--others", "--exclude-standard")
                lost = [name for name in missing if self._could_be_taken(name)]
                if not lost:
                    return False
                if attempt == 2:
                    raise
            else:
                return True
        return False

    def _could_be_taken(self, name: str) -> bool:
        return not name.endswith("/") and os.access(os.path.join(self._root, name), os.R_OK)

    def _entries(self) -> list[tuple[str, str]]:
        """Path and mode of everything in the index."""
        found = []
        for entry in self.names("ls-files", "--stage"):
            about, _, path = entry.partition("\t")
            found.append((path, about[:6]))
        return found

    def _add_nested(self, nested: list[str]) -> None:
        """Put the files of repositories inside the project into the index, where git by itself notes their commit."""
        links = "".join(f"0 {'0' * 40}\t{folder}\0" for folder in nested)
        self.git("update-index", "-z", "--index-info", stdin=[links[:-1]])
        files: list[str] = []
        while nested:
            folder = nested.pop()
            # Seen through our repository, with no index, it is a folder like any other, and need not even be sound.
            listing = self.names("ls-files", "--others", "--exclude-standard", work_tree=folder)
            for name in listing:
                (nested if name.endswith("/") else files).append(f"{folder}/{name}".rstrip("/"))
        readable = [path for path in files if os.access(os.path.join(self._root, path), os.R_OK)]
        if readable:
            self.git("update-index", "-z", "--add", "--remove", "--stdin", stdin=readable)

    def _exclusions_of(self, working_copy: str) -> list[str]:
        """Options with which git lists what the project excludes, by its rules of now and by those of the copy."""
        files = [os.path.join(working_copy, name) for name in (".gitignore", IGNORE_FILE)]
        options = [word for path in files if os.path.isfile(path) for word in ("-X", path)]
        return ["--ignored", "--exclude-standard", *options]

    def _link_excluded(self, working_copy: str, *options: str) -> None:
        """Link what is in the project but not in the snapshot: excluded files, whole excluded folders.

        Empty folders, of which no snapshot knows, are made.
        """
        for name in self.names("ls-files", "--others", "--directory", *options):
            path = name.rstrip("/")
            if not path or is_never_taken(path):
                continue
            source, copy = os.path.join(self._root, path), os.path.join(working_copy, path)
            if os.path.lexists(copy) or not leads_through_folders(working_copy, path):
                continue
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.islink(source) or not _make_if_empty(source, copy):
                os.symlink(source, copy)

    def names(self, *arguments: str, work_tree: str = "") -> list[str]:
        """What a git command lists."""
        command, *rest = arguments
        return [name for name in self.git(command, "-z", *rest, work_tree=work_tree).split("\0") if name]

    def git(self, *arguments: str, stdin: Iterable[str] = (), work_tree: str = "") -> str:
        """The output of a git command; `stdin` are strings that it reads, each ended by a NUL.

        `work_tree` is a folder of the project, of which nothing is known beforehand. Raises StorageError.
        """
        from tui_workbench.runs.gitcall import run_git

        command = [self._git, *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments]
        folder = os.path.join(self._root, work_tree)
        text = "".join(f"{each}\0" for each in stdin)
        done = run_git(command, folder, self._environment(arguments[0], work_tree), text, (self._lock,))
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise StorageError(
                f"the snapshot failed: git {arguments[0]}: {said or f'exit code {done.returncode}'}",
                remedy=_REMEDY.format(self.repository),
                file=self._root,
            )
        return done.stdout.decode("utf-8", "surrogateescape")

    def _environment(self, command: str, work_tree: str) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment.update(
            GIT_CONFIG_NOSYSTEM="1",
            GIT_CONFIG_GLOBAL=os.devnull,
            GIT_DIR=self.repository,
            GIT_INDEX_FILE=self._index if not work_tree else os.path.join(self.repository, "no-index"),
            LC_ALL="C",
        )
        environment.update({f"GIT_{who}_{what}": _IDENTITY for who in _PEOPLE for what in ("NAME", "EMAIL")})
        if command != "init":
            environment["GIT_WORK_TREE"] = os.path.join(self._root, work_tree)
        return environment


def leads_through_folders(root: str, path: str) -> bool:
    """False when something on the way from `root` to `path` is no folder, but a file or a link to elsewhere."""
    folder = os.path.dirname(path)
    while folder:
        whole = os.path.join(root, folder)
        if os.path.lexists(whole) and (os.path.islink(whole) or not os.path.isdir(whole)):
            return False
        folder = os.path.dirname(folder)
    return True


def redirect_link(root: str, working_copy: str, path: str) -> None:
    """Let a relative link that leads out of the project lead to the same place from the working copy."""
    link = os.path.join(working_copy, path)
    leads = os.readlink(link)
    inside = os.path.normpath(os.path.join(os.path.dirname(path), leads))
    if not os.path.isabs(leads) and (inside == os.pardir or inside.startswith(os.pardir + os.sep)):
        os.unlink(link)
        os.symlink(os.path.join(root, os.path.dirname(path), leads), link)


def _find_git() -> str:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder or ".", "git")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _write_if_changed(path: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read() == data:
            return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.new"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def _make_if_empty(source: str, copy: str) -> bool:
    """Make the same folders as in `source` when it holds nothing but folders; True then."""
    if not os.path.isdir(source) or any(files for _, _, files in os.walk(source)):
        return False
    for folder, _, _ in os.walk(source):
        os.makedirs(os.path.join(copy, os.path.relpath(folder, source)), exist_ok=True)
    return True
