"""A run as a history record: the original's keys, so its users' queries work (workbench reference, section 3 and 5).

A metric stands at the top level under its own name, as in the original; one that is named like a key of the record
gets `metric_` in front, so no metric ever stands in for what the workbench itself says of a run.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta

from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.annotations import Annotations
from tui_workbench.runs.rundir import GPU_SAMPLES, GPU_VERDICT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui_workbench.model import Run

MOST_METRICS = 1_000
"""Of one run; further ones are counted. A script may log under as many names as it has batches."""

LONGEST_TEXT = 1_000
"""Characters of a metric that is a text; a longer one ends with an ellipsis. `metrics.jsonl` has all of it."""

METRIC_PREFIX = "metric_"

_INFINITE = {"\ue000+": "1e999", "\ue000-": "-1e999"}
"""What stands for an infinity while JSON is made, and the number that every reader of JSON takes for one."""


class Facts(NamedTuple):
    """What is known of a run besides what was asked and how it ended: values of metrics, and what people said."""

    metrics: Mapping[str, float | str] = {}  # the last value of each
    more_metrics: int = 0  # how many a script that logs under endless names has besides
    annotations: Annotations = Annotations()
    gpu: Mapping[str, Any] = {}  # the verdict on its use of GPUs in brief; empty when it had none in reach


NO_FACTS = Facts()


def facts_of(directory: str, known: Facts | None = None) -> Facts:
    """What the run's directory tells of them now; with `known` its metrics are taken from there.

    Tags are those that people gave it, and those of its script.
    """
    from itertools import islice

    from tui_workbench.runs.annotations import read_annotations
    from tui_workbench.runs.scripttags import script_tags

    said = read_annotations(directory)
    if tags := script_tags(directory):
        said = said._replace(tags={**tags, **said.tags})
    if known is not None:
        return known._replace(annotations=said)
    from tui_workbench.runs.metrics import summary_of

    found = summary_of(directory)
    metrics = {name: _bounded(value) for name, value in islice(found.items(), MOST_METRICS)}
    return Facts(metrics, len(found) - len(metrics), said, _gpu_of(directory))


def _gpu_of(directory: str) -> Mapping[str, Any]:
    # Looked at here first: for a run that no GPU was in reach of nothing is loaded.
    if not any(os.path.exists(os.path.join(directory, name)) for name in (GPU_VERDICT, GPU_SAMPLES)):
        return {}
    from tui_workbench.runs.gpu.reading import brief_of

    return brief_of(directory)


def _bounded(value: float | str) -> float | str:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}…"
    return value


def facts_text(facts: Facts) -> str:
    """The facts as JSON, for the index alone: Python's, with words for what is no number."""
    return json.dumps((facts.metrics, facts.more_metrics, facts.annotations, facts.gpu))


def facts_from_text(text: str) -> Facts:
    """The facts that the index holds. Raises ValueError or TypeError when it holds something else."""
    metrics, more, said, gpu = json.loads(text)
    return Facts(metrics, more, Annotations(*said), gpu)


def state_word(state: str) -> str:
    """The original's word for a state; a run that is being wrapped up is still `Running` there."""
    return "Running" if state == RunState.FINALIZING else state.capitalize()


def history_record(run: Run, facts: Facts = NO_FACTS) -> dict[str, Any]:
    """The record of a run.

    Times are ISO 8601 in UTC, or null; `duration` is `H:MM:SS.ffffff`, so far while it runs, or null.
    """
    said = facts.annotations
    record = {
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
        "description": said.note or None,
        "tags": dict(said.tags),
        "pinned": said.pinned,
        "hidden": said.archived,
        "parent_run_id": None,
        "user_id": run.user_id,
        "properties": {"CommitId": run.commit_id or None},
    }
    if run.group:
        record["sweep_id"] = run.group
    if facts.gpu:
        record["gpu"] = facts.gpu
    if said.problem:
        record["annotations_problem"] = said.problem
    if facts.more_metrics:
        record["metrics_left_out"] = facts.more_metrics
    for name, value in facts.metrics.items():
        record[metric_key(name)] = value
    return record


RESERVED = frozenset(
    ("run_id", "run_number", "status", "reason", "exit_code", "script_name",
     "arguments", "target", "run_configuration", "created_utc", "start_time_utc", "end_time_utc", "duration", "name",
     "description", "tags", "pinned", "hidden", "parent_run_id", "user_id", "properties", "annotations_problem",
     "metrics_left_out", "attachments", "experiment_id", "heartbeat_enabled", "provenance", "sweep_id",
     "gpu")
)  # fmt: skip
"""The keys of a record, those of the original and those that only some records have."""


def metric_key(name: str) -> str:
    """The key of a metric in a record."""
    return METRIC_PREFIX + name if _plain(name) in RESERVED else name


def metric_name(key: str) -> str:
    """The metric that a key of a record stands for, "" when it is the record's own."""
    if key in RESERVED:
        return ""
    return key.removeprefix(METRIC_PREFIX) if _plain(key) in RESERVED else key


def _plain(name: str) -> str:
    while name.startswith(METRIC_PREFIX):
        name = name.removeprefix(METRIC_PREFIX)
    return name


def record_text(run: Run, facts: Facts = NO_FACTS) -> str:
    """The record as JSON, indented to stand in a list."""
    text = json_text(history_record(run, facts))
    return "  " + text.replace("\n", "\n  ")


def json_text(value: Any) -> str:
    """The value as JSON that every reader takes.

    There is no word for it in JSON that a number is none, so that one is null; infinities are numbers that are too
    large.
    """
    try:
        return json.dumps(value, indent=2, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=2)
    for mark, number in _INFINITE.items():
        text = text.replace(json.dumps(mark), number)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and value - value != 0:
        return None if value != value else "\ue000+" if value > 0 else "\ue000-"
    return value


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
