"""Steps of `submit`, `rerun` and `sweep` before a run starts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tui_workbench.cli.shared.prompts import ensure_login
from tui_workbench.core.errors import NoGpu
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.submission.planning import basis_of


@contextlib.contextmanager
def suggesting_allow_cpu() -> Iterator[None]:
    """Add --allow-cpu to the remedy of a NoGpu error."""
    try:
        yield
    except NoGpu as error:
        error.remedy = f"{error.remedy}\nTo run on the CPU, add `--allow-cpu`."
        raise


def ensure_target_login(project: Project, request: RunRequest) -> None:
    """Log in to the target of a request, asking for missing secrets. Raises WorkbenchError."""
    target = basis_of(project, request).target
    if target.uses_ssh:
        ensure_login(target)
