"""The thread that reads logs for a view, so that no disk, however slow, holds up a key.

Commands go in, states come out; nothing is shared. While a log is watched its size is looked at every frame; when it
is not, and nothing is left to find out, the thread sleeps until the next command. A slice of work is so short that a
command never waits longer than a frame for it. Of the states that pile up while nobody takes them only the last one is
kept.
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

FRAME_SECONDS = 1 / 36
"""How soon after one look that found something a watched log is looked at again: each is drawn, at a price."""

QUIET_SECONDS = 1 / 125
"""How soon after one that found nothing: it costs a system call or two, and a line that comes alone is shown soon."""

REST_SECONDS = 0.2
"""How long a log that grows is not looked through again for tracebacks: each look costs, however little is new."""

PROGRESS_SECONDS = 0.1
"""How often counts are told while they are being made."""


class LogReader:
    """Reads one log after another. `deliver` is called from the thread when `take` has something new."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        self._deliver = deliver
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._latest: LogState | None = None
        self._error: Exception | None = None
        self._sent = 0
        # Everything below belongs to the thread.
        self._session: LogSession | None = None
        self._received = 0
        self._commanded = False
        self._told = LogState()
        self._watched = False
        self._working = False
        self._next_look = 0.0
        self._next_work = 0.0
        self._next_progress = 0.0
        self.thread = threading.Thread(target=self._run, name="log reader", daemon=True)

    def start(self) -> None:
        """Begins to take commands."""
        self.thread.start()

    def close(self) -> None:
        """Ends the thread after the commands that it was given; does not wait for it."""
        self._commands.put(None)

    def open(self, path: str | None, width: int = 80, height: int = 0, *, wrap: bool = False) -> int:
        """From now on the log at this path; None for none. Gives the revision of the states that show it."""
        return self._send(lambda: self._open(path, width, height, wrap))

    def watch(self, watched: bool) -> int:
        """Whether the log may grow and is seen, so that it must be looked at."""
        return self._send(lambda: self._watch(watched))

    def post(self, command: Command) -> int:
        """A command for the open log; without one it does nothing. Gives the revision of the states that show it."""
        return self._send(lambda: command(self._session) if self._session is not None else None)

    def take(self) -> LogState | None:
        """The latest state; None when it was taken already. Raises what ended the thread, if something did."""
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

    # In the thread

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
            while self._obey(self._patience()):
                self._look_and_work()
        except Exception as error:  # a bug: it goes on in the thread that takes the states, where it is seen
            with self._lock:
                self._error = error
            self._deliver()
        finally:
            if self._session is not None:
                self._session.close()

    def _patience(self) -> float | None:
        """Seconds until there is something to do even without a command; None for ever."""
        moments = [self._next_look] if self._watched and self._session is not None else []
        if self._working:
            moments.append(self._next_work)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _obey(self, patience: float | None) -> bool:
        """Waits for commands and carries all of them out. False when the thread is to end."""
        self._commanded = False
        while True:
            try:
                call = self._commands.get(timeout=patience)
            except Empty:
                return True
            if call is None:
                return False
            call()
            self._received += 1
            self._commanded = True
            patience = 0.0

    def _look_and_work(self) -> None:
        session, now, told = self._session, time.monotonic(), self._commanded
        if session is None:
            if told:
                self._tell(LogState(revision=self._received))
            return
        if told or (self._watched and now >= self._next_look):
            # Not faster than states are taken: a busy screen would only be kept busier.
            found = (told or self._latest is None) and session.poll()
            told |= found
            self._working |= told
            if session.is_awaited:
                self._next_work = now
            self._next_look = now + (FRAME_SECONDS if found else QUIET_SECONDS)
        if self._working and not told and (now >= self._next_work or session.is_awaited):
            mark = session.mark
            self._working = session.work()
            self._next_work = now if self._working else now + REST_SECONDS
            told = session.news and (not self._working or session.mark != mark or now >= self._next_progress)
        if told:
            self._next_progress = now + PROGRESS_SECONDS
            self._tell(session.state(self._received))

    def _tell(self, state: LogState) -> None:
        if state == self._told:
            return
        self._told = state
        with self._lock:
            untaken, self._latest = self._latest, state
        if untaken is None:
            self._deliver()
