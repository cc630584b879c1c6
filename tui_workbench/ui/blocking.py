"""Run blocking calls in threads, so that leaving the program never waits for another machine.

When the event loop ends, it joins the threads of its executor, which run `asyncio.to_thread` and Textual's thread
workers. `QuickShutdownExecutor` replaces that executor. Work that must not be interrupted uses `hold_exit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.progress import Progress, listening
from tui_workbench.ui.formatting import error_text
from tui_workbench.ui.messages import BackendFailed
from tui_workbench.ui.terminal.safetext import safe_text

Result = TypeVar("Result")
Show = Callable[[Progress], object]
"""A function that shows the progress of a call."""

GRACE = 0.3  # seconds that the event loop waits for threads when it ends
LONGEST_HOLD = 10.0  # seconds that the exit waits for work that must not be interrupted


class QuickShutdownExecutor(ThreadPoolExecutor):
    """An executor whose shutdown waits at most `GRACE` seconds for its threads."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        # Threads that hang are abandoned; they end with the process.
        super().shutdown(wait=False, cancel_futures=cancel_futures or wait)
        end = time.monotonic() + (GRACE if wait else 0)
        for thread in list(self._threads):
            thread.join(max(0.0, end - time.monotonic()))


_holds_changed = threading.Condition()
_holds = 0
_exit_calls: list[Callable[[], object]] = []


@contextlib.contextmanager
def hold_exit() -> Iterator[None]:
    """Delay the end of the process while the `with` block runs, by at most `LONGEST_HOLD` seconds. Thread-safe."""
    global _holds
    with _holds_changed:
        _holds += 1
    try:
        yield
    finally:
        with _holds_changed:
            _holds -= 1
            _holds_changed.notify_all()


def call_at_exit(call: Callable[[], object]) -> None:
    """Register a short call to be made before the process ends. Functions registered with `atexit` are not called."""
    _exit_calls.append(call)


def wait_for_exit_holds() -> None:
    """Wait at most `LONGEST_HOLD` seconds until no `hold_exit` block is active, then make the registered calls.

    Call this before the process ends. `call_at_exit` registers the calls.
    """
    with _holds_changed:
        _holds_changed.wait_for(lambda: not _holds, LONGEST_HOLD)
    while _exit_calls:
        _exit_calls.pop()()


async def in_thread(call: Callable[[], Result], show: Show | None = None) -> Result:
    """Make a call in a new thread; return its result or raise its exception.

    `show` is called in this thread with the progress of the call, never after the call has ended. Canceling the wait
    does not stop the call; its result is then dropped.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    future: asyncio.Future[Result] = loop.create_future()

    def deliver(function: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(lambda: None if future.done() else function(), context=context)

    def report(progress: Progress | None) -> None:
        if show is not None and progress is not None:
            deliver(lambda: show(progress))

    def work() -> None:
        try:
            with listening(report) if show is not None else contextlib.nullcontext():
                result = call()
        except BaseException as error:
            deliver(lambda error=error: future.set_exception(error))  # type: ignore[misc]
        else:
            deliver(lambda: future.set_result(result))

    threading.Thread(target=work, daemon=True).start()
    return await future


def ask(
    widget: Widget,
    subject: str,
    call: Callable[[], Result],
    then: Callable[[Result], object],
    show: Show | None = None,
) -> None:
    """Make a read-only call in a thread and pass its result to `then`. Post a WorkbenchError as `BackendFailed`.

    A result that arrives after the widget was removed, or after a newer call for the same `subject`, is dropped. `show`
    is called with the progress of the call. For calls that write, use `CallQueue`.
    """

    async def make() -> None:
        try:
            answer = await in_thread(call, show)
        except WorkbenchError as error:
            widget.post_message(BackendFailed(error))
        else:
            if widget.is_attached:
                then(answer)

    widget.run_worker(make, group=f"ask {subject}", exclusive=True)  # type: ignore[arg-type]


class CallQueue:
    """A queue of calls that run in threads, one at a time, even after their widget was removed.

    Results are passed on even then, so that an undo step is recorded although the user has left the screen.
    """

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._lock = asyncio.Lock()

    def add(
        self,
        call: Callable[[], Result],
        then: Callable[[Result], object],
        show: Show | None = None,
        *,
        holds_exit: bool = False,
    ) -> None:
        """Run `call` after the earlier calls and pass its result to `then`. A WorkbenchError is shown.

        `show` is called with the progress of the call, even after the widget was removed. With `holds_exit`, the call
        must not be interrupted; see `hold_exit`.
        """
        if holds_exit:
            call = hold_exit()(call)
        # Use a worker of the app, because workers of a widget are canceled when the widget is removed.
        self._widget.app.run_worker(self._make(call, then, show), group="call queue")

    async def _make(
        self,
        call: Callable[[], Result],
        then: Callable[[Result], object],
        show: Show | None,
    ) -> None:
        async with self._lock:
            try:
                result = await in_thread(call, show)
            except WorkbenchError as error:
                if self._widget.is_attached:
                    self._widget.post_message(BackendFailed(error))
                else:
                    self._widget.app.notify(safe_text(error_text(error)), severity="error", markup=False)
            else:
                then(result)


async def messages_handled(widget: Widget) -> None:
    """Wait until a widget has handled its queued messages. The widget's own handlers must not call this."""
    done = asyncio.Event()
    if widget.call_later(done.set):
        await done.wait()


class OneAtATime:
    """A worker of a widget that runs `work` on demand, never twice at the same time."""

    def __init__(self, widget: Widget, work: Callable[[], Awaitable[None]]) -> None:
        self._widget = widget
        self._work = work
        self._is_working = self._is_wanted = False

    def start(self) -> None:
        """Start the work. If it is already running, run it once more afterwards."""
        self._is_wanted = True
        if not self._is_working:
            self._is_working = True
            self._widget.run_worker(self._run)  # type: ignore[arg-type]

    async def _run(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await self._work()
        self._is_working = False
