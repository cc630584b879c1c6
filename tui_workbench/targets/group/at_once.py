"""Call functions for several members of a group at the same time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.waiting import BackgroundCall, Interrupted

_Result = TypeVar("_Result")


def at_once(calls: Mapping[str, Callable[[], _Result]]) -> dict[str, _Result]:
    """Call functions at the same time, and return their results when all have ended.

    Raises the error of one call. Raises TargetUnreachable only if no call raised another error.
    """
    results: dict[str, _Result] = {}

    def call(name: str) -> None:
        results[name] = calls[name]()

    errors: list[WorkbenchError | Interrupted] = []
    for running in [BackgroundCall(functools.partial(call, name)) for name in calls]:
        with running:
            try:
                running.result()
            except (WorkbenchError, Interrupted) as error:
                errors.append(error)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, TargetUnreachable))
    return {name: results[name] for name in calls}
