"""Runs on their way out: MLflow's file store, and one table as CSV. Nobody is locked in.

The file store is a folder an experiment and a folder a run; its names allow less than ours, and the two that would
become one get different names. What had to be named otherwise, or did not fit, is told. A run that was exported
before is replaced as a whole; nothing else in the destination is touched.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil

from tui_workbench.errors import UsageError
from tui_workbench.model import RunState
from tui_workbench.progress import metered
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.comparing import arguments_by_name
from tui_workbench.runs.downloads import copy_file, files_below
from tui_workbench.runs.history import Facts, history_record, metric_name
from tui_workbench.runs.rundir import OUTPUT, OUTPUTS, storage_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tui_workbench.model import Run

RUN_ID_TAG = "workbench.run_id"
"""The tag by which a run is known to be one of ours."""

STATUS = {RunState.COMPLETED: 3, RunState.FAILED: 4, RunState.CANCELED: 5, RunState.UNKNOWN: 4}
"""The numbers of MLflow's run states, as its file store has them."""

LONGEST_PARAMETER = 6_000
LONGEST_NAME = 250
_ODD = re.compile(r"[^/\w.\- ]")


class Exported(NamedTuple):
    """A run to be exported."""

    run: Run
    facts: Facts


class ExportReport(NamedTuple):
    """What did not stay as it was: `[run id, old name, new name]`, and names whose value was cut."""

    renamed: list[list[str]]
    cut: list[str]


def export_mlflow(name: str, runs: Sequence[Exported], destination: str) -> ExportReport:
    """Write runs as an experiment called `name` into a folder like `mlruns`. Raises StorageError and UsageError."""
    identifier = str(int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()[:15], 16))
    folder = os.path.join(destination, identifier)
    report = ExportReport([], [])
    created = min((each.run.created for each in runs), default=0.0)
    try:
        os.makedirs(folder, exist_ok=True)
        about = {
            "artifact_location": _uri(folder), "creation_time": _milliseconds(created), "experiment_id": identifier,
            "last_update_time": _milliseconds(max((each.run.created for each in runs), default=0.0)),
            "lifecycle_stage": "active", "name": name,
        }  # fmt: skip
        _write_meta(folder, about)
        for each in metered("exporting", "runs", runs):
            _export_run(each, folder, identifier, report)
    except OSError as error:
        raise storage_error("write", error.filename or folder, error) from error
    return report


def export_csv(runs: Sequence[Exported], path: str) -> None:
    """Write one table with a row a run, newest first, as CSV in UTF-8. Raises StorageError."""
    import csv
    import io

    from tui_workbench.files import write_atomically

    records = [_flat(history_record(each.run, each.facts)) for each in runs]
    columns = list(dict.fromkeys(key for record in records for key in record))
    # The record's own keys first, then the metrics in alphabetical order.
    columns.sort(key=lambda key: (metric_name(key) != "", key if metric_name(key) else ""))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(records)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise storage_error("make", os.path.dirname(path), error) from error
    write_atomically(path, text.getvalue().encode("utf-8", "backslashreplace"))


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for key, value in record.items()
    }


def _export_run(each: Exported, folder: str, experiment: str, report: ExportReport) -> None:
    run = each.run
    identifier = hashlib.md5(f"{run.directory}\0{run.run_id}".encode(errors="surrogateescape"), usedforsecurity=False)
    place = os.path.join(folder, identifier.hexdigest())
    if os.path.lexists(place) and not os.path.exists(os.path.join(place, "tags", RUN_ID_TAG)):
        raise UsageError(f"{place} is there already, and was not written by an export", remedy="Name another folder.")
    building = f"{place}.new"
    shutil.rmtree(building, ignore_errors=True)
    for part in ("metrics", "params", "tags", "artifacts"):
        os.makedirs(os.path.join(building, part))
    meta: dict[str, Any] = {
        "artifact_uri": _uri(os.path.join(place, "artifacts")), "end_time": _milliseconds(run.end) or None,
        "entry_point_name": "", "experiment_id": experiment, "lifecycle_stage": "active",
        "run_id": identifier.hexdigest(), "run_name": run.run_id, "run_uuid": identifier.hexdigest(),
        "source_name": run.script_name, "source_type": 4, "source_version": run.commit_id,
        "start_time": _milliseconds(run.start or run.created), "status": STATUS.get(run.state, 1), "tags": [],
        "user_id": run.user_id,
    }  # fmt: skip
    _write_meta(building, meta)
    _export_metrics(run, os.path.join(building, "metrics"), _Names(run.run_id, report))
    parameters = arguments_by_name(run.arguments)
    _export_values(parameters, os.path.join(building, "params"), _Names(run.run_id, report), LONGEST_PARAMETER)
    _export_values(_tags(each), os.path.join(building, "tags"), _Names(run.run_id, report), 0)
    _export_artifacts(run.directory, os.path.join(building, "artifacts"))
    shutil.rmtree(place, ignore_errors=True)
    os.rename(building, place)


