"""The snapshot of a run that is repeated."""

from __future__ import annotations

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.store.rundir import Record


def commit_of(record: Record) -> str:
    """Return the commit to run, or "" for an untracked run. Raises UsageError if the snapshot is not available."""
    if record.snapshot == "git":
        return record.commit_id
    if record.snapshot == "copy":
        raise no_snapshot(record, "git was not available, so it has no snapshot")
    if record.commit_id:
        raise no_snapshot(record, "its snapshot is on the machine that submitted it")
    return ""


def no_snapshot(record: Record, why: str) -> UsageError:
    """Return the error for a run that cannot be repeated because its snapshot is not available."""
    return UsageError(
        f"cannot repeat run {record.run_id}: {why}",
        remedy="Run the current project: `workbench-tui experiment submit -c NAME SCRIPT`.",
    )
