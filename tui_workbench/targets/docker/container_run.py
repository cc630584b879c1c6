"""A run in a container: start, follow, cancel, collect and release.

The name of a run's container is unique, so every step can be repeated, even by another process.

If the image has no shell, the output comes from the engine's log, which returns records in the order of the log file.
Timestamps do not identify records. A line of more than 16 KiB is split into records with the same timestamp, records of
stdout and stderr may not be sorted by time, and the clock may be set back. A position in the log is therefore the
number of copied records. In a large log, records are counted from a few seconds before the last copied record. The
position is stored with the size of output.log. After a crash, output.log is truncated to that size, and copying
continues there.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import ConfigurationError, NeverStarted, WorkbenchError
from tui_workbench.core.files import open_below, write_all, write_below
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker import placing
from tui_workbench.targets.docker.container import ENGINE_MODE, MODE_LABEL, SOCKETS, container_name
from tui_workbench.targets.docker.engine import Engine, EngineRefused
from tui_workbench.targets.docker.engine_answers import Container, Image
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts.host import MOST_OUTPUT, Completed, Host
from tui_workbench.targets.hosts.host_run import HostRun, HostRunState
from tui_workbench.targets.hosts.mirror import follow
from tui_workbench.targets.hosts.py_spy import MISSING, PySpy, installed_py_spy, reading_of
from tui_workbench.targets.hosts.serving import ServerPlace
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.hosts.supervisor import OUTPUT, WORKING_COPY
from tui_workbench.targets.values import PROJECT_IN_CONTAINER, RUN_IN_CONTAINER, Outcome, Report, Times

TOOLS = "/workbench/tools"  # folder in the container for programs that the workbench sends

END_SECONDS = 30.0  # seconds after which a container that does not end is killed again
# Signals all processes of the run's user in the container, except process 1 and this shell.
_TERMINATE_ALL = ("/bin/sh", "-c", "kill -TERM -1")


class ContainerRun:
    """The container of a run. Every call raises TargetUnreachable if the engine does not answer."""

    def __init__(self, host: Host, engine: Engine, spec: RunSpec, report: Report) -> None:
        self._host = host
        self._report = report
        self._engine = engine
        self._spec = spec
        self._run = HostRun(host, spec)
        self._name = container_name(spec.run_id)

    def container(self) -> Container | None:
        return self._engine.container(self._name)

    def is_started(self) -> bool:
        container = self.container()
        return container is not None and container.state != "created"

    def create_and_start(self, image: Image, facts: ImageFacts) -> None:
        """Create and start the container; remove it if it cannot be started. Raises WorkbenchError."""
        try:
            placement = placing.placement_of(self._host, self._engine, self._spec, image, facts)
            self._create_and_start(placing.with_spark(placement, self._engine, self._spec, image))
        except EngineRefused as refused:
            container = self.container()
            if container is not None and container.state == "created":
                self._engine.remove(container.id)
            image_name = self._spec.target.base_docker_image
            message, remedy = containers.start_failure(refused, host=self._host.label, image=image_name)
            raise WorkbenchError(message, remedy=remedy) from refused

    def _create_and_start(self, placement: containers.Placement) -> None:
        spec, run = self._spec, self._run
        run.make_folders(placement.share)
        run.note_start()
        if choice.chooses(spec.target):
            chosen = choice.take(self._host, spec)
            placement = placement._replace(gpus=tuple(gpu.hip or gpu.uuid for gpu in chosen))
        launch = containers.launch_file(spec, placement)
        if launch is not None:
            run.write(containers.LAUNCH_FILE, launch)
        if placement.user_file:
            run.write(containers.USER_FILE, placement.user_file)
        run.make_writable(containers.written_folders(spec, placement), containers.written_files(spec, placement))
        self._engine.create(self._name, containers.configuration(spec, placement))
        if placement.copied:
            archive, identities = placing.archive_of(
                spec.working_directory, PROJECT_IN_CONTAINER, placement.user, is_leaving=not self._host.is_local
            )
            with archive:
                self._engine.put(self._name, "/", archive)
            write_below(spec.run_directory, placing.PLACED, json.dumps(identities).encode())
        self._engine.start(self._name)
        if placement.mode == ENGINE_MODE:
            # Without a supervising shell, this file marks the run as started.
            os.close(open_below(spec.run_directory, POSITION_FILE, os.O_WRONLY | os.O_CREAT))

    def wait(self, interrupted: int) -> Outcome:
        """Copy the log until the container ends, and return the outcome.

        Raises Interrupted, NeverStarted or WorkbenchError.
        """
        container = self.container()
        if container is not None and container.state != "created" and not container.has_ended:
            self._follow(container, interrupted)
            container = self.container()
        self._take_log(container)
        return self._outcome()

    def _follow(self, container: Container, interrupted: int) -> None:
        if _keeps_log(container):

            def take() -> None:
                self._take_engine_log(container, is_followed=True)
                self._engine.wait(container.id)

            with BackgroundCall(take) as ended:
                ended.wait(interrupted)
            return
        with BackgroundCall(lambda: self._engine.wait(container.id)) as ended:
            if self._host.is_local:
                ended.wait(interrupted)
                return
            with self._run.mirror() as mirror:
                follow(ended.descriptor, ended.result, mirror, interrupted, self._run.live())

    def _take_engine_log(self, container: Container, *, is_followed: bool) -> None:
        with EngineLog(self._engine, container.id, self._spec.run_directory, OUTPUT) as log:
            log.take(is_followed=is_followed)

    def _take_log(self, container: Container | None) -> None:
        if container is not None and _keeps_log(container):
            self._take_engine_log(container, is_followed=False)
        elif not self._host.is_local:
            with self._run.mirror() as mirror:
                mirror.drain()

    def _outcome(self) -> Outcome:
        """Return the outcome, and write the exit code on this machine. Raises NeverStarted."""
        container, ending = self.container(), self._run.state()
        was_started = ending.started or os.path.exists(f"{self._spec.run_directory}/{POSITION_FILE}")
        if not was_started and (container is None or container.state == "created"):
            raise NeverStarted(
                f"the run was not started on {self._host.label}",
                remedy="Submit the run again.",
            )
        if container is not None and container.has_ended and ending.exit_code is None and not container.error:
            container = container._replace(error=self._last_line(container))
        outcome = containers.outcome(
            container,
            ending.exit_code,
            host=self._host.label,
            restarted=ending.restarted,
            engine_started=self._engine.started_at(),
            has_supervisor=ending.started,
        )
        self._report.ran(_times(container, ending))
        self._run.note_end(outcome.exit_code)
        return self._run.with_full_disk(outcome)

    def _last_line(self, container: Container) -> str:
        """Return the last line in the engine's log, which is an error of the supervising shell.

        Returns "" if the log is empty, or if the image has no shell.
        """
        if _keeps_log(container):
            return ""
        last = b""
        for record in self._engine.records(container.id, follow=False):
            last = record.partition(b" ")[2]
        return last.decode("utf-8", "replace").strip()

    def stop(self, grace: float) -> bool:
        """Terminate all processes, and kill the container after `grace` seconds. Return True if it was killed."""
        container = self.container()
        if container is None or container.has_ended or container.state == "created":
            return False
        with BackgroundCall(lambda: self._engine.wait(container.id)) as ended:
            if container.state == "paused":
                self._engine.unpause(container.id)
            self._terminate(container)
            forced = not ended.wait(timeout=grace)
            while forced:
                self._engine.kill(container.id)
                if ended.wait(timeout=END_SECONDS):
                    break
        self._outcome()
        return forced

    def warn(self) -> None:
        """Send SIGTERM to every process of the run."""
        container = self.container()
        if container is not None and container.state == "running":
            self._terminate(container)

    def _terminate(self, container: Container) -> None:
        """Send SIGTERM to every process of the run; the supervising shell ignores it and records the exit code."""
        if not _keeps_log(container):
            try:
                if self._engine.execute(container.id, _TERMINATE_ALL)[0] == 0:
                    return
            except EngineRefused:
                pass  # the container has just ended, or cannot start another process
        self._engine.kill(container.id, "SIGTERM")

    def read_stacks(self) -> Reading:
        """Return the Python stacks of the processes in the container. Raises WorkbenchError."""
        container = self.container()
        if container is None or container.has_ended:
            return Reading()
        if _keeps_log(container):
            raise ConfigurationError(
                f"cannot read the stacks: the image {self._spec.target.base_docker_image} has no shell",
                remedy="Choose a baseDockerImage with /bin/sh.",
            )
        spy = installed_py_spy()
        path = f"{TOOLS}/{spy.name}"
        done = self._execute(container, spy.words(path, self._spec.run_id))
        if done.code == MISSING:
            self._engine.put(container.id, "/", _archive_of(spy, path))
            done = self._execute(container, spy.words(path, self._spec.run_id))
        return reading_of(done, spy, f"the container on {self._host.label}", package_place="in the image")

    def server_place(self, python: str, socket: str) -> ServerPlace:
        """Return the container as the place where servers are started. Raises WorkbenchError.

        `socket` is the path of the engine's socket on its host.
        """
        container, label = self.container(), f"the container on {self._host.label}"
        if container is None or container.state != "running":
            raise WorkbenchError(
                f"{label} is not running, so its ports cannot be opened",
                remedy="If the run has not started, wait until it is running. If it has ended, only its files are "
                f"left: `tensorboard --logdir {shlex.quote(self._spec.run_directory)}` shows its logs on this machine.",
            )
        if not container.address:
            raise ConfigurationError(
                f"{label} has no IP address, so its ports cannot be reached",
                remedy="Check `bridge` in daemon.json of the engine: containers need the engine's default network.",
            )
        words = ("docker", "-H", f"unix://{socket}", "exec", "-i", container.id, python)
        install = shlex.join((*words[:3], "exec", container.name, python, "-m", "pip", "install", "PACKAGE"))
        if not self._host.is_local:
            install = f"ssh {self._host.ssh_words} {install}"
        install = f"`{install}`. For later runs, add PACKAGE to the dependencies file."
        logs = PROJECT_IN_CONTAINER, RUN_IN_CONTAINER
        folders = PROJECT_IN_CONTAINER, f"{RUN_IN_CONTAINER}/{WORKING_COPY}"
        return ServerPlace(self._host, label, container.address, words, logs, folders, install, SOCKETS)

    def _execute(self, container: Container, argv: Sequence[str]) -> Completed:
        """Run a program in the container; keep about the first MOST_OUTPUT bytes of its output."""
        output, code = b"", 0
        for part in self._engine.stream(container.id, argv):
            if isinstance(part, int):
                code = part
            elif len(output) < MOST_OUTPUT:
                output += part
        return Completed(code, output, output)

    def collect(self, report: Report) -> None:
        """Fetch outputs/, all other files that the run created, and the rest of the log."""
        container = self.container()
        self._take_log(container)
        if not placing.is_copied(self._spec.target):
            self._run.fetch(report)
            return
        self._run.finish_live()
        archive = self._engine.get(container.id, PROJECT_IN_CONTAINER) if container is not None else None
        if archive is not None:
            placing.take_made(archive, self._spec.run_directory)

    def reset(self, *, anew: bool) -> None:
        """Remove the container, so that the run can be started again. The copied part of its log is kept."""
        self._engine.remove(self._name)
        self._run.reset(anew=anew)
        directory = self._spec.run_directory
        if os.path.lexists(f"{directory}/{POSITION_FILE}"):
            write_below(directory, POSITION_FILE, _line(LogPosition(size=os.stat(f"{directory}/{OUTPUT}").st_size)))

    def release(self) -> None:
        self._engine.remove(self._name)
        self._run.remove_copy()


def _archive_of(spy: PySpy, path: str) -> io.BytesIO:
    """Return a tar archive that contains py-spy at an absolute path, executable by all users."""
    data, packed = spy.read(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as tar:
        member = tarfile.TarInfo(path.lstrip("/"))
        member.size, member.mode = len(data), 0o755
        tar.addfile(member, io.BytesIO(data))
    packed.seek(0)
    return packed


def _times(container: Container | None, ending: HostRunState) -> Times:
    """Return when the script began and ended. The engine knows the end of a container that was killed."""
    times = ending.times
    if container is None or not container.has_ended:
        return times
    began, ended = _seconds_of(container.started_at), _seconds_of(container.finished_at)
    return Times(
        times.start or (began and began + ending.ahead),
        times.end or (ended and ended + ending.ahead),
    )


def _seconds_of(moment: str) -> float:
    """Convert a time of the engine to seconds since the epoch; 0.0 for never."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0


