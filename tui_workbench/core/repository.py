"""Read the git repository of a project with git, but without its configuration.

The configuration and the attributes of a repository can name programs: filters, text converters, diff and merge
drivers, file system monitors, hooks, and extensions of git-lfs. Git therefore never uses the repository of a project.
It uses a temporary repository with an own configuration, and with copies of the index, the commit of HEAD, and the
files in `info`. Only the objects and the files of the project are used in place. No attribute can name a driver then,
because no driver is configured.

The configuration of the project is read as data. Only the settings in `_SETTINGS`, which describe the file system and
line endings, are taken over, with the values that are listed there. Of the user's configuration, only the ignore file
is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.directories import with_parents
from tui_workbench.core.files import open_below, open_new, read_below
from tui_workbench.core.git import (
    LIMIT_SECONDS,
    GitError,
    config_text,
    isolated_environment,
    make_repository,
    run_git,
    without_fetching,
)

LARGEST_INDEX = 256 << 20
"""Maximum size of an index in bytes. The index of 100,000 files has about 10 MB."""

_LARGEST_CONFIG = 1 << 20
_LARGEST_PATTERNS = 1 << 20  # of `exclude`, `attributes` and `sparse-checkout`
_LARGEST_REFERENCES = 64 << 20  # of `packed-refs`
_LARGEST_REFERENCE = 4096  # of HEAD, `.git`, `commondir` and a reference
_LARGEST_ALTERNATES = 64 << 10
_MOST_STORES = 32  # alternate object stores
_MOST_LINKS = 5  # symbolic references that follow each other

_BOOLEAN = ("true", "false")
_SETTINGS: Mapping[str, Sequence[str]] = {
    "core.filemode": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.precomposeunicode": _BOOLEAN,
    "core.trustctime": _BOOLEAN,
    "core.checkstat": ("default", "minimal"),
    "core.autocrlf": (*_BOOLEAN, "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.sparsecheckout": _BOOLEAN,
    "core.sparsecheckoutcone": _BOOLEAN,
    "extensions.objectformat": ("sha1", "sha256"),
    "status.showuntrackedfiles": ("no", "normal", "all"),
}
"""The settings of a project that are taken over, and their possible values. No value is a path or a program."""

_WORDS = {"": "true", "yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}

_OWN_SETTINGS = {
    "core.attributesfile": os.devnull,
    "core.hookspath": os.devnull,
    "core.fsmonitor": "false",
    "core.quotepath": "false",
    # Git reads smaller files as a whole, several at a time. Larger files count as binary files.
    "core.bigfilethreshold": "16m",
}

_COMMIT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_SHARED_INDEX = re.compile(r"sharedindex\.((?:[0-9a-f]{40}|[0-9a-f]{64}))")


class Repository(NamedTuple):
    """The folders of a repository, without links."""

    work_tree: str
    directory: str  # `.git`, or that of a linked work tree
    common: str  # the folder with objects and references, which linked work trees share

    def head_path(self) -> str:
        """Return the path of the file HEAD."""
        return os.path.join(self.directory, "HEAD")

    def index_path(self) -> str:
        """Return the path of the index."""
        return os.path.join(self.directory, "index")


class Head(NamedTuple):
    """The state of HEAD: the branch, or "" if it is detached; the commit ID, or "" before the first commit."""

    branch: str
    commit: str


class ProjectGit:
    """Git commands on the files and objects of a project, in a temporary repository."""

    def __init__(
        self, repository: Repository, head: Head, remote: str, environment: Mapping[str, str], seconds: float
    ) -> None:
        self.repository = repository
        self.head = head
        self.remote = remote
        """The URL of the first remote, or "". It can contain secrets."""
        self._environment = dict(environment)
        self._seconds = seconds

    def run(self, *arguments: str, folder: str = "", input: bytes = b"") -> bytes:
        """Run a git command in a folder, by default at the top of the work tree, and return its output.

        Raises GitError.
        """
        folder = os.path.realpath(folder) if folder else self.repository.work_tree
        return run_git(*arguments, environment=self._environment, folder=folder, input=input, timeout=self._seconds)


def find_repository(folder: str) -> Repository | None:
    """Return the repository that contains a folder, or None. Git is not started. Raises GitError."""
    for parent in with_parents(os.path.realpath(folder)):
        path = os.path.join(parent, ".git")
        if os.path.isdir(path):
            directory = os.path.realpath(path)
        elif os.path.isfile(path):
            directory = _directory_in(parent)
        else:
            continue
        # Git also ignores folders without HEAD.
        if os.path.lexists(os.path.join(directory, "HEAD")):
            return Repository(parent, directory, _common_directory(directory))
    return None


def read_head(repository: Repository) -> Head:
    """Return the branch and the commit of a repository. Raises GitError."""
    with _errors(repository.directory):
        text = read_below(repository.directory, "HEAD", _LARGEST_REFERENCE).strip()
        name = _referred(text)
        branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else ""
        # In a repository with reftable, HEAD has this name, and the reference is in the table.
        if branch == ".invalid" and os.path.isdir(os.path.join(repository.common, "reftable")):
            raise GitError(
                f"cannot read the references of {repository.directory}, because they have the format `reftable`",
                remedy="Convert them: `git refs migrate --ref-format=files`.",
            )
        for _ in range(_MOST_LINKS):
            if _COMMIT.fullmatch(text):
                return Head(branch, text.decode())
            if not name:
                break
            text = _reference(repository, name)
            name = _referred(text)
            if not text:
                return Head(branch, "")
    raise GitError(f"cannot read the repository {repository.directory}: HEAD is damaged")


@contextlib.contextmanager
def project_git(folder: str, seconds: float = LIMIT_SECONDS) -> Iterator[ProjectGit | None]:
    """Prepare git commands in the repository that contains a folder; yield None if there is none.

    `seconds` is the time limit of each command. Raises GitError.
    """
    repository = find_repository(folder)
    if repository is None:
        yield None
        return
    head = read_head(repository)
    settings = _settings_of(repository, seconds)
    own = _taken_over(settings) | _OWN_SETTINGS | _ignore_file(seconds)
    with tempfile.TemporaryDirectory(prefix="workbench-git-") as shadow:
        with _errors(repository.directory):
            objects = os.path.realpath(os.path.join(repository.common, "objects"))
            _check_stores([objects])
            make_repository(shadow, config_text(own), head.commit)
            _copy_files(repository, shadow)
        environment = {
            **isolated_environment(),
            "GIT_DIR": shadow,
            "GIT_WORK_TREE": repository.work_tree,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        remote = next((value for key, value in settings if key.startswith("remote.") and key.endswith(".url")), "")
        yield ProjectGit(repository, head, remote, environment, seconds)


def files_not_ignored(folder: str) -> list[str]:
    """Return the files of a folder that git does not ignore, and the nested repositories, which end with a slash.

    A repository in the folder itself is not used. Raises GitError.
    """
    own = _OWN_SETTINGS | _ignore_file(LIMIT_SECONDS)
    with tempfile.TemporaryDirectory(prefix="workbench-git-") as shadow:
        with _errors(shadow):
            make_repository(shadow, config_text(own))
        variables = {"GIT_DIR": shadow, "GIT_WORK_TREE": os.path.realpath(folder)}
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        output = run_git(*words, environment={**isolated_environment(), **variables}, folder=folder, timeout=60.0)
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _directory_in(work_tree: str) -> str:
    """Return the repository that a file `.git` names, or "" if the file has another content."""
    with _errors(work_tree):
        text = read_below(work_tree, ".git", _LARGEST_REFERENCE)
    name = os.fsdecode(text.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    is_link = text.startswith(b"gitdir: ") and "\0" not in name
    return os.path.realpath(os.path.join(work_tree, name)) if is_link else ""


def _common_directory(directory: str) -> str:
    with _errors(directory), contextlib.suppress(FileNotFoundError):
        text = read_below(directory, "commondir", _LARGEST_REFERENCE).rstrip(b"\r\n")
        if b"\0" not in text:
            return os.path.realpath(os.path.join(directory, os.fsdecode(text)))
    return directory


def _referred(text: bytes) -> str:
    """Return the name of the reference in the text of a symbolic reference, or ""."""
    name = os.fsdecode(text.removeprefix(b"ref:").strip()) if text.startswith(b"ref:") else ""
    return name if name.startswith("refs/") and "\0" not in name else ""


def _reference(repository: Repository, name: str) -> bytes:
    """Return the text of a reference, or b"" if it does not exist. Raises OSError."""
    # A linked work tree has references of its own, such as those of a bisection, before the shared ones.
    for folder in dict.fromkeys((repository.directory, repository.common)):
        # The name of a reference can be a folder, if a packed reference has that name.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not os.path.isdir(os.path.join(folder, name)):
                return read_below(folder, name, _LARGEST_REFERENCE).strip()
    with contextlib.suppress(FileNotFoundError):
        packed = read_below(repository.common, "packed-refs", _LARGEST_REFERENCES)
        match = re.search(rb"^([0-9a-f]+) " + re.escape(os.fsencode(name)) + rb"$", packed, re.MULTILINE)
        return match[1] if match else b""
    return b""


def _settings_of(repository: Repository, seconds: float) -> list[tuple[str, str]]:
    """Return the names and values in the configuration of a repository, without files that it includes."""
    text = b""
    with _errors(repository.directory):
        for folder, name in ((repository.common, "config"), (repository.directory, "config.worktree")):
            with contextlib.suppress(FileNotFoundError):
                text += read_below(folder, name, _LARGEST_CONFIG) + b"\n"
    words = ("config", "--file", "-", "--no-includes", "--null", "--list")
    try:
        output = run_git(*words, environment=isolated_environment(), folder="/", input=text or b"\n", timeout=seconds)
    except GitError as error:
        message = f"cannot read the configuration of {repository.directory}: {error.message}"
        raise GitError(message, remedy=error.remedy) from error
    parts = (os.fsdecode(entry).partition("\n") for entry in output.split(b"\0") if entry)
    return [(key, value) for key, _, value in parts]


def _taken_over(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    taken = {}
    for key, value in settings:
        word = value.lower()
        word = _WORDS.get(word, word)
        if word in _SETTINGS.get(key, ()):
            taken[key] = word
        elif key == "extensions.objectformat":
            raise GitError(f"unknown object format {value!r} of the repository", remedy="Update the workbench.")
    return taken


def _ignore_file(seconds: float) -> dict[str, str]:
    """Return the setting of the user's ignore file; git knows the default."""
    words = ("config", "--global", "--includes", "--null", "--type=path", "--default", "", "core.excludesFile")
    try:
        path = os.fsdecode(run_git(*words, environment=without_fetching(), folder="/", timeout=seconds)).rstrip("\0")
    except GitError:
        return {}  # for example, the home folder is missing; git itself reports errors in the file
    return {"core.excludesfile": path} if os.path.isabs(path) else {}


