"""Formatting of times, durations and states. A state is always shown as a glyph and a word, never as a color alone."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import NamedTuple

from tui_workbench.core import target_types
from tui_workbench.core.causes import EXIT_CODE
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import STATE_GLYPHS, Run, RunState
from tui_workbench.ui.commands.command import shown_key


class StateLook(NamedTuple):
    """The appearance of a state: a glyph of one cell, a word, and a color (a field name of `Palette`)."""

    glyph: str
    word: str
    role: str


_STATE_ROLES = {
    RunState.QUEUED: "muted",
    RunState.PREPARING: "running",
    RunState.RUNNING: "running",
    RunState.FINALIZING: "running",
    RunState.COMPLETED: "success",
    RunState.FAILED: "error",
    RunState.CANCELED: "muted",
    RunState.UNKNOWN: "warning",
}
RUN_STATES = {state: StateLook(glyph, state, _STATE_ROLES[state]) for state, glyph in STATE_GLYPHS.items()}

NO_RERUN_OF_JUPYTER = "This run started Jupyter. Start it again with Notebook in the palette."
"""Why a run of `notebook` cannot be repeated."""

STEP_WORDS = {
    "prepare": "preparing",
    "environment": "building",
    "sync": "sending",
    "copy": "copying",
    "pull": "pulling",
    "build": "building",
    "container": "creating",
    "start": "starting",
    "fetch": "fetching",
    "collect": "collecting",
}


def step_words(step: str) -> str:
    """Describe a step: `sending 63 %` for `sync 63 %`; "" for an unknown step."""
    name, _, percent = step.partition(" ")
    word = STEP_WORDS.get(name, "")
    return f"{word} {percent}".rstrip() if word else ""


READY = StateLook("✓", "ready", "success")
UNCHECKED = StateLook("·", "unchecked", "muted")
BROKEN = StateLook("✗", "problem", "error")
WARNING = StateLook("▲", "warning", "warning")


def run_state(run: Run) -> StateLook:
    """Return the appearance of a run's state.

    For a failed run, the word is the exit code if it is known: `exit 1`. For an unreachable run, the word includes the
    time when the target became unreachable: `unknown since 14:03`.
    """
    look = RUN_STATES.get(run.state, RUN_STATES[RunState.UNKNOWN])
    if run.state == RunState.FAILED and run.exit_code is not None and run.exit_code > 0:
        return look._replace(word=f"exit {run.exit_code}")
    if run.state == RunState.UNKNOWN and run.is_active and run.unreachable_since:
        return look._replace(word=f"unknown since {run.unreachable_since[:5]}")
    return look


VERDICTS = {
    "proven": StateLook("✓", "GPU", "success"),
    "stalled": StateLook("■", "GPU stalled", "error"),
    "idle": StateLook("▲", "GPU idle", "warning"),
    "not used": StateLook("✗", "no GPU", "error"),
    "shared": StateLook("◆", "GPU shared", "warning"),
    "unknown": StateLook("?", "GPU unknown", "muted"),
}


def verdict_look(word: str) -> StateLook:
    """Return the appearance of a verdict. A verdict that only a later version knows counts as unknown."""
    return VERDICTS.get(word, VERDICTS["unknown"])


def verdict_label(word: str, *, short: bool = False) -> str:
    """Return the label of a verdict: `▲ GPU idle`, or `▲ GPU` if `short`."""
    look = verdict_look(word)
    return f"{look.glyph} {'GPU' if short else look.word}"


def is_before_script(run: Run) -> bool:
    """Return True if the script has not started and the run may have a setup log."""
    return not run.start and (not target_types.find(run.target_type).runs_here or run.state == RunState.PREPARING)


def reason_of(run: Run) -> str:
    """Return the reason for the state of a run, as untrusted text, or "" if the state needs no explanation.

    For an active run, the text also names the key that retries the connection.
    """
    has_reason = run.state in (RunState.COMPLETED, RunState.FAILED, RunState.UNKNOWN)
    if has_reason and run.reason and run.kinds != (EXIT_CODE,):
        retries = f" Retrying; press {shown_key('jobs.reconnect', 'r')} in Jobs to retry now." if run.is_active else ""
        return capitalized(run.reason).rstrip(".") + "." + retries
    return ""


# First words that are never the name of a target.
_OPENERS = frozenset({"a", "an", "it", "no", "nothing", "runs", "the", "there", "this", "unreachable", "you"})


def capitalized(clause: str) -> str:
    """Return a clause capitalized, unless its first word may be a name such as `gpu-box`."""
    return clause[:1].upper() + clause[1:] if clause.partition(" ")[0] in _OPENERS else clause


def sentence(clause: str) -> str:
    """Return a clause as a sentence; a first word that may be a name or code is not capitalized."""
    first = clause.partition(" ")[0]
    return f"{clause[:1].upper() if first.isalpha() else clause[:1]}{clause[1:]}."


def error_text(error: WorkbenchError) -> str:
    """Return an error and its remedy as untrusted text."""
    return f"{capitalized(error.message)}. {' '.join(error.remedy.split())}".rstrip()


def run_title(run: Run) -> str:
    """Return the title of a run, as untrusted text: `train.py [7]`."""
    return f"{run.script_name} [{run.run_number}]"


def duration(seconds: float) -> str:
    """Format a number of seconds: `0:41`, `1:02:03`, `2 d 3 h`."""
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def elapsed(run: Run, now: float) -> str:
    """Format the duration of a run, so far or in total; "" for an ended run that never started.

    The duration of an active run that has not started counts from its creation.
    """
    if not run.start:
        return duration(now - run.created) if run.is_active and run.created else ""
    return duration((run.end or now) - run.start)


def moment(when: float, now: float) -> str:
    """Format a time: `14:03` for today, `12 Nov` for this year, else `2017-11-12`; "" for an unknown time (0)."""
    if not when:
        return ""
    then, today = time.localtime(when), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if then[0] == today[0]:
        return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
    return time.strftime("%Y-%m-%d", then)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def file_names(paths: Collection[str]) -> str:
    """Return the base names of files, separated by commas, as untrusted text."""
    return ", ".join(sorted(os.path.basename(path) for path in paths))
