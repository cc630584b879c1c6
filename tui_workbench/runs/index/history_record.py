"""Convert runs to history records, which have the keys of Azure ML Workbench, so that existing queries work.

As in Azure ML Workbench, a metric is a top-level key. A metric whose name is a reserved key has the prefix `metric_`,
so that the metric never replaces another value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from tui_workbench.core.causes import kinds_of, main_kind
from tui_workbench.core.json_values import json_text, parse_json
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.moments import utc
from tui_workbench.runs.gpu.run_verdict import brief_of, verdict_brief
from tui_workbench.runs.gpu.verdict import stored_verdict
from tui_workbench.runs.index.damages import damaged_files
from tui_workbench.runs.metrics import summary_of
from tui_workbench.runs.metrics.stored import read_summary, tags_of_script
from tui_workbench.runs.store.annotations import Annotations, read_annotations
from tui_workbench.runs.store.arguments import arguments_by_name
from tui_workbench.runs.store.attempts import attempts_of
from tui_workbench.runs.store.rundir import RunDirectory

MOST_METRICS = 1_000  # maximum per run, because a script may use a new name for each batch; further metrics are counted
LONGEST_TEXT = 1_000  # characters; a longer text metric is cut, and `metrics.jsonl` has the whole text

METRIC_PREFIX = "metric_"
BY_NAME = "arguments_by_name"


class Facts(NamedTuple):
    """The metrics, annotations and GPU use of a run."""

    metrics: Mapping[str, float | str] = {}  # the last value of each metric
    more_metrics: int = 0  # number of metrics beyond MOST_METRICS
    annotations: Annotations = Annotations()
    gpu: Mapping[str, Any] = {}  # a short form of the GPU verdict; empty without GPUs
    damages: Mapping[str, str] = {}  # damaged files, each with the reason; see `damages.damaged_files`


NO_FACTS = Facts()


def facts_of(directory: str, earlier: Facts | None = None) -> Facts:
    """Read the facts from the run directory. If `earlier` is given, read only the annotations again."""
    annotations, stored = read_annotations(directory), read_summary(directory)
    if tags := tags_of_script(directory, stored):
        annotations = annotations._replace(tags={**tags, **annotations.tags})
    if earlier is not None:
        return earlier._replace(annotations=annotations)
    lasts = summary_of(directory, stored)
    metrics = dict(islice(lasts.items(), MOST_METRICS))
    for name, value in metrics.items():
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            metrics[name] = f"{value[:LONGEST_TEXT]}…"
    damages = damaged_files(directory, only_top=True)
    return Facts(metrics, len(lasts) - len(metrics), annotations, brief_of(directory), damages)


def facts_text(facts: Facts) -> str:
    """Convert the facts to JSON as Python writes it, with NaN and infinities."""
    return json.dumps({**facts._asdict(), "annotations": facts.annotations._asdict()})


def facts_from_text(text: str) -> Facts:
    """Parse the result of `facts_text`. Raises ValueError, KeyError or TypeError."""
    values = parse_json(text)
    return Facts(**{**values, "annotations": Annotations(**values["annotations"])})


def state_word(state: str) -> str:
    """Return the name of the state in Azure ML Workbench, where a finalizing run is still `Running`."""
    return "Running" if state == RunState.FINALIZING else state.capitalize()


def history_record(run: Run, facts: Facts = NO_FACTS) -> dict[str, Any]:
    """Return the record of a run, with times as ISO 8601 in UTC, and the duration as `H:MM:SS.ffffff`."""
    annotations = facts.annotations
    record: dict[str, Any] = {
        "run_number": run.run_number,
        "run_id": run.run_id,
        "status": state_word(run.state),
        "reason": run.reason or None,
        "exit_code": run.exit_code,
        "script_name": run.script_name,
        "arguments": list(run.arguments),
        BY_NAME: arguments_by_name(run.words),
        "target": run.target,
        "run_configuration": run.run_configuration,
        "created_utc": utc(run.created),
        "start_time_utc": utc(run.start),
        "end_time_utc": utc(run.end),
        "duration": duration(run),
        "name": None,
        "description": annotations.note or None,
        "tags": dict(annotations.tags),
        "pinned": annotations.pinned,
        "hidden": annotations.archived,
        "parent_run_id": None,
        "user_id": run.user_id,
        "agent": run.agent or None,
        "properties": {"CommitId": run.commit_id or None},
    }
    extras = {"cause": main_kind(run.kinds),
              "sweep_id": run.group, "family": run.family, "gpu": facts.gpu, "annotations_problem": annotations.problem,
              "damaged_files": dict(facts.damages),
              "metrics_left_out": facts.more_metrics, "cluster_job": _job_record(run)}  # fmt: skip
    record |= {key: value for key, value in extras.items() if value}
    return record | {metric_key(name): value for name, value in facts.metrics.items()}


def attempt_records(directory: RunDirectory) -> list[dict[str, Any]]:
    """Return the records of the attempts of a run, each with its GPU verdict, if any; empty for a single attempt."""
    records = []
    for attempt in attempts_of(directory):
        record: dict[str, Any] = {
            "number": attempt.number,
            "status": state_word(attempt.state),
            "reason": attempt.reason or None,
            "exit_code": attempt.exit_code,
            "start_time_utc": utc(attempt.start),
            "end_time_utc": utc(attempt.end),
            "log_start": attempt.log_start,
            "log_end": attempt.log_end,
        }
        cause, verdict = main_kind(kinds_of(attempt.causes)), stored_verdict(directory.file(attempt.folder))
        gpu = verdict_brief(verdict) if verdict is not None else {}
        records.append({**record, **({"cause": cause} if cause else {}), **({"gpu": gpu} if gpu else {})})
    return records


def _job_record(run: Run) -> dict[str, Any]:
    """Return the values of the cluster job of a run for its history record; empty without a job."""
    job, is_queued = run.job, run.state == RunState.QUEUED
    values = {
        "job_id": job.job_id,
        "nodes": job.nodes,
        "position": job.position if is_queued else 0,
        "estimated_start_utc": utc(job.start) if is_queued else None,
        "time_limit_utc": utc(job.end) if run.is_active else None,
    }
    return {key: value for key, value in values.items() if value}


RESERVED = frozenset(
    ("run_id", "run_number", "status", "reason", "exit_code", "script_name",
     "arguments", BY_NAME, "target", "run_configuration", "created_utc", "start_time_utc", "end_time_utc", "duration",
     "name", "description", "tags", "pinned", "hidden", "parent_run_id", "user_id", "properties", "annotations_problem",
     "damaged_files", "metrics_left_out", "attachments", "attachment_sizes", "experiment_id", "heartbeat_enabled",
     "provenance", "sweep_id", "family", "gpu", "spark", "cluster_job", "attempts", "agent", "cause")
)  # fmt: skip
"""All keys of records, including keys of Azure ML Workbench and keys that only some records have."""


def metric_key(name: str) -> str:
    """Return the key of a metric in a record: its name, with METRIC_PREFIX if the name is reserved."""
    return METRIC_PREFIX + name if _plain(name) in RESERVED else name


def metric_name(key: str) -> str:
    """Return the name of the metric at a key, or "" if the key does not belong to a metric."""
    if key in RESERVED:
        return ""
    return key.removeprefix(METRIC_PREFIX) if _plain(key) in RESERVED else key


def _plain(name: str) -> str:
    while name.startswith(METRIC_PREFIX):
        name = name.removeprefix(METRIC_PREFIX)
    return name


def record_text(run: Run, facts: Facts = NO_FACTS) -> str:
    """Return the record as JSON, with the indentation of a list item."""
    return "  " + json_text(history_record(run, facts)).replace("\n", "\n  ")


def duration(run: Run) -> str | None:
    """Return the duration of the run, up to now if it has not ended; None before its start."""
    if not run.start:
        return None
    return str(timedelta(seconds=max(0.0, (run.end or time.time()) - run.start)))
