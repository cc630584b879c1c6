"""The files of a project, sorted by what a tracked run gets of them, and why a run did not get one.

A snapshot holds what no ignore file excludes. What `.gitignore` excludes is copied into the run's working copy. What
`DataReferences` names is linked there. What `.amlignore` excludes, caches and virtual environments are left out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from tui_workbench.config.schema.data_references import IGNORE_FILE, data_in_project
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import COMPUTE_SUFFIX
from tui_workbench.runs.snapshots.ignore import IgnoreFile, is_excluded, read_ignore_file
from tui_workbench.runs.store.rundir import OUTPUTS, WORKING_COPY, Ending, Record
from tui_workbench.targets.base.values import PROJECT_IN_CONTAINER, RUN_IN_CONTAINER

GIT_IGNORE = ".gitignore"
NEVER_TAKEN = (
    ".workbench", ".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints", ".tox",
    ".nox",
)  # fmt: skip
"""Names, wherever they are, that no run gets: the workbench's own folder, git's, and caches of tools."""

ENVIRONMENT_MARKS = frozenset(("pyvenv.cfg", "conda-meta"))
"""A folder with one of them is a virtual environment, and cannot be used from another place."""

LONGEST_PATH = 4095
"""Bytes of a path that Linux takes."""


_NOT_FOUND = re.compile(
    r"""(?:FileNotFoundError|No such file or directory|unable to open file)[^'"]*['"]([^'"]+)['"]"""
)

RECENT_RUNS = 20
"""So many of the latest runs are asked whether they made the file."""


class Kind(StrEnum):
    """What a run gets of a path: nothing of what `.amlignore` excludes, of an environment, or of a secret."""

    SNAPSHOT = "snapshot"
    COPIED = "copied"
    LINKED = "linked"
    LEFT_OUT = "left out"
    ENVIRONMENT = "environment"
    SECRET = "secret"
    UNREADABLE = "unreadable"
    TOO_LONG = "too long"


_PLAIN_SECRET = re.compile(
    rb"""
    \b(?:password|privateKeyPassphrase)["']?[ \t]*:[ \t]*
    (?:
        ["']?(?!AzureMlSecret=|null\b)[^\s"'#,}~]  # on the same line
        | \r?\n\s*(?:-\s+)?["']?(?!AzureMlSecret=|[\w.]+["']?[ \t]*:(?:\s|\Z))[^\s"'#,}~]  # on the next one
    )
    """,
    re.VERBOSE,
)
"""A password in YAML that need not be sound: rather found once too often."""

_LARGEST_CONFIGURATION = 1 << 20


