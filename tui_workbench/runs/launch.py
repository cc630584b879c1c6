"""From a request to a run that runs.

Order is what keeps a run whole: first everything that can be wrong is looked at, then the snapshot is taken, then
`run.json` is written and the directory gets its name in one rename. Before that rename there is no run; after it any
controller can bring it to its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from tui_workbench.errors import UsageError
from tui_workbench.model import Plan, RunSpec, Step
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import RECORD, WORKING_COPY, ControllerLock, Record, RunDirectory, storage_error
from tui_workbench.targets.protocol import target_for

if TYPE_CHECKING:
    from tui_workbench.model import RunRequest
    from tui_workbench.project import Project

FILE_VARIABLE = "$file"
"""Stands in an ArgumentVector for the script that the user chose."""

RUN_NUMBER_FILE = "run_number"

BUILDING_PREFIX = ".new-"
"""Folders so named are no runs yet."""


class Prepared:
    """A request that was found good: its specification and its plan."""

    def __init__(self, spec: RunSpec, plan: Plan) -> None:
        self.spec = spec
        self.plan = plan


def prepare(project: Project, request: RunRequest) -> Prepared:
    """Check a request and plan it; touches nothing. Raises ConfigurationError or UsageError."""
    configuration = project.run_configuration(request.run_configuration)
    target = project.target_of(configuration, request.target)
    script, arguments = script_and_arguments(project, request, configuration.argument_vector, configuration.path)
    run_id = f"{_identifier(project.name)}_{time.time_ns() // 1_000_000}"
    directory = os.path.join(project.runs_directory, run_id)
    spec = RunSpec(
        run_id=run_id,
        run_directory=directory,
        project_root=project.root,
        project_name=project.name,
        working_directory=os.path.join(directory, WORKING_COPY) if configuration.tracked_run else project.root,
        script=script,
        arguments=arguments,
        run_configuration=configuration,
        target=target,
    )
    plan = target_for(target).plan(spec)
    if spec.tracked:
        plan = plan._replace(steps=(*_snapshot_steps(project, spec), *plan.steps))
    return Prepared(spec, plan)


def script_and_arguments(
    project: Project, request: RunRequest, vector: tuple[str, ...], configuration_path: str
) -> tuple[str, tuple[str, ...]]:
    """The script, relative to the project, and its arguments. Raises UsageError when there is no such script."""
    script, arguments = request.script, request.arguments
    if not script:
        if not vector or vector[0] == FILE_VARIABLE:
            raise UsageError(
                f"no script was named, and ArgumentVector of {configuration_path} leaves it open",
                remedy="Name a script of the project.",
            )
        script, arguments = vector[0], (*vector[1:], *arguments)
    elif vector and vector[0] == FILE_VARIABLE and not arguments:
        arguments = vector[1:]
    path = os.path.normpath(os.path.join(project.root, script))
    if not os.path.isfile(path) and os.path.isfile(os.path.abspath(script)):
        path = os.path.abspath(script)
    relative = os.path.relpath(path, project.root)
    if relative.startswith(os.pardir + os.sep) or relative == os.pardir:
        raise UsageError(f"{script} is outside of the project {project.root}", remedy="Name a script of the project.")
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise UsageError(f"the script {script} {what}", remedy=f"Name a file in {project.root}.")
    return relative, arguments


def create_run(project: Project, prepared: Prepared) -> tuple[RunDirectory, ControllerLock, Record]:
    """Take the snapshot and write the run's directory.

    The lock returned is held: nobody else resumes the run meanwhile.
    """
    project.prepare_state()
    spec, plan = prepared.spec, prepared.plan
    building = os.path.join(project.runs_directory, f"{BUILDING_PREFIX}{spec.run_id}-{os.getpid()}")
    try:
        os.mkdir(building)
    except OSError as error:
        raise storage_error("make", building, error) from error
    try:
        commit_id, kind = "", "none"
        if spec.tracked:
            from tui_workbench.runs.snapshot import SnapshotStore

            snapshot = SnapshotStore(project.root, project.state_directory).take(
                spec.run_id, os.path.join(building, WORKING_COPY)
            )
            commit_id, kind = snapshot.commit_id, snapshot.kind
        record = Record(spec.run_id, next_run_number(project), time.time(), _user(), spec, plan, commit_id, kind)
        directory = RunDirectory(building)
        directory.write_record(record)
        directory.append_event("state", state="queued")
        lock = ControllerLock.acquire(directory)
        assert lock is not None, "a directory nobody knows yet cannot be locked"
        return _publish(project, building, record, lock)
    except BaseException:
        _discard(building)
        raise


def _publish(
    project: Project, building: str, record: Record, lock: ControllerLock
) -> tuple[RunDirectory, ControllerLock, Record]:
    """Give the finished directory its name, durably."""
    final = record.spec.run_directory
    try:
        os.rename(building, final)
        descriptor = os.open(project.runs_directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise storage_error("make", final, error) from error
    return RunDirectory(final), lock, record


def next_run_number(project: Project) -> int:
    """The project's runs are numbered from 1 in the order of their submission."""
    path = os.path.join(project.state_directory, RUN_NUMBER_FILE)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise storage_error("write", path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        text = os.pread(descriptor, 32, 0).strip()
        last = int(text) if text.isdigit() else _highest_run_number(project)
        os.pwrite(descriptor, b"%-12d\n" % (last + 1), 0)
        return last + 1
    except OSError as error:
        raise storage_error("write", path, error) from error
    finally:
        os.close(descriptor)


def _highest_run_number(project: Project) -> int:
    highest = 0
    for name in os.listdir(project.runs_directory):
        if os.path.exists(os.path.join(project.runs_directory, name, RECORD)):
            with contextlib.suppress(UsageError):
                highest = max(
                    highest, RunDirectory(os.path.join(project.runs_directory, name)).read_record().run_number
                )
    return highest


def _snapshot_steps(project: Project, spec: RunSpec) -> tuple[Step, Step]:
    from tui_workbench.runs.snapshot import SnapshotStore

    store = SnapshotStore(project.root, project.state_directory)
    if not store.available:
        note = Step("snapshot", "no git on this machine: the copy is the snapshot")
        return note, Step(
            "copy", "copy the project, link what the ignore files exclude", directory=spec.working_directory
        )
    add, checkout = store.commands(spec.working_directory)
    variables = {"GIT_DIR": store.repository, "GIT_WORK_TREE": project.root}
    return (
        Step("snapshot", "record the project as it is now", add, project.root, variables),
        Step("copy", "make the run's own copy; excluded paths are linked", checkout, project.root, variables),
    )


def _identifier(name: str) -> str:
    """The project's name as it stands in run ids: those are folder names, container labels and command-line words."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name).strip("-.") or "project"


def _user() -> str:
    for variable in ("USER", "LOGNAME"):
        if os.environ.get(variable):
            return os.environ[variable]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def remove_unfinished(project: Project) -> None:
    """Remove the folders of submits whose process died before there was a run."""
    try:
        names = [name for name in os.listdir(project.runs_directory) if name.startswith(BUILDING_PREFIX)]
    except OSError:
        return
    for name in names:
        pid = name.rpartition("-")[2]
        if pid.isdigit() and not _is_alive(int(pid)):
            _discard(os.path.join(project.runs_directory, name))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _discard(building: str) -> None:
    import shutil

    shutil.rmtree(building, ignore_errors=True)
