"""Classify the files of a project for tracked runs, and find the reason why a run did not get a file.

A snapshot contains the files that no ignore file excludes. Files that `.gitignore` excludes are copied to the working
copy, and the working copy has links to `DataReferences`. Runs do not get caches, virtual environments or files that
`.amlignore` excludes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from tui_workbench.config.schema.data_references import (
    IGNORE_FILE,
    NO_DATA,
    data_beside,
    data_in_project,
    data_problems,
)
from tui_workbench.config.secret_values import RUN_CONFIGURATION_SUFFIX, Unreadable, copy_for_snapshot, looks_secret
from tui_workbench.core.causes import MISSING_FILE, RAISED, Cause
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import open_file
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import COMPUTE_SUFFIX
from tui_workbench.runs.snapshots.ignore import IgnoreFile, is_excluded, read_ignore_file
from tui_workbench.runs.store.rundir import OUTPUTS, WORKING_COPY, Ending, Record
from tui_workbench.targets.values import PROJECT_IN_CONTAINER, RUN_IN_CONTAINER

GIT_IGNORE = ".gitignore"
NEVER_TAKEN = frozenset((
    ".workbench", ".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints", ".tox",
    ".nox", ".DS_Store",
))  # fmt: skip
"""Names of files and folders that no run gets: the state of the workbench, git and macOS, and caches of tools."""

APPLE_DOUBLE = "._"
"""Prefix of files that no run gets: macOS writes the attributes of FILE to ._FILE if the file system stores none."""

ENVIRONMENT_MARKS = frozenset(("pyvenv.cfg", "conda-meta"))
"""A folder with one of these entries is a virtual environment, which does not work in another folder."""

LONGEST_PATH = 4095  # maximum length of a path on Linux, in bytes
_LONGEST_CHARACTER = 4  # bytes of the longest character in UTF-8


_NOT_FOUND = re.compile(
    r"""(?:FileNotFoundError|No such file or directory|unable to open file)[^'"]*['"]([^'"]+)['"]"""
)

RECENT_RUNS = 20  # number of latest runs that are searched for a missing file


class Kind(StrEnum):
    """How a run gets a path. A run only gets paths of the kinds SNAPSHOT, COPIED and LINKED."""

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
        | \r?\n\s*(?:-\s+)?["']?(?!AzureMlSecret=|[\w.]+["']?[ \t]*:(?:\s|\Z))[^\s"'#,}~]  # on the next line
    )
    """,
    re.VERBOSE,
)
"""A password in YAML, which may be malformed. A false positive is better than a missed password."""

_LARGEST_CONFIGURATION = 1 << 20


class Item(NamedTuple):
    """A file, link or folder of the project. `path` is relative to the project."""

    path: str
    kind: Kind
    status: os.stat_result | None = None
    is_top: bool = False  # True for the topmost path that an ignore file excludes
    data: str = ""  # of kind LINKED: the absolute path of the data

    @property
    def is_folder(self) -> bool:
        """True for a folder that a run gets."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return self.status is not None and stat.S_ISLNK(self.status.st_mode)


def is_never_taken(path: str) -> bool:
    """Return True if no run gets this path, which is relative to the project."""
    parts = path.split(os.sep)
    return parts[0] == OUTPUTS or any(_is_never_taken(part) for part in parts)


def _is_never_taken(name: str) -> bool:
    return name in NEVER_TAKEN or name.startswith(APPLE_DOUBLE)


def holds_secret(root: str, path: str) -> bool:
    """Return True for a file that no snapshot contains.

    It is a `.compute` file with a password instead of a reference, or a run configuration that is not valid and may
    contain a secret. In other run configurations, secrets are replaced.
    """
    try:
        copy_for_snapshot(root, path, store=False)
    except Unreadable:
        return True
    if not path.endswith(COMPUTE_SUFFIX) or os.path.dirname(path) != CONFIG_DIRECTORY:
        return False
    try:
        with open_file(os.path.join(root, path)) as file:
            return _PLAIN_SECRET.search(file.read(_LARGEST_CONFIGURATION)) is not None
    except OSError:
        return False


def text_has_secret(path: str, data: bytes) -> bool:
    """Return True for the content of a configuration file that may have a secret. `path` has any parent folders."""
    folder, name = os.path.split(path)
    if os.path.basename(folder) != CONFIG_DIRECTORY:
        return False
    if name.endswith(COMPUTE_SUFFIX):
        return _PLAIN_SECRET.search(data) is not None
    return name.endswith(RUN_CONFIGURATION_SUFFIX) and looks_secret(data.decode("utf-8", "replace"))


def files_with_secrets(root: str) -> list[str]:
    """Return the paths of configuration files with secrets in plain text, relative to the project."""
    try:
        names = sorted(os.listdir(os.path.join(root, CONFIG_DIRECTORY)))
    except OSError:
        return []
    paths = [os.path.join(CONFIG_DIRECTORY, name) for name in names]
    return [path for path in paths if holds_secret(root, path) or copy_for_snapshot(root, path, store=False)]


