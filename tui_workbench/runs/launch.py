"""From a request to a run that runs.

Order is what keeps a run whole: first everything that can be wrong is looked at, then the snapshot is taken, then
`run.json` is written and the directory gets its name in one rename. Before that rename there is no run; after it any
controller can bring it to its end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.model import Plan, RunSpec, RunState, Step, is_secret_name
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import RECORD, WORKING_COPY, ControllerLock, Record, RunDirectory, storage_error
from tui_workbench.targets.protocol import target_for
from tui_workbench.trace import OfRun

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget, RunConfiguration, RunRequest
    from tui_workbench.project import Project

FILE_VARIABLE = "$file"
"""Stands in an ArgumentVector for the script that the user chose."""

RUN_NUMBER_FILE = "run_number"
"""Two numbers in fixed places, so that a full disk cannot take them away."""

COUNTERS_SIZE = 64
IDENTIFIER_LENGTH = 100
"""Of a long project name, as much as leaves room in a file name for what is added to it."""

BUILDING_PREFIX = ".new-"
"""Folders so named are no runs yet."""

BUILDING_SECONDS = 10.0
"""How long a folder may be without its maker's lock before it counts as left behind."""


class Prepared(NamedTuple):
    """A request that was found good."""

    spec: RunSpec
    plan: Plan
    commit: str = ""  # the snapshot that it runs; "" for the project as it is


def prepare(project: Project, request: RunRequest, run_id: str = "") -> Prepared:
    """Check a request and plan it; touches nothing. Raises ConfigurationError or UsageError.

    Without a `run_id` the one that a submit at this moment would most likely get stands in its place.
    """
    configuration, target, script, arguments, commit = _basis(project, request)
    run_id = run_id or _run_id(project, _milliseconds())
    directory = os.path.join(project.runs_directory, run_id)
    spec = RunSpec(
        run_id=run_id,
        run_directory=directory,
        project_root=project.root,
        project_name=project.name,
        working_directory=project.root,
        script=script,
        arguments=arguments,
        run_configuration=configuration,
        target=target,
    )
    if spec.tracked:
        _refuse_what_no_snapshot_holds(script)
        spec = spec._replace(working_directory=os.path.join(directory, WORKING_COPY))
    if request.origin:
        from tui_workbench.runs.controller import with_secrets

        with_secrets(spec)
    plan = target_for(target).plan(spec)
    before: tuple[Step, ...] = _snapshot_steps(project, spec, request.origin) if spec.tracked else ()
    if _is_limited(target, request):
        from tui_workbench.runs.queueing import step_of

        before = (*before[:1], step_of(target, request), *before[1:])
    if asks_for_gpu(spec, request):
        from tui_workbench.runs.gpu.gate import STEP, TITLE

        before = (Step(STEP, TITLE), *before)
    plan = plan._replace(steps=(*before, *plan.steps))
    return Prepared(spec, plan, commit)


def asks_for_gpu(spec: RunSpec, request: RunRequest) -> bool:
    """Whether the run must have a GPU to start: its files ask for one, and it may not train on the CPU."""
    # Looked at here first: what asks for none does not even load what would tell why.
    target, configuration = spec.target, spec.run_configuration
    wants = target.gpus or target.nvidia_docker or configuration.require_gpu or configuration.processes_per_node
    if request.allow_cpu or not wants:
        return False
    from tui_workbench.targets.gpu.presence import asked_for

    return bool(asked_for(target, configuration))


def _basis(project: Project, request: RunRequest) -> tuple[RunConfiguration, ComputeTarget, str, tuple[str, ...], str]:
    """Run configuration, target, script and arguments, and the commit to run, "" for the project as it is."""
    commit = ""
    if request.origin:
        from tui_workbench.runs.rerun import basis_of, completed, script_of

        request = completed(project, request)
        configuration, target, commit = basis_of(project, request)
    else:
        configuration = project.run_configuration(request.run_configuration)
        target = project.target_of(configuration, request.target)
    if request.environment:
        configuration = _with_variables(configuration, request.environment)
    if commit:
        script, arguments = script_of(project, request, commit), request.arguments
    else:
        script, arguments = script_and_arguments(project, request, configuration.argument_vector, configuration.path)
    return configuration, target, script, arguments, commit


def _with_variables(configuration: RunConfiguration, variables: tuple[tuple[str, str], ...]) -> RunConfiguration:
    secret = next((name for name, _ in variables if is_secret_name(name)), "")
    if secret:
        raise UsageError(
            f"the name {secret} speaks of a secret, and those are not taken from here",
            remedy=f"Set it in EnvironmentVariables of {configuration.path}.",
        )
    merged = {**configuration.environment_variables, **dict(variables)}
    return configuration._replace(environment_variables=merged)


