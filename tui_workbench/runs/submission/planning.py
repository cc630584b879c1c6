"""From a request to what a run would do: its specification and its plan. Nothing is changed.

A request may name a run to run again, as it was or with changes. As it was means its snapshot, its arguments, its run
configuration and its target as run.json has them. What run.json does not hold, which is secrets, comes from the
configuration files as they are now. An untracked run has no snapshot; run again, it runs in the project as that is now.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.errors import ConfigurationError, TargetUnreachable, UsageError
from tui_workbench.core.masking import mask_value
from tui_workbench.core.model import ComputeTarget, Plan, RunConfiguration, RunRequest, RunSpec, Step
from tui_workbench.projects.project import COMPUTE_SUFFIX, RUN_CONFIGURATION_SUFFIX, Project
from tui_workbench.runs.gpu.gate import STEP, TITLE, look
from tui_workbench.runs.lifecycle.building import likely_run_id
from tui_workbench.runs.lifecycle.limits import is_limited, step_of
from tui_workbench.runs.snapshots.contents import planned_files
from tui_workbench.runs.snapshots.project_files import is_never_taken
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.working_copy import listing_of_project
from tui_workbench.runs.store import withheld
from tui_workbench.runs.store.rundir import WORKING_COPY, Record, RunDirectory
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.base.values import Report
from tui_workbench.targets.gpu.gpus import asked_for

FILE_VARIABLE = "$file"
"""Stands in an ArgumentVector for the script that the user chose."""


class Basis(NamedTuple):
    """What a run is made of, besides the script and its arguments."""

    configuration: RunConfiguration
    target: ComputeTarget
    commit: str = ""  # the snapshot to take; "" for the project as it is
    origin: Record | None = None  # the run that is run again


class Prepared(NamedTuple):
    """A request that was found good."""

    spec: RunSpec
    plan: Plan
    commit: str = ""  # as in Basis


def prepare(project: Project, request: RunRequest) -> Prepared:
    """Check a request and plan it; touches nothing. Raises ConfigurationError or UsageError.

    The run id is the one that a submit at this moment would most likely get.
    """
    configuration, target, commit, origin = basis_of(project, request)
    if request.environment:
        configuration = _with_variables(configuration, request.environment)
    if origin is not None and not request.script:
        request = request._replace(script=origin.spec.script, arguments=origin.spec.arguments, exact_arguments=True)
    if origin is not None and commit:
        script, arguments = _script_in_snapshot(project, request, origin), request.arguments
    else:
        script, arguments = _script_and_arguments(project, request, configuration)
    withheld.refuse_masks(arguments)
    spec = bare_spec(project, configuration, target)._replace(
        script=script, arguments=arguments, keep_outputs=request.keep_outputs
    )
    if spec.tracked and is_never_taken(script):
        raise UsageError(
            f"the script {script} lies where a tracked run cannot see it",
            remedy="Move it, or set `TrackedRun: false` to run in place.",
        )
    if origin is not None:
        withheld.with_secrets(spec)
    return Prepared(*planned(project, spec, request, likely_run_id(project)), commit)


def planned(project: Project, spec: RunSpec, request: RunRequest, run_id: str) -> tuple[RunSpec, Plan]:
    """The specification as that of the run `run_id`, and its plan. Raises ConfigurationError."""
    directory = os.path.join(project.runs_directory, run_id)
    working_directory = os.path.join(directory, WORKING_COPY) if spec.tracked else project.root
    spec = spec._replace(run_id=run_id, run_directory=directory, working_directory=working_directory)
    plan = target_for(spec.target).plan(spec)
    before: tuple[Step, ...] = _snapshot_steps(project, spec, request.origin) if spec.tracked else ()
    if is_limited(spec.target, request):
        before = (*before[:1], step_of(spec.target, request), *before[1:])
    if asks_for_gpu(spec, request):
        before = (Step(STEP, TITLE), *before)
    return spec, plan._replace(steps=(*before, *plan.steps))


def bare_spec(project: Project, configuration: RunConfiguration, target: ComputeTarget) -> RunSpec:
    """The specification of no run: what a run configuration says of a target, without a script."""
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
    """Whether the run must have a GPU to start: its files ask for one, and it may not train on the CPU."""
    return not request.allow_cpu and bool(asked_for(spec.target, spec.run_configuration))


def basis_of(project: Project, request: RunRequest) -> Basis:
    """What a request stands on: what it leaves open is as in the run that it names to run again, if it names one.

    Raises RunNotFound, ConfigurationError, or UsageError when there is no snapshot of the run.
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
    commit = _commit_of(origin) if origin is not None else ""
    if commit:
        # A snapshot can be run nowhere else than in a copy of its own.
        configuration = configuration._replace(tracked_run=True)
    return Basis(configuration, target, commit, origin)


