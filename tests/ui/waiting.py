"""Waiting for a condition in a test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 90.0  # seconds; only a failing test waits that long


async def until(condition: Callable[[], object], seconds: float = PATIENCE, poll: float = 0.005) -> None:
    """Wait until the condition holds; fail after `seconds`. `poll` is the time between two looks, in seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        if loop.time() > end:
            raise AssertionError("the condition did not become true")
        await asyncio.sleep(poll)
