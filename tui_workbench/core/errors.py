"""One tree of errors; every error says where it is and what to do about it.

```
WorkbenchError            exit 1   something on this machine failed (disk full, no permission)
├── UsageError            exit 2   the command or its arguments are wrong
│   ├── ProjectNotFound            the folder is no project
│   ├── RunNotFound                no run has this id
│   ├── LargeFiles                 files of the project are too large to keep or to copy for each run
│   └── ImportedRun                the run came with the project's files, and nothing acts on it
├── ConfigurationError    exit 3   a file of the project is wrong: carries file, line and column
│   ├── NotPrepared                the environment would have to be made first, and runs may not do so
│   └── NoGpu                      a run asks for a GPU, and would train on the CPU
├── TargetUnreachable     exit 4   the compute target does not answer, or lets nobody in (`targets.host` has its kinds)
├── StorageError          exit 1   a file could not be read or written
└── NeverStarted          exit 1   the script of a run was not started, and will not be
```

Exit codes of the command line: a finished run ends with its script's own code, a canceled one with 130; the others
stand above.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator


class WorkbenchError(Exception):
    """Anything that a person should read. `str()` is one line: place, what is wrong, and the remedy.

    `message` says what is wrong as a clause without a final full stop; `remedy` says what to do, as a sentence, or in
    several that exclude each other, a line each;
    `file`, `line` and `column` (both counted from 1, 0 when unknown) say where.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "", file: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.file = file
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        """`file:line:column` as far as known, in the form that editors and terminals make clickable."""
        parts = [self.file] if self.file else []
        if self.file and self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)

    @property
    def lines(self) -> list[str]:
        """The text for a person at a terminal: where there are several remedies, each has a line of its own."""
        if "\n" not in self.remedy:
            return [str(self)]
        text = f"{self.place}: {self.message}." if self.place else f"{self.message}."
        return [" ".join(text.split("\n")), *(f"  {line}" for line in self.remedy.split("\n"))]

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        if self.remedy:
            text = f"{text}. {self.remedy}"
        # One error is one line, whatever names and messages of others it quotes.
        return " ".join(text.split("\n"))


class UsageError(WorkbenchError):
    """The command, a key or an argument is wrong."""

    exit_code = 2


class ProjectNotFound(UsageError):
    """The folder is no project."""


class RunNotFound(UsageError):
    """No run of this project has the id."""


class LargeFiles(UsageError):
    """Files of the project are too large to keep or to copy for each run.

    `paths` are those to declare as data or to leave out, relative to the project, each with its size in bytes;
    `configuration` is the run configuration that can declare them.
    """

    def __init__(self, message: str, *, paths: tuple[tuple[str, int], ...], remedy: str, configuration: str) -> None:
        super().__init__(message, remedy=remedy)
        self.paths = paths
        self.configuration = configuration


class ImportedRun(UsageError):
    """The run was not submitted by this user on this machine, so nothing acts on it."""


class ConfigurationError(WorkbenchError):
    """A configuration file is wrong, or names something that does not exist."""

    exit_code = 3


class NotPrepared(ConfigurationError):
    """The environment of a run is not there, and `PrepareEnvironment: false` keeps the run from making it."""


class NoGpu(ConfigurationError):
    """A run asks for a GPU and would train on the CPU; `command` mends it, to be typed there when `there` is true."""

    def __init__(
        self, message: str, *, remedy: str = "", file: str = "", command: str = "", there: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy, file=file)
        self.command = command
        self.there = there


class TargetUnreachable(WorkbenchError):
    """The compute target does not answer, or refuses the login.

    `permanent` is true when trying again is of no use until somebody mends something.
    """

    exit_code = 4
    permanent = False


class StorageError(WorkbenchError):
    """A file or folder could not be read or written."""


class NeverStarted(WorkbenchError):
    """The target was asked and knows for certain that the run's script was not started."""


def storage_error(verb: str, path: str, error: OSError) -> StorageError:
    """The StorageError of a file that cannot be read, written and so on (`verb`), with the cause and what to do."""
    reason = error.strerror or str(error)
    cause, remedy = _REMEDIES.get(error.errno or 0, (reason, "Check the disk and the folder's permissions."))
    return StorageError(f"cannot {verb} it: {cause}", remedy=remedy, file=path)


@contextlib.contextmanager
def storage_errors(verb: str, path: str, *, exact: bool = False) -> Iterator[None]:
    """Raise an OSError of the context as the `storage_error` of the file at `path`.

    With `exact` it is that of the file that the OSError names, where it names one.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(verb, (error.filename if exact else "") or path, error) from error


_REMEDIES = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again."),
    errno.EDQUOT: ("your disk quota is used up", "Free some space and try again."),
    errno.EROFS: ("the file system is read-only", "Copy the project to a place where you may write."),
    errno.EACCES: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.EPERM: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.ENOENT: ("no such file or folder", "Check the name and that its folder exists."),
    errno.ENOTDIR: ("a part of its path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("this is a folder", "Name a file in it."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Correct the link."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name."),
    errno.EMFILE: ("too many files are open", "Close some and try again."),
}
