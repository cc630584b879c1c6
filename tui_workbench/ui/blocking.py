"""Calls that block for as long as another machine lets them, made so that leaving the program never waits for one.

The event loop joins the threads of its executor before it ends: those of `asyncio.to_thread` and of Textual's thread
workers. `QuickShutdownExecutor` takes its place. What must not be cut short says so with `hold_exit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.messages import BackendFailed

Result = TypeVar("Result")

GRACE = 0.3
"""Seconds that threads get to end by themselves when the event loop ends."""

MUST_FINISH = 10.0
"""Seconds for what must not be cut short."""


class QuickShutdownExecutor(ThreadPoolExecutor):
    """An executor that waits for its threads for a moment only."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further call. Threads that hang are left behind; they end with the process."""
        super().shutdown(wait=False, cancel_futures=cancel_futures or wait)
        end = time.monotonic() + (GRACE if wait else 0)
        for thread in list(self._threads):
            thread.join(max(0.0, end - time.monotonic()))


_unfinished = threading.Condition()
_number_unfinished = 0


@contextlib.contextmanager
def hold_exit() -> Iterator[None]:
    """While this lasts, the process does not end. For any thread."""
    global _number_unfinished
    with _unfinished:
        _number_unfinished += 1
    try:
        yield
    finally:
        with _unfinished:
            _number_unfinished -= 1
            _unfinished.notify_all()


def wait_for_exit_holds() -> None:
    """Wait for what must not be cut short, `MUST_FINISH` seconds at most. For the end of the process."""
    with _unfinished:
        _unfinished.wait_for(lambda: not _number_unfinished, MUST_FINISH)


async def in_thread(call: Callable[[], Result]) -> Result:
    """The result of a call that is made in a thread of its own; raises what it raises.

    Who stops waiting does not stop the call: its result is then dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def work() -> None:
        try:
            result = call()
        except BaseException as error:  # whatever it is, it belongs to who waits
            _tell(loop, future, lambda error=error: future.set_exception(error))  # type: ignore[misc]
        else:
            _tell(loop, future, lambda: future.set_result(result))

    threading.Thread(target=work, daemon=True).start()
    return await future


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result], tell: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(lambda: None if future.done() else tell())


# --- Calls of screens and widgets


def ask(widget: Widget, what: str, call: Callable[[], Result], then: Callable[[Result], object]) -> None:
    """Make a call in a thread and hand its answer on; a WorkbenchError is posted as `BackendFailed`.

    An answer that comes after the widget has gone, or after a newer call for the same thing, is dropped.
    """

    async def make() -> None:
        try:
            answer = await in_thread(call)
        except WorkbenchError as error:
            widget.post_message(BackendFailed(error))
        else:
            if widget.is_attached:
                then(answer)

    widget.run_worker(make, group=f"ask {what}", exclusive=True)  # type: ignore[arg-type]


async def messages_handled(widget: Widget) -> None:
    """Wait until a widget has handled the messages that wait for it. Not for its own handlers."""
    done = asyncio.Event()
    if widget.call_later(done.set):
        await done.wait()


class OneAtATime:
    """Does some work of a widget again whenever it is asked for, but never twice at once."""

    def __init__(self, widget: Widget, work: Callable[[], Awaitable[None]]) -> None:
        self._widget = widget
        self._work = work
        self._is_working = self._is_wanted = False

    def start(self) -> None:
        """Do the work; once more after it if it goes on already."""
        self._is_wanted = True
        if not self._is_working:
            self._is_working = True
            self._widget.run_worker(self._run)  # type: ignore[arg-type]

    async def _run(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await self._work()
        self._is_working = False
