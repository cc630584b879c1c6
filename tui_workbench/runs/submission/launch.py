"""Submitting: from a request to a run that runs.

Order is what keeps a run whole: first everything that can be wrong is looked at, then the snapshot is taken, then
`run.json` is written and the directory gets its name in one rename. Before that rename there is no run; after it any
controller can bring it to its end.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Callable
from typing import TYPE_CHECKING

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.model import Run, RunRequest, RunSpec, RunState
from tui_workbench.core.trace import for_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.gate import admit
from tui_workbench.runs.lifecycle import building, limits
from tui_workbench.runs.lifecycle.starting import detach, leave_descriptors, spawn, start_script
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.store import secret_arguments
from tui_workbench.runs.store.rundir import RECORD, WORKING_COPY, ControllerLock, Record, RunDirectory
from tui_workbench.runs.submission.planning import asks_for_gpu, planned, prepare
from tui_workbench.targets.base.registry import target_for

if TYPE_CHECKING:
    from tui_workbench.runs.snapshots.contents import Contents


def submit(
    project: Project,
    request: RunRequest,
    *,
    single_threaded: bool = False,
    on_started: Callable[[Run], object] | None = None,
) -> Run:
    """See `Runs.submit`."""
    directory, lock, record = create_run(project, request)
    target = target_for(record.spec.target)
    try:
        if directory.is_waiting and not _enter_line(project, directory, lock):
            # Its lock is released, and whoever ends the run before it starts it.
            if on_started is not None:
                on_started(directory.run())
            return directory.run()
        if target.starts_at_once:
            start_script(directory, record, target, TargetLifecycle(target, directory, record))
            if on_started is not None:
                on_started(directory.run())
        detach(directory, lock, _fork if single_threaded else spawn)
    except BaseException:
        # No caller has seen its id yet, so no other process would look after it.
        with building.uninterrupted():
            if target.starts_at_once:
                target.stop(record.spec, grace=0.0)
            lock.release()
            building.discard_run(directory, directory.path)
        raise
    return directory.run()


def _enter_line(project: Project, directory: RunDirectory, lock: ControllerLock) -> bool:
    """Put a new run in line; see `queueing.enter`."""
    from tui_workbench.runs.lifecycle.queueing import enter
    from tui_workbench.runs.store.index import RunIndex

    with RunIndex(project) as index:
        active = index.active()
    return enter(directory, lock, active)


def create_run(project: Project, request: RunRequest) -> tuple[RunDirectory, ControllerLock, Record]:
    """Check the request, take the snapshot and write the run's directory.

    The lock returned is held: nobody else resumes the run meanwhile. Raises ConfigurationError, UsageError or
    StorageError; then nothing is left behind.
    """
    spec, plan, origin_commit = prepare(project, request)
    if asks_for_gpu(spec, request):
        # All members of a sweep are as its first one is.
        spec = admit(spec) if request.member <= 1 else spec._replace(gpu_check_due=True)
    contents = _look_at_files(project, spec, request.origin) if spec.tracked else None
    project.prepare_state()
    spec, plan = planned(project, spec, request, building.reserve_run_id(project))
    if contents is not None:
        plan = contents.add_to_plan(plan)
    limited = limits.is_limited(spec.target, request)
    with building.new_directory(project, spec.run_id) as (directory, lock), contextlib.ExitStack() as undone:
        undone.callback(secret_arguments.remove, spec)
        with for_run(directory.path):
            commit_id, kind = _take_snapshot(project, spec, directory, origin_commit, contents, copy_later=limited)
        record = Record(
            spec.run_id, building.next_run_number(project), building.created_at(spec.run_id), _user(), spec, plan,
            commit_id, kind, request.origin, request.group, request.member,
        )  # fmt: skip
        secret_arguments.save(spec)
        directory.write_record(record)
        if limited:
            limits.register(directory, spec, request, record.run_number)
        if spec.tracked:
            # By its file time what the run makes is told from what it found.
            building.let_clock_move_on(directory, os.stat(directory.file(RECORD)).st_mtime_ns)
        directory.append_event("state", state=RunState.QUEUED)
        if contents is not None:
            contents.append_notes(directory)
        published = building.publish(directory, record)
        undone.pop_all()
    return published, lock, record


def _fork(directory: RunDirectory, lock: ControllerLock) -> int:
    """Start the controller as a copy of this process, for `detach`: the copy needs no interpreter start.

    Only for a process that has one thread. Returns the process id. Raises OSError.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        leave_descriptors(lock.descriptor)
        lock.sign()
        # The script runs already: what only its controller needs is loaded meanwhile.
        from tui_workbench.runs.lifecycle.controller import drive

        drive(directory, lock)
        code = 0
    finally:
        os._exit(code)


def _look_at_files(project: Project, spec: RunSpec, origin: str) -> Contents:
    from tui_workbench.runs.snapshots.contents import check_files

    return check_files(project, spec, origin)


def _take_snapshot(
    project: Project, spec: RunSpec, directory: RunDirectory, commit: str, contents: Contents | None, *,
    copy_later: bool,
) -> tuple[str, str]:  # fmt: skip
    """The commit, if any, and the kind of the snapshot; a `commit` that is there already is taken as it is.

    With `copy_later` there is no working copy yet, if there is git to make it with.
    """
    if not spec.tracked:
        return "", "none"
    from tui_workbench.runs.snapshots.snapshot import REFERENCES, SnapshotStore

    data = data_in_project(project.root, spec.run_configuration.data_references)
    store = SnapshotStore(project.root, project.state_directory, data, contents)
    reference = f"{REFERENCES}/{spec.run_id}"
    if commit:
        store.keep(reference, commit)
    elif copy_later and store.available:
        commit = store.record(reference, spec.run_id)
    if not commit:
        snapshot = store.take(spec.run_id, directory.file(WORKING_COPY))
        return snapshot.commit_id, snapshot.kind
    if copy_later:
        building.leave_copy_for_later(directory)
    else:
        store.check_out(commit, directory.file(WORKING_COPY))
    return commit, "git"


def _user() -> str:
    with contextlib.suppress(KeyError):
        return os.environ.get("USER") or os.environ.get("LOGNAME") or pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())
