"""Which Python an interpreter is, asked of the interpreter itself, once for each file that it is.

Nothing else about it is known from outside: a path called `python3.11` may be any program.
"""

from __future__ import annotations

import functools
import os
import subprocess

from tui_workbench.core import processes
from tui_workbench.core.errors import ConfigurationError

SECONDS = 20.0
"""An interpreter that does not tell its version in this time, even from a cold network disk, runs no script either."""

_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def python_version(interpreter: str) -> str:
    """The version of an interpreter, as `3.11.7`. Blocks for the start of a Python the first time.

    Raises ConfigurationError when the file is no Python, or does not answer.
    """
    try:
        status = os.stat(interpreter)
        version = _version(interpreter, status.st_mtime_ns, status.st_size)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer as a Python does"
        raise ConfigurationError(
            f"{interpreter} cannot be used as a Python interpreter: {reason or error}",
            remedy="Set pythonLocation to a Python interpreter.",
        ) from error
    return version


@functools.cache
def _version(interpreter: str, _mtime_ns: int, _size: int) -> str:
    # -I -S: neither the user's variables nor site packages, which could print, may have a say.
    answer = processes.run([interpreter, "-I", "-S", "-c", _ASK], timeout=SECONDS)
    answer.check_returncode()
    version = answer.stdout.decode(errors="replace").strip()
    if not all(part.isdigit() for part in version.split(".")):
        raise ValueError(version)
    return version


def version_without_project(interpreter: str, project_root: str) -> str:
    """The version of an interpreter, without executing what the project or another user brings; "" if only that tells.

    A virtual environment in the project is a link to the interpreter that is asked: by its own name that would read
    the project's pyvenv.cfg, which names a library to load. Raises ConfigurationError as `python_version` does.
    """
    real, root = os.path.realpath(interpreter), os.path.realpath(project_root)
    if real.startswith(f"{root}{os.sep}") or not os.path.basename(real).startswith(("python", "pypy")):
        return ""
    try:
        status = os.stat(real)
    except OSError:
        return ""
    is_ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o002
    return python_version(real) if is_ours else ""
