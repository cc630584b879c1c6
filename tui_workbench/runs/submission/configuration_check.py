"""Check the configuration files and the data of a request before its run is planned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from tui_workbench.config.checks.every_check import first_error
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.option_texts import options_of
from tui_workbench.config.schema import fields, retry
from tui_workbench.config.schema.data_references import KEY, data_paths, data_problems
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.schema.slurm_options import NODES, OVERRIDE
from tui_workbench.config.yaml_edit.syntax import parse, read
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunRequest, RunSpec, Step
from tui_workbench.projects.project import Project, line_of_key
from tui_workbench.targets.hosts.data import missing_data


def require_valid_files(
    project: Project, request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> None:
    """Raise the first error that the checks find in the files of a requested run as a ConfigurationError.

    The values that the request sets take the place of those in the run configuration. The files of a repeated run are
    not read, because its configuration is in its record.
    """
    context = ProjectContext(project.root)
    for path, kind, replaced in _files(context, request, configuration, target, script):
        if not os.path.exists(path):
            continue  # the default file of dependencies is optional; the checks report other missing files
        finding = first_error(Subject(path, kind, parse(read(path).text, path), context, replaced))
        if finding is not None:
            raise ConfigurationError(
                finding.message, remedy=finding.remedy, file=path, line=finding.line, column=finding.column
            )


def _files(
    context: ProjectContext, request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> Iterator[tuple[str, FileKind, Mapping[str, Any]]]:
    """Yield the files, each with its kind and the values that the request replaces."""
    is_recorded = bool(request.origin and not request.run_configuration)
    if not is_recorded:
        kind = fields.SDK_RUNCONFIG if configuration.is_sdk_form else fields.RUNCONFIG
        yield configuration.path, kind, _replaced_values(request, configuration, target, script)
    if not is_recorded or request.target:
        for machine in target.parts or (target,):
            yield machine.path, fields.COMPUTE, {}
    if target.builds_environment:
        yield context.absolute(configuration.conda_file), fields.CONDA, {}
    if configuration.uses_spark and not configuration.is_sdk_form:
        yield context.absolute(configuration.spark_file), fields.SPARK, {}


def _replaced_values(
    request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> dict[str, Any]:
    """Return the values of a run configuration that the request replaces, by key; None for a value without effect."""
    # `RequireGpu` is checked with the GPUs of the target before the run starts, and that error has its own exit code.
    replaced: dict[str, Any] = {configuration.key("Target"): target.name, "RequireGpu": None}
    if request.starts_jupyter or request.origin:
        # The script of a repeated run is in its snapshot.
        replaced[configuration.key("ArgumentVector")] = None
    elif request.script:
        replaced[configuration.key("ArgumentVector")] = script if configuration.is_sdk_form else (script,)
    if request.starts_jupyter:
        replaced["ProcessesPerNode"] = None
        replaced |= {field.key: None for field in fields.RUNCONFIG.fields if field.path[0] == retry.SECTION}
    if request.slurm:
        options = options_of(request.slurm)
        replaced |= {f"{OVERRIDE}.{key}": value for key, value in options.items()}
        if "nodes" in options:
            replaced[NODES] = None
    return replaced


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