def _with_variables(configuration: RunConfiguration, variables: tuple[tuple[str, str], ...]) -> RunConfiguration:
    secret = next((name for name, value in variables if mask_value(name, value) != value), "")
    if secret:
        raise UsageError(
            f"the value of {secret} is a secret, and those are not taken from here",
            remedy=f"Set it in {configuration.key('EnvironmentVariables')} of {configuration.path}.",
        )
    merged = {**configuration.environment_variables, **dict(variables)}
    return configuration._replace(environment_variables=merged)


def _script_and_arguments(
    project: Project, request: RunRequest, configuration: RunConfiguration
) -> tuple[str, tuple[str, ...]]:
    """The script, relative to the project, and its arguments. Raises UsageError when there is no such script."""
    script, arguments, vector = request.script, request.arguments, configuration.argument_vector
    if not script:
        if not vector or vector[0] == FILE_VARIABLE:
            raise UsageError(
                f"no script was named, and ArgumentVector of {configuration.path} leaves it open",
                remedy="Name a script of the project.",
            )
        script, arguments = vector[0], (*vector[1:], *arguments)
    elif vector and vector[0] == FILE_VARIABLE and not arguments and not request.exact_arguments:
        arguments = vector[1:]
    if "\0" in script:
        raise UsageError("a script's name cannot hold a NUL character", remedy="Name a script of the project.")
    relative = _inside(project.root, os.path.join(project.root, script))
    if not os.path.isfile(os.path.join(project.root, relative)) and os.path.isfile(script):
        relative = _inside(project.root, script)
    if not relative:
        raise UsageError(f"{script} is outside of the project {project.root}", remedy="Name a script of the project.")
    path = os.path.join(project.root, relative)
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise UsageError(f"the script {script} {what}", remedy=f"Name a file in {project.root}.")
    return relative, arguments


def _inside(root: str, path: str) -> str:
    """The path relative to the folder; empty when it leads out of it."""
    parent, name = os.path.split(os.path.abspath(path))
    # The folder's links only: a script that is itself a link runs under its own name.
    resolved = os.path.join(os.path.realpath(parent), name)
    for folder, inner in ((root, os.path.abspath(path)), (os.path.realpath(root), resolved)):
        relative = os.path.relpath(inner, folder)
        if relative != os.pardir and not relative.startswith(os.pardir + os.sep):
            return relative
    return ""


def _snapshot_steps(project: Project, spec: RunSpec, origin: str) -> tuple[Step, Step]:
    store = SnapshotStore(project.root, project.state_directory)
    if origin:
        note = Step("snapshot", f"take the snapshot of {origin}")
        return note, Step("copy", "make the run's own copy of it", directory=spec.working_directory)
    if not store.available:
        note = Step("snapshot", "no git on this machine: the copy is the snapshot")
        return note, Step("copy", "copy the project", directory=spec.working_directory)
    add, checkout = store.commands(spec.working_directory)
    variables = {"GIT_DIR": store.repository, "GIT_WORK_TREE": project.root}
    return (
        Step("snapshot", "record the project as it is now", add, project.root, variables),
        Step("copy", "make the run's own copy; ignored files are copied", checkout, project.root, variables),
    )


COPIED = "the copy of the project that it ran in was not kept apart from what it did there, as git was missing then"


def request_of(project: Project, run_id: str) -> RunRequest:
    """What would run a run again as it was, to be changed at will. Raises RunNotFound."""
    spec = _record_of(project, run_id).spec
    return RunRequest("", spec.script, spec.arguments, exact_arguments=True, origin=run_id)


