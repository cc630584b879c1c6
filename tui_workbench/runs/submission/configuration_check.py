"""Refuse a request if `config check` would report an error in a file that the run uses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from tui_workbench.config.checks.every_check import first_error
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.option_texts import options_of
from tui_workbench.config.schema import fields, retry
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.schema.slurm_options import NODES, OVERRIDE
from tui_workbench.config.yaml_edit.syntax import parse, read
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunRequest
from tui_workbench.projects.project import Project


def require_valid_files(
    project: Project, request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> None:
    """Raise the first error that the checks find in the files of a requested run as a ConfigurationError.

    The values that the request sets take the place of those in the run configuration. The files of a repeated run are
    not read, because its configuration is in its record.
    """
    context = ProjectContext(project.root)
    for path, kind, instead in _files(context, request, configuration, target, script):
        if not os.path.exists(path):
            continue  # the default file of dependencies is optional; the checks report other missing files
        found = first_error(Subject(path, kind, parse(read(path).text, path), context, instead))
        if found is not None:
            raise ConfigurationError(
                found.message, remedy=found.remedy, file=path, line=found.line, column=found.column
            )


def _files(
    context: ProjectContext, request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> Iterator[tuple[str, FileKind, Mapping[str, Any]]]:
    """Yield the files, each with its kind and the values that apply instead of its own."""
    is_recorded = bool(request.origin and not request.run_configuration)
    if not is_recorded:
        kind = fields.SDK_RUNCONFIG if configuration.is_sdk_form else fields.RUNCONFIG
        yield configuration.path, kind, _instead(request, configuration, target, script)
    if not is_recorded or request.target:
        for machine in target.parts or (target,):
            yield machine.path, fields.COMPUTE, {}
    if target.builds_environment:
        yield context.absolute(configuration.conda_file), fields.CONDA, {}
    if configuration.uses_spark and not configuration.is_sdk_form:
        yield context.absolute(configuration.spark_file), fields.SPARK, {}


def _instead(
    request: RunRequest, configuration: RunConfiguration, target: ComputeTarget, script: str
) -> dict[str, Any]:
    """Return the values of a run configuration that the request replaces, by key; None for a value without effect."""
    # `RequireGpu` is checked with the GPUs of the target before the run starts, and that error has its own exit code.
    instead: dict[str, Any] = {configuration.key("Target"): target.name, "RequireGpu": None}
    if request.starts_jupyter or request.origin:
        # The script of a repeated run is in its snapshot.
        instead[configuration.key("ArgumentVector")] = None
    elif request.script:
        instead[configuration.key("ArgumentVector")] = script if configuration.is_sdk_form else (script,)
    if request.starts_jupyter:
        instead["ProcessesPerNode"] = None
        instead |= {field.key: None for field in fields.RUNCONFIG.fields if field.path[0] == retry.SECTION}
    if request.slurm:
        options = options_of(request.slurm)
        instead |= {f"{OVERRIDE}.{key}": value for key, value in options.items()}
        if "nodes" in options:
            instead[NODES] = None
    return instead
