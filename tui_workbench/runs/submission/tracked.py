"""What only a tracked run, or a run of a snapshot, needs of its planning: its snapshot, and the script in there."""

from __future__ import annotations

import os

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest, RunSpec, Step
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.project_files import is_never_taken
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.store.rundir import Record

COPIED = "the copy of the project that it ran in was not kept apart from what it did there, as git was missing then"


def refuse_unseen(script: str) -> None:
    """Raise UsageError for a script that no copy of the project holds."""
    if is_never_taken(script):
        raise UsageError(
            f"the script {script} lies where a tracked run cannot see it",
            remedy="Move it, or set `TrackedRun: false` to run in place.",
        )


def snapshot_steps(project: Project, spec: RunSpec, origin: str) -> tuple[Step, Step]:
    """The steps of a plan that make the run's own copy of the project."""
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


def script_in_snapshot(project: Project, request: RunRequest, origin: Record) -> str:
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


def commit_of(record: Record) -> str:
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
