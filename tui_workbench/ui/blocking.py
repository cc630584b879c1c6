"""Calls that block for as long as another machine lets them, made so that leaving the program never waits for one.

`asyncio.to_thread` would: the loop joins its threads before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


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
