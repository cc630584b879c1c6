"""The run directory: the one place that knows the name and form of every file in it.

A run is this directory and nothing else. `run.json` is written once, before anything starts; `events.jsonl` only
grows, a line an event, and a torn last line is ignored; `output.log` is written by the training process itself.
Whatever is not derived from these files does not exist, so any process may die at any moment and any other may read,
follow or resume the run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import ImportedRun, RunNotFound, storage_error, storage_errors
from tui_workbench.core.files import LARGEST, append_below, open_below, read_below, read_regular, write_all
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import NOT_ALL_HERE, Run, RunState
from tui_workbench.core.moments import Moment, moment_of, this_moment
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.record import SCHEMA as SCHEMA
from tui_workbench.runs.store.record import WORKING_COPY as WORKING_COPY
from tui_workbench.runs.store.record import Record as Record
from tui_workbench.runs.store.record import fault_of, record_from_json, record_to_json

LARGEST_FOREIGN_RECORD = 8 << 20
"""Bytes of a record of another user; this user's own may be as large as `ownership` registers."""

LARGEST_EVENTS = 8 << 20
"""Bytes of the events that count. A target out of reach adds two short lines each time it is lost."""

MOST_UNREADABLE = 1000
"""Lines that are no events, after which the file is not read further: it is not the workbench's."""

RECORD = "run.json"
EVENTS = "events.jsonl"
OUTPUT = "output.log"
METRICS = "metrics.jsonl"
METRICS_SUMMARY = "metrics.json"
METRICS_CACHE = "metrics.cache"
GPU_SAMPLES = "gpu.jsonl"
GPU_VERDICT = "gpu.json"
LIVE = "live"
"""What a run elsewhere has written so far; its files come home in their own places when it has ended."""

OUTPUTS = "outputs"
CONTROLLER_LOCK = "controller.lock"
CANCEL_REQUEST = "cancel"
WAITING = "waiting"
"""Stands in a run whose turn on its target, or in its sweep, has not come."""

TURN = "queue.json"
"""Stands in a run that may have to wait for its turn: what that depends on."""

COPY = "copy"
"""Stands in a run whose working copy is made when it begins: empty before that, and last changed when it was whole."""

PROVENANCE = "provenance.json"
DIFF = "git.diff"
MADE = "made"
"""Where the files of a script arrive whose project is copied into its container."""

SHELL_COPY = "shell"
"""The copy of the project in which people look around and try things."""

FOLLOWED = "followed"
"""Stands in a run that another machine submitted: what it holds on its target is not ours to remove."""

NOTE = "note"
"""The event that tells whoever submits the run something about it, in `text`."""

IMPORTED = "imported: not submitted by you on this machine"
"""The reason of a run that has not ended by its record and is not this user's own."""

DEFAULT_GRACE = 5.0
"""Seconds between asking a script to end and making it."""


class Ending(NamedTuple):
    """How a run ended on its target, known before what it made is brought back."""

    state: str
    reason: str = ""
    exit_code: int | None = None
    end: float = 0.0
    error_code: int = 0  # what a command ends with when the script was not run: 3 or 4, as errors have it; else 0


class CancelWish(NamedTuple):
    """How a run is to end."""

    grace: float = DEFAULT_GRACE  # seconds between asking the script to end and making it
    reason: str = ""  # why a policy wants the end; "" when a person does


class Status(NamedTuple):
    """What the events of a run add up to."""

    state: str = RunState.QUEUED
    reason: str = ""
    exit_code: int | None = None
    start: float = 0.0
    end: float = 0.0  # 0.0 until the final state; no event after that one counts
    done: frozenset[str] = frozenset()  # names of the steps that are complete
    begun: frozenset[str] = frozenset()  # names of the steps that were begun, complete or not
    ending: Ending | None = None
    error_code: int = 0  # see Ending
    begin: Moment | None = None  # the moment of `start`


