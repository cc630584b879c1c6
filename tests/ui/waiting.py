"""Waiting for a condition in a test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 90.0  # seconds; only a failing test waits that long


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until the condition holds; fail after `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        if loop.time() > end:
            raise AssertionError("the condition did not become true")
        await asyncio.sleep(0.005)
