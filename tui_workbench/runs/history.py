"""A run as a history record: the original's keys, so its users' queries work (workbench reference, section 3 and 5)."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.model import Run


def state_word(state: str) -> str:
    """The original's word for a state; a run that is being wrapped up is still `Running` there."""
    return "Running" if state == RunState.FINALIZING else state.capitalize()


def history_record(run: Run) -> dict[str, Any]:
    """The record of a run.

    Times are ISO 8601 in UTC, or null; `duration` is `H:MM:SS.ffffff`, so far while it runs, or null.
    """
    return {
        "run_id": run.run_id,
        "run_number": run.run_number,
        "status": state_word(run.state),
        "reason": run.reason or None,
        "exit_code": run.exit_code,
        "script_name": run.script_name,
        "arguments": list(run.arguments),
        "target": run.target,
        "run_configuration": run.run_configuration,
        "created_utc": utc(run.created),
        "start_time_utc": utc(run.start),
        "end_time_utc": utc(run.end),
        "duration": duration(run),
        "name": None,
        "description": None,
        "parent_run_id": None,
        "user_id": run.user_id,
        "properties": {"CommitId": run.commit_id or None},
    }


def record_text(run: Run) -> str:
    """The record as JSON, indented to stand in a list."""
    text = json.dumps(history_record(run), indent=2, ensure_ascii=True)
    return "  " + text.replace("\n", "\n  ")


def utc(seconds: float) -> str | None:
    """Seconds since the epoch as ISO 8601; None for 0, which means never."""
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def duration(run: Run) -> str | None:
    """How long the run took, or has taken so far."""
    if not run.start:
        return None
    return str(timedelta(seconds=max(0.0, (run.end or time.time()) - run.start)))
