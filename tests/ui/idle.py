"""A wait for the end of all work of the event loop, for Textual's pilot, and style sheets that are parsed once.

The pilot's own wait sleeps for 20 ms or more until the process uses little CPU, at least twice per key. That is three
quarters of the time of a test, and on a busy machine a process that has to wait for a CPU looks idle. This wait asks
the event loop itself instead, so it uses private attributes of asyncio's loop. A test that depends on a thread waits
for its effect: threads may run for a long time, so this wait ends soon after the loop is idle.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.textual_internals import share_parsed_styles

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON = 0.02  # seconds; a timer that is due by then is waited for, such as the one that draws the screen
THREADS = 0.05  # seconds that a thread of the event loop is waited for
POLL = 0.002  # seconds
LIMIT = 1.0  # seconds; as in Textual, for screens with an animation


async def event_loop_idle(*_arguments: Any) -> None:
    """Wait until no callback of the event loop is ready and no timer is due soon, for at most `LIMIT`."""
    loop: Any = asyncio.get_running_loop()
    end, threads_end = loop.time() + LIMIT, loop.time() + THREADS
    while loop.time() < end:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        due = [timer.when() for timer in loop._scheduled if not timer.cancelled() and timer.when() < loop.time() + SOON]
        if due:
            await asyncio.sleep(min(due) - loop.time())
        elif _has_busy_thread(loop) and loop.time() < threads_end:
            await asyncio.sleep(POLL)
        else:
            return


def _has_busy_thread(loop: Any) -> bool:
    executor = loop._default_executor
    return executor is not None and executor._idle_semaphore._value < len(executor._threads)


@pytest.fixture(autouse=True, scope="session")
def quick_pilot() -> Iterator[None]:
    """Let the pilot wait for the event loop, and apps share parsed style sheets."""
    with pytest.MonkeyPatch.context() as patch:
        share_parsed_styles(patch)
        patch.setattr("textual.pilot.wait_for_idle", event_loop_idle)
        patch.setattr("textual.app.wait_for_idle", event_loop_idle)
        yield
