"""The run directory: the one place that knows the name and form of every file in it.

A run is this directory and nothing else. `run.json` is written once, before anything starts; `events.jsonl` only
grows, a line an event, and a torn last line is ignored; `output.log` is written by the training process itself.
Whatever is not derived from these files does not exist, so any process may die at any moment and any other may read,
follow or resume the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from tui_workbench.errors import RunNotFound, StorageError
from tui_workbench.model import (
    ComputeTarget,
    Plan,
    Run,
    RunConfiguration,
    RunSpec,
    RunState,
    Step,
    masked,
)
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SCHEMA = 1
"""Number of the form of run.json and events.jsonl; raised when a reader of the old form would misread the new one."""

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
WORKING_COPY = "work"
CONTROLLER_LOCK = "controller.lock"
CANCEL_REQUEST = "cancel"
WAITING = "waiting"
"""Stands in a run whose turn on its target, or in its sweep, has not come."""

TURN = "queue.json"
"""Stands in a run that may have to wait for its turn: what that depends on."""

COPY = "copy"
"""Stands in a run whose working copy is made when it begins: empty before that, and last changed when it was whole."""

FOLLOWED = "followed"
"""Stands in a run that another machine submitted: what it holds on its target is not ours to remove."""

DEFAULT_GRACE = 5.0
"""Seconds between asking a script to end and making it."""


class Record(NamedTuple):
    """`run.json`: what was asked, as it was at that moment."""

    run_id: str
    run_number: int
    created: float
    user_id: str
    spec: RunSpec
    plan: Plan
    commit_id: str
    snapshot: str  # git, copy (no git on this machine) or none (untracked)
    origin: str = ""  # the run that this one repeats
    group: str = ""  # the sweep that it belongs to
    member: int = 0  # its place in the group, from 1


class Ending(NamedTuple):
    """How a run ended on its target, known before what it made is brought back."""

    state: str
    reason: str = ""
    exit_code: int | None = None
    end: float = 0.0


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
        data = json_bytes(_record_to_json(record), indent=1)
        try:
            descriptor = os.open(self.file(RECORD), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error("write", self.file(RECORD), error) from error

    def make_durable(self) -> None:
        """See to it that the run is still there when the machine loses its power from now on, as far as can be."""
        for path in (self.file(RECORD), self.path, os.path.dirname(self.path)):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                os.fsync(descriptor)
            except OSError:
                continue  # some file systems cannot do this for a folder
            finally:
                os.close(descriptor)

    def read_record(self) -> Record:
        """Read run.json. Raises RunNotFound when there is none or it cannot be understood."""
        path = self.file(RECORD)
        try:
            with open(path, encoding="utf-8") as file:
                return record_from_json(json.load(file), self.path)
        except OSError as error:
            raise RunNotFound(
                f"there is no run {self.run_id!r}: {error.strerror}",
                remedy="`workbench-tui history list` shows the runs.",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunNotFound(
                f"this is no record of a run that version {SCHEMA} can read ({type(error).__name__}: {error})",
                remedy="The other files of the run are untouched; update the workbench, or move the folder away.",
                file=path,
            ) from error

    def append_event(self, event: str, **fields: Any) -> None:
        """Append one line to events.jsonl; states are made durable. Raises StorageError."""
        data = json_bytes({"time": round(time.time(), 6), "event": event, **fields})
        try:
            descriptor = os.open(self.file(EVENTS), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                if _ends_torn(descriptor):
                    data = b"\n" + data
                write_all(descriptor, data)
                if event == "state" and fields.get("state") in RunState.TERMINAL:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error("write", self.file(EVENTS), error) from error

    def events(self) -> Iterator[dict[str, Any]]:
        """Every readable event in order; torn or foreign lines are skipped, as is a last line that is not complete."""
        try:
            with open(self.file(EVENTS), "rb") as file:
                data = file.read()
        except OSError:
            return
        for line in data.split(b"\n")[:-1]:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
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

    def run(self) -> Run:
        """The run as its files tell it. Raises RunNotFound."""
        record, status = self.read_record(), self.status()
        spec = record.spec
        return Run(
            run_id=record.run_id,
            run_number=record.run_number,
            directory=self.path,
            script_name=spec.script,
            arguments=spec.arguments,
            run_configuration=spec.run_configuration.name,
            target=spec.target.name,
            target_type=spec.target.type,
            state=status.state,
            reason=status.reason,
            exit_code=status.exit_code,
            created=record.created,
            start=status.start,
            end=status.end,
            interpreter=record.plan.interpreter,
            tracked=spec.tracked,
            commit_id=record.commit_id,
            user_id=record.user_id,
            group=record.group,
        )

    def request_cancel(self, grace: float, reason: str = "") -> None:
        """Leave the wish to cancel where every controller, present or future, sees it; the last one asked for counts.

        `grace` is the seconds between asking the script to end and making it, `reason` why a policy wants it. Raises
        StorageError.
        """
        try:
            descriptor = os.open(self.file(CANCEL_REQUEST), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                text = " ".join(reason.encode("utf-8", "replace").decode().split())
                write_all(descriptor, f"{grace:.3f} {text}".rstrip().encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error("write", self.file(CANCEL_REQUEST), error) from error

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
    def cancel_grace(self) -> float:
        """The seconds of grace that the last wish to cancel named."""
        try:
            return float(self._last_wish().split()[0])
        except (ValueError, IndexError):
            return DEFAULT_GRACE

    @property
    def cancel_reason(self) -> str:
        """Why a policy wanted the run to end; "" when a person did."""
        return self._last_wish().partition(" ")[2]

    def _last_wish(self) -> str:
        try:
            with open(self.file(CANCEL_REQUEST), encoding="utf-8", errors="replace") as file:
                return file.read().split("\n")[-2]
        except (OSError, IndexError):
            return ""


class ControllerLock:
    """Who drives the run.

    Held through an open file description, so it can be handed to a child and never outlives its holders.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def acquire(cls, directory: RunDirectory, *, wait: bool = False) -> ControllerLock | None:
        """The lock, or None when another process holds it (with `wait`, when it is free again). Raises StorageError."""
        path = directory.file(CONTROLLER_LOCK)
        descriptor = -1
        try:
            descriptor = _above_standard(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock = cls(descriptor)
            lock.sign()
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise storage_error("lock", path, error) from error
        return lock

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
            descriptor = os.open(directory.file(CONTROLLER_LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            text = os.pread(descriptor, 32, 0).strip()
            return int(text) if text.isdigit() else -1
        else:
            return 0
        finally:
            os.close(descriptor)


def storage_error(verb: str, path: str, error: OSError) -> StorageError:
    """The StorageError that says why a file could not be used and what to do about it."""
    import errno

    remedies = {
        errno.ENOSPC: "The disk is full: free space and try again.",
        errno.EDQUOT: "Your disk quota is used up: free space and try again.",
        errno.EACCES: "Make it writable for this user.",
        errno.EPERM: "Make it writable for this user.",
        errno.EROFS: "The file system is read-only.",
        errno.ENAMETOOLONG: "Use a shorter name.",
    }
    remedy = remedies.get(error.errno or 0, "Check the disk and the folder's permissions.")
    return StorageError(f"cannot {verb} it: {error.strerror or error}", remedy=remedy, file=path)


def _after_state(status: Status, event: dict[str, Any]) -> Status:
    """The status after a state event; one that is not of our form changes nothing."""
    state, reason, code = event.get("state"), event.get("reason", ""), event.get("exit_code", status.exit_code)
    moment = event.get("time", 0.0)
    end = event.get("end", moment) if event.get("final") else 0.0
    numbers = isinstance(moment, int | float) and isinstance(end, int | float)
    if not (isinstance(state, str) and isinstance(reason, str) and isinstance(code, int | None) and numbers):
        return status
    start = float(moment) if state == RunState.RUNNING and not status.start else status.start
    return status._replace(state=state, reason=reason, exit_code=code, start=start, end=float(end))


def _ending(event: dict[str, Any]) -> Ending | None:
    """The ending that an event tells; None when it is not of our form."""
    state, reason, code, end = (event.get(key) for key in ("state", "reason", "exit_code", "end"))
    if isinstance(state, str) and isinstance(reason, str) and isinstance(code, int | None):
        return Ending(state, reason, code, float(end) if isinstance(end, int | float) else 0.0)
    return None


def _above_standard(descriptor: int) -> int:
    """The same open file under a number that is not stdin, stdout or stderr, should those have been closed."""
    if descriptor > 2:
        return descriptor
    duplicate = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return duplicate


def _ends_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """The value as JSON in UTF-8 with a line end; names that are no UTF-8 stand in it as escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent).encode() + b"\n"


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _record_to_json(record: Record) -> dict[str, Any]:
    spec, plan = record.spec, record.plan
    belongs = {"origin": record.origin, "group": record.group, "member": record.member,
               "gpu_check_due": spec.gpu_check_due}  # fmt: skip
    return {
        "schema": SCHEMA,
        "run_id": record.run_id,
        "run_number": record.run_number,
        "created": record.created,
        "user_id": record.user_id,
        "project": spec.project_name,
        "project_root": spec.project_root,
        "working_directory": spec.working_directory,
        "script": spec.script,
        "arguments": spec.arguments,
        "commit_id": record.commit_id,
        "snapshot": record.snapshot,
        **{key: value for key, value in belongs.items() if value},
        "run_configuration": _without_cause(
            spec.run_configuration._replace(
                environment_variables=masked(spec.run_configuration.environment_variables)
            )._asdict()
        ),
        "target": _without_cause(spec.target._asdict()),
        "interpreter": plan.interpreter,
        "plan": [step._asdict() for step in plan.steps],
    }


def _without_cause(values: dict[str, Any]) -> dict[str, Any]:
    # `problem` is about a file that cannot be used; a run never starts from one. `values` repeats the rest.
    return {key: value for key, value in values.items() if key not in ("problem", "values")}


def record_from_json(stored: dict[str, Any], directory: str) -> Record:
    """The record that run.json holds, for the run directory at `directory`. Raises what a wrong form brings about."""
    if stored["schema"] > SCHEMA:
        raise ValueError(f"it has the form {stored['schema']}")
    configuration = dict(stored["run_configuration"])
    configuration["argument_vector"] = tuple(configuration["argument_vector"])
    target = ComputeTarget(**stored["target"])
    spec = RunSpec(
        run_id=stored["run_id"],
        run_directory=directory,
        project_root=stored["project_root"],
        project_name=stored["project"],
        working_directory=stored["working_directory"],
        script=stored["script"],
        arguments=tuple(stored["arguments"]),
        run_configuration=RunConfiguration(**configuration),
        target=target,
        gpu_check_due=bool(stored.get("gpu_check_due")),
    )
    steps = tuple(Step(**{**step, "command": tuple(step["command"])}) for step in stored["plan"])
    plan = Plan(target.name, target.type, stored["interpreter"], steps)
    return Record(
        stored["run_id"], stored["run_number"], stored["created"], stored["user_id"], spec, plan,
        stored["commit_id"], stored["snapshot"],
        stored.get("origin", ""), stored.get("group", ""), stored.get("member", 0),
    )  # fmt: skip
