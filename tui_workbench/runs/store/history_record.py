"""A run as a history record: the original's keys, so its users' queries work (workbench reference, section 3 and 5).

A metric stands at the top level under its own name, as in the original; one that is named like a key of the record
gets `metric_` in front, so no metric ever stands in for what the workbench itself says of a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from tui_workbench.core.files import json_text
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.runs.metrics import summary_of
from tui_workbench.runs.store.annotations import Annotations, read_annotations, script_tags

MOST_METRICS = 1_000
"""Of one run; further ones are counted. A script may log under as many names as it has batches."""

LONGEST_TEXT = 1_000
"""Characters of a metric that is a text; a longer one ends with an ellipsis. `metrics.jsonl` has all of it."""

METRIC_PREFIX = "metric_"


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
    said = read_annotations(directory)
    if tags := script_tags(directory):
        said = said._replace(tags={**tags, **said.tags})
    if known is not None:
        return known._replace(annotations=said)
    found = summary_of(directory)
    metrics = dict(islice(found.items(), MOST_METRICS))
    for name, value in metrics.items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            metrics[name] = f"{value[:LONGEST_TEXT]}…"
    return Facts(metrics, len(found) - len(metrics), said, brief_of(directory))


def facts_text(facts: Facts) -> str:
    """The facts as JSON, for the index alone: Python's, with words for what is no number."""
    return json.dumps({**facts._asdict(), "annotations": facts.annotations._asdict()})


def facts_from_text(text: str) -> Facts:
    """The facts that the index holds. Raises ValueError, KeyError or TypeError when it holds something else."""
    values = json.loads(text)
    return Facts(**{**values, "annotations": Annotations(**values["annotations"])})


def state_word(state: str) -> str:
    """The original's word for a state; a run that is being wrapped up is still `Running` there."""
    return "Running" if state == RunState.FINALIZING else state.capitalize()


def history_record(run: Run, facts: Facts = NO_FACTS) -> dict[str, Any]:
    """The record of a run.

    Times are ISO 8601 in UTC, or null; `duration` is `H:MM:SS.ffffff`, so far while it runs, or null.
    """
    said = facts.annotations
    record: dict[str, Any] = {
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
    extras = {"sweep_id": run.group, "gpu": facts.gpu, "annotations_problem": said.problem,
              "metrics_left_out": facts.more_metrics}  # fmt: skip
    record |= {key: value for key, value in extras.items() if value}
    return record | {metric_key(name): value for name, value in facts.metrics.items()}


RESERVED = frozenset(
    ("run_id", "run_number", "status", "reason", "exit_code", "script_name",
     "arguments", "target", "run_configuration", "created_utc", "start_time_utc", "end_time_utc", "duration", "name",
     "description", "tags", "pinned", "hidden", "parent_run_id", "user_id", "properties", "annotations_problem",
     "metrics_left_out", "attachments", "attachment_sizes", "experiment_id", "heartbeat_enabled", "provenance",
     "sweep_id", "gpu")
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
    return "  " + json_text(history_record(run, facts)).replace("\n", "\n  ")


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