def _check_stores(stores: list[str]) -> None:
    """Check the files that name further object stores, because git reads them as a whole. Raises OSError."""
    for number, store in enumerate(stores):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            text = read_below(os.path.realpath(store), "info/alternates", _LARGEST_ALTERNATES + 1)
            names = [os.fsdecode(line) for line in text.split(b"\n") if line.strip() and b"\0" not in line]
            is_quoted = any(name.startswith('"') for name in names)  # a form that git reads, but does not write
            if len(text) > _LARGEST_ALTERNATES or number + len(names) > _MOST_STORES or is_quoted:
                raise OSError(
                    errno.EFBIG, "it names too many or quoted object stores", os.path.join(store, "info", "alternates")
                )
            stores += [path for name in names if (path := os.path.join(store, name)) not in stores]


def _copy_files(repository: Repository, shadow: str) -> None:
    """Copy the index, the commit and the patterns of a repository. Raises OSError."""
    index = copy_with_times(repository.directory, "index", shadow, LARGEST_INDEX)
    if b"link" in index:  # a split index
        for name in os.listdir(repository.directory):
            shared = _SHARED_INDEX.fullmatch(name)
            if shared is not None and bytes.fromhex(shared[1]) in index:
                copy_with_times(repository.directory, name, shadow, LARGEST_INDEX)
    os.mkdir(os.path.join(shadow, "info"), 0o700)
    copy_with_times(repository.common, "info/exclude", shadow, _LARGEST_PATTERNS)
    copy_with_times(repository.common, "info/attributes", shadow, _LARGEST_PATTERNS)
    copy_with_times(repository.directory, "info/sparse-checkout", shadow, _LARGEST_PATTERNS)


def copy_with_times(folder: str, name: str, destination: str, largest: int) -> bytes:
    """Copy a file with its modification time, and return its content; b"" if it is missing. Raises OSError."""
    try:
        file = open(open_below(folder, name), "rb")  # noqa: SIM115 (closed below)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    with file:
        status = os.fstat(file.fileno())
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest >> 20} MiB", os.path.join(folder, name))
    path = os.path.join(destination, name)
    with open_new(path) as copy:
        copy.write(data)
    # Git reads the content of files that are not older than the index.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return data


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        name = error.filename or path
        raise GitError(
            f"cannot read the repository: {name}: {error.strerror or error}",
            remedy="Check the repository with `git fsck`.",
        ) from error
