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
import subprocess

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import OUTPUTS, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = "snapshots.git"
IGNORE_FILE = ".amlignore"
NEVER_TAKEN = (".workbench", ".git", "__pycache__", OUTPUTS)
"""Not in the snapshot and not linked either: ours, git's, caches, and what belongs to one run alone."""

_EXCLUDE = "".join(f"/{name}/\n" if name == OUTPUTS else f"{name}/\n" for name in NEVER_TAKEN)
# Line ends, keywords and LFS filters of the user's .gitattributes would change bytes on the way in or out.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"
_IDENTITY = "workbench-tui"
_PEOPLE = ("AUTHOR", "COMMITTER")


class Snapshot(NamedTuple):
    """A commit id in the hidden repository, or an empty one where there is no git; `kind` is `git` or `copy`."""

    kind: str
    commit_id: str = ""


class SnapshotStore:
    """The hidden repository of a project. `state_directory` is the project's `.workbench/`."""

    def __init__(self, project_root: str, state_directory: str) -> None:
        self._root = project_root
        self.repository = os.path.join(state_directory, REPOSITORY)
        self._git = _find_git()

    @property
    def available(self) -> bool:
        """True where there is git."""
        return bool(self._git)

    def commands(self, working_copy: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The git commands of taking a snapshot and of making the copy, for the plan."""
        git = self._git or "git"
        return (git, "add", "--all"), (git, "checkout-index", "--all", f"--prefix={working_copy}/")

    def take(self, run_id: str, working_copy: str) -> Snapshot:
        """Record the project as it is and make `working_copy` of it.

        Raises StorageError; a half-made copy is then left behind. Two submits at once take turns: they share one index.
        """
        os.makedirs(working_copy)
        if not self.available:
            from tui_workbench.runs.plaincopy import copy_tree

            copy_tree(self._root, working_copy, NEVER_TAKEN, IGNORE_FILE)
            return Snapshot("copy")
        with self._exclusive():
            self._add_all()
            self._add_nested_repositories()
            tree = self._run("write-tree").strip()
            commit = self._run("commit-tree", tree, "-m", run_id).strip()
            self._run("update-ref", f"refs/runs/{run_id}", commit)
            self._run("checkout-index", "--all", "--force", f"--prefix={working_copy}/")
            self._link_excluded(working_copy)
        os.makedirs(os.path.join(working_copy, OUTPUTS), exist_ok=True)
        return Snapshot("git", commit)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            os.makedirs(self.repository, exist_ok=True)
            descriptor = os.open(os.path.join(self.repository, "workbench.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise storage_error("write", self.repository, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._prepare()
            yield
        finally:
            os.close(descriptor)

    def _prepare(self) -> None:
        if not os.path.exists(os.path.join(self.repository, "HEAD")):
            self._run("init", "--quiet", "--bare", self.repository)
        # A lock that git left when it was killed; ours is held, so nobody is using it.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.repository, "index.lock"))
        exclude = _EXCLUDE
        with (
            contextlib.suppress(OSError),
            open(os.path.join(self._root, IGNORE_FILE), encoding="utf-8", errors="surrogateescape") as f,
        ):
            exclude += f.read()
        _write_if_changed(os.path.join(self.repository, "info", "exclude"), exclude)
        _write_if_changed(os.path.join(self.repository, "info", "attributes"), _ATTRIBUTES)

    def _add_all(self) -> None:
        """Put every file into the index.

        One that cannot be read is linked later; any other failure raises StorageError.
        """
        try:
            self._run("add", "--all", "--ignore-errors")
        except StorageError:
            missing = self._run("ls-files", "--others", "--exclude-standard", "-z").split("\0")
            if any(name and os.access(os.path.join(self._root, name), os.R_OK) for name in missing):
                raise

    def _add_nested_repositories(self) -> None:
        """Put the files of repositories inside the project into the index.

        Git by itself would note only their commit.
        """
        nested = [
            entry.partition("\t")[2]
            for entry in self._run("ls-files", "--stage", "-z").split("\0")
            if entry.startswith("160000")
        ]
        for folder in nested:
            listing = self._run(
                "-C", os.path.join(self._root, folder), "ls-files", "-co", "--exclude-standard", "-z", own=False
            )
            paths = [os.path.join(folder, name) for name in listing.split("\0") if name]
            entries = [f"0 {'0' * 40}\t{folder}"]
            files = [path for path in paths if os.path.isfile(os.path.join(self._root, path))]
            if files:
                # One path a line is all that hash-object reads: names with line ends are hashed one by one.
                plain = [path for path in files if "\n" not in path]
                hashes = self._run(
                    "hash-object", "-w", "--no-filters", "--stdin-paths", stdin="\n".join(plain) + "\n"
                ).split()
                entries += [_index_entry(self._root, path, name) for path, name in zip(plain, hashes, strict=True)]
                for path in files:
                    if "\n" in path:
                        name = self._run("hash-object", "-w", "--no-filters", "--", path).strip()
                        entries.append(_index_entry(self._root, path, name))
            self._run("update-index", "-z", "--index-info", stdin="\0".join(entries) + "\0")

    def _link_excluded(self, working_copy: str) -> None:
        """Link what is in the project but not in the snapshot.

        Excluded files, whole excluded folders, empty folders.
        """
        listing = self._run("ls-files", "--others", "--directory", "-z")
        for name in listing.split("\0"):
            path = name.rstrip("/")
            if not path or any(part in NEVER_TAKEN for part in path.split("/")):
                continue
            source, link = os.path.join(self._root, path), os.path.join(working_copy, path)
            if os.path.lexists(link):
                continue
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if name.endswith("/") and not os.path.islink(source) and _is_empty_tree(source):
                os.makedirs(link)
            else:
                os.symlink(source, link)

    def _run(self, *arguments: str, stdin: str = "", own: bool = True) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment.update(GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, LC_ALL="C")
        if own:
            environment.update(GIT_DIR=self.repository, GIT_INDEX_FILE=os.path.join(self.repository, "index"))
            environment.update({f"GIT_{who}_{what}": _IDENTITY for who in _PEOPLE for what in ("NAME", "EMAIL")})
            if arguments[0] != "init":
                environment["GIT_WORK_TREE"] = self._root
        done = subprocess.run(
            [
                self._git,
                "-c",
                "core.quotePath=false",
                "-c",
                "gc.auto=0",
                "-c",
                "advice.addEmbeddedRepo=false",
                *arguments,
            ],
            cwd=self._root,
            env=environment,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise StorageError(
                f"the snapshot failed: git {arguments[0]}: {said or f'exit code {done.returncode}'}",
                remedy="Free disk space, or set `TrackedRun: false` to run in place.",
                file=self._root,
            )
        return done.stdout.decode("utf-8", "surrogateescape")


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


def _index_entry(root: str, path: str, name: str) -> str:
    executable = os.access(os.path.join(root, path), os.X_OK)
    return f"{'100755' if executable else '100644'} {name}\t{path}"


def _is_empty_tree(folder: str) -> bool:
    return not any(files for _, _, files in os.walk(folder))