def _refuse_what_no_snapshot_holds(script: str) -> None:
    from tui_workbench.runs.snapshot import is_never_taken

    if is_never_taken(script):
        raise UsageError(
            f"the script {script} lies where a tracked run cannot see it",
            remedy="Move it, or set `TrackedRun: false` to run in place.",
        )


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
    for folder, inner in ((root, os.path.abspath(path)), (os.path.realpath(root), _resolved(path))):
        relative = os.path.relpath(inner, folder)
        if relative != os.pardir and not relative.startswith(os.pardir + os.sep):
            return relative
    return ""


def _resolved(path: str) -> str:
    # The folder's links only: a script that is itself a link runs under its own name.
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def create_run(project: Project, request: RunRequest) -> tuple[RunDirectory, ControllerLock, Record]:
    """Check the request, take the snapshot and write the run's directory.

    The lock returned is held: nobody else resumes the run meanwhile. Raises ConfigurationError, UsageError or
    StorageError; then nothing is left behind.
    """
    first = prepare(project, request).spec
    if asks_for_gpu(first, request):
        from tui_workbench.runs.gpu.gate import admit

        # All members of a sweep are as its first one is.
        first = admit(first) if request.member <= 1 else first._replace(gpu_check_due=True)
    project.prepare_state()
    spec, plan, origin_commit = prepare(project, request, _reserve_run_id(project))
    spec = spec._replace(gpu_check_due=first.gpu_check_due)
    is_limited = _is_limited(spec.target, request)
    building = os.path.join(project.runs_directory, BUILDING_PREFIX + spec.run_id)
    try:
        os.mkdir(building)
    except OSError as error:
        raise storage_error("make", building, error) from error
    directory = RunDirectory(building)
    lock: ControllerLock | None = None
    try:
        lock = ControllerLock.acquire(directory, wait=True)
        assert lock is not None, "only `remove_unfinished` looks at the lock of a run that is none yet"
        with OfRun(building):
            commit_id, kind = _take_snapshot(project, spec, directory, origin_commit, copy_later=is_limited)
        record = Record(
            spec.run_id, next_run_number(project), time.time(), _user(), spec, plan, commit_id, kind,
            request.origin, request.group, request.member,
        )  # fmt: skip
        directory.write_record(record)
        if is_limited:
            from tui_workbench.runs import queueing

            queueing.register(directory, spec, request, record.run_number)
        if spec.tracked:
            _let_the_clock_move_on(directory, lock)
        directory.append_event("state", state=RunState.QUEUED)
        return _publish(building, record), lock, record
    except BaseException:
        discard(building)
        if lock is not None:
            lock.release()
        raise


def _is_limited(target: ComputeTarget, request: RunRequest) -> bool:
    # Looked at here first: what nothing limits does not even load the queue.
    asks = target.nvidia_docker or target.gpus
    if target.max_concurrent_runs <= 0 and not asks and not request.group_limit:
        return False
    from tui_workbench.runs.queueing import is_limited

    return is_limited(target, request)


def _take_snapshot(
    project: Project, spec: RunSpec, directory: RunDirectory, commit: str, *, copy_later: bool
) -> tuple[str, str]:
    """The commit, if any, and the kind of the snapshot; a `commit` that is there already is taken as it is.

    With `copy_later` there is no working copy yet, if there is git to make it with.
    """
    if not spec.tracked:
        return "", "none"
    from tui_workbench.runs.snapshot import REFERENCES, SnapshotStore

    store = SnapshotStore(project.root, project.state_directory)
    reference = f"{REFERENCES}/{spec.run_id}"
    if commit:
        store.keep(reference, commit)
    elif copy_later and store.available:
        commit = store.record(reference, spec.run_id)
    if commit and copy_later:
        from tui_workbench.runs.pending import leave_copy_for_later

        leave_copy_for_later(directory)
    elif commit:
        store.check_out(commit, directory.file(WORKING_COPY))
    if commit:
        return commit, "git"
    snapshot = store.take(spec.run_id, directory.file(WORKING_COPY))
    return snapshot.commit_id, snapshot.kind


def waits_for_its_turn(project: Project, directory: RunDirectory, lock: ControllerLock) -> bool:
    """Put a run that was just made in line if something limits it; True when it is not its turn. Raises StorageError.

    Then its lock is released, and whoever ends the run before it starts it.
    """
    if not directory.is_waiting:
        return False
    from tui_workbench.runs.index import RunIndex
    from tui_workbench.runs.queueing import enter

    with RunIndex(project) as index:
        active = index.active()
    return not enter(directory, lock, active)


