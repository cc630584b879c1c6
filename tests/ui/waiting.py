"""Waiting in a test until something is so, never for a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 90.0
"""Seconds after which a condition counts as never coming true; only a failing test waits that long."""


async def until(condition: Callable[[], object]) -> None:
    """Let the app go on until the condition holds; fails the test when it never does."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while not condition():
        if loop.time() > end:
            raise AssertionError("what the test waited for did not come true")
        await asyncio.sleep(0.005)