def _script_in_snapshot(project: Project, request: RunRequest, origin: Record) -> str:
    """The script of a request that runs a snapshot. Raises UsageError when the snapshot does not hold it."""
    store = SnapshotStore(project.root, project.state_directory)
    script = os.path.normpath(request.script)
    if os.path.isabs(script):
        script = os.path.relpath(script, project.root)
    if store.holds(origin.commit_id, script):
        return script
    if not store.holds(origin.commit_id):
        raise _no_snapshot(origin, "its commit is not in the project's snapshots any more")
    # A script that the ignore files exclude was linked into the run's copy, and is again.
    if script == origin.spec.script and os.path.isfile(os.path.join(project.root, script)):
        return script
    raise UsageError(
        f"the snapshot of {request.origin} holds no script {request.script}",
        remedy="Name one that it holds, or submit it to run the project as it is now.",
    )


def _record_of(project: Project, run_id: str) -> Record:
    return RunDirectory(os.path.join(project.runs_directory, run_id)).read_record()


def _commit_of(record: Record) -> str:
    """The commit to run, "" for an untracked run; whether it is there is seen when the script is looked for."""
    if record.snapshot == "git":
        return record.commit_id
    if record.snapshot == "copy":
        raise _no_snapshot(record, COPIED)
    if record.commit_id:
        raise _no_snapshot(record, "another machine submitted it, and its snapshot is there")
    return ""


def _no_snapshot(record: Record, why: str) -> UsageError:
    return UsageError(
        f"{record.run_id} cannot be run again as it was: {why}",
        remedy="`workbench-tui experiment submit` runs the project as it is now.",
    )


def _target_of(project: Project, target: ComputeTarget) -> ComputeTarget:
    """The recorded target, with the way to log in that holds now for the same user of the same machine."""
    path = os.path.join(project.config_directory, target.name + COMPUTE_SUFFIX)
    target = target._replace(path=path)
    try:
        now = project.target(target.name)
    except ConfigurationError:
        return target
    if (now.type, now.address, now.username) != (target.type, target.address, target.username):
        return target
    return target._replace(
        password=now.password, private_key=now.private_key, private_key_passphrase=now.private_key_passphrase
    )


def survey(prepared: Prepared) -> tuple[Plan, str]:
    """The plan as far as the target can be asked, and why it cannot be, "" when it could.

    Changes nothing. Raises ConfigurationError for what would keep the run from starting.
    """
    spec, plan, commit = prepared
    if any(step.name == STEP for step in plan.steps):
        seen = look(spec)
        title = f"{TITLE}: {seen.text}"
        if seen.refusal is not None:
            title = f"it would not start: {seen.refusal.message}. {' '.join(seen.refusal.remedy.split())}"
        steps = (step._replace(title=title) if step.name == STEP else step for step in plan.steps)
        plan = plan._replace(steps=tuple(steps))
    if spec.tracked:
        plan = planned_files(spec, plan, is_again=bool(commit))
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    with contextlib.closing(target_for(spec.target)) as target:
        try:
            return target.survey(spec, plan, lambda: listing_of_project(spec.project_root, data)), ""
        except TargetUnreachable as error:
            return plan, str(error)


def nothing_to_prepare(target: ComputeTarget) -> UsageError | None:
    """Why runs on a target need no environment made beforehand; None where one can be made."""
    if target.kind.uses_interpreter and not target.builds_environment:
        return UsageError(
            f"runs on {target.name} use your own Python: there is nothing to prepare",
            remedy="Install packages with that Python.",
        )
    return None


def prepare_environment(project: Project, run_configuration: str, target: str, report: Report) -> str:
    """Have the environment that runs of the configuration take on its target, or on another one; returns its name.

    Blocks until it is there. Raises UsageError (nothing to prepare there), ConfigurationError (a package that
    cannot be had), TargetUnreachable, Interrupted or WorkbenchError.
    """
    configuration = project.run_configuration(run_configuration)
    compute = project.target_of(configuration, target)
    if (refusal := nothing_to_prepare(compute)) is not None:
        raise refusal
    implementation = target_for(compute)
    implementation.report = report
    with contextlib.closing(implementation):
        return implementation.prepare_environment(bare_spec(project, configuration, compute))