def _tags(each: Exported) -> dict[str, str]:
    run, said = each.run, each.facts.annotations
    theirs = {
        "mlflow.runName": run.run_id, "mlflow.user": run.user_id, "mlflow.source.name": run.script_name,
        "mlflow.source.type": "LOCAL",
    }  # fmt: skip
    if said.note:
        theirs["mlflow.note.content"] = said.note
    tags = {
        RUN_ID_TAG: run.run_id, "workbench.run_number": str(run.run_number), "workbench.state": run.state,
        "workbench.target": run.target, "workbench.run_configuration": run.run_configuration,
    }  # fmt: skip
    if run.reason:
        tags["workbench.reason"] = run.reason
    if run.commit_id:
        tags["workbench.commit"] = run.commit_id
    return {**theirs, **said.tags, **tags}


def _export_metrics(run: Run, folder: str, names: _Names) -> None:
    from tui_workbench.runs.metrics import RunMetrics

    metrics = RunMetrics(run.directory)
    metrics.refresh()
    for name in metrics.summary():
        series = metrics.series(name)
        if not len(series.values):
            continue
        lines = []
        for step, value, moment in zip(series.steps, series.values, series.times, strict=True):
            when = run.start or run.created if math.isnan(moment) else moment
            lines.append(f"{_milliseconds(when)} {value!r} {int(step) if math.isfinite(step) else 0}\n")
        _write(os.path.join(folder, names.allowed(name)), "".join(lines))


def _export_values(values: Mapping[str, str], folder: str, names: _Names, longest: int) -> None:
    for name, value in values.items():
        allowed = names.allowed(name.lstrip("-") or name)
        if longest and len(value) > longest:
            names.report.cut.append(f"{names.run_id}: {name}")
            value = value[:longest]
        _write(os.path.join(folder, allowed), value)


def _export_artifacts(directory: str, folder: str) -> None:
    for path in files_below(directory, OUTPUTS):
        copy_file(os.path.join(directory, path), os.path.join(folder, os.path.relpath(path, OUTPUTS)))
    log = os.path.join(directory, OUTPUT)
    if os.path.isfile(log) and not os.path.exists(os.path.join(folder, OUTPUT)):
        copy_file(log, os.path.join(folder, OUTPUT))


class _Names:
    """Names for the files of one run: those that the file store allows, each only once, upper and lower case alike."""

    def __init__(self, run_id: str, report: ExportReport) -> None:
        self.run_id = run_id
        self.report = report
        self._taken: set[str] = set()

    def allowed(self, name: str) -> str:
        """A name for `name`."""
        clean = _ODD.sub("_", name)[:LONGEST_NAME]
        if os.path.normpath(clean) != clean or clean.startswith(("/", "..")) or not clean.strip("."):
            clean = clean.replace("/", "_").replace("..", "__") or "_"
            clean = "_" if clean == "." else clean
        candidate, number = clean, 1
        while self._is_taken(candidate):
            number += 1
            candidate = f"{clean.replace('/', '_')[: LONGEST_NAME - 8]}_{number}"
        self._taken.add(candidate.casefold())
        if candidate != name.lstrip("-"):
            self.report.renamed.append([self.run_id, name, candidate])
        return candidate

    def _is_taken(self, name: str) -> bool:
        """Whether a file of this name is there, or a folder, or a file where a folder would have to be."""
        folded = name.casefold()
        parents = {folded[: match.start()] for match in re.finditer("/", folded)}
        return (
            folded in self._taken
            or bool(parents & self._taken)
            or any(taken.startswith(folded + "/") for taken in self._taken)
        )


def _write_meta(folder: str, values: Mapping[str, Any]) -> None:
    # JSON is YAML, a line a key as MLflow writes it.
    lines = (f"{key}: {json.dumps(value)}\n" for key, value in sorted(values.items()))
    _write(os.path.join(folder, "meta.yaml"), "".join(lines))


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(text)


def _uri(path: str) -> str:
    from urllib.parse import quote

    return "file://" + quote(os.fsencode(os.path.abspath(path)))


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000) if math.isfinite(seconds) else 0
