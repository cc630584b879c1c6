"""How times, durations and states are put into words; a state is always a glyph and a word, never a colour alone."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from typing import NamedTuple

from tui_workbench.core import target_types
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run, RunState


class StateLook(NamedTuple):
    """A state as it is shown: one glyph of one cell, a word, and the colour (a field name of `Palette`)."""

    glyph: str
    word: str
    role: str


_SINCE = re.compile(r"(?:out of reach|unreachable) since (\d\d:\d\d)")
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


VERDICTS = {
    "proven": StateLook("✓", "GPU", "success"),
    "idle": StateLook("▲", "GPU idle", "warning"),
    "not used": StateLook("✗", "no GPU", "error"),
    "shared": StateLook("◆", "GPU shared", "warning"),
    "unknown": StateLook("?", "GPU unknown", "muted"),
}
"""How each word of `runs.gpu.verdict` is shown."""


def verdict_look(word: str) -> StateLook:
    """How a verdict is shown, also one of a later version."""
    return VERDICTS.get(word, VERDICTS["unknown"])


def verdict_label(word: str, *, short: bool = False) -> str:
    """`✓ GPU`, `▲ GPU idle`; short `✓ GPU`, `▲ GPU`."""
    look = verdict_look(word)
    return f"{look.glyph} {'GPU' if short else look.word}"


def is_before_script(run: Run) -> bool:
    """Whether the script has not started, and what is done for it has a log of its own."""
    return not run.start and (not target_types.find(run.target_type).runs_here or run.state == RunState.PREPARING)


def reason_of(run: Run) -> str:
    """Why a run is in its state, where that is not clear from the state: a sentence of any origin, or ""."""
    has_reason = run.state in (RunState.COMPLETED, RunState.FAILED, RunState.UNKNOWN)
    if has_reason and run.reason not in ("", f"exit code {run.exit_code}"):
        goes_on = " It is tried again and again; r in Jobs tries it now." if run.is_active else ""
        return capitalized(run.reason).rstrip(".") + "." + goes_on
    return ""


_OPENERS = frozenset({"a", "an", "it", "no", "nothing", "runs", "the", "there", "this", "you"})
"""Words that are never the name of a target."""


def capitalized(clause: str) -> str:
    """A clause with a capital, unless it begins with what may be a name: `gpu-box` stays as it is."""
    return clause[:1].upper() + clause[1:] if clause.partition(" ")[0] in _OPENERS else clause


def error_text(error: WorkbenchError) -> str:
    """An error and its remedy, of any origin."""
    return f"{capitalized(error.message)}. {' '.join(error.remedy.split())}".rstrip()


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
    """A time: `14:03` today, `12 Nov` this year, `2017-11-12` before. Empty for an unknown time."""
    if not when:
        return ""
    then, today = time.localtime(when), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if then[0] == today[0]:
        return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
    return time.strftime("%Y-%m-%d", then)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def count(number: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def file_names(paths: Collection[str]) -> str:
    """The names of these files, for a sentence. They are not safe text."""
    return ", ".join(sorted(os.path.basename(path) for path in paths))