def make_copy(directory: RunDirectory, record: Record) -> None:
    """Make the working copy of a run that was left for later; does nothing when there is one. Raises StorageError."""
    from tui_workbench.runs.pending import copy_is_due, note_copy

    if not copy_is_due(directory):
        return
    from tui_workbench.runs.snapshot import SnapshotStore

    store = SnapshotStore(record.spec.project_root, os.path.dirname(os.path.dirname(directory.path)))
    discard(directory.file(WORKING_COPY))
    store.check_out(record.commit_id, directory.file(WORKING_COPY))
    note_copy(directory)


def _let_the_clock_move_on(directory: RunDirectory, lock: ControllerLock) -> None:
    """Wait until what is written next has a later file time than run.json: by that the run's own files are known.

    A file system's clock ticks every few milliseconds, on an old one every second or two.
    """
    written = os.stat(directory.file(RECORD)).st_mtime_ns
    while True:
        lock.sign()
        if os.fstat(lock.descriptor).st_mtime_ns > written:
            return
        time.sleep(0.0005)


def _publish(building: str, record: Record) -> RunDirectory:
    """Give the finished directory its name. Its controller makes it durable, while the script starts already."""
    final = record.spec.run_directory
    try:
        os.rename(building, final)
    except OSError as error:
        raise storage_error("make", final, error) from error
    return RunDirectory(final)


def _reserve_run_id(project: Project) -> str:
    """A run id that no other submit gets, later than all before it even when the clock was set back."""
    with _Counters(project) as counters:
        counters.milliseconds = max(_milliseconds(), counters.milliseconds + 1)
        return _run_id(project, counters.milliseconds)


def next_run_number(project: Project) -> int:
    """The project's runs are numbered from 1 in the order of their submission."""
    with _Counters(project) as counters:
        counters.number += 1
        return counters.number


class _Counters:
    """The last run number, and the milliseconds of the last run id: kept as they are when the context ends.

    Meanwhile they are this process's alone. Raises StorageError.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._path = os.path.join(project.state_directory, RUN_NUMBER_FILE)
        self._descriptor = -1
        self.number = 0
        self.milliseconds = 0

    def __enter__(self) -> _Counters:
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            words = os.pread(self._descriptor, COUNTERS_SIZE, 0).split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                self.number, self.milliseconds = int(words[0]), int(words[1])
            else:
                self.number, self.milliseconds = _recovered_counters(self._project)
        except OSError as error:
            self._close()
            raise storage_error("write", self._path, error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            line = b"%-15d %-15d\n" % (self.number, self.milliseconds)
            if kind is None and os.pwrite(self._descriptor, line, 0) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise storage_error("write", self._path, error) from error
        finally:
            self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _recovered_counters(project: Project) -> tuple[int, int]:
    """What the counters must be at least, by the runs there are."""
    number = milliseconds = 0
    for name in os.listdir(project.runs_directory):
        last = name.rpartition("_")[2]
        milliseconds = max(milliseconds, int(last) if last.isdecimal() else 0)
        if os.path.exists(os.path.join(project.runs_directory, name, RECORD)):
            try:
                record = RunDirectory(os.path.join(project.runs_directory, name)).read_record()
            except UsageError:
                continue
            number = max(number, record.run_number)
    return number, milliseconds


def _snapshot_steps(project: Project, spec: RunSpec, origin: str) -> tuple[Step, Step]:
    from tui_workbench.runs.snapshot import SnapshotStore

    store = SnapshotStore(project.root, project.state_directory)
    if origin:
        note = Step("snapshot", f"take the snapshot of {origin}")
        return note, Step("copy", "make the run's own copy of it", directory=spec.working_directory)
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


def _run_id(project: Project, milliseconds: int) -> str:
    return f"{identifier(project.name)}_{milliseconds}"


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


def identifier(name: str) -> str:
    """The project's name as it stands in run ids: those are folder names, git references and command-line words."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    while ".." in plain:
        plain = plain.replace("..", ".")
    return plain.strip("-.")[:IDENTIFIER_LENGTH] or "project"


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
        building = os.path.join(project.runs_directory, name)
        try:
            if time.time() - os.stat(building).st_ctime < BUILDING_SECONDS:
                continue  # made a moment ago: its maker may not hold the lock yet
            lock = ControllerLock.acquire(RunDirectory(building))
        except (OSError, StorageError):
            continue
        if lock is not None:
            discard(building)
            lock.release()


def discard(folder: str) -> None:
    """Remove a run's folder as far as that can be done."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
