"""Waiting for a condition in a test."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 150.0
"""Seconds after which a condition that does not come true is a failure: far more than anything here takes."""

SHORTEST_PAUSE = 0.005
LONGEST_PAUSE = 0.25


def wait_until(condition: Callable[[], Any], what: str = "the condition", seconds: float = PATIENCE) -> Any:
    """Wait until a condition is true and return its value; fail after the time limit.

    Many conditions start a program. The pauses grow, so that a wait of seconds does not start hundreds of them, and is
    at most a tenth longer than necessary.
    """
    begun = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"waited {seconds:g} s for {what}"
        time.sleep(min(max(waited / 10, SHORTEST_PAUSE), LONGEST_PAUSE))
    return value
