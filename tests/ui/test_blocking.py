from __future__ import annotations

import asyncio
import threading

import pytest

from tui_workbench.core.progress import metered
from tui_workbench.ui.blocking import in_thread


async def test_call_runs_in_another_thread() -> None:
    assert await in_thread(threading.get_ident) != threading.get_ident()


async def test_exception_is_raised_in_the_waiting_coroutine() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


async def test_progress_is_shown_until_the_call_ends() -> None:
    shown: list[float] = []

    def call() -> None:
        for _ in metered("counting", "items", range(3)):
            pass

    await in_thread(call, lambda progress: shown.append(progress.done))
    assert shown == [1, 3]  # the second update is too early to be reported


def test_event_loop_ends_without_waiting_for_a_call() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        may_end.wait()
        ended.set()

    async def give_up() -> None:
        waiting = asyncio.create_task(in_thread(call))
        await asyncio.to_thread(begun.wait)
        waiting.cancel()

    asyncio.run(give_up())
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(120.0)  # the call still ends, without an error
