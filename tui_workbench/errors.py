"""One tree of errors; every error says where it is and what to do about it.

```
WorkbenchError            exit 1   something on this machine failed (disk full, no permission)
├── UsageError            exit 2   the command or its arguments are wrong
│   ├── ProjectNotFound            the folder is no project
│   └── RunNotFound                no run has this id
├── ConfigurationError    exit 3   a file of the project is wrong: carries file, line and column
│   ├── NotPrepared                the environment would have to be made first, and runs may not do so
│   └── NoGpu                      a run asks for a GPU, and would train on the CPU
├── TargetUnreachable     exit 4   the compute target does not answer, or lets nobody in (`targets.host` has its kinds)
└── StorageError          exit 1   a file could not be read or written
```

Exit codes of the command line: a finished run ends with its script's own code, a canceled one with 130; the others
stand above.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Anything that a person should read. `str()` is one line: place, what is wrong, and the remedy.

    `message` says what is wrong as a clause without a final full stop; `remedy` says what to do, as a sentence;
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
