"""Errors for the user. Each has a message, and may have a position and a remedy.

```
WorkbenchError            exit 1   something on this machine failed (disk full, no permission)
├── UsageError            exit 2   the command or its arguments are wrong
│   ├── ProjectNotFound            the folder is missing or not in a project
│   ├── RunNotFound                unknown run ID
│   ├── LargeFiles                 files of the project are too large to copy for each run
│   └── ImportedRun                the run was submitted elsewhere and cannot be started or canceled
├── ConfigurationError    exit 3   a file of the project is invalid
│   ├── NotPrepared                the environment is not built, and `PrepareEnvironment` is false
│   └── NoGpu                      a run that requires a GPU would train on the CPU
├── TargetUnreachable     exit 4   the compute target does not answer, or refuses the login
├── StorageError          exit 1   a file could not be read or written
└── NeverStarted          exit 1   the script of a run was not started
```

A command that waits for a run exits with the exit code of its script, and with 130 if the run was canceled.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping


class WorkbenchError(Exception):
    """An error for the user. `str()` returns one line: position, message and remedy.

    `message` is a clause without a final period. `remedy` is one or more sentences, with alternatives on separate
    lines. `line` and `column` count from 1; 0 means unknown.
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
    def position(self) -> str:
        """The position as `file:line:column`, without the parts that are unknown."""
        parts = [self.file] if self.file else []
        if self.file and self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)

    @property
    def lines(self) -> list[str]:
        """The lines of text for a terminal. Alternative remedies have separate lines."""
        if "\n" not in self.remedy:
            return [str(self)]
        text = f"{self.position}: {self.message}." if self.position else f"{self.message}."
        return [" ".join(text.split("\n")), *(f"  {line}" for line in self.remedy.split("\n"))]

    def __str__(self) -> str:
        text = f"{self.position}: {self.message}" if self.position else self.message
        if self.remedy:
            text = f"{text}. {self.remedy}"
        # An error is one line, even if it quotes line breaks.
        return " ".join(text.split("\n"))


class UsageError(WorkbenchError):
    """The command or one of its arguments is wrong."""

    exit_code = 2


class ProjectNotFound(UsageError):
    """The folder does not exist, or neither it nor a parent is a project."""


class RunNotFound(UsageError):
    """The project has no run or sweep with this ID, or the record of the run or sweep cannot be read."""


class LargeFiles(UsageError):
    """Files of the project are too large to copy for each run.

    `paths` are the relative paths and the sizes in bytes of these files. The user can exclude them, or declare them as
    data in the run configuration `configuration`.
    """

    def __init__(self, message: str, *, paths: tuple[tuple[str, int], ...], remedy: str, configuration: str) -> None:
        super().__init__(message, remedy=remedy)
        self.paths = paths
        self.configuration = configuration


class ImportedRun(UsageError):
    """The run was not submitted by this user on this machine, so it cannot be started, resumed or canceled."""


class ConfigurationError(WorkbenchError):
    """A configuration file is invalid, or refers to something that does not exist."""

    exit_code = 3


class NotPrepared(ConfigurationError):
    """The environment of the run does not exist, and `PrepareEnvironment` is false."""


class NoGpu(ConfigurationError):
    """A run that requires a GPU would train on the CPU. `command` is the command that fixes the problem, or ""."""

    def __init__(self, message: str, *, remedy: str = "", file: str = "", command: str = "") -> None:
        super().__init__(message, remedy=remedy, file=file)
        self.command = command


class TargetUnreachable(WorkbenchError):
    """The compute target does not answer, or refuses the login."""

    exit_code = 4
    permanent = False  # True if no attempt can succeed until the user has fixed the cause


class StorageError(WorkbenchError):
    """A file or folder could not be read or written."""


class NeverStarted(WorkbenchError):
    """The target has confirmed that the script of the run was not started."""


def storage_error(verb: str, path: str, error: OSError) -> StorageError:
    """Return the error for an operation on a file (`verb`, such as `read`) that raised `error`."""
    reason = error.strerror or str(error)
    cause, remedy = CAUSES.get(error.errno or 0, (reason, "Check the disk and the permissions of the file."))
    return StorageError(f"cannot {verb}: {cause}", remedy=remedy, file=path)


@contextlib.contextmanager
def storage_errors(verb: str, path: str, *, exact: bool = False) -> Iterator[None]:
    """Convert an OSError to a StorageError for `path`, or with `exact` for the file that the OSError names."""
    try:
        yield
    except OSError as error:
        raise storage_error(verb, (error.filename if exact else "") or path, error) from error


CAUSES: Mapping[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again."),
    errno.EDQUOT: ("your disk quota is used up", "Free some space and try again."),
    errno.EROFS: ("the file system is read-only", "Use a writable file system: for example, copy the project to one."),
    errno.EACCES: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.EPERM: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.ENOENT: ("no such file or folder", "Check the path, and create the folder of the file if it is missing."),
    errno.ENOTDIR: (
        "a part of the path is a file or a symbolic link, not a folder",
        "Correct the path, or replace that file or link with a folder.",
    ),
    errno.EISDIR: ("this is a folder", "Choose a file in the folder."),
    errno.ELOOP: (
        "a symbolic link is not allowed here, or symbolic links form a loop",
        "Replace the link with a regular file or folder.",
    ),
    errno.ENAMETOOLONG: ("the name or the path is too long", "Choose a shorter name, or a folder with a shorter path."),
    errno.EMFILE: ("too many files are open", "Raise the limit (`ulimit -n 4096`), then start the program again."),
}
"""The reason and the remedy of a StorageError, by error number."""
