"""The programs that a run of an agent executes: the scripts that it may run, and the programs that an approval covers.

An approval does not cover other programs than those that the user reviewed. It compares facts that change if a file is
written or replaced: programs cannot set the ctime.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from tui_workbench.core.errors import UsageError, WorkbenchError, storage_errors
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.registry import target_for

MOST_LINKS = 40
"""Maximum number of links in a chain, as in Linux."""

MOST_FILES = 300_000
"""Maximum number of files of an environment in the project."""

SUFFIXES = (".py", ".ipynb")
"""Suffixes of scripts. Python quotes lines of any other file in its error message, which agents can read."""


def require_script(spec: RunSpec) -> None:
    """Raise UsageError unless the script is a Python file or notebook of the project, and not a file with secrets.

    A link counts as the file to which it points.
    """
    path = os.path.join(spec.project_root, spec.script)
    real, root = os.path.realpath(path), os.path.realpath(spec.project_root)
    remedy = "Name a Python file or a notebook of the project."
    if not real.startswith(root + os.sep):
        raise UsageError(f"the script {spec.script} is a link to a file outside the project", remedy=remedy)
    names = (spec.script, os.path.relpath(real, root))
    if any(is_secret_file(name) for name in names):
        raise UsageError(f"the script {spec.script} is a file with secrets, which agents cannot run", remedy=remedy)
    is_file = os.path.isfile(real) and not os.path.islink(real)
    if not is_file or not all(name.endswith(SUFFIXES) for name in names):
        raise UsageError(f"the script {spec.script} is not a Python file or a notebook", remedy=remedy)


def facts_of(path: str) -> tuple[int, ...]:
    """Return metadata that changes if the file at `path` is replaced or written; () if the file does not exist.

    For a link, the metadata is that of its target.
    """
    try:
        return _facts(os.stat(path))
    except (OSError, ValueError):
        return ()


def program_facts(spec: RunSpec) -> Iterator[tuple[object, ...]]:
    """Yield facts of the interpreters of a run on this machine, of their environments, and of files in variables.

    Raises StorageError, and UsageError if an environment in the project has too many files.
    """
    for part in spec.parts:
        if not (part.target.uses_ssh or part.target.kind.runs_in_container):
            yield from _interpreter_facts(spec.project_root, _interpreter_of(part))
    for name, value in sorted(spec.run_configuration.environment_variables.items()):
        for path in value.split(os.pathsep):
            # For example a library in LD_PRELOAD. The folders of the project are compared in any case.
            if path and (facts := facts_of(os.path.join(spec.project_root, path))):
                yield (name, path, facts)


def _interpreter_of(spec: RunSpec) -> str:
    """Return the interpreter of a run, or "" if it cannot be planned now; the submission then fails."""
    try:
        return target_for(spec.target).plan(spec).interpreter
    except WorkbenchError:
        return ""


def _interpreter_facts(project_root: str, interpreter: str) -> Iterator[tuple[object, ...]]:
    if not os.path.isabs(interpreter):
        return
    yield from _chain(interpreter)
    environment = os.path.dirname(os.path.dirname(interpreter))
    # This file selects the base interpreter and the packages of a virtual environment. Python looks for it beside the
    # interpreter and in the parent folder.
    for folder in dict.fromkeys((os.path.dirname(interpreter), environment, _environment_of(interpreter))):
        yield ("pyvenv.cfg", folder, facts_of(os.path.join(folder, "pyvenv.cfg")))
    # An environment outside the project belongs to the user.
    root = os.path.realpath(project_root)
    for folder in dict.fromkeys((environment, os.path.realpath(environment), _environment_of(interpreter))):
        if folder.startswith((project_root + os.sep, root + os.sep)):
            yield from _tree(os.path.realpath(folder))


def _environment_of(interpreter: str) -> str:
    """Return the folder of the environment to which a chain of links leads."""
    return os.path.dirname(os.path.dirname(os.path.realpath(interpreter)))


def _chain(path: str) -> Iterator[tuple[object, ...]]:
    """Yield facts of each link in a chain, and of the file at its end."""
    for _ in range(MOST_LINKS):
        try:
            status = os.lstat(path)
            yield (path, _facts(status))
            if not stat.S_ISLNK(status.st_mode):
                return
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except (OSError, ValueError):
            yield (path, ())
            return


def _tree(folder: str) -> Iterator[tuple[object, ...]]:
    """Yield facts of all files in an environment: a package or a `.pth` file is executed with the script."""
    count = 0
    with storage_errors("read", folder):
        for parent, folders, names in os.walk(folder):
            folders.sort()
            for name in (*folders, *sorted(names)):
                path = os.path.join(parent, name)
                yield (path, _facts(os.lstat(path)), facts_of(path))
                count += 1
                if count > MOST_FILES:
                    raise UsageError(
                        f"the environment {folder} has more than {MOST_FILES} files",
                        remedy="Use an environment outside the project.",
                    )


def _facts(status: os.stat_result) -> tuple[int, ...]:
    facts = (status.st_mode, status.st_dev, status.st_ino)
    return facts if stat.S_ISDIR(status.st_mode) else (*facts, status.st_size, status.st_ctime_ns)
