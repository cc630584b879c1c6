"""The run directory. Only this module knows the names and formats of its main files.

All data of a run is in its directory. `run.json` is written once, before the run starts. `events.jsonl` only grows, by
one event per line; an incomplete last line is ignored. The script itself writes `output.log`. The state of the run is
derived from these files. Any process can therefore end at any time, and another process can read, follow or resume the
run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.causes import (
    FILES_MISSING,
    IMPORTED,
    UNREACHABLE,
    Cause,
    Causes,
    kinds_of,
    plain,
    read_causes,
    stored,
    text_of,
)
from tui_workbench.core.errors import ImportedRun, RunNotFound, storage_error, storage_errors
from tui_workbench.core.files import LARGEST, append_below, open_below, read_below, read_regular, write_all, write_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import ClusterJob, Run, RunState
from tui_workbench.core.moments import this_moment
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.cluster_job import read_job
from tui_workbench.runs.store.events import EVENTS as EVENTS
from tui_workbench.runs.store.events import read_events
from tui_workbench.runs.store.record import SCHEMA as SCHEMA
from tui_workbench.runs.store.record import WORKING_COPY as WORKING_COPY
from tui_workbench.runs.store.record import Record as Record
from tui_workbench.runs.store.record import problem_of, record_from_json, record_to_json
from tui_workbench.runs.store.status import ATTEMPT as ATTEMPT
from tui_workbench.runs.store.status import DUE as DUE
from tui_workbench.runs.store.status import LIMIT as LIMIT
from tui_workbench.runs.store.status import RAN as RAN
from tui_workbench.runs.store.status import RESET as RESET
from tui_workbench.runs.store.status import Attempt as Attempt
from tui_workbench.runs.store.status import Ending as Ending
from tui_workbench.runs.store.status import Status as Status
from tui_workbench.runs.store.status import status_of
from tui_workbench.targets.values import Times

LARGEST_FOREIGN_RECORD = 8 << 20  # bytes; for this user's own records see `files.LARGEST_RECORD`

RECORD = "run.json"
OUTPUT = "output.log"
METRICS = "metrics.jsonl"
METRICS_SUMMARY = "metrics.json"
METRICS_CACHE = "metrics.cache"
GPU_SAMPLES = "gpu.jsonl"
GPU_VERDICT = "gpu.json"
STACKS = "stacks"  # a file for each time that the Python stacks of the run were read
NOTIFICATIONS = "notifications"  # a file with the result of each notification about the run
LIVE = "live"  # files fetched during a run on another machine, which are moved when the run ends
OUTPUTS = "outputs"
CONTROLLER_LOCK = "controller.lock"
CANCEL_REQUEST = "cancel"
WAITING = "waiting"  # exists while a run is queued
QUEUE_ENTRY = "queue.json"  # the limits that apply to a run, if any
ENVIRONMENT = "environment.json"  # the submitter's environment without secrets, if another process may start the run
DEPENDENTS = "dependents"  # IDs of the runs that start after this run has ended, one per line
EARLIER = "earlier"  # the working copy of earlier attempts, while an ended run gets a new one
UNCHANGED = "unchanged"  # the working copy of an ended run, while the files of the run are moved out of it
COPY = "copy"  # empty until the working copy of a queued run is complete; its mtime is the time of completion
PROVENANCE = "provenance.json"
DIFF = "git.diff"
CONTAINER_FILES = "made"  # receives the files of a script whose project is copied into its container
SHELL_COPY = "shell"  # the working copy for interactive shells
FOLLOWED = "followed"  # exists for a run that another machine submitted, and whose files on the target are kept
NOTE = "note"  # event with a `text` for the submitter of the run
NEWS_SECONDS = 2.0  # a start this long ago is recorded before the end of the script
DEFAULT_GRACE = 5.0  # seconds between SIGTERM and SIGKILL


class CancelRequest(NamedTuple):
    """A request to cancel a run, as in the file `cancel` of its directory."""

    grace: float = DEFAULT_GRACE  # seconds between SIGTERM and SIGKILL
    causes: Causes = ()  # set if a policy cancels the run


class RunDirectory:
    """The directory of a run. The last part of `path` is the run ID, after a prefix if the run is in the trash."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.run_id = os.path.basename(path).removeprefix(ownership.DELETED_PREFIX)

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def write_record(self, record: Record) -> None:
        """Write run.json, which must not exist yet. Raises StorageError."""
        data = json_bytes(record_to_json(record), indent=1)
        with storage_errors("write", self.file(RECORD)):
            append_below(self.path, RECORD, data, exclusive=True)

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a file atomically; with `durable`, it survives a power failure. Raises StorageError."""
        with storage_errors("write", self.file(name)):
            write_below(self.path, name, data, durable=durable)

    def make_durable(self) -> None:
        """Flush the record and its folders to disk, if the file system supports this."""
        for path in (self.file(RECORD), self.path, os.path.dirname(self.path)):
            with contextlib.suppress(OSError):  # some file systems cannot flush folders
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    @property
    def is_own(self) -> bool:
        """True if this user submitted the run on this machine, or took it over."""
        return ownership.own_record(self.file(RECORD)) is not None

    def own_record(self) -> Record:
        """Read run.json for an action on the run. Raises RunNotFound, or ImportedRun if it is not this user's own."""
        data = ownership.own_record(self.file(RECORD))
        if data is None:
            self.read_record()
            raise ImportedRun(
                f"run {self.run_id} was not submitted by you on this machine",
                remedy="If the run has not started, you can take it over: "
                f"`workbench-tui experiment resume -r {self.run_id}`. Otherwise, run it again as a new run: "
                f"`workbench-tui experiment rerun -r {self.run_id}`.",
            )
        return self._parsed(data)

    def read_record(self) -> Record:
        """Read run.json. Raises RunNotFound if it is missing or malformed."""
        if os.fsencode(self.run_id).decode("utf-8", "replace") != self.run_id:
            message = f"the name {self.run_id!r} of this run directory is not UTF-8"
            raise RunNotFound(message, remedy="Rename the folder, or move it away.", file=self.path)
        if "\0" in self.run_id:
            raise RunNotFound(
                f"no run can have the name {self.run_id!r}", remedy="`workbench-tui history list` lists the runs."
            )
        try:
            return self._parsed(read_regular(self.file(RECORD), LARGEST_FOREIGN_RECORD))
        except OSError as error:
            own = ownership.own_record(self.file(RECORD)) if error.errno == errno.EFBIG else None
            if own is not None:
                return self._parsed(own)
            raise RunNotFound(
                f"no run {self.run_id!r}: {error.strerror}",
                remedy="`workbench-tui history list` lists the runs. If it lists this run, check the permissions of "
                f"{self.file(RECORD)}.",
            ) from error

    def _parsed(self, data: bytes) -> Record:
        try:
            return record_from_json(parse_json(data), self.path)
        except ValueError as error:
            raise RunNotFound(
                f"cannot read this run record: {error}",
                remedy="Update the workbench if a newer version wrote the record. Otherwise, move the run directory "
                "away.",
                file=self.file(RECORD),
            ) from error

    def append_event(self, event: str, **fields: Any) -> None:
        """Append an event to events.jsonl. A final state is flushed to disk. Raises StorageError.

        If the fields contain `causes`, they are stored with their text in `reason`.
        """
        moment = this_moment()
        if "causes" in fields:
            fields |= stored(fields["causes"])
        more = {"up": moment.up, "boot": moment.boot} if event == "state" and moment.boot else {}
        data = json_bytes({"time": moment.time, "event": event, **fields, **more})
        with (
            storage_errors("write", self.file(EVENTS)),
            open(open_below(self.path, EVENTS, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file,
        ):
            size = file.tell()
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                data = b"\n" + data  # the last line is incomplete
            write_all(file.fileno(), data)
            if event == "state" and fields.get("state") in RunState.TERMINAL:
                os.fsync(file.fileno())

    def notes(self) -> list[str]:
        return [str(event.get("text", "")) for event in self.events() if event["event"] == NOTE]

    def attempts(self) -> list[Attempt]:
        """Return the attempts after the first, in order."""
        attempts = (Attempt.from_event(event) for event in self.events() if event["event"] == ATTEMPT)
        return [attempt for attempt in attempts if attempt is not None]

    def events(self) -> list[dict[str, Any]]:
        """Return the valid events in order; see `read_events`."""
        return read_events(self.path).events

    def status(self) -> Status:
        return status_of(self.events())

    def now(self) -> float:
        """Return the current time, as if the clock had not been changed since the start of the run."""
        begin = self.status().begin
        return begin.now if begin is not None else time.time()

    def end_time(self) -> float:
        """Return when the script of the current attempt ended, as its machine has recorded; otherwise `now`."""
        return self.status().ended or self.now()

    def record_times(self, times: Times) -> None:
        """Record when the script of the current attempt began and ended, by the current clock. Raises StorageError.

        A start that has been recorded, or that the next event shows, is not recorded again.
        """
        status, now = self.status(), self.now()
        moved = now - time.time()  # the clock may have been changed since the start of the run
        start, end = (min(max(moment + moved, status.since), now) if moment else 0.0 for moment in times)
        if status.end or status.ended or not (end or (start and not status.began and start < now - NEWS_SECONDS)):
            return
        self.append_event(RAN, start=round(start, 6), end=round(max(start, end) if end else 0.0, 6))

    def run(self) -> Run:
        """Read the run from its files. Raises RunNotFound."""
        record, status = self.read_record(), self.status()
        spec = record.spec
        causes = (*status.causes, *((Cause(FILES_MISSING),) if status.lacks_outputs else ()))
        run = Run(
            run_id=self.run_id,
            run_number=record.run_number,
            directory=self.path,
            script_name=spec.script,
            # Records of earlier versions may contain secrets.
            arguments=tuple(mask_words(spec.arguments)),
            run_configuration=spec.run_configuration.name,
            target=spec.target.name,
            target_type=spec.target.type,
            state=status.state,
            reason=text_of(causes),
            kinds=kinds_of(causes),
            unreachable_since=next((str(cause.facts["since"]) for cause in causes if cause.kind == UNREACHABLE), ""),
            lacks_outputs=status.lacks_outputs,
            exit_code=status.exit_code,
            created=record.created,
            start=status.begin.shown if status.begin is not None and not status.end else status.start,
            end=status.end,
            interpreter=record.plan.interpreter,
            tracked=spec.tracked,
            commit_id=record.commit_id,
            user_id=record.user_id,
            group=record.group,
            family=record.family,
            variables=record.variables,
            agent=record.agent,
            job=read_job(self.path) if spec.target.kind.has_scheduler else ClusterJob(),
        )
        if problem := problem_of(run):
            raise RunNotFound(problem, remedy="Move the run directory away.", file=self.file(RECORD))
        if run.is_active and not self.is_own:
            causes = (Cause(IMPORTED),)
            return run._replace(state=RunState.UNKNOWN, reason=text_of(causes), kinds=kinds_of(causes), imported=True)
        return run

    def request_cancel(self, grace: float, *causes: Cause) -> None:
        """Request that the current or a later controller cancels the run. The last request applies.

        `grace` is the time in seconds between SIGTERM and SIGKILL. `causes` are set if a policy cancels the run. Raises
        StorageError.
        """
        fields = stored(causes)
        text = " ".join(fields["reason"].encode("utf-8", "replace").decode().split())
        data = f"{grace:.3f} {text}".rstrip().encode() + b"\n"  # the last line, which controllers of all versions read
        with storage_errors("write", self.file(CANCEL_REQUEST)):
            append_below(self.path, CANCEL_REQUEST, (json_bytes(fields) if causes else b"") + data)

    @property
    def is_limited(self) -> bool:
        """True if limits on concurrent runs apply to the run."""
        return os.path.exists(self.file(QUEUE_ENTRY))

    @property
    def others_may_wait(self) -> bool:
        """True if the end of this run may allow queued runs to start."""
        return self.is_limited or os.path.exists(self.file(DEPENDENTS))

    @property
    def is_waiting(self) -> bool:
        return os.path.exists(self.file(WAITING))

    @property
    def copied_at(self) -> int:
        """Time when the working copy was complete, in nanoseconds of the file system's clock."""
        try:
            return os.stat(self.file(COPY)).st_mtime_ns
        except OSError:
            return os.stat(self.file(RECORD)).st_mtime_ns

    @property
    def cancel_requested(self) -> bool:
        return os.path.exists(self.file(CANCEL_REQUEST))

    @property
    def cancel_request(self) -> CancelRequest:
        try:
            text = read_below(self.path, CANCEL_REQUEST, LARGEST).decode("utf-8", "replace")
            before, line, _ = ("\n" + text).rsplit("\n", 2)
            grace, _, reason = line.partition(" ")
            return CancelRequest(float(grace), read_causes(_causes_line(before) if reason else {}) or plain(reason))
        except (OSError, ValueError, IndexError):
            return CancelRequest()


def _causes_line(before: str) -> Mapping[str, Any]:
    """Return the fields in the last line of the text; none if it has another content."""
    line = before.rpartition("\n")[2]
    try:
        fields = parse_json(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


class ControllerLock:
    """The lock of the process that controls a run.

    The lock belongs to an open file description, which can be passed to a child process. The lock is released when no
    process has this description open.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, directory: RunDirectory) -> ControllerLock | None:
        """Lock a run of this user. Return the lock, or None if another process holds it.

        Every action on a run needs the lock. Raises ImportedRun, RunNotFound or StorageError.
        """
        directory.own_record()
        return cls.acquire_new(directory)

    @classmethod
    def acquire_new(cls, directory: RunDirectory) -> ControllerLock | None:
        """Lock a directory as `acquire` does, but without checking who submitted the run. Raises StorageError."""
        with _opened_lock(directory) as lock:
            if locks.try_lock(lock.descriptor):
                lock.sign()
                return lock
            lock.release()
            return None

    @classmethod
    def wait_for(cls, directory: RunDirectory) -> ControllerLock:
        """Wait for the lock of a directory that this process created. Raises StorageError."""
        with _opened_lock(directory) as lock:
            locks.lock(lock.descriptor)
            lock.sign()
            return lock

    def __enter__(self) -> ControllerLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def sign(self, pid: int = 0) -> None:
        """Write a process ID (default: this process) into the lock file, for `holder`."""
        # Overwrite the ID without truncating the file, which works on a full disk.
        os.pwrite(self.descriptor, b"%-11d\n" % (pid or os.getpid()), 0)

    def release(self) -> None:
        """Release the lock in this process. The call can be repeated."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @staticmethod
    def holder(directory: RunDirectory) -> int:
        """Return the ID of the process that holds the lock: the controller, or the process that starts it.

        Return 0 if no process holds it, and -1 if the process has not written its ID yet.
        """
        try:
            with open(open_below(directory.path, CONTROLLER_LOCK), "rb") as file:
                if not locks.is_locked(file.fileno()):
                    return 0
                text = file.read(32).strip()
        except OSError:
            return 0
        return int(text) if text.isdigit() else -1


@contextlib.contextmanager
def _opened_lock(directory: RunDirectory) -> Iterator[ControllerLock]:
    """Open the lock file. If an OSError is raised, close the file and raise StorageError."""
    lock = ControllerLock(-1)
    try:
        lock.descriptor = _above_standard(open_below(directory.path, CONTROLLER_LOCK, os.O_RDWR | os.O_CREAT))
        yield lock
    except OSError as error:
        lock.release()
        raise storage_error("lock", directory.file(CONTROLLER_LOCK), error) from error


def _above_standard(descriptor: int) -> int:
    """Return a duplicate with a number above 2 if the descriptor has the number of a closed standard stream."""
    if descriptor > 2:
        return descriptor
    duplicate = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return duplicate


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """Encode a value as JSON in UTF-8, with a final newline. Values with lone surrogates are encoded as ASCII."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent).encode() + b"\n"