def _keeps_log(container: Container) -> bool:
    """Return True if the output is in the engine's log, because the image has no shell."""
    return container.labels.get(MODE_LABEL) == ENGINE_MODE


# The file in the run directory with a LogPosition, overwritten by a single write of fixed length.
POSITION_FILE = "engine-log"
LARGE = 16 << 20  # a log with more bytes is not read again from its start
# Seconds by which records of a large log may be out of order, because threads of the engine wait on a busy machine.
MARGIN_SECONDS = 10
_LENGTH = 64


class LogPosition(NamedTuple):
    """The end of the copied part of the engine's log."""

    since: int = 0  # the second to read the log from; 0 for its start
    taken: int = 0  # copied records since that second
    total: int = 0  # all copied records
    size: int = 0  # bytes of all copied records in output.log


class EngineLog(contextlib.AbstractContextManager["EngineLog"]):
    """An open copy of a container's log: the file `output` in the run directory, continued at the stored position."""

    def __init__(self, engine: Engine, container: str, directory: str, output: str) -> None:
        self._engine = engine
        self._container = container
        self._output = open_below(directory, output, os.O_RDWR | os.O_CREAT)
        self._state = open_below(directory, POSITION_FILE, os.O_RDWR | os.O_CREAT)
        self._is_locked = False
        self._position = LogPosition()
        self._counts: dict[int, int] = {}  # copied records by second, since the position
        self._is_counted = True  # False if `_counts` is not complete

    def __exit__(self, *_: object) -> None:
        os.close(self._output)
        os.close(self._state)

    def take(self, *, is_followed: bool) -> None:
        """Copy new records; with `is_followed`, continue until the container has ended.

        If another process is copying the log, return at once with `is_followed`; without it, wait for that process.
        Raises the errors of Engine.records.
        """
        if not self._is_locked and not self._begin(wait=not is_followed):
            return
        for second, text in self._new_records(is_followed):
            write_all(self._output, text)
            self._note(second, len(text))

    def _begin(self, *, wait: bool) -> bool:
        """Lock the log and go to the stored position. Return False if another process holds the lock."""
        if wait:
            locks.lock(self._state)
        elif not locks.try_lock(self._state):
            return False
        self._is_locked = True
        self._position = _parse(os.pread(self._state, _LENGTH, 0))
        os.ftruncate(self._output, self._position.size)
        os.lseek(self._output, self._position.size, os.SEEK_SET)
        return True

    def _new_records(self, is_followed: bool) -> Iterator[tuple[int, bytes]]:
        """Yield the timestamp (in whole seconds) and text of each record after the position."""
        left = self._position.taken
        self._counts.clear()
        self._is_counted = True
        for record in self._engine.records(self._container, since=self._position.since, follow=is_followed):
            stamp, _, text = record.partition(b" ")
            second = second_of(stamp)
            if left:
                left -= 1
                self._counts[second] = self._counts.get(second, 0) + 1
                continue
            yield second, text

    def _note(self, second: int, length: int) -> None:
        since, taken, total, size = self._position
        if second < since:
            # The clock was set back, so records must be counted from the start.
            since, taken, self._is_counted = 0, total, False
        taken, total, size = taken + 1, total + 1, size + length
        self._counts[second] = self._counts.get(second, 0) + 1
        if size > LARGE and second - MARGIN_SECONDS > since and self._is_counted:
            since = second - MARGIN_SECONDS
            self._counts = {key: count for key, count in self._counts.items() if key >= since}
            taken = sum(self._counts.values())
        self._position = LogPosition(since, taken, total, size)
        os.pwrite(self._state, _line(self._position), 0)


def second_of(stamp: bytes) -> int:
    """Convert a timestamp such as `2026-01-31T12:00:00.123456789Z` to whole seconds since the epoch."""
    moment = stamp.decode("ascii").removesuffix("Z").partition(".")[0]
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def _line(position: LogPosition) -> bytes:
    return (" ".join(map(str, position)).ljust(_LENGTH - 1) + "\n").encode("ascii")


def _parse(data: bytes) -> LogPosition:
    words = data.decode("ascii", "replace").split()
    # Without a valid position, the log is copied again from its start.
    if len(words) != 4 or not data.endswith(b"\n") or not "".join(words).isdecimal():
        return LogPosition()
    return LogPosition(*map(int, words))
