"""Export runs to MLflow's file store or to a CSV table.

The file store allows fewer characters in names than the workbench. Invalid names are replaced by valid, unique names.
Changed names and cut values are reported. A run that was exported before is replaced. Other files in the destination
are not changed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.files import make_folders, write_atomically
from tui_workbench.core.model import Run
from tui_workbench.core.progress import metered
from tui_workbench.runs.index.history_record import BY_NAME, history_record, metric_name
from tui_workbench.runs.index.table import RunRow
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.values import joined
from tui_workbench.runs.store.arguments import arguments_by_name, column_name, differing
from tui_workbench.runs.store.rundir import OUTPUT, OUTPUTS
from tui_workbench.runs.transfer import mlflow_store as store
from tui_workbench.runs.transfer.downloads import copy_file, files_below, files_outside_outputs

LONGEST_PARAMETER = 6_000
LONGEST_NAME = 250
_ODD = re.compile(r"[^/\w.\- ]")
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # without tabs and the ends of lines


class ExportReport(NamedTuple):
    """The changed names as `[run ID, old name, new name]`, the names of cut values, and the replaced points.

    Replaced points are those of steps that a later attempt has logged again, as `[run ID, metric, number of points]`.
    """

    renamed: list[list[str]]
    cut: list[str]
    replaced: list[list[str | int]]


def export_mlflow(name: str, runs: Sequence[RunRow], destination: str, *, all_attempts: bool = False) -> ExportReport:
    """Write runs as the experiment `name` to a folder such as `mlruns`. Raises StorageError or UsageError.

    Points that a later attempt has replaced are included only with `all_attempts`; steps are then repeated.
    """
    identifier = str(int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()[:15], 16))
    folder = os.path.join(destination, identifier)
    report = ExportReport([], [], [])
    created = min((row.run.created for row in runs), default=0.0)
    with storage_errors("write", folder, exact=True):
        os.makedirs(destination, exist_ok=True)
        make_folders(os.path.realpath(destination), identifier, 0o777)
        meta = {
            "artifact_location": Path(folder).absolute().as_uri(), "creation_time": store.milliseconds(created),
            "experiment_id": identifier,
            "last_update_time": store.milliseconds(max((row.run.created for row in runs), default=0.0)),
            "lifecycle_stage": "active", "name": name,
        }  # fmt: skip
        store.write_meta(folder, meta)
        for row in metered("exporting", "runs", runs):
            _export_run(row, folder, identifier, report, all_attempts=all_attempts)
    return report


def export_csv(runs: Sequence[RunRow], path: str) -> None:
    r"""Write a table with a row for each run, in the given order, as CSV in UTF-8. Raises StorageError.

    Control characters, which a terminal would execute, and bytes that are not UTF-8 are written as `\x1b`.
    """
    records = [history_record(row.run, row.facts) for row in runs]
    arguments = [record.pop(BY_NAME) for record in records]
    columns = list(dict.fromkeys(key for record in records for key in record))
    # The columns are the keys of the record, then the arguments that differ, and the metrics in alphabetical order.
    columns.sort(key=lambda key: (metric_name(key) != "", key if metric_name(key) else ""))
    names = {name: column_name(name) for name in differing(arguments)}
    first = sum(1 for key in columns if not metric_name(key))
    columns[first:first] = [name for name in names.values() if name not in columns]
    for record, values in zip(records, arguments, strict=True):
        record.update({names[name]: values[name] for name in names if name in values and names[name] not in record})
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    for record in records:
        nested = {key: value for key, value in record.items() if isinstance(value, dict | list)}
        writer.writerow(record | {key: json.dumps(value, ensure_ascii=False) for key, value in nested.items()})
    with storage_errors("create", os.path.dirname(path)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    readable = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text.getvalue())
    write_atomically(path, readable.encode("utf-8", "backslashreplace"))


def _export_run(row: RunRow, folder: str, experiment: str, report: ExportReport, *, all_attempts: bool) -> None:
    run = row.run
    identifier = hashlib.md5(f"{run.directory}\0{run.run_id}".encode(errors="surrogateescape"), usedforsecurity=False)
    final = os.path.join(folder, identifier.hexdigest())
    if os.path.lexists(final) and not os.path.exists(os.path.join(final, store.TAGS, store.RUN_ID_TAG)):
        raise UsageError(f"{final} exists and was not written by `history export`", remedy="Choose another folder.")
    building = f"{final}.new"
    shutil.rmtree(building, ignore_errors=True)
    for part in (store.METRICS, store.PARAMETERS, store.TAGS, store.ARTIFACTS):
        os.makedirs(os.path.join(building, part))
    meta: dict[str, Any] = {
        "artifact_uri": Path(final, store.ARTIFACTS).absolute().as_uri(),
        "end_time": store.milliseconds(run.end) or None, "entry_point_name": "", "experiment_id": experiment,
        "lifecycle_stage": "active",
        "run_id": identifier.hexdigest(), "run_name": run.run_id, "run_uuid": identifier.hexdigest(),
        "source_name": run.script_name, "source_type": 4, "source_version": run.commit_id,
        "start_time": store.milliseconds(run.start or run.created), "status": store.number_of_state(run.state),
        "tags": [], "user_id": run.user_id,
    }  # fmt: skip
    store.write_meta(building, meta)
    names = _Names(run.run_id, report)
    _export_metrics(run, os.path.join(building, store.METRICS), names, all_attempts=all_attempts)
    parameters = arguments_by_name(run.words)
    _export_values(parameters, os.path.join(building, store.PARAMETERS), _Names(run.run_id, report), LONGEST_PARAMETER)
    _export_values(_tags(row), os.path.join(building, store.TAGS), _Names(run.run_id, report), 0)
    _export_artifacts(run.directory, os.path.join(building, store.ARTIFACTS))
    shutil.rmtree(final, ignore_errors=True)  # a rename cannot replace a folder that has files
    os.rename(building, final)


def _tags(row: RunRow) -> dict[str, str]:
    run, annotations = row.run, row.facts.annotations
    mlflow = {
        store.RUN_NAME_TAG: run.run_id, store.USER_TAG: run.user_id, store.SCRIPT_TAG: run.script_name,
        "mlflow.source.type": "LOCAL",
    }  # fmt: skip
    own = {
        store.RUN_ID_TAG: run.run_id, "workbench.run_number": str(run.run_number), "workbench.state": run.state,
        "workbench.target": run.target, "workbench.run_configuration": run.run_configuration,
    }  # fmt: skip
    optional = {store.NOTE_TAG: annotations.note, "workbench.reason": run.reason, "workbench.commit": run.commit_id}
    return {**mlflow, **annotations.tags, **own, **{name: value for name, value in optional.items() if value}}


def _export_metrics(run: Run, folder: str, names: _Names, *, all_attempts: bool) -> None:
    metrics = RunMetrics(run.directory)
    metrics.refresh()
    for name in metrics.summary():
        series, replaced = metrics.series(name), metrics.replaced(name)
        if replaced:
            names.report.replaced.append([run.run_id, name, sum(len(part.values) for part in replaced)])
            series = joined([*replaced, series]) if all_attempts else series
        lines = [
            store.point_line(run.start or run.created if math.isnan(moment) else moment, value, step)
            for step, value, moment in zip(series.steps, series.values, series.times, strict=True)
        ]
        if lines:
            store.write_value(os.path.join(folder, names.allowed(name)), "".join(lines))


def _export_values(values: Mapping[str, str], folder: str, names: _Names, longest: int) -> None:
    for name, value in values.items():
        allowed = names.allowed(name.lstrip("-") or name)
        if longest and len(value) > longest:
            names.report.cut.append(f"{names.run_id}: {name}")
            value = value[:longest]
        store.write_value(os.path.join(folder, allowed), value)


def _export_artifacts(directory: str, folder: str) -> None:
    for path in files_below(directory, OUTPUTS):
        copy_file(os.path.join(directory, path), os.path.join(folder, os.path.relpath(path, OUTPUTS)))
    has_log = os.path.isfile(os.path.join(directory, OUTPUT))
    for path in (*files_outside_outputs(directory), *([OUTPUT] if has_log else ())):
        if not os.path.lexists(os.path.join(folder, path)):
            copy_file(os.path.join(directory, path), os.path.join(folder, path))


class _Names:
    """The file names for the metrics, parameters or tags of a run. They are valid, and unique regardless of case."""

    def __init__(self, run_id: str, report: ExportReport) -> None:
        self.run_id = run_id
        self.report = report
        self._taken: set[str] = set()

    def allowed(self, name: str) -> str:
        """Return a valid, unique name for `name`."""
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
        """Return True if a file or folder has this name, or a parent of this name is a file."""
        folded = name.casefold() + "/"
        return any(f"{taken}/".startswith(folded) or folded.startswith(f"{taken}/") for taken in self._taken)
