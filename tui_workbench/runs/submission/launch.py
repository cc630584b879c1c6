"""Submit a run: check the request, take the snapshot, create the run directory and start the script.

After all checks, the snapshot is taken, `run.json` is written, and the directory gets its final name. Before this
rename, other processes do not see the run. After the rename, any controller can complete the run.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.model import Run, RunRequest, RunSpec, RunState
from tui_workbench.core.processes import uninterrupted
from tui_workbench.core.trace import agent_name, current_agent, for_agent, for_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.gate import admit
from tui_workbench.runs.lifecycle import deferred_copy, limits
from tui_workbench.runs.lifecycle.handover import hand_over
from tui_workbench.runs.lifecycle.starting import (
    WATCHER,
    close_other_descriptors,
    detach,
    end_run,
    spawn,
    start_script,
)
from tui_workbench.runs.lifecycle.stored_environment import save_environment
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.notify.buses import remember_bus
from tui_workbench.runs.store import new_run, run_ids, secret_arguments
from tui_workbench.runs.store.rundir import RECORD, WORKING_COPY, ControllerLock, Record, RunDirectory
from tui_workbench.runs.submission.planning import asks_for_gpu, dependency_of, planned, prepare
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.registry import target_for

if TYPE_CHECKING:
    from tui_workbench.runs.snapshots.contents import Contents


def _accept(_spec: RunSpec) -> None:
    """Accept every run."""


def submit(
    project: Project,
    request: RunRequest,
    *,
    single_threaded: bool = False,
    on_started: Callable[[Run], object] | None = None,
    check: Callable[[RunSpec], object] = _accept,
) -> Run:
    """Submit a run; see `Runs.submit`. `check`: see `create_run`."""
    directory, lock, record = create_run(project, request, check)
    remember_bus()
    target = target_for(record.spec.target)
    try:
        if target.drives_together or record.spec.run_configuration.retry:
            save_environment(directory, os.environ)
        if directory.is_waiting and not _enter_queue(project, directory, lock):
            # The lock is released, and the process that ends an earlier run starts this run.
            if on_started is not None:
                on_started(directory.run())
            return directory.run()
        if target.starts_at_once:
            ending = start_script(directory, record, target, TargetLifecycle(target, directory, record))
            if ending is not None:
                end_run(directory, record, ending)
            if on_started is not None:
                on_started(directory.run())
        if single_threaded and not target.drives_together:
            detach(directory, lock, _fork)  # a fork is faster than a watcher, and later leaves the run to the watcher
        else:
            hand_over(directory, lock, target, _fork if single_threaded else spawn)
    except BaseException:
        # The caller does not know the ID of the run and could not cancel it, so remove the run.
        with uninterrupted():
            if target.starts_at_once:
                target.stop(record.spec, grace=0.0)
            lock.release()
            new_run.discard_run(directory, directory.path)
        raise
    return directory.run()


def _enter_queue(project: Project, directory: RunDirectory, lock: ControllerLock) -> bool:
    """Queue a new run. Return True if the caller must start it now; otherwise, its lock is released.

    Active runs of the project on the same target count, even if no limit applied when they started. Raises
    StorageError.
    """
    from tui_workbench.runs.index.index import RunIndex
    from tui_workbench.runs.lifecycle.queueing import enter

    with RunIndex(project) as index:
        active = index.active()
    return enter(directory, lock, active)


def create_run(
    project: Project, request: RunRequest, check: Callable[[RunSpec], object] = _accept
) -> tuple[RunDirectory, ControllerLock, Record]:
    """Check the request, take the snapshot and create the run directory.

    `check` is called with the resolved request before anything is created, and again after the snapshot was taken, with
    the final ID and directory of the run. It can raise an error. The caller holds the returned lock, so that no other
    process resumes the run. Raises ConfigurationError, UsageError or StorageError; no run directory remains in this
    case.
    """
    resolved, plan, origin_commit = prepare(project, request)
    check(resolved)
    contacts.record(resolved.target)
    spec = _admitted(resolved, request)
    contents = _check_files(project, spec, request.origin) if spec.tracked else None
    project.prepare_state()
    spec, plan = planned(project, spec, request, run_ids.reserve_run_id(project))
    if contents is not None:
        plan = contents.add_to_plan(plan)
    agent = agent_name(request.agent) or current_agent()
    limited, after = limits.is_limited(spec.target, request), dependency_of(project, request)
    with new_run.new_directory(project, spec.run_id) as (directory, lock), contextlib.ExitStack() as undone:
        undone.callback(secret_arguments.remove, spec)
        with for_run(directory.path), for_agent(agent):
            commit_id, kind = _take_snapshot(project, spec, directory, origin_commit, contents, defer_copy=limited)
        check(resolved._replace(run_id=spec.run_id, run_directory=spec.run_directory))
        record = Record(
            spec.run_id, run_ids.next_run_number(project), run_ids.created_at(spec.run_id), _user(), spec, plan,
            commit_id, kind, request.origin, request.group, request.member, request.family,
            tuple(f"{name}={value}" for name, value in request.environment), agent,
        )  # fmt: skip
        secret_arguments.save(spec)
        directory.write_record(record)
        if limited:
            limits.register(directory, spec, request, record.run_number, after)
        if spec.tracked:
            # Files that the run writes must have later times than the files of the working copy.
            deferred_copy.wait_for_clock_tick(directory, os.stat(directory.file(RECORD)).st_mtime_ns)
        directory.append_event("state", state=RunState.QUEUED)
        if contents is not None:
            contents.append_notes(directory)
        published = new_run.publish(directory, record)
        undone.pop_all()
    return published, lock, record


def _admitted(spec: RunSpec, request: RunRequest) -> RunSpec:
    """Check that a run that must use a GPU can use one, and return its specification. Raises NoGpu."""
    if not asks_for_gpu(spec, request):
        return spec
    # Only the first run of a sweep is checked now. The others, which are similar, are checked when they start.
    return admit(spec) if request.member <= 1 else spec._replace(gpu_check_due=True)


def _fork(directory: RunDirectory, lock: ControllerLock, module: str, variables: Mapping[str, str]) -> int:
    """Start a module in a fork, which is faster than a new interpreter; see `starting.spawn`.

    This process must have only one thread. Raises OSError.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.environ.update(variables)
        close_other_descriptors(lock.descriptor)
        lock.sign()
        # Import the module here, while the script is already running, because the import takes time.
        if module == WATCHER:
            from tui_workbench.runs.lifecycle.watcher import drive
        else:
            from tui_workbench.runs.lifecycle.controller import drive

        drive(directory, lock)
        code = 0
    finally:
        os._exit(code)


