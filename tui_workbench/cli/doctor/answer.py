"""The type of the results of `doctor`, and functions that create them."""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.hosts.host import Completed, LocalHost

OK, LIMITED, BROKEN = "ok", "limited", "broken"
"""States of a check. LIMITED: a feature does not work. BROKEN: the workbench does not work."""


class Answer(NamedTuple):
    """The result of a check.

    `cost` is a sentence about the affected feature, `remedy` a sentence about the fix, and `command` the command of the
    fix. All three are empty if the state is `ok`.
    """

    name: str
    state: str
    message: str
    cost: str = ""
    remedy: str = ""
    command: str = ""


def ok(name: str, message: str) -> Answer:
    return Answer(name, OK, message)


def limited(name: str, message: str, cost: str, remedy: str = "", command: str = "") -> Answer:
    return Answer(name, LIMITED, message, cost, remedy, command)


def broken(name: str, message: str, cost: str, remedy: str = "", command: str = "") -> Answer:
    return Answer(name, BROKEN, message, cost, remedy, command)


def run_program(*command: str, timeout: float) -> Completed | None:
    """Run a program on this machine and return its result, or None after `timeout` seconds."""
    try:
        return LocalHost().run(command, timeout=timeout)
    except TargetUnreachable:
        return None