class RunDirectory:
    """A run's directory at `path`; its last component is the run id."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.run_id = os.path.basename(path)

    def file(self, name: str) -> str:
        """The path of one of the files named in this module."""
        return f"{self.path}/{name}"

    def write_record(self, record: Record) -> None:
        """Write run.json, which must not be there yet. Raises StorageError."""
        data = json_bytes(record_to_json(record), indent=1)
        with storage_errors("write", self.file(RECORD)):
            append_below(self.path, RECORD, data, exclusive=True)

    def make_durable(self) -> None:
        """See to it that the run is still there when the machine loses its power from now on, as far as can be."""
        for path in (self.file(RECORD), self.path, os.path.dirname(self.path)):
            with contextlib.suppress(OSError):  # some file systems cannot do this for a folder
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
        """Read run.json to act on it. Raises ImportedRun unless the run is this user's own, and RunNotFound."""
        data = ownership.own_record(self.file(RECORD))
        if data is None:
            self.read_record()
            raise ImportedRun(
                f"run {self.run_id} was not submitted by you on this machine",
                remedy=f"See what it would execute and take it over: workbench-tui experiment resume -r {self.run_id}",
            )
        return self._parsed(data)

    def read_record(self) -> Record:
        """Read run.json. Raises RunNotFound when there is none or it cannot be understood."""
        try:
            return self._parsed(read_regular(self.file(RECORD), LARGEST_FOREIGN_RECORD))
        except OSError as error:
            own = ownership.own_record(self.file(RECORD)) if error.errno == errno.EFBIG else None
            if own is not None:
                return self._parsed(own)
            raise RunNotFound(
                f"there is no run {self.run_id!r}: {error.strerror}",
                remedy="`workbench-tui history list` shows the runs.",
            ) from error

    def _parsed(self, data: bytes) -> Record:
        try:
            return record_from_json(json.loads(data), self.path)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunNotFound(
                f"this is no record of a run that version {SCHEMA} can read ({type(error).__name__}: {error})",
                remedy="The other files of the run are untouched; update the workbench, or move the folder away.",
                file=self.file(RECORD),
            ) from error

    def append_event(self, event: str, **fields: Any) -> None:
        """Append one line to events.jsonl; states are made durable. Raises StorageError."""
        moment = this_moment()
        more = {"up": moment.up, "boot": moment.boot} if event == "state" and moment.boot else {}
        data = json_bytes({"time": moment.time, "event": event, **fields, **more})
        with (
            storage_errors("write", self.file(EVENTS)),
            open(open_below(self.path, EVENTS, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file,
        ):
            size = file.tell()
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                data = b"\n" + data  # the last line is torn
            write_all(file.fileno(), data)
            if event == "state" and fields.get("state") in RunState.TERMINAL:
                os.fsync(file.fileno())

    def notes(self) -> list[str]:
        """What the submitter should know about the files of the run, a line each."""
        return [str(event.get("text", "")) for event in self.events() if event["event"] == NOTE]

    def events(self) -> Iterator[dict[str, Any]]:
        """Every readable event in order; torn or foreign lines are skipped, as is a last line that is not complete."""
        try:
            data = read_below(self.path, EVENTS, LARGEST_EVENTS)
        except OSError:
            return
        unreadable = 0
        for line in io.BytesIO(data):
            try:
                event = json.loads(line) if line.endswith(b"\n") else None
            except (ValueError, RecursionError):
                unreadable += 1
                if unreadable > MOST_UNREADABLE:
                    return
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                yield event

    def status(self) -> Status:
        """The state that the events add up to."""
        status = Status()
        done: set[str] = set()
        begun: set[str] = set()
        for event in self.events():
            kind = event["event"]
            if kind == "state" and not status.end:
                status = _after_state(status, event)
            elif kind == "step":
                begun.add(str(event.get("step")))
                if event.get("status") == "done":
                    done.add(str(event.get("step")))
            elif kind == "ending":
                status = status._replace(ending=_ending(event) or status.ending)
        return status._replace(done=frozenset(done), begun=frozenset(begun))

    def now(self) -> float:
        """The time by the clock that the run started with, which may have been set since."""
        begin = self.status().begin
        return begin.now if begin is not None else time.time()

    def run(self) -> Run:
        """The run as its files tell it. Raises RunNotFound."""
        record, status = self.read_record(), self.status()
        spec, lacks_outputs = record.spec, bool(status.end) and "fetch" in status.begun - status.done
        run = Run(
            run_id=self.run_id,
            run_number=record.run_number,
            directory=self.path,
            script_name=spec.script,
            # A record of an earlier version may hold secrets.
            arguments=tuple(mask_words(spec.arguments)),
            run_configuration=spec.run_configuration.name,
            target=spec.target.name,
            target_type=spec.target.type,
            state=status.state,
            reason="; ".join(filter(None, (status.reason, NOT_ALL_HERE if lacks_outputs else ""))),
            lacks_outputs=lacks_outputs,
            exit_code=status.exit_code,
            created=record.created,
            start=status.begin.shown if status.begin is not None and not status.end else status.start,
            end=status.end,
            interpreter=record.plan.interpreter,
            tracked=spec.tracked,
            commit_id=record.commit_id,
            user_id=record.user_id,
            group=record.group,
        )
        if fault := fault_of(run):
            remedy = "The other files of the run are untouched; move the folder away."
            raise RunNotFound(fault, remedy=remedy, file=self.file(RECORD))
        if run.is_active and not self.is_own:
            return run._replace(state=RunState.UNKNOWN, reason=IMPORTED, imported=True)
        return run

    def request_cancel(self, grace: float, reason: str = "") -> None:
        """Leave the wish to cancel where every controller, present or future, sees it; the last one asked for counts.

        `grace` is the seconds between asking the script to end and making it, `reason` why a policy wants it. Raises
        StorageError.
        """
        text = " ".join(reason.encode("utf-8", "replace").decode().split())
        with storage_errors("write", self.file(CANCEL_REQUEST)):
            append_below(self.path, CANCEL_REQUEST, f"{grace:.3f} {text}".rstrip().encode() + b"\n")

    @property
    def is_limited(self) -> bool:
        """True for a run that counts where only so many may go on at a time."""
        return os.path.exists(self.file(TURN))

    @property
    def is_waiting(self) -> bool:
        """True while the run's turn has not come."""
        return os.path.exists(self.file(WAITING))

    @property
    def copied_at(self) -> int:
        """The moment, in nanoseconds of the file system's time, at which the working copy was whole."""
        try:
            return os.stat(self.file(COPY)).st_mtime_ns
        except OSError:
            return os.stat(self.file(RECORD)).st_mtime_ns

    @property
    def cancel_requested(self) -> bool:
        """True once somebody asked for the run to end."""
        return os.path.exists(self.file(CANCEL_REQUEST))

    @property
    def cancel_wish(self) -> CancelWish:
        """What whoever asked last for the end of the run wants."""
        try:
            text = read_below(self.path, CANCEL_REQUEST, LARGEST).decode("utf-8", "replace")
            grace, _, reason = text.split("\n")[-2].partition(" ")
            return CancelWish(float(grace), reason)
        except (OSError, ValueError, IndexError):
            return CancelWish()


class ControllerLock:
    """Who drives the run.

    Held through an open file description, so it can be handed to a child and never outlives its holders.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, directory: RunDirectory) -> ControllerLock | None:
        """The lock of this user's own run, or None when another process holds it.

        Nothing starts, continues, cancels or concludes a run without it. Raises ImportedRun, StorageError.
        """
        directory.own_record()
        return cls.of_unfinished(directory)

    @classmethod
    def of_unfinished(cls, directory: RunDirectory) -> ControllerLock | None:
        """The lock of a directory that is still being built by this user; as `acquire`. Raises StorageError."""
        with _opened_lock(directory) as lock:
            if locks.try_lock(lock.descriptor):
                lock.sign()
                return lock
            lock.release()
            return None

    @classmethod
    def wait_for(cls, directory: RunDirectory) -> ControllerLock:
        """The lock of a directory that this process has just made, once it is free. Raises StorageError."""
        with _opened_lock(directory) as lock:
            locks.lock(lock.descriptor)
            lock.sign()
            return lock

    def __enter__(self) -> ControllerLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def sign(self, pid: int = 0) -> None:
        """Write a process id, by default this process's, into the lock file, for `holder`."""
        # Over what is there and never shorter: a full disk has no say in it.
        os.pwrite(self.descriptor, b"%-11d\n" % (pid or os.getpid()), 0)

    def release(self) -> None:
        """Give up this process's share of the lock; a second time does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @staticmethod
    def holder(directory: RunDirectory) -> int:
        """The process id of the running controller, or of who is just handing the run to it.

        0 when there is none, -1 when there is one that has not signed.
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
    """A lock whose file is open; an OSError closes it and is raised as a StorageError."""
    lock = ControllerLock(-1)
    try:
        lock.descriptor = _above_standard(open_below(directory.path, CONTROLLER_LOCK, os.O_RDWR | os.O_CREAT))
        yield lock
    except OSError as error:
        lock.release()
        raise storage_error("lock", directory.file(CONTROLLER_LOCK), error) from error


def _after_state(status: Status, event: dict[str, Any]) -> Status:
    """The status after a state event; one that is not of our form changes nothing."""
    state, reason, code = event.get("state"), event.get("reason", ""), event.get("exit_code", status.exit_code)
    moment = moment_of(event)
    end = event.get("end", event.get("time", 0.0)) if event.get("final") else 0.0
    if not (isinstance(state, str) and isinstance(reason, str) and isinstance(code, int | None)):
        return status
    if moment is None or not isinstance(end, int | float):
        return status
    if state == RunState.RUNNING and not status.start:
        status = status._replace(start=moment.time, begin=moment)
    return status._replace(state=state, reason=reason, exit_code=code, end=float(end), error_code=_error_code(event))


def _ending(event: dict[str, Any]) -> Ending | None:
    """The ending that an event tells; None when it is not of our form."""
    state, reason, code, end = (event.get(key) for key in ("state", "reason", "exit_code", "end"))
    if isinstance(state, str) and isinstance(reason, str) and isinstance(code, int | None):
        moment = float(end) if isinstance(end, int | float) else 0.0
        return Ending(state, reason, code, moment, _error_code(event))
    return None


def _error_code(event: dict[str, Any]) -> int:
    found = event.get("error_code")
    return found if isinstance(found, int) else 0


def _above_standard(descriptor: int) -> int:
    """The same open file under a number that is not stdin, stdout or stderr, should those have been closed."""
    if descriptor > 2:
        return descriptor
    duplicate = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return duplicate


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """The value as JSON in UTF-8 with a line end; names that are no UTF-8 stand in it as escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent).encode() + b"\n"
