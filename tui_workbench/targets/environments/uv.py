"""Find uv, which resolves and installs Python packages, and set its variables."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.installation import repeat_remedy
from tui_workbench.core.processes import find_program, run


def find_uv() -> str:
    """Return the path of the uv installed with the workbench, or on the PATH. Raises ConfigurationError."""
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        path = os.path.join(folder, "uv")
        if os.access(path, os.X_OK):
            return path
    try:
        return find_program("uv")
    except FileNotFoundError as error:
        raise ConfigurationError(
            "building environments needs uv, which is not installed",
            remedy=repeat_remedy(),
        ) from error


def uv_version() -> str:
    """Return the version of the uv that `find_uv` finds. Raises the error of `find_uv`."""
    done = run([find_uv(), "--version"])
    done.check_returncode()
    return done.stdout.decode().split()[1]


def index_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with pip's index settings copied to the variables that uv reads."""
    result = dict(environment)
    for pip_name, uv_name in (
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
    ):
        if environment.get(pip_name) and not environment.get(uv_name):
            result[uv_name] = environment[pip_name]
    # Use the machine's certificates, which a package index inside a company may need.
    result.setdefault("UV_SYSTEM_CERTS", "true")
    return result
