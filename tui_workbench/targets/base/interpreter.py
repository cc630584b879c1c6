"""The version of a Python interpreter, as the interpreter itself reports it. The answer is cached."""

from __future__ import annotations

import functools
import os
import subprocess

from tui_workbench.core import processes
from tui_workbench.core.errors import ConfigurationError

SECONDS = 20.0
"""Time limit in seconds, long enough for an interpreter on a cold network disk."""

_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def python_version(interpreter: str) -> str:
    """Return the version of an interpreter, such as `3.11.7`. Starts the interpreter unless the version is cached.

    Raises ConfigurationError if the file is missing, is not a Python interpreter or does not answer.
    """
    try:
        status = os.stat(interpreter)
        return _version(interpreter, status.st_mtime_ns, status.st_size)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it did not report its version"
        raise ConfigurationError(
            f"{interpreter} cannot be used as a Python interpreter: {reason or error}",
            remedy="Set pythonLocation in the target's .compute file to the path of a Python interpreter.",
        ) from error


@functools.cache
def _version(interpreter: str, _mtime_ns: int, _size: int) -> str:
    # -I -S: ignore the user's variables and site packages, which could print text.
    answer = processes.run([interpreter, "-I", "-S", "-c", _ASK], timeout=SECONDS)
    answer.check_returncode()
    version = answer.stdout.decode(errors="replace").strip()
    if not all(part.isdigit() for part in version.split(".")):
        raise ValueError(version)
    return version


def version_without_project(interpreter: str, project_root: str) -> str:
    """Return the version of an interpreter without executing a file of the project or of another user.

    Returns "" if this is impossible, or if the interpreter is missing. In a virtual environment, `bin/python` is a
    symbolic link. This function starts the interpreter to which the link points: an interpreter that is started through
    the link reads the project's pyvenv.cfg, which can name a library to load. Raises the error of `python_version`.
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
