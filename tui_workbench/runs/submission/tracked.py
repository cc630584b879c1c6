"""Plan tracked runs, and find and check the snapshot and the script of a repeated run."""

from __future__ import annotations

import os

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest, RunSpec, Step
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.project_files import is_never_taken
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.snapshot_view import damage
from tui_workbench.runs.store.rundir import Record


def snapshot_steps(project: Project, spec: RunSpec, origin: str) -> tuple[Step, Step]:
    """Return the two steps that take the snapshot and create the working copy.

    Raises UsageError for a script in a folder that is not copied.
    """
    if is_never_taken(spec.script):
        raise UsageError(
            f"the script {spec.script} is in a folder that is not copied for tracked runs",
            remedy="Move the script to another folder. If the run uses this machine, you can instead set "
            "`TrackedRun: false` in the run configuration, to run the script in the project.",
        )
    store = SnapshotStore(project.root, project.state_directory)
    if origin:
        note = Step("snapshot", f"use the snapshot of {origin}")
        return note, Step("copy", "create the working copy", directory=spec.working_directory)
    if not store.available:
        note = Step("snapshot", "git is not installed: the working copy is the snapshot")
        return note, Step("copy", "copy the project", directory=spec.working_directory)
    add = ("git", "update-index", "--add", "--stdin")
    checkout = ("git", "checkout-index", "--all", f"--prefix={spec.working_directory}/")
    variables = {"GIT_DIR": store.repository.path, "GIT_WORK_TREE": project.root}
    return (
        Step("snapshot", "commit the current project", add, project.root, variables),
        Step("copy", "create the working copy; copy ignored files", checkout, project.root, variables),
    )


def commit_of(record: Record) -> str:
    """Return the commit to run, or "" for an untracked run. Raises UsageError if the snapshot is not available."""
    if record.snapshot == "git":
        return record.commit_id
    if record.snapshot == "copy":
        raise _no_snapshot(record, "git was not available, so it has no snapshot")
    if record.commit_id:
        raise _no_snapshot(record, "its snapshot is on the machine that submitted it")
    return ""


def script_in_snapshot(project: Project, request: RunRequest, origin: Record) -> str:
    """Return the script of a request that runs a snapshot, relative to the project.

    Raises UsageError if the snapshot is missing or does not contain the script. An ignored script can be in the project
    instead.
    """
    store = SnapshotStore(project.root, project.state_directory)
    script = os.path.normpath(request.script)
    if os.path.isabs(script):
        script = os.path.relpath(script, project.root)
    if store.holds(origin.commit_id, script):
        return script
    if not store.holds(origin.commit_id):
        problem = damage(project.state_directory, origin.commit_id)
        raise _no_snapshot(
            origin, problem or "git is not installed, or its commit is no longer in the project's snapshots"
        )
    if problem := damage(project.state_directory, origin.commit_id, script):
        raise _no_snapshot(origin, problem)
    # An ignored script is not in the snapshot. The working copy gets it from the project.
    if script == origin.spec.script and os.path.isfile(os.path.join(project.root, script)):
        return script
    raise UsageError(
        f"the snapshot of run {request.origin} has no script {request.script}",
        remedy="Choose a script in the snapshot, or submit a new run of the current project.",
    )


def _no_snapshot(record: Record, reason: str) -> UsageError:
    """Return the error for a run that cannot be repeated because its snapshot is not available."""
    return UsageError(
        f"cannot repeat run {record.run_id}: {reason}",
        remedy="Run the current project: `workbench-tui experiment submit -c NAME SCRIPT`.",
    )
