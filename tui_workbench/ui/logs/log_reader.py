"""A thread that reads logs for a view, so that a slow disk does not delay key presses.

The view sends commands and receives states; nothing else is shared. The thread polls a watched log at least once per
frame. Without a watched log and without work, it sleeps until the next command. It works in short slices, so that a
command waits for less than a frame. Only the latest state is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from tui_workbench.ui.logs.log_session import LogSession, LogState

if TYPE_CHECKING:
    Command = Callable[[LogSession], None]

FRAME_SECONDS = 1 / 10
"""Delay after a poll that found something. A frame costs much more than a read of the file."""

QUIET_SECONDS = 1 / 125
"""Delay after a poll that found nothing. It is short, because a poll costs only one or two system calls."""

REST_SECONDS = 0.2  # delay between two searches of a growing log for tracebacks
PROGRESS_SECONDS = 0.1  # interval at which the progress of the count is published


class LogReader:
    """A reader of one log at a time. `deliver` is called in the thread when `take` has a new state or an error."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        self._deliver = deliver
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._latest: LogState | None = None
        self._error: Exception | None = None
        self._sent = 0
        # The following attributes are used only in the thread.
        self._session: LogSession | None = None
        self._received = 0
        self._commanded = False
        self._published = LogState()
        self._watched = False
        self._working = False
        self._next_poll = 0.0
        self._next_work = 0.0
        self._next_progress = 0.0
        self.thread = threading.Thread(target=self._run, name="log reader", daemon=True)

    @property
    def is_idle(self) -> bool:
        """True while the thread has nothing to do until the next command."""
        return self._next_delay() is None

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        """End the thread after the commands that were sent before. Do not wait for its end."""
        self._commands.put(None)

    def open(self, path: str | None, width: int = 80, height: int = 0, *, wrap: bool = False) -> int:
        """Open another log, or no log if `path` is None. Return the revision of the first state after this command."""
        return self._send(lambda: self._open(path, width, height, wrap))

    def watch(self, watched: bool) -> int:
        """Start or stop polling the log. Return the revision of the first state after this command."""
        return self._send(lambda: self._watch(watched))

    def post(self, command: Command) -> int:
        """Run a command on the open log, if any. Return the revision of the first state after the command."""
        return self._send(lambda: command(self._session) if self._session is not None else None)

    def take(self) -> LogState | None:
        """Return the latest state, or None if it was taken already. Raise the exception that ended the thread."""
        with self._lock:
            state, self._latest = self._latest, None
            error, self._error = self._error, None
        if error is not None:
            raise error
        return state

    def _send(self, call: Callable[[], None]) -> int:
        self._sent += 1
        self._commands.put(call)
        return self._sent

    # --- In the thread

    def _open(self, path: str | None, width: int, height: int, wrap: bool) -> None:
        self._next_work = 0.0
        if self._session is not None:
            self._session.close()
        self._session = None if path is None else LogSession(path)
        if self._session is not None:
            self._session.viewport.set_wrap(wrap)
            self._session.viewport.resize(width, height)
            self._session.poll()

    def _watch(self, watched: bool) -> None:
        self._watched = watched

    def _run(self) -> None:
        try:
            while self._run_commands(self._next_delay()):
                self._poll_and_work()
        except Exception as error:  # `take` raises it again, in the thread of the screens
            with self._lock:
                self._error = error
            self._deliver()
        finally:
            if self._session is not None:
                self._session.close()

    def _next_delay(self) -> float | None:
        """Return the seconds until the next poll or work; None if neither is planned."""
        moments = [self._next_poll] if self._watched and self._session is not None else []
        if self._working:
            moments.append(self._next_work)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _run_commands(self, timeout: float | None) -> bool:
        """Wait for commands and run all of them. Return False when the thread should end."""
        self._commanded = False
        while True:
            try:
                call = self._commands.get(timeout=timeout)
            except Empty:
                return True
            if call is None:
                return False
            call()
            self._received += 1
            self._commanded = True
            timeout = 0.0

    def _poll_and_work(self) -> None:
        session, now, publish = self._session, time.monotonic(), self._commanded
        if session is None:
            if publish:
                self._publish(LogState(revision=self._received))
            return
        if publish or (self._watched and now >= self._next_poll):
            # Without a command, poll only after the last state was taken: a busy screen is not slowed down further.
            changed = (publish or self._latest is None) and session.poll()
            publish |= changed
            self._working |= publish
            if session.is_awaited:
                self._next_work = now
            self._next_poll = now + (FRAME_SECONDS if changed else QUIET_SECONDS)
        if self._working and not publish and (now >= self._next_work or session.is_awaited):
            mark = session.mark
            self._working = session.work()
            self._next_work = now if self._working else now + REST_SECONDS
            publish = session.news and (not self._working or session.mark != mark or now >= self._next_progress)
        if publish:
            self._next_progress = now + PROGRESS_SECONDS
            self._publish(session.state(self._received))

    def _publish(self, state: LogState) -> None:
        if state == self._published:
            return
        self._published = state
        with self._lock:
            untaken, self._latest = self._latest, state
        if untaken is None:
            self._deliver()
