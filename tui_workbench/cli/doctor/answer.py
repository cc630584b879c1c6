"""What `doctor` says about one thing."""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.hosts.host import Completed, LocalHost

OK, LIMITED, BROKEN = "ok", "limited", "broken"
"""It is there; the workbench works without, at a price; the workbench does not work."""


class Answer(NamedTuple):
    """What was found about one thing.

    `cost` says what one does without, `remedy` what to do, as sentences; `command` does it, to be copied. All three are
    empty where the state is `ok`.
    """

    name: str
    state: str
    message: str
    cost: str = ""
    remedy: str = ""
    command: str = ""


def ok(name: str, message: str) -> Answer:
    """It is there."""
    return Answer(name, OK, message)


def limited(name: str, message: str, cost: str, remedy: str = "", command: str = "") -> Answer:
    """The workbench works without it, at a cost."""
    return Answer(name, LIMITED, message, cost, remedy, command)


def broken(name: str, message: str, cost: str, remedy: str = "", command: str = "") -> Answer:
    """The workbench does not work without it."""
    return Answer(name, BROKEN, message, cost, remedy, command)


def ask(*command: str, patience: float) -> Completed | None:
    """The result of a program of this machine; None when it does not end in `patience` seconds."""
    try:
        return LocalHost().run(command, timeout=patience)
    except TargetUnreachable:
        return None
