"""Running a run again: as it was, or with changes.

As it was means its snapshot, its arguments, its run configuration and its target as run.json has them. What run.json
does not hold, which is secrets, comes from the configuration files as they are now. What an untracked run had there
is no snapshot of; run again, it runs in the project as that is now, like the first time.
"""

from __future__ import annotations

import os

from tui_workbench.errors import ConfigurationError, UsageError
from tui_workbench.model import RunRequest
from tui_workbench.project import COMPUTE_SUFFIX, RUN_CONFIGURATION_SUFFIX
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import RunDirectory

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget, RunConfiguration
    from tui_workbench.project import Project
    from tui_workbench.runs.rundir import Record

COPIED = "the copy of the project that it ran in was not kept apart from what it did there, as git was missing then"


class Basis(NamedTuple):
    """What a run is made of, besides the arguments."""

    configuration: RunConfiguration
    target: ComputeTarget
    commit: str = ""  # the snapshot to take; "" for the project as it is


def request_of(project: Project, run_id: str) -> RunRequest:
    """What would run a run again as it was, to be changed at will. Raises RunNotFound."""
    spec = _record_of(project, run_id).spec
    return RunRequest("", spec.script, spec.arguments, exact_arguments=True, origin=run_id)


def completed(project: Project, request: RunRequest) -> RunRequest:
    """The request with the script and the arguments of the run that it repeats, when it names no script."""
    if request.script:
        return request
    as_it_was = request_of(project, request.origin)
    return request._replace(script=as_it_was.script, arguments=as_it_was.arguments, exact_arguments=True)


def basis_of(project: Project, request: RunRequest) -> Basis:
    """What a request that names a run to run again stands on: what is empty in it is as it was in that run.

    Raises RunNotFound, ConfigurationError, or UsageError when there is no snapshot of the run.
    """
    record = _record_of(project, request.origin)
    spec = record.spec
    if request.run_configuration:
        configuration = project.run_configuration(request.run_configuration)
        target = project.target_of(configuration, request.target)
    else:
        path = os.path.join(project.config_directory, spec.run_configuration.name + RUN_CONFIGURATION_SUFFIX)
        configuration = spec.run_configuration._replace(path=path)
        target = project.target(request.target) if request.target else _target_of(project, spec.target)
    commit = _commit_of(record)
    # A snapshot can be run nowhere else than in a copy of its own.
    return Basis(configuration._replace(tracked_run=True) if commit else configuration, target, commit)


def script_of(project: Project, request: RunRequest, commit: str) -> str:
    """The script of a request that runs a commit. Raises UsageError when the commit does not hold it."""
    from tui_workbench.runs.snapshot import SnapshotStore

    store = SnapshotStore(project.root, project.state_directory)
    script = os.path.normpath(request.script)
    if os.path.isabs(script):
        script = os.path.relpath(script, project.root)
    if store.holds(commit, script):
        return script
    record = _record_of(project, request.origin)
    if not store.holds(commit):
        raise _no_snapshot(record, "its commit is not in the project's snapshots any more")
    # A script that the ignore files exclude was linked into the run's copy, and is again.
    if script == record.spec.script and os.path.isfile(os.path.join(project.root, script)):
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
