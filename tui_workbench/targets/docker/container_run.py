"""One run in its container: created and started, followed, asked to end, and brought home.

A run's container has a name that only it can have, so every step can be taken again by whoever goes on.

The output of a container that could not write it itself is taken from the engine's own log, to the byte. The engine
gives its records in the order of its file. Their times do not identify them: a line of more than 16 KiB comes in pieces
of one time, records of stdout and stderr may stand in another order than their times, and a clock may be set back. So a
place in the log is how many records were taken; of a large log, which nobody wants to read anew, how many from a second
on that lies a little before the last one. It is kept beside the log, together with the log's size at that place: when
the two disagree after a crash, the log is cut back to the size and the rest is taken again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import NeverStarted, WorkbenchError
from tui_workbench.core.files import open_below, write_all, write_below
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.base.values import PROJECT_IN_CONTAINER, Outcome, Report
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker import placing
from tui_workbench.targets.docker.container import ENGINE_MODE, MODE_LABEL, container_name
from tui_workbench.targets.docker.engine import Container, Engine, EngineRefused, Image
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.mirror import follow
from tui_workbench.targets.hosts.supervisor import OUTPUT

END_SECONDS = 30.0
"""How long the engine may take to end a killed container before it is asked again."""

# All processes of the container that the run's user may signal; process 1 and the asking shell are never among them.
_ASK_ALL = ("/bin/sh", "-c", "kill -TERM -1")


class ContainerRun:
    """The container of one run on an engine. Every call raises TargetUnreachable when that does not answer."""

    def __init__(self, host: Host, engine: Engine, spec: RunSpec) -> None:
        self._host = host
        self._engine = engine
        self._spec = spec
        self._run = HostRun(host, spec)
        self._name = container_name(spec.run_id)

    def container(self) -> Container | None:
        """As the engine describes it; None when there is none."""
        return self._engine.container(self._name)

    def is_started(self) -> bool:
        """Whether there is a container that was started."""
        found = self.container()
        return found is not None and found.state != "created"

    def create_and_start(self, image: Image, facts: ImageFacts) -> None:
        """Create the container and start it. Raises WorkbenchError, and leaves none behind that was not started."""
        try:
            self._create_and_start(placing.placement(self._host, self._engine, self._spec, image, facts))
        except EngineRefused as refused:
            left = self.container()
            if left is not None and left.state == "created":
                self._engine.remove(left.id)
            message, remedy = containers.start_failure(
                refused.said, host=self._host.label, image=self._spec.target.base_docker_image
            )
            raise WorkbenchError(message, remedy=remedy or refused.remedy) from refused

    def _create_and_start(self, place: containers.Placement) -> None:
        spec, run = self._spec, self._run
        run.make_folders(place.share)
        run.note_start()
        if choice.chooses(spec.target):
            place = place._replace(gpus=tuple(each.uuid for each in choice.take(self._host, spec, run.directory)))
        launch = containers.launch_file(spec, place)
        if launch is not None:
            run.write(containers.LAUNCH_FILE, launch)
        run.make_writable(containers.written_folders(spec, place), containers.written_files(spec, place))
        self._engine.create(self._name, containers.configuration(spec, place))
        if place.copied:
            archive, held = placing.archive_of(
                spec.working_directory, PROJECT_IN_CONTAINER, place.user, is_leaving=not self._host.is_local
            )
            with archive:
                self._engine.put(self._name, "/", archive)
            write_below(spec.run_directory, placing.PLACED, json.dumps(held).encode())
        self._engine.start(self._name)
        if place.mode == ENGINE_MODE:
            # Nobody over there notes that it was started.
            os.close(open_below(spec.run_directory, POSITION_FILE, os.O_WRONLY | os.O_CREAT))

    def wait(self, interrupted: int) -> Outcome:
        """Wait for the container's end while its log arrives. Raises Interrupted, NeverStarted or WorkbenchError."""
        found = self.container()
        if found is not None and found.state != "created" and not found.has_ended:
            self._follow(found, interrupted)
            found = self.container()
        self._take_log(found)
        return self._outcome()

    def _follow(self, found: Container, interrupted: int) -> None:
        if _keeps_log(found):

            def take() -> None:
                self._take_engine_log(found, is_followed=True)
                self._engine.wait(found.id)

            with BackgroundCall(take) as ended:
                ended.wait(interrupted)
            return
        with BackgroundCall(lambda: self._engine.wait(found.id)) as ended:
            if self._host.is_local:
                ended.wait(interrupted)
                return
            with self._run.mirror() as mirror:
                follow(ended.descriptor, ended.result, mirror, interrupted, self._run.live())

    def _take_engine_log(self, found: Container, *, is_followed: bool) -> None:
        with EngineLog(self._engine, found.id, self._spec.run_directory, OUTPUT) as log:
            log.take(follow=is_followed)

    def _take_log(self, found: Container | None) -> None:
        if found is not None and _keeps_log(found):
            self._take_engine_log(found, is_followed=False)
        elif not self._host.is_local:
            with self._run.mirror() as mirror:
                mirror.drain()

    def _outcome(self) -> Outcome:
        """How the ended run ended; noted in its directory here. Raises WorkbenchError when it was never started."""
        found, ending = self.container(), self._run.state()
        was_started = ending.started or os.path.exists(f"{self._spec.run_directory}/{POSITION_FILE}")
        if not was_started and (found is None or found.state == "created"):
            raise NeverStarted(
                f"there is no container of it on {self._host.label}: it was never started", remedy="Submit it again."
            )
        if found is not None and found.has_ended and ending.exit_code is None and not found.error:
            found = found._replace(error=self._last_words(found))
        outcome = containers.outcome(
            found,
            ending.exit_code,
            host=self._host.label,
            restarted=ending.restarted,
            engine_started=self._engine.started_at(),
        )
        self._run.note_end(outcome.exit_code)
        return self._run.add_full_disk_reason(outcome)

    def _last_words(self, found: Container) -> str:
        """The last line that the container wrote past the run's log, as a shell that cannot write that does."""
        if _keeps_log(found):
            return ""
        records = [text.partition(b" ")[2] for text in self._engine.records(found.id, follow=False)]
        return records[-1].decode("utf-8", "replace").strip() if records else ""

    def stop(self, grace: float) -> bool:
        """Ask every process to end, and after `grace` seconds end the container by force (returns True then)."""
        found = self.container()
        if found is None or found.has_ended or found.state == "created":
            return False
        with BackgroundCall(lambda: self._engine.wait(found.id)) as ended:
            if found.state == "paused":
                self._engine.unpause(found.id)
            self._ask_to_end(found)
            forced = not ended.wait(timeout=grace)
            while forced:
                self._engine.kill(found.id)
                if ended.wait(timeout=END_SECONDS):
                    break
        self._outcome()
        return forced

    def _ask_to_end(self, found: Container) -> None:
        """SIGTERM to every process of the run; the supervising shell outlives it to write down the exit code."""
        if not _keeps_log(found):
            try:
                if self._engine.execute(found.id, _ASK_ALL)[0] == 0:
                    return
            except EngineRefused:
                pass  # it has just ended, or cannot start one process more
        self._engine.kill(found.id, "SIGTERM")

    def collect(self, report: Report) -> None:
        """Bring here what is still there: the rest of the log, outputs/ and every other file that the run made."""
        found = self.container()
        self._take_log(found)
        if not placing.is_copied(self._spec.target):
            self._run.fetch(report)
            return
        self._run.finish_live()
        archive = self._engine.get(found.id, PROJECT_IN_CONTAINER) if found is not None else None
        if archive is not None:
            placing.take_made(archive, self._spec.run_directory)

    def release(self) -> None:
        """Remove the container and the run's copy of the project."""
        self._engine.remove(self._name)
        self._run.remove_copy()


