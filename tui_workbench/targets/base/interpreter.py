"""The version of a Python interpreter, and the interpreters that may be started to show it.

An interpreter that a project names may be a program of a stranger, wherever it is, and a virtual environment executes
code of its packages at every start. Commands that only look at a project, including plans, therefore start only
interpreters that the user would start by name: those in folders of the system and of the search path, but not in the
work tree of the project. The versions of other interpreters are read from files, without starting a program.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys

from tui_workbench.core import processes
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.files import read_regular
from tui_workbench.core.git import GitError
from tui_workbench.core.repository import find_repository

SECONDS = 20.0
"""Time limit in seconds, long enough for an interpreter on a cold network disk."""

_SYSTEM_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin")
_OWN_VERSION = "{}.{}.{}".format(*sys.version_info[:3])
_NAME = re.compile(r"(?:python|pypy)(\d+\.\d+)?[\d.]*")
_IN_PYVENV = re.compile(rb"^version(?:_info)?\s*=\s*(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d])", re.MULTILINE)
_IN_CONDA = re.compile(r"python-(\d{1,3}\.\d{1,3}\.\d{1,3})-\w+\.json")
_LARGEST_PYVENV = 64 << 10

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
    # In the folder of a project, the shim of a version manager would read a file of the project.
    answer = processes.run([interpreter, "-I", "-S", "-c", _ASK], folder="/", timeout=SECONDS)
    answer.check_returncode()
    version = answer.stdout.decode(errors="replace").strip()
    if not all(part.isdigit() for part in version.split(".")):
        raise ValueError(version)
    return version


def version_without_project(interpreter: str, project_root: str) -> str:
    """Return the version of an interpreter without executing a program that a project names; "" if it is unknown.

    In a virtual environment, `bin/python` is a symbolic link. This function starts the interpreter to which the link
    points, if that is an interpreter of the system or the search path: the link itself would execute code of the
    environment. Otherwise, the version is read from the files of a virtual environment or a conda environment, or from
    the name of the interpreter. Raises the error of `python_version`.
    """
    real = os.path.realpath(interpreter)
    if real == os.path.realpath(sys.executable):
        return _OWN_VERSION
    names = {os.path.basename(interpreter), os.path.basename(real)}
    entries = (os.path.join(folder, name) for folder in _folders() for name in names)
    if _may_start(real, project_root) and any(os.path.realpath(entry) == real for entry in entries):
        return python_version(real)
    return _version_in_files(interpreter)


def _may_start(real: str, project_root: str) -> bool:
    """Return True for a Python interpreter outside the work tree that only the user or root can change."""
    if not os.path.isfile(real) or not _NAME.fullmatch(os.path.basename(real)):
        return False
    try:
        repository = find_repository(project_root)
    except GitError:
        return False  # the extent of the work tree is unknown
    if any(_is_below(real, tree) for tree in (project_root, *([repository.work_tree] if repository else []))):
        return False
    status = os.stat(real)
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o002


def _folders() -> list[str]:
    """Return the folders with the interpreters that the user can start by name."""
    return [*_SYSTEM_FOLDERS, *processes.search_folders(os.environ.get("PATH", os.defpath))]


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return path == real or path.startswith(real.rstrip(os.sep) + os.sep)


def _version_in_files(interpreter: str) -> str:
    path = os.path.abspath(interpreter)
    environment = os.path.dirname(os.path.dirname(path))
    try:
        match = _IN_PYVENV.search(read_regular(os.path.join(environment, "pyvenv.cfg"), _LARGEST_PYVENV))
        if match:
            return match[1].decode()
    except OSError:
        pass
    try:
        with os.scandir(os.path.join(environment, "conda-meta")) as entries:
            for entry in entries:
                if (record := _IN_CONDA.fullmatch(entry.name)) is not None:
                    return record[1]
    except OSError:
        pass
    names = (os.path.basename(os.path.realpath(path)), os.path.basename(path))
    return next((named[1] for name in names if (named := _NAME.fullmatch(name)) and named[1]), "")
