"""The files that agents may run as scripts."""

from __future__ import annotations

import os
import stat

from tui_workbench.core.errors import UsageError
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec

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
    if not all(name.endswith(SUFFIXES) for name in names) or not _is_regular(real):
        raise UsageError(f"the script {spec.script} is not a Python file or a notebook", remedy=remedy)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
