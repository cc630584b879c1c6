"""Check `DataReferences` of a request before its run is planned."""

from __future__ import annotations

import os

from tui_workbench.config.schema.data_references import KEY, data_paths, data_problems
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunSpec, Step
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.data import missing_data


def require_data(spec: RunSpec) -> None:
    """Raise ConfigurationError if a reference is invalid for the run, or if data is missing on this machine."""
    root, references, path = spec.project_root, spec.run_configuration.data_references, spec.run_configuration.path
    other_machine = spec.target.name if spec.target.kind.is_remote else ""
    for problem in data_problems(root, references, tracked=spec.tracked, other_machine=other_machine).values():
        raise ConfigurationError(problem.message, remedy=problem.remedy, file=path, line=line_of_key(path, KEY))
    missing = [data for data in data_paths(root, references).values() if not os.path.exists(data)]
    if missing and not other_machine:
        raise missing_data(spec, missing, "this machine")


def data_step(spec: RunSpec) -> tuple[Step, ...]:
    """Return the step of the plan for the data of a run; none without data."""
    paths = data_paths(spec.project_root, spec.run_configuration.data_references)
    if not paths:
        return ()
    named = ", ".join(path if opened == path else f"{opened} -> {path}" for opened, path in paths.items())
    return (Step("data", f"check that the data exists on {spec.target.name}, and make it available: {named}"),)
