"""Check requests and plan their runs, without changing anything.

A request can repeat a run, with or without changes. An unchanged repetition uses the snapshot, arguments, run
configuration and target in run.json. Secrets, which are masked in run.json, are read from the current configuration
files. An untracked run has no snapshot, so its repetition uses the current project.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from tui_workbench.config.checks.scripts import script_problem
from tui_workbench.config.option_texts import options_of
from tui_workbench.config.schema import retry
from tui_workbench.config.schema.slurm_options import NODES, OVERRIDE
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.masking import mask_value
from tui_workbench.core.model import JUPYTER, ComputeTarget, Plan, RunConfiguration, RunRequest, RunSpec, Step
from tui_workbench.projects.project import COMPUTE_SUFFIX, RUN_CONFIGURATION_SUFFIX, Project, line_of_key
from tui_workbench.runs.gpu.gate import STEP, TITLE
from tui_workbench.runs.lifecycle.limits import Dependency, is_limited, step_of
from tui_workbench.runs.store import secret_arguments
from tui_workbench.runs.store.run_ids import likely_run_id
from tui_workbench.runs.store.rundir import WORKING_COPY, Record, RunDirectory
from tui_workbench.runs.submission.configuration_check import data_step, require_data, require_valid_files
from tui_workbench.targets.gpu.gpus import asked_for
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.values import Report

FILE_VARIABLE = "$file"  # placeholder in an ArgumentVector for the script that the user selects


class Basis(NamedTuple):
    """The configuration, target and snapshot of a request."""

    configuration: RunConfiguration
    target: ComputeTarget
    commit: str = ""  # the snapshot to use; "" for the current project
    origin: Record | None = None  # the run to repeat


class Prepared(NamedTuple):
    """The specification and the plan of a valid request."""

    spec: RunSpec
    plan: Plan
    commit: str = ""  # as in Basis


def prepare(project: Project, request: RunRequest) -> Prepared:
    """Check and plan a request. Raises ConfigurationError or UsageError.

    The plan contains the run ID that a run submitted now would get.
    """
    configuration, target, commit, origin = basis_of(project, request)
    repeats_jupyter = origin is not None and origin.spec.starts_jupyter and request.script in ("", JUPYTER)
    if repeats_jupyter and not request.starts_jupyter:
        raise UsageError(
            f"run {request.origin} started Jupyter, and cannot be repeated",
            remedy="Start Jupyter again: `workbench-tui notebook -c NAME`. Or name a script.",
        )
    configuration = _configuration_of(request, configuration, target)
    if origin is not None and not request.script:
        request = request._replace(script=origin.spec.script, arguments=origin.spec.arguments, exact_arguments=True)
    if origin is not None and commit:
        from tui_workbench.runs.submission.tracked import script_in_snapshot

        script, arguments = script_in_snapshot(project, request, origin), request.arguments
    elif request.starts_jupyter:
        script, arguments = JUPYTER, ()
    else:
        script, arguments = _script_and_arguments(project, request, configuration)
    secret_arguments.refuse_masks(arguments)
    require_valid_files(project, request, configuration, target, script)
    spec = bare_spec(project, configuration, target)._replace(
        script=script,
        arguments=arguments,
        keep_outputs=request.keep_outputs,
        starts_jupyter=request.starts_jupyter,
    )
    if origin is not None:
        secret_arguments.with_secrets(spec)
    else:
        secret_arguments.variables_of(spec)
    require_data(spec)
    return Prepared(*planned(project, spec, request, likely_run_id(project)), commit)


def planned(project: Project, spec: RunSpec, request: RunRequest, run_id: str) -> tuple[RunSpec, Plan]:
    """Return the specification with the run ID and its paths, and the plan. Raises ConfigurationError."""
    directory = os.path.join(project.runs_directory, run_id)
    working_directory = os.path.join(directory, WORKING_COPY) if spec.tracked else project.root
    spec = spec._replace(
        run_id=run_id, run_directory=directory, working_directory=working_directory, sweep=request.sweep
    )
    before: tuple[Step, ...] = ()
    if spec.tracked:
        from tui_workbench.runs.submission.tracked import snapshot_steps

        before = snapshot_steps(project, spec, request.origin)
    before = (*before, *data_step(spec))
    plan = target_for(spec.target).plan(spec)
    if is_limited(spec.target, request):
        before = (*before[:1], step_of(spec.target, request, dependency_of(project, request)), *before[1:])
    if asks_for_gpu(spec, request):
        before = (Step(STEP, TITLE), *before)
    return spec, plan._replace(steps=(*before, *plan.steps))


def dependency_of(project: Project, request: RunRequest) -> Dependency | None:
    """Return the run after which the requested run starts, or None. Raises RunNotFound or UsageError."""
    if not request.after:
        return None
    from tui_workbench.runs.lifecycle.dependencies import parse_dependency

    return parse_dependency(project, request.after)


def bare_spec(project: Project, configuration: RunConfiguration, target: ComputeTarget) -> RunSpec:
    """Return a specification for a run configuration and a target, without a script."""
    return RunSpec(
        run_id="",
        run_directory=os.path.join(project.runs_directory, "none"),
        project_root=project.root,
        project_name=project.name,
        working_directory=project.root,
        script="",
        arguments=(),
        run_configuration=configuration,
        target=target,
    )


def asks_for_gpu(spec: RunSpec, request: RunRequest) -> bool:
    """Return True if the target or run configuration requests a GPU, and the request does not allow the CPU."""
    return not request.allow_cpu and bool(asked_for(spec.target, spec.run_configuration))


def basis_of(project: Project, request: RunRequest) -> Basis:
    """Return the configuration, target and snapshot of a request.

    If the request repeats a run, the defaults come from that run. Raises RunNotFound, ConfigurationError, or UsageError
    if the snapshot of the run is not available.
    """
    origin = _record_of(project, request.origin) if request.origin else None
    if origin is None or request.run_configuration:
        configuration = project.run_configuration(request.run_configuration)
        target = project.target_of(configuration, request.target)
    else:
        recorded = origin.spec.run_configuration
        path = os.path.join(project.config_directory, recorded.name + RUN_CONFIGURATION_SUFFIX)
        configuration = recorded._replace(path=path)
        target = project.target(request.target) if request.target else _target_of(project, origin.spec.target)
    commit = ""
    if origin is not None:
        from tui_workbench.runs.submission.tracked import commit_of

        commit = commit_of(origin)
    if commit:
        # A snapshot is always executed in a working copy.
        configuration = configuration._replace(tracked_run=True)
    return Basis(configuration, target, commit, origin)


def _configuration_of(request: RunRequest, configuration: RunConfiguration, target: ComputeTarget) -> RunConfiguration:
    """Return the run configuration with the changes of the request. Raises UsageError or ConfigurationError."""
    if request.starts_jupyter:
        # torchrun starts no Jupyter, and Jupyter is not started again without its user.
        configuration = configuration._replace(processes_per_node="", retry={})
    if request.environment:
        configuration = _with_variables(configuration, request.environment)
    _require_nodes(configuration, target)
    if request.slurm:
        configuration = _with_slurm_options(configuration, target, request.slurm)
    _require_retry(configuration, target)
    if request.max_minutes and not configuration.max_duration_minutes:
        # The limit applies to each attempt.
        minutes = max(1, request.max_minutes // (1 + retry.retry_of(configuration).times))
        configuration = configuration._replace(max_duration_minutes=minutes)
    return configuration


def _with_variables(configuration: RunConfiguration, variables: tuple[tuple[str, str], ...]) -> RunConfiguration:
    secret = next((name for name, value in variables if mask_value(name, value) != value), "")
    if secret:
        raise UsageError(
            f"{secret} is a secret and cannot be set for a single run",
            remedy=f"Set it in {configuration.key('EnvironmentVariables')} of {configuration.path}.",
        )
    merged = {**configuration.environment_variables, **dict(variables)}
    return configuration._replace(environment_variables=merged)


def _with_slurm_options(configuration: RunConfiguration, target: ComputeTarget, text: str) -> RunConfiguration:
    if not target.kind.reads(OVERRIDE):
        raise UsageError(
            f"Slurm options need a target of type slurm, but {target.name} is of type {target.type}",
            remedy="Omit them, or choose a target of type slurm.",
        )
    options = options_of(text)
    nodes = 0 if "nodes" in options else configuration.nodes
    return configuration._replace(slurm={**configuration.slurm, **options}, nodes=nodes)


def _require_nodes(configuration: RunConfiguration, target: ComputeTarget) -> None:
    """Raise ConfigurationError if the target cannot have several nodes, or if the file sets two different numbers."""
    count, path = configuration.nodes, configuration.path
    line = line_of_key(path, NODES)
    if count > 1 and not target.kind.reads(NODES):
        raise ConfigurationError(
            f"`Nodes` is {count}, but targets of type {target.type} do not support it",
            remedy="Remove `Nodes`, or choose a target of type slurm.",
            file=path,
            line=line,
        )
    number = configuration.slurm.get("nodes", count)
    if count and number != count and target.kind.reads(OVERRIDE):
        raise ConfigurationError(
            f"`Nodes` is {count}, but `Slurm.nodes` is {number}",
            remedy="Remove `Slurm.nodes`.",
            file=path,
            line=line,
        )


def _require_retry(configuration: RunConfiguration, target: ComputeTarget) -> None:
    """Raise ConfigurationError if `Retry` is set, but the target cannot start a run again."""
    if not configuration.retry or target.kind.reads(retry.SECTION):
        return
    raise ConfigurationError(
        f"`Retry` cannot start a run again on targets of type {target.type}",
        remedy="Remove `Retry`.",
        file=configuration.path,
        line=line_of_key(configuration.path, retry.SECTION),
    )


def _script_and_arguments(
    project: Project, request: RunRequest, configuration: RunConfiguration
) -> tuple[str, tuple[str, ...]]:
    """Return the script, relative to the project, and its arguments. Raises UsageError if there is no such script.

    A file that cannot be a script is refused, too; see `script_problem`.
    """
    script, arguments, vector = request.script, request.arguments, configuration.argument_vector
    if not script:
        if not vector or vector[0] == FILE_VARIABLE:
            raise UsageError(
                f"no script given, and ArgumentVector of {configuration.path} has none",
                remedy="Name a script of the project, or set one as the first item of ArgumentVector.",
            )
        script, arguments = vector[0], (*vector[1:], *arguments)
    elif vector and vector[0] == FILE_VARIABLE and not arguments and not request.exact_arguments:
        arguments = vector[1:]
    if "\0" in script:
        raise UsageError("the script name contains a NUL character", remedy="Name a script of the project.")
    relative = _inside(project.root, os.path.join(project.root, script))
    if not os.path.isfile(os.path.join(project.root, relative)) and os.path.isfile(script):
        relative = _inside(project.root, script)
    if not relative:
        raise UsageError(
            f"the script {script} is outside the project {project.root}", remedy="Name a script of the project."
        )
    path = os.path.join(project.root, relative)
    if not os.path.isfile(path):
        state = "is a folder" if os.path.isdir(path) else "does not exist"
        raise UsageError(f"the script {script} {state}", remedy=f"Name a file in {project.root}.")
    problem = script_problem(path, relative)
    if problem is not None:
        raise problem
    return relative, arguments


def _inside(root: str, path: str) -> str:
    """Return a path relative to the folder `root`, or "" if it is outside."""
    parent, name = os.path.split(os.path.abspath(path))
    # Resolve only links to folders, so that a script that is a link keeps its name.
    resolved = os.path.join(os.path.realpath(parent), name)
    for folder, inner in ((root, os.path.abspath(path)), (os.path.realpath(root), resolved)):
        relative = os.path.relpath(inner, folder)
        if relative != os.pardir and not relative.startswith(os.pardir + os.sep):
            return relative
    return ""


def request_of(project: Project, run_id: str) -> RunRequest:
    """Return a request that repeats a run unchanged; see `Runs.request_of`."""
    spec = _record_of(project, run_id).spec
    return RunRequest("", spec.script, spec.arguments, exact_arguments=True, origin=run_id)


def _record_of(project: Project, run_id: str) -> Record:
    return RunDirectory(os.path.join(project.runs_directory, run_id)).read_record()


def _target_of(project: Project, target: ComputeTarget) -> ComputeTarget:
    """Return the recorded target, with the current credentials if its type, address and user have not changed."""
    path = os.path.join(project.config_directory, target.name + COMPUTE_SUFFIX)
    target = target._replace(path=path)
    try:
        current = project.target(target.name)
    except ConfigurationError:
        return target
    if (current.type, current.address, current.username) != (target.type, target.address, target.username):
        # Secrets are sent only to the machine and the login for which the user has entered them.
        return target
    return target._replace(
        password=current.password,
        private_key=current.private_key,
        private_key_passphrase=current.private_key_passphrase,
    )


def nothing_to_prepare(target: ComputeTarget) -> UsageError | None:
    """Return an error if the workbench builds no environment for runs on the target; None if it builds one."""
    if not target.builds_environment:
        return UsageError(
            f"nothing to prepare: runs on target {target.name!r} use your own Python",
            remedy="Install the packages into that Python, or into the container image of a Slurm target.",
        )
    return None


def prepare_environment(project: Project, run_configuration: str, target: str, report: Report) -> str:
    """Prepare the environment of a run configuration on a target, and return its name. This blocks.

    Raises UsageError if there is nothing to prepare, ConfigurationError if packages are not available,
    TargetUnreachable, Interrupted or WorkbenchError.
    """
    configuration = project.run_configuration(run_configuration)
    compute = project.target_of(configuration, target)
    if (refusal := nothing_to_prepare(compute)) is not None:
        raise refusal
    implementation = target_for(compute)
    with contextlib.closing(implementation):
        return implementation.python_environment(bare_spec(project, configuration, compute)).prepare(report)