def project_files(root: str, data: Mapping[str, str] = NO_DATA, *, old_root: str = "", room: int = 0) -> Iterator[Item]:
    """Yield the files, links and folders of the project at `root`. A folder precedes its entries.

    `data` contains the paths of kind LINKED, and the data that they lead to. The top-level ignore files of `old_root`,
    an older state of the project, apply too. `room` is the maximum length in bytes of the path to which the project is
    copied. `outputs/`, NEVER_TAKEN, APPLE_DOUBLE, sockets, pipes and devices are skipped. Raises OSError if `root`
    cannot be read, and StorageError if an ignore file cannot be used.
    """
    always = [read_ignore_file(folder, "", IGNORE_FILE) for folder in (root, old_root) if folder]
    above = (read_ignore_file(old_root, "", GIT_IGNORE),) if old_root else ()
    for path in sorted(data):
        yield Item(path, Kind.LINKED, data=data[path])
    walk = _Walk(root, frozenset(data), always, LONGEST_PATH - room)
    # The folder of the current item and its parents. With `yield from` in a recursion, each item would pass through a
    # generator for each level.
    opened = [walk.inside("", walk.entries(""), Kind.SNAPSHOT, above)]
    while opened:
        for entry in opened[-1]:
            if isinstance(entry, Item):
                yield entry
            else:
                yield entry.item
                opened.append(entry.items)
                break
        else:
            opened.pop()


class _Folder(NamedTuple):
    item: Item
    items: Iterator[Item | _Folder]  # what is in the folder


class _Walk(NamedTuple):
    root: str
    data: frozenset[str]
    always: Sequence[IgnoreFile]
    longest: int

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        with os.scandir(os.path.join(self.root, folder)) as entries:
            return sorted(entries, key=attrgetter("name"))

    def inside(
        self, folder: str, entries: list[os.DirEntry[str]], kind: Kind, above: tuple[IgnoreFile, ...]
    ) -> Iterator[Item | _Folder]:
        if kind == Kind.SNAPSHOT and any(entry.name == GIT_IGNORE for entry in entries):
            # The file of the deepest folder takes precedence.
            above = (read_ignore_file(self.root, folder, GIT_IGNORE), *above)
        start = f"{folder}/" if folder else ""
        paths = [start + entry.name for entry in entries]
        always = [file for file in self.always if file.may_match(paths)]
        ignoring = [file for file in above if file.may_match(paths)] if kind == Kind.SNAPSHOT else []
        for entry, path in zip(entries, paths, strict=True):
            if _is_never_taken(entry.name) or path == OUTPUTS or path in self.data:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if always and any(file.verdict(path, is_folder=is_folder) for file in always):
                yield Item(path, Kind.LEFT_OUT)
                continue
            excluded = bool(ignoring) and is_excluded(path, is_folder=is_folder, files=ignoring)
            item_kind = Kind.COPIED if excluded else kind
            if len(path) * _LONGEST_CHARACTER >= self.longest and len(os.fsencode(path)) >= self.longest:
                yield Item(path, Kind.TOO_LONG)
                continue
            item = (
                self._folder(entry, path, item_kind, above, is_top=excluded)
                if is_folder
                else self._file(entry, path, item_kind, is_top=excluded)
            )
            if item is not None:
                yield item

    def _folder(
        self, entry: os.DirEntry[str], path: str, kind: Kind, above: tuple[IgnoreFile, ...], *, is_top: bool
    ) -> Item | _Folder | None:
        try:
            status, entries = entry.stat(follow_symlinks=False), self.entries(path)
        except FileNotFoundError:
            return None
        except OSError:
            return Item(path, Kind.UNREADABLE)
        if any(inner.name in ENVIRONMENT_MARKS for inner in entries):
            return Item(path, Kind.ENVIRONMENT)
        return _Folder(Item(path, kind, status, is_top), self.inside(path, entries, kind, above))

    def _file(self, entry: os.DirEntry[str], path: str, kind: Kind, *, is_top: bool) -> Item | None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        mode = status.st_mode
        if stat.S_ISREG(mode):
            if mode & 0o444 != 0o444 and not os.access(entry.path, os.R_OK):
                kind = Kind.UNREADABLE
            elif holds_secret(self.root, path):
                kind = Kind.SECRET
        elif not stat.S_ISLNK(mode):
            return None
        return Item(path, kind, status, is_top)


def with_missing_file_cause(record: Record, ending: Ending) -> Ending:
    """Return the ending. If a tracked run failed because a file was missing, the causes say why it was missing."""
    if ending.state != RunState.FAILED or not record.spec.tracked:
        return ending
    name = next(filter(None, (_missing_file(cause.error) for cause in ending.causes if cause.kind in RAISED)), "")
    advice = visible(missing_file_cause(record.spec, name)) if name else ""
    return ending._replace(causes=(*ending.causes, Cause(MISSING_FILE, {"advice": advice}))) if advice else ending