class Item(NamedTuple):
    """A file, link or folder of the project. `path` is relative to the project; `kind` is what a run gets of it."""

    path: str
    kind: Kind
    status: os.stat_result | None = None
    begins: bool = False  # the topmost path of what an ignore file excludes

    @property
    def is_folder(self) -> bool:
        """True for a folder that is not passed over."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return self.status is not None and stat.S_ISLNK(self.status.st_mode)


def is_never_taken(path: str) -> bool:
    """True for a path, relative to the project, that no run gets."""
    parts = path.split(os.sep)
    return parts[0] == OUTPUTS or any(part in NEVER_TAKEN for part in parts)


def holds_secret(root: str, path: str) -> bool:
    """True for a `.compute` file that holds a password itself where a reference to the keyring belongs."""
    if os.path.dirname(path) != CONFIG_DIRECTORY or not path.endswith(COMPUTE_SUFFIX):
        return False
    try:
        with open(os.path.join(root, path), "rb") as file:
            return _PLAIN_SECRET.search(file.read(_LARGEST_CONFIGURATION)) is not None
    except OSError:
        return False


def files_with_secrets(root: str) -> list[str]:
    """The `.compute` files of the project that hold a password, as paths relative to it."""
    try:
        names = sorted(os.listdir(os.path.join(root, CONFIG_DIRECTORY)))
    except OSError:
        return []
    return [path for name in names if holds_secret(root, path := os.path.join(CONFIG_DIRECTORY, name))]


def project_files(root: str, data: Collection[str] = (), *, beside: str = "", room: int = 0) -> Iterator[Item]:
    """Every file, link and folder of the project at `root`, a folder before what is in it.

    `data` are paths that are linked. The ignore files at the top of the folder `beside`, an older state of the project,
    exclude as well. `room` is the length of the longest folder that the project is copied to. Sockets, pipes, devices
    and what no run gets are passed over. Raises OSError when `root` cannot be read.
    """
    always = [read_ignore_file(each, "", IGNORE_FILE) for each in (root, beside) if each]
    above = (read_ignore_file(beside, "", GIT_IGNORE),) if beside else ()
    for path in sorted(data):
        yield Item(path, Kind.LINKED)
    walk = _Walk(root, frozenset(data), always, LONGEST_PATH - room)
    yield from walk.sorted_out("", walk.entries(""), Kind.SNAPSHOT, above)


class _Walk(NamedTuple):
    root: str
    data: frozenset[str]
    always: Sequence[IgnoreFile]
    longest: int

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        with os.scandir(os.path.join(self.root, folder)) as entries:
            return sorted(entries, key=lambda entry: entry.name)

    def sorted_out(
        self, folder: str, entries: list[os.DirEntry[str]], kind: Kind, above: tuple[IgnoreFile, ...]
    ) -> Iterator[Item]:
        if kind == Kind.SNAPSHOT and any(entry.name == GIT_IGNORE for entry in entries):
            # What the deepest folder's file says counts.
            above = (read_ignore_file(self.root, folder, GIT_IGNORE), *above)
        for entry in entries:
            name = entry.name
            path = f"{folder}/{name}" if folder else name
            if name in NEVER_TAKEN or path == OUTPUTS or path in self.data:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if any(file.verdict(path, is_folder=is_folder) for file in self.always):
                yield Item(path, Kind.LEFT_OUT)
                continue
            excluded = kind == Kind.SNAPSHOT and is_excluded(path, is_folder=is_folder, files=above)
            here = Kind.COPIED if excluded else kind
            if len(os.fsencode(path)) >= self.longest:
                yield Item(path, Kind.TOO_LONG)
            elif is_folder:
                yield from self._folder(entry, path, here, above, begins=excluded)
            else:
                yield from self._file(entry, path, here, begins=excluded)

    def _folder(
        self, entry: os.DirEntry[str], path: str, kind: Kind, above: tuple[IgnoreFile, ...], *, begins: bool
    ) -> Iterator[Item]:
        try:
            status, entries = entry.stat(follow_symlinks=False), self.entries(path)
        except FileNotFoundError:
            return
        except OSError:
            yield Item(path, Kind.UNREADABLE)
            return
        if any(each.name in ENVIRONMENT_MARKS for each in entries):
            yield Item(path, Kind.ENVIRONMENT)
            return
        yield Item(path, kind, status, begins)
        yield from self.sorted_out(path, entries, kind, above)

    def _file(self, entry: os.DirEntry[str], path: str, kind: Kind, *, begins: bool) -> Iterator[Item]:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode):
            everybody = status.st_mode & 0o444 == 0o444
            if not everybody and not os.access(entry.path, os.R_OK):
                kind = Kind.UNREADABLE
            elif holds_secret(self.root, path):
                kind = Kind.SECRET
        elif not stat.S_ISLNK(status.st_mode):
            return
        yield Item(path, kind, status, begins)


def explained(record: Record, ending: Ending) -> Ending:
    """The ending with the cause, where the script of a tracked run did not find a file that its project has."""
    if ending.state != RunState.FAILED or not record.spec.tracked:
        return ending
    found = _NOT_FOUND.search(ending.reason)
    cause = cause_of(record.spec, found[1]) if found is not None else ""
    return ending._replace(reason=f"{ending.reason}; {visible(cause)}") if cause else ending


def cause_of(spec: RunSpec, name: str) -> str:
    """Why a run did not find the file `name`, and the remedy; "" when its project has no such file."""
    path = _in_project(spec, name)
    if not path:
        return ""
    if path.startswith(os.pardir):
        return _outside(spec, path)
    if not os.path.lexists(os.path.join(spec.project_root, path)):
        return _made_by_another(spec, path)
    if path.split(os.sep)[0] == OUTPUTS:
        return f"{OUTPUTS}/ of the project belongs to no run; keep files that runs read in another folder"
    if is_never_taken(path):
        return f"{path} is in the project, but no run gets it"
    return _not_given(spec, path)


def _in_project(spec: RunSpec, name: str) -> str:
    """The path relative to the project, whatever folder the run saw it in; "" when it is none."""
    if not os.path.isabs(name):
        return os.path.normpath(name)
    for folder in (spec.working_directory, f"{RUN_IN_CONTAINER}/{WORKING_COPY}", PROJECT_IN_CONTAINER):
        if name.startswith(f"{folder}/"):
            return os.path.relpath(name, folder)
    _, copy, path = name.partition(f"/{spec.run_id}/{WORKING_COPY}/")
    return os.path.normpath(path) if copy else ""


def _outside(spec: RunSpec, path: str) -> str:
    whole = os.path.normpath(os.path.join(spec.project_root, path))
    top = whole
    while not os.path.lexists(top) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    if top == os.path.normpath(os.path.join(spec.project_root, os.pardir)) or spec.project_root.startswith(f"{top}/"):
        return ""
    if spec.target.kind.is_remote:
        return f"{path} is outside of the project and is not sent to {spec.target.name}: name a path that is there"
    return (
        f"{path} is outside of the project, and a tracked run works in a copy elsewhere: use the path {whole}, or a "
        f"link in the project"
    )


def _made_by_another(spec: RunSpec, path: str) -> str:
    """That an earlier run made the file, and how it comes into the project."""
    folder = os.path.dirname(spec.run_directory)
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and name != spec.run_id)
    except OSError:
        return ""
    for name in reversed(names[-RECENT_RUNS:]):
        if os.path.lexists(os.path.join(folder, name, WORKING_COPY, path)):
            return (
                f"the run {name} made {path}: `workbench-tui history download -r {name} --into-project -a "
                f"{WORKING_COPY}/{path}` brings it into the project"
            )
    return ""


def _not_given(spec: RunSpec, path: str) -> str:
    """Why the run did not get a file that is in the project now."""
    target, is_remote = spec.target.name, spec.target.kind.is_remote
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    try:
        kinds = {item.path: item.kind for item in project_files(spec.project_root, data)}
    except OSError:
        return ""
    top = path
    while top not in kinds and os.path.dirname(top):
        top = os.path.dirname(top)
    kind = kinds.get(top, "")
    if kind == Kind.LEFT_OUT:
        return (
            f"{top} is left out of runs by {IGNORE_FILE}: take it out of there, or declare it as data, "
            f"`DataReferences: [{top}]`"
        )
    if kind == Kind.ENVIRONMENT:
        return f"{top} is a virtual environment, and no run gets one"
    if kind == Kind.LINKED and is_remote:
        return f"{top} is data on this machine, and not on {target}: name its absolute path there in DataReferences"
    if kind == Kind.COPIED and is_remote and is_secret_file(path):
        return f"{path} holds secrets by its name, and such ignored files are not sent to {target}"
    if kind in (Kind.SNAPSHOT, Kind.COPIED):
        return f"{path} is in the project now, and was not when the run got its copy"
    return f"{top} could not be copied for the run" if kind else ""