def _check_files(project: Project, spec: RunSpec, origin: str) -> Contents:
    from tui_workbench.runs.snapshots.contents import check_files

    return check_files(project, spec, origin)


def _take_snapshot(
    project: Project, spec: RunSpec, directory: RunDirectory, commit: str, contents: Contents | None, *,
    defer_copy: bool,
) -> tuple[str, str]:  # fmt: skip
    """Take a snapshot, or use the existing `commit`. Return the commit ID or "", and the kind of snapshot.

    With `defer_copy`, the working copy is made when the run starts, if git is available.
    """
    if not spec.tracked:
        return "", "none"
    from tui_workbench.runs.snapshots.snapshot import SnapshotStore

    data = data_in_project(project.root, spec.run_configuration.data_references)
    store = SnapshotStore(project.root, project.state_directory, data, contents)
    reference = store.reference_of(spec.run_id)
    if commit:
        store.keep(reference, commit)
    elif defer_copy and store.available:
        commit = store.record(reference, spec.run_id)
    if not commit:
        snapshot = store.take(spec.run_id, directory.file(WORKING_COPY))
        return snapshot.commit_id, snapshot.kind
    if defer_copy:
        deferred_copy.defer_copy(directory)
    else:
        store.check_out(commit, directory.file(WORKING_COPY))
    return commit, "git"


def _user() -> str:
    with contextlib.suppress(KeyError):
        return os.environ.get("USER") or os.environ.get("LOGNAME") or pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())