def _missing_file(error: str) -> str:
    """Return the file that a program has not found, according to its error; "" if it has another cause."""
    match = _NOT_FOUND.search(error)
    return match[1] if match is not None else ""


def missing_file_cause(spec: RunSpec, name: str) -> str:
    """Return the reason why a run did not find the file `name`, with the remedy, or "" if the reason is unknown."""
    path = _in_project(spec, name)
    if not path:
        return ""
    if path.startswith(os.pardir):
        return _outside(spec, path)
    if not os.path.lexists(os.path.join(spec.project_root, path)):
        return _made_by_another(spec, path)
    if path.split(os.sep)[0] == OUTPUTS:
        return f"{OUTPUTS}/ of the project is never copied for runs; keep input files in another folder"
    if is_never_taken(path):
        return f"{path} is never copied for runs; keep input files in another folder"
    return _not_copied(spec, path)


def _in_project(spec: RunSpec, name: str) -> str:
    """Convert a path in the run to a path relative to the project, or to "" if it is outside."""
    if not os.path.isabs(name):
        return os.path.normpath(name)
    for folder in (spec.working_directory, f"{RUN_IN_CONTAINER}/{WORKING_COPY}", PROJECT_IN_CONTAINER):
        if name.startswith(f"{folder}/"):
            return os.path.relpath(name, folder)
    _, copy, path = name.partition(f"/{spec.run_id}/{WORKING_COPY}/")
    return os.path.normpath(path) if copy else ""


def _outside(spec: RunSpec, path: str) -> str:
    root, configuration, name = spec.project_root, spec.run_configuration, spec.target.name
    top = whole = os.path.normpath(os.path.join(root, path))
    while not os.path.lexists(top):
        top = os.path.dirname(top)
    opened = os.sep.join(path.split(os.sep)[:2])  # such as `../data`
    if f"{root}/".startswith(f"{top.rstrip('/')}/") or opened[3:] in data_beside(root, configuration.data_references):
        return ""
    is_remote = spec.target.kind.is_remote
    if not data_problems(root, {opened: opened}):
        line = f"DataReferences: {{{opened}: PATH}}" if is_remote else f"DataReferences: [{opened}]"
        if configuration.data_references:
            line = f"{opened}: PATH" if is_remote else opened
            line = f"{line}` to `DataReferences"
        where = f", where PATH is the absolute path of {opened} on {name}" if is_remote else ""
        return f"{opened} is outside the project: add `{line}` in {configuration.name}.runconfig{where}"
    if is_remote:
        return f"{path} is outside the project and is not sent to {name}: use the absolute path on that machine"
    return f"{path} is outside the project, and a tracked run uses a copy of the project: use the absolute path {whole}"


def _made_by_another(spec: RunSpec, path: str) -> str:
    """Return a text about an earlier run that wrote the file, with the command that copies the file, or ""."""
    folder = os.path.dirname(spec.run_directory)
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and name != spec.run_id)
    except OSError:
        return ""
    for name in reversed(names[-RECENT_RUNS:]):
        if os.path.lexists(os.path.join(folder, name, WORKING_COPY, path)):
            return (
                f"the run {name} wrote {path}; copy it into the project with `workbench-tui history download "
                f"-r {name} --into-project -a {WORKING_COPY}/{path}`"
            )
    return ""


def _not_copied(spec: RunSpec, path: str) -> str:
    """Return the reason why the run did not get a file that is in the project now, or "" if the reason is unknown."""
    target, is_remote = spec.target.name, spec.target.kind.is_remote
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    try:
        kinds = {item.path: item.kind for item in project_files(spec.project_root, data)}
    except (OSError, StorageError):
        return ""
    top = path
    while top not in kinds and os.path.dirname(top):
        top = os.path.dirname(top)
    kind = kinds.get(top, "")
    if kind == Kind.LEFT_OUT:
        line = f"{{{top}: PATH}}`, where PATH is its absolute path on {target}" if is_remote else f"[{top}]`"
        return (
            f"{IGNORE_FILE} excludes {top} from runs: remove that pattern, or declare {top} as data with "
            f"`DataReferences: {line}"
        )
    if kind == Kind.ENVIRONMENT:
        return f"{top} is a virtual environment, which is never copied for runs"
    if kind == Kind.LINKED:
        return ""
    if kind == Kind.COPIED and is_remote and is_secret_file(path):
        return f"{path} has the name of a secrets file, and ignored secrets files are not sent to {target}"
    if kind in (Kind.SNAPSHOT, Kind.COPIED):
        return f"{path} was added to the project after the run was submitted"
    return f"{top} could not be copied for the run" if kind else ""
