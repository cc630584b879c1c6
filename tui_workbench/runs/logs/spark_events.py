"""Read the stages and failed tasks of Spark from the event logs that applications write to the run directory.

Each line of an event log is a JSON object; the source of the format is JsonProtocol of Spark. The script can write any
content. Therefore, at most SPARK_BYTES of a file are read, and long lines are skipped. The numbers of stages, failed
tasks and characters are limited. The texts may contain characters that are unsafe for terminals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.core.json_values import parse_json
from tui_workbench.targets.hosts.mirror import IN_PROGRESS
from tui_workbench.targets.hosts.supervisor import SPARK, SPARK_BYTES

MOST_APPLICATIONS = 20
MOST_STAGES = 2_000
MOST_FAILED_TASKS = 200
LONGEST_TEXT = 1_000
LONGEST_LINE = 8 << 20
"""Maximum size of an event in bytes. The event of a stage describes all its RDDs."""

_BLOCK = 1 << 20
_LARGEST_NUMBER = 1 << 53

_TASK_DONE = re.compile(
    rb'\{"Event":"SparkListenerTaskEnd","Stage ID":(\d{1,9}),"Stage Attempt ID":(\d{1,9}),"Task Type":"\w+",'
    rb'"Task End Reason":\{"Reason":"Success"\}'
)
"""The beginning of the event of a successful task. Most lines are such events, and are not parsed as JSON."""

_EVENT = re.compile(rb'\{"Event":"(?:SparkListener)?(\w+)"')
# The last line of a Python traceback in the message of a failed task, such as `ValueError: bad row`.
_RAISED = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure)\b.*)$", re.MULTILINE)


class SparkStage(NamedTuple):
    """A stage of a Spark job. Times are seconds since the epoch; 0.0 if it has not started or ended."""

    number: int
    attempt: int
    name: str  # action and line of the script
    tasks: int
    done: int = 0
    failed: int = 0  # number of failed task attempts
    start: float = 0.0
    end: float = 0.0
    failure: str = ""


class FailedTask(NamedTuple):
    """A failed attempt of a task."""

    stage: int
    task: int
    attempt: int
    host: str
    executor: str
    reason: str


class SparkApplication(NamedTuple):
    """A Spark session of the script. Times are seconds since the epoch; 0.0 if unknown."""

    identifier: str
    name: str = ""
    version: str = ""
    master: str = ""
    start: float = 0.0
    end: float = 0.0
    executors: int = 0
    cores: int = 0
    stages: tuple[SparkStage, ...] = ()
    failed_tasks: tuple[FailedTask, ...] = ()
    more_stages: int = 0  # number of stages beyond MOST_STAGES
    more_failed: int = 0  # number of failed attempts beyond MOST_FAILED_TASKS
    ui_host: str = ""  # "" without a user interface
    ui_port: int = 0
    is_cut: bool = False  # only a part of the event log was read
    has_events: bool = True  # False if the event log is not on this machine


class SparkEvents:
    """A reader of the event logs of a run. Each `refresh` continues where the last one stopped."""

    def __init__(self, directory: str) -> None:
        self._folder = os.path.join(directory, SPARK)
        self._logs: dict[str, _EventLog] = {}

    def refresh(self) -> None:
        """Read new events. This blocks."""
        names: list[str] = []
        with suppress(OSError):
            names = sorted(name for name in os.listdir(self._folder) if not name.startswith("."))
        for name in names:
            key = name.removesuffix(IN_PROGRESS)
            if key not in self._logs:
                if len(self._logs) == MOST_APPLICATIONS:
                    continue
                self._logs[key] = _EventLog(key)
            with suppress(OSError):
                self._logs[key].read(os.path.join(self._folder, name))

    @property
    def applications(self) -> list[SparkApplication]:
        """The applications in the order of their start."""
        return sorted((log.application for log in self._logs.values()), key=lambda application: application.start)


def read_spark(directory: str) -> list[SparkApplication]:
    """Return the Spark applications of the run at `directory`."""
    events = SparkEvents(directory)
    events.refresh()
    return events.applications


class _EventLog:
    """A reader of one event log. Each read continues where the last one stopped."""

    def __init__(self, identifier: str) -> None:
        self._application = SparkApplication(_text(identifier))
        self._offset = 0
        self._rest = b""
        self._skips = False  # True inside a line that is too long
        self._stages: dict[tuple[int, int], SparkStage] = {}
        self._expected: dict[tuple[int, int], int] = {}  # job IDs of stages that have not been submitted
        self._failed: list[FailedTask] = []
        self._more_stages = self._more_failed = 0
        self._executors: dict[str, int] = {}
        self._is_cut = False

    @property
    def application(self) -> SparkApplication:
        return self._application._replace(
            stages=tuple(sorted(self._stages.values())),
            failed_tasks=tuple(self._failed),
            more_stages=self._more_stages,
            more_failed=self._more_failed,
            executors=len(self._executors),
            cores=sum(self._executors.values()),
            is_cut=self._is_cut,
        )

    def read(self, path: str) -> None:
        """Read new complete lines. Raises OSError."""
        with open_regular(path) as file:
            file.seek(self._offset)
            while block := file.read(min(_BLOCK, SPARK_BYTES - self._offset)):
                self._offset += len(block)
                *lines, self._rest = (self._rest + block).split(b"\n")
                for line in lines:
                    if not self._skips:
                        self._take(line)
                    self._skips = False
                if len(self._rest) > LONGEST_LINE:
                    self._rest, self._skips, self._is_cut = b"", True, True
            # Only the first SPARK_BYTES of a longer file are fetched from another machine.
            self._is_cut = self._is_cut or self._offset >= SPARK_BYTES

    def _take(self, line: bytes) -> None:
        if done := _TASK_DONE.match(line):
            self._count((int(done[1]), int(done[2])), failed=False)
            return
        match = _EVENT.match(line)
        handle = _HANDLERS.get(match[1]) if match else None
        if handle is None:
            return
        try:
            event = parse_json(line)
        except ValueError:
            return
        if isinstance(event, dict):
            handle(self, event)

    def _log_started(self, event: Mapping[str, Any]) -> None:
        self._application = self._application._replace(version=_text(event.get("Spark Version")))

    def _application_started(self, event: Mapping[str, Any]) -> None:
        self._application = self._application._replace(
            name=_text(event.get("App Name")), start=_seconds(event.get("Timestamp"))
        )

    def _application_ended(self, event: Mapping[str, Any]) -> None:
        self._application = self._application._replace(end=_seconds(event.get("Timestamp")))

    def _properties_known(self, event: Mapping[str, Any]) -> None:
        properties = _mapping(event.get("Spark Properties"))
        port = _text(properties.get("spark.ui.port")) or "4040"
        has_ui = properties.get("spark.ui.enabled") != "false" and port.isascii() and port.isdigit() and len(port) <= 5
        self._application = self._application._replace(
            master=_text(properties.get("spark.master")),
            ui_host=_text(properties.get("spark.driver.host")) if has_ui else "",
            ui_port=int(port) if has_ui else 0,
        )

    def _executor_added(self, event: Mapping[str, Any]) -> None:
        if len(self._executors) < MOST_STAGES:
            cores = _number(_mapping(event.get("Executor Info")).get("Total Cores"))
            self._executors[_text(event.get("Executor ID"))] = cores

    def _executor_removed(self, event: Mapping[str, Any]) -> None:
        self._executors.pop(_text(event.get("Executor ID")), None)

    def _job_started(self, event: Mapping[str, Any]) -> None:
        # Spark writes this event immediately, but buffers the events of submitted stages.
        infos = event.get("Stage Infos")
        for info in map(_mapping, infos[:MOST_STAGES] if isinstance(infos, list) else ()):
            key = _key(info)
            if key not in self._stages and len(self._stages) < MOST_STAGES:
                start = 0.0 if info.get("Parent IDs") else _seconds(event.get("Submission Time"))
                self._stages[key] = _stage(key, info)._replace(start=start)
                self._expected[key] = _number(event.get("Job ID"))

    def _job_ended(self, event: Mapping[str, Any]) -> None:
        skipped = [key for key, job in self._expected.items() if job == _number(event.get("Job ID"))]
        for key in skipped:
            del self._expected[key], self._stages[key]

    def _stage_changed(self, event: Mapping[str, Any]) -> None:
        info = _mapping(event.get("Stage Info"))
        key = _key(info)
        self._expected.pop(key, None)
        if key not in self._stages and len(self._stages) >= MOST_STAGES:
            self._more_stages += event.get("Event") == "SparkListenerStageSubmitted"
            return
        stage = self._stages.get(key, SparkStage(*key, "", 0))
        self._stages[key] = _stage(key, info)._replace(done=stage.done, failed=stage.failed)

    def _task_ended(self, event: Mapping[str, Any]) -> None:
        key = _key(event)
        info, reason = _mapping(event.get("Task Info")), _mapping(event.get("Task End Reason"))
        kind = reason.get("Reason")
        if kind == "TaskKilled":
            return  # Spark kills tasks after the failure of another task
        self._count(key, failed=kind != "Success")
        if kind == "Success":
            return
        if len(self._failed) >= MOST_FAILED_TASKS:
            self._more_failed += 1
            return
        self._failed.append(
            FailedTask(
                key[0],
                _number(info.get("Index")),
                _number(info.get("Attempt")),
                _text(info.get("Host")),
                _text(info.get("Executor ID")),
                _task_failure(reason),
            )
        )

    def _count(self, key: tuple[int, int], *, failed: bool) -> None:
        stage = self._stages.get(key)
        if stage is not None:
            self._stages[key] = (
                stage._replace(failed=stage.failed + 1) if failed else stage._replace(done=stage.done + 1)
            )


_HANDLERS = {
    b"LogStart": _EventLog._log_started,
    b"ApplicationStart": _EventLog._application_started,
    b"ApplicationEnd": _EventLog._application_ended,
    b"EnvironmentUpdate": _EventLog._properties_known,
    b"ExecutorAdded": _EventLog._executor_added,
    b"ExecutorRemoved": _EventLog._executor_removed,
    b"JobStart": _EventLog._job_started,
    b"JobEnd": _EventLog._job_ended,
    b"StageSubmitted": _EventLog._stage_changed,
    b"StageCompleted": _EventLog._stage_changed,
    b"TaskEnd": _EventLog._task_ended,
}


def _key(info: Mapping[str, Any]) -> tuple[int, int]:
    return _number(info.get("Stage ID")), _number(info.get("Stage Attempt ID"))


def _stage(key: tuple[int, int], info: Mapping[str, Any]) -> SparkStage:
    return SparkStage(
        *key,
        name=_short_name(_text(info.get("Stage Name"))),
        tasks=_number(info.get("Number of Tasks")),
        start=_seconds(info.get("Submission Time")),
        end=_seconds(info.get("Completion Time")),
        failure=_failure(_text(info.get("Failure Reason"), whole=True)),
    )


def _short_name(name: str) -> str:
    """Shorten `collect at /a/b/train.py:7` to `collect at train.py:7`."""
    action, at, path = name.rpartition(" at ")
    return f"{action}{at}{os.path.basename(path)}"


def _task_failure(reason: Mapping[str, Any]) -> str:
    kind, message = _text(reason.get("Reason")), _text(reason.get("Description"), whole=True)
    if kind == "ExceptionFailure":
        return _failure(message) or _text(reason.get("Class Name"))
    lost = _text(reason.get("Loss Reason")) or _text(reason.get("Message"))
    return f"{kind}: {lost}" if lost else kind


def _failure(message: str) -> str:
    """Return the exception in a message: the last line of its Python traceback, if any, or its first line."""
    raised = _RAISED.findall(message) if "Traceback" in message else []
    return (raised[-1] if raised else message.strip().partition("\n")[0])[:LONGEST_TEXT]


def _text(value: object, *, whole: bool = False) -> str:
    return value[: LONGEST_LINE if whole else LONGEST_TEXT] if isinstance(value, str) else ""


def _number(value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER
    return int(value) if is_number and isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return _number(value) / 1000


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
