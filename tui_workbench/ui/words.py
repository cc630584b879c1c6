"""How times, durations and states are put into words; a state is always a glyph and a word, never a colour alone."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.model import RunState

if TYPE_CHECKING:
    from tui_workbench.model import Run


class StateLook(NamedTuple):
    """A state as it is shown: one glyph of one cell, a word, and the colour (a field name of `Palette`)."""

    glyph: str
    word: str
    role: str


_SINCE = re.compile(r"out of reach since (\d\d:\d\d)")
"""How `runs.progress` says since when a target has not been reached."""

RUN_STATES = {
    RunState.QUEUED: StateLook("○", "queued", "muted"),
    RunState.PREPARING: StateLook("◌", "preparing", "running"),
    RunState.RUNNING: StateLook("●", "running", "running"),
    RunState.FINALIZING: StateLook("◍", "finalizing", "running"),
    RunState.COMPLETED: StateLook("✓", "completed", "success"),
    RunState.FAILED: StateLook("✗", "failed", "error"),
    RunState.CANCELED: StateLook("⊘", "canceled", "muted"),
    RunState.UNKNOWN: StateLook("?", "unknown", "warning"),
}

STEP_WORDS = {
    "prepare": "preparing",
    "environment": "making environment",
    "sync": "sending",
    "copy": "copying",
    "pull": "fetching image",
    "build": "building",
    "container": "creating",
    "start": "starting",
    "fetch": "bringing back",
    "collect": "collecting",
}
"""What a run does while a step of this name is at work."""


def step_words(step: str) -> str:
    """`sending 63 %` of `sync 63 %`; empty for a step that has no word."""
    name, _, percent = step.partition(" ")
    word = STEP_WORDS.get(name, "")
    return f"{word} {percent}".rstrip() if word else ""


READY = StateLook("✓", "ready", "success")
UNCHECKED = StateLook("·", "unchecked", "muted")
BROKEN = StateLook("✗", "problem", "error")


def run_state(run: Run) -> StateLook:
    """How the state of a run is shown; a failed run with an exit code says it in place of the word."""
    look = RUN_STATES.get(run.state, RUN_STATES[RunState.UNKNOWN])
    if run.state == RunState.FAILED and run.exit_code is not None and run.exit_code > 0:
        return look._replace(word=f"exit {run.exit_code}")
    if run.state == RunState.UNKNOWN and run.is_active and (since := _SINCE.search(run.reason)):
        return look._replace(word=f"unknown since {since[1]}")
    return look


def is_before_script(run: Run) -> bool:
    """Whether the script has not started, and what is done for it has a log of its own."""
    return not run.start and (run.target_type != "local" or run.state == RunState.PREPARING)


def reason_of(run: Run) -> str:
    """Why a run is in its state, where that is not clear from the state: a sentence of any origin, or ""."""
    if run.state in (RunState.FAILED, RunState.UNKNOWN) and run.reason not in ("", f"exit code {run.exit_code}"):
        goes_on = " It is tried again and again; r in Jobs tries it now." if run.is_active else ""
        return f"{run.reason[:1].upper()}{run.reason[1:]}".rstrip(".") + "." + goes_on
    return ""


def run_title(run: Run) -> str:
    """What a run is called: `train.py [7]`. The script's name is not ours: make it safe before it is shown."""
    return f"{run.script_name} [{run.run_number}]"


def duration(seconds: float) -> str:
    """`0:41`, `2:10`, `1:02:03`, `2 d 3 h`."""
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def elapsed(run: Run, now: float) -> str:
    """How long the run took or takes, for one that has not started its preparation; empty for one that never did."""
    if not run.start:
        return duration(now - run.created) if run.is_active and run.created else ""
    return duration((run.end or now) - run.start)


def moment(when: float, now: float) -> str:
    """A time in at most 6 cells: `14:03` today, `12 Nov` this year, `2017` before. Empty for an unknown time."""
    if not when:
        return ""
    then, today = time.localtime(when), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if then[0] == today[0]:
        return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
    return str(then[0])


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def count(number: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