def _keeps_log(found: Container) -> bool:
    """Whether the engine keeps the output, because the image holds no shell that could write it into a file."""
    return found.labels.get(MODE_LABEL) == ENGINE_MODE


POSITION_FILE = "engine-log"
"""In the run directory: the numbers of a LogPosition, rewritten in place in one write of fixed length."""

LARGE = 16 << 20
"""Bytes of a log from which on not all of it is asked for again."""

MARGIN_SECONDS = 10
"""How far records of a large log may be out of order: what a busy machine may keep a thread waiting."""

_LENGTH = 64


class LogPosition(NamedTuple):
    """How far the log was taken."""

    since: int = 0  # the second that the log is asked for from; 0 is its beginning
    taken: int = 0  # records of that answer that were taken
    total: int = 0  # all records that were taken
    size: int = 0  # bytes of output.log that they made


class EngineLog(contextlib.AbstractContextManager["EngineLog"]):
    """Appends a container's log to `output` in the run directory `directory`, from where it was left."""

    def __init__(self, engine: Engine, container: str, directory: str, output: str) -> None:
        self._engine = engine
        self._container = container
        self._output = open_below(directory, output, os.O_RDWR | os.O_CREAT)
        self._state = open_below(directory, POSITION_FILE, os.O_RDWR | os.O_CREAT)
        self._is_ours = False
        self._position = LogPosition()
        self._counts: dict[int, int] = {}  # records taken of each second from the place's on
        self._is_counted = True  # whether that is so

    def __exit__(self, *_: object) -> None:
        os.close(self._output)
        os.close(self._state)

    def take(self, *, follow: bool) -> None:
        """Take what is there, and with `follow` go on until the container has ended. Raises as Engine.records.

        When somebody else is taking it, to follow means nothing, and else the end of that is waited for.
        """
        if not self._is_ours and not self._begin(wait=not follow):
            return
        for second, text in self._new_records(follow):
            write_all(self._output, text)
            self._note(second, len(text))

    def _begin(self, *, wait: bool) -> bool:
        """Go back to the last place that was noted; False when somebody else is taking the log."""
        if wait:
            locks.lock(self._state)
        elif not locks.try_lock(self._state):
            return False
        self._is_ours = True
        self._position = _parse(os.pread(self._state, _LENGTH, 0))
        os.ftruncate(self._output, self._position.size)
        os.lseek(self._output, self._position.size, os.SEEK_SET)
        return True

    def _new_records(self, follow: bool) -> Iterator[tuple[int, bytes]]:
        """The second and the text of each record behind the place; those before it are counted off."""
        left = self._position.taken
        self._counts.clear()
        self._is_counted = True
        for record in self._engine.records(self._container, since=self._position.since, follow=follow):
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
            # The clock was set back: only counting from the beginning tells which records these are.
            since, taken, self._is_counted = 0, total, False
        taken, total, size = taken + 1, total + 1, size + length
        self._counts[second] = self._counts.get(second, 0) + 1
        if size > LARGE and second - MARGIN_SECONDS > since and self._is_counted:
            since = second - MARGIN_SECONDS
            self._counts = {each: count for each, count in self._counts.items() if each >= since}
            taken = sum(self._counts.values())
        self._position = LogPosition(since, taken, total, size)
        line = " ".join(map(str, self._position)).ljust(_LENGTH - 1) + "\n"
        os.pwrite(self._state, line.encode("ascii"), 0)


def second_of(stamp: bytes) -> int:
    """`2026-01-31T12:00:00.123456789Z` as whole seconds since the epoch."""
    moment = stamp.decode("ascii").removesuffix("Z").partition(".")[0]
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def _parse(data: bytes) -> LogPosition:
    words = data.decode("ascii", "replace").split()
    # A torn or missing line means the beginning: taking all again is right, only slower.
    if len(words) != 4 or not data.endswith(b"\n") or not "".join(words).isdecimal():
        return LogPosition()
    return LogPosition(*map(int, words))
