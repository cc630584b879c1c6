"""Calls that block for as long as another machine lets them, made so that leaving the program never waits for one.

`asyncio.to_thread` would: the loop joins its threads before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

Result = TypeVar("Result")


class Unbegun(Awaitable[None]):
    """A call that begins when it is awaited.

    A worker that is canceled before it begins would leave a coroutine that was never awaited.
    """

    def __init__(self, call: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        self._call = call
        self._arguments = arguments

    def __await__(self) -> Generator[Any, Any, None]:
        return self._call(*self._arguments).__await__()


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
