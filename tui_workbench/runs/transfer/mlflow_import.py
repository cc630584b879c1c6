"""Import runs from a file store of MLflow.

For each ended run, a run directory is created under a temporary name, and renamed when it is complete. It contains the
MLflow ID, so that a second import adds only new runs. Unreadable runs are reported and skipped. The source is not
changed.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tui_workbench.core.causes import MLFLOW, Cause, stored
from tui_workbench.core.errors import StorageError, UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import load_json, make_folders, open_regular, write_below
from tui_workbench.core.model import ComputeTarget, Plan, RunConfiguration, RunSpec, RunState
from tui_workbench.core.progress import metered
from tui_workbench.projects.project import Project
from tui_workbench.runs.metrics.values import json_number
from tui_workbench.runs.snapshots.provenance import masked_address
from tui_workbench.runs.store.annotations import FILE, LONGEST_NAME, LONGEST_TEXT, SCHEMA
from tui_workbench.runs.store.new_run import new_directory, publish
from tui_workbench.runs.store.run_ids import identifier, next_run_number
from tui_workbench.runs.store.rundir import EVENTS, METRICS, OUTPUT, OUTPUTS, Record
from tui_workbench.runs.transfer import mlflow_store as store
from tui_workbench.runs.transfer.downloads import copy_file

ORIGIN = "imported.json"  # the source of an imported run, in its directory
_PLACE = re.compile(r"argument \d+")  # name of a positional argument in an export

_KEPT_TAGS = ("mlflow.parentRunId", store.RUN_NAME_TAG)


class ImportReport(NamedTuple):
    """The IDs of the new runs, the numbers of known and skipped runs, and the reasons for skipping runs.

    `elsewhere` contains notes on artifacts that were not copied, because they are in a store such as S3.
    """

    imported: list[str]
    known: int
    skipped: int
    notes: list[str]
    elsewhere: list[str]


class _Source(NamedTuple):
    """A run in the file store."""

    folder: str
    identifier: str
    experiment: str
    meta: dict[str, Any]

    def part(self, *names: str) -> str:
        return os.path.join(self.folder, *names)


def import_mlflow(project: Project, source: str) -> ImportReport:
    """Import the runs of an `mlruns` folder. Raises StorageError, and UsageError if the folder contains no runs."""
    notes: list[str] = []
    sources = sorted(_sources(source, notes), key=lambda run: _start(run.meta))
    if not sources and not notes:
        raise UsageError(
            f"no MLflow runs in {source}", remedy=f"Use the folder that contains <experiment>/<run>/{store.META}."
        )
    project.prepare_state()
    known_ids = _known_ids(project)
    imported: list[str] = []
    elsewhere: list[str] = []
    failed: list[str] = []
    known_count = 0
    for run in metered("importing", "runs", sources):
        if run.identifier in known_ids or store.read_value(run.part(store.TAGS, store.RUN_ID_TAG)) in known_ids:
            known_count += 1
            continue
        try:
            imported.append(_import(project, run))
            if note := _note_elsewhere(run):
                elsewhere.append(note)
        except StorageError:
            raise
        except (OSError, ValueError, TypeError, WorkbenchError) as error:
            failed.append(f"{run.folder}: {error}")
    return ImportReport(imported, known_count, len(failed) + len(notes), [*failed, *notes], elsewhere)


def _sources(root: str, notes: list[str]) -> Iterator[_Source]:
    """Yield the ended runs of a file store or experiment. Reasons for skipping runs are added to `notes`."""
    for experiment in (root, *(os.path.join(root, name) for name in sorted(_folders(root)))):
        try:
            experiment_meta = store.read_meta(experiment)
        except (OSError, ValueError):
            continue
        if "experiment_id" not in experiment_meta or "run_id" in experiment_meta or "run_uuid" in experiment_meta:
            continue
        experiment_name = str(experiment_meta.get("name", ""))
        for entry in sorted(_folders(experiment)):
            folder = os.path.join(experiment, entry)
            if not os.path.isfile(os.path.join(folder, store.META)):
                continue
            try:
                meta = store.read_meta(folder)
            except (OSError, ValueError) as error:
                notes.append(f"cannot read {os.path.join(folder, store.META)}: {error}")
                continue
            if "run_id" not in meta and "run_uuid" not in meta:
                continue  # this is an experiment, or a folder of a later MLflow version
            if meta.get("lifecycle_stage") == "deleted":
                notes.append(f"{folder}: deleted in MLflow")
            elif not store.state_of(meta):
                notes.append(f"{folder}: has not ended")
            else:
                yield _Source(folder, str(meta.get("run_id") or meta["run_uuid"]), experiment_name, meta)


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []


def _import(project: Project, source: _Source) -> str:
    """Return the ID of the new run, which has the start time of the source, or a later millisecond if it is taken."""
    start = _start(source.meta)
    ids = (f"{identifier(project.name)}_{milliseconds}" for milliseconds in itertools.count(int(start * 1000)))
    run_id = next(run_id for run_id in ids if not os.path.lexists(os.path.join(project.runs_directory, run_id)))
    final = os.path.join(project.runs_directory, run_id)
    # Errors of the source are raised here, so that they are not taken for errors of the new directory.
    metrics = _lines(_metrics(source.part(store.METRICS)))
    artifacts = store.files_by_name(source.part(store.ARTIFACTS))
    for _, path in artifacts:
        open_regular(path).close()
    with storage_errors("create", final), new_directory(project, run_id) as (directory, lock):
        record = _record(project, source, run_id, next_run_number(project))
        directory.write_record(record)
        write_below(directory.path, EVENTS, _lines(_events(source, start)))
        write_below(directory.path, METRICS, metrics)
        write_below(directory.path, ORIGIN, _lines([{"source": source.folder, "run_id": source.identifier}]))
        write_below(directory.path, FILE, _lines([_annotations(source)]))
        make_folders(directory.path, OUTPUTS)
        for name, path in artifacts:
            # The log is an artifact of runs that the workbench exported.
            copy_file(path, os.path.join(directory.path, name if name == OUTPUT else f"{OUTPUTS}/{name}"))
        publish(directory, record)
    lock.release()
    return run_id


def _record(project: Project, source: _Source, run_id: str, number: int) -> Record:
    name = store.read_value(source.part(store.TAGS, store.SCRIPT_TAG)) or str(source.meta.get("source_name") or "")
    script = os.path.basename(name) or str(source.meta.get("run_name") or "") or "imported"
    parameters = sorted(store.read_values(source.part(store.PARAMETERS)).items())
    spec = RunSpec(
        run_id=run_id,
        run_directory=os.path.join(project.runs_directory, run_id),
        project_root=project.root,
        project_name=project.name,
        working_directory=project.root,
        script=script,
        arguments=tuple(value if _PLACE.fullmatch(key) else f"{key}={value}" for key, value in parameters),
        run_configuration=RunConfiguration("mlflow", "", "mlflow", framework="Python", tracked_run=False),
        target=ComputeTarget("mlflow", "", "local"),
    )
    user = str(source.meta.get("user_id") or store.read_value(source.part(store.TAGS, store.USER_TAG)))
    plan = Plan("mlflow", "local", "", ())
    return Record(run_id, number, _start(source.meta), user, spec, plan, "", "none")


def _events(source: _Source, start: float) -> Iterable[dict[str, Any]]:
    state = store.state_of(source.meta)
    end = store.seconds(source.meta.get("end_time")) or start
    causes = stored((Cause(MLFLOW),) if state == RunState.FAILED else ())
    yield {"time": start, "event": "state", "state": RunState.QUEUED}
    yield {"time": start, "event": "state", "state": RunState.RUNNING}
    yield {"time": end, "event": "state", "state": state, **causes, "final": True, "end": end}


def _metrics(folder: str) -> Iterable[dict[str, Any]]:
    """Yield the lines of `metrics.jsonl`: the points of each metric, in the order of its file."""
    for name, path in store.files_by_name(folder):
        for moment, value, step in store.points(path):
            yield {"name": name, "step": step, "value": json_number(value), "time": moment}


def _annotations(source: _Source) -> dict[str, Any]:
    every = store.read_values(source.part(store.TAGS))
    tags = {
        name: value[:LONGEST_TEXT]
        for name, value in every.items()
        if (name in _KEPT_TAGS or not name.startswith(("mlflow.", "workbench.")))
        and name.isprintable()
        and len(name) <= LONGEST_NAME
    }
    if source.experiment:
        tags["mlflow.experiment"] = source.experiment
    note = every.get(store.NOTE_TAG, "")[:LONGEST_TEXT]
    return {"schema": SCHEMA, "tags": tags, "note": note}


def _note_elsewhere(source: _Source) -> str:
    """Return a note if the artifacts are in a store such as S3, which is not read; otherwise, return ""."""
    address = str(source.meta.get("artifact_uri") or "")
    if os.path.isdir(source.part(store.ARTIFACTS)) or not address or address.startswith(("file:", "/", ".")):
        return ""
    return f"{source.folder}: its artifacts are in {masked_address(address)} and were not copied"


def _lines(values: Iterable[Any]) -> bytes:
    """Return a line of JSON for each value."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _known_ids(project: Project) -> set[str]:
    """Return the IDs of all runs of the project, and the MLflow IDs of imported runs."""
    ids = set(_folders(project.runs_directory))
    for name in list(ids):
        try:
            ids.add(str(load_json(os.path.join(project.runs_directory, name, ORIGIN))["run_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ids


def _start(meta: dict[str, Any]) -> float:
    return store.seconds(meta.get("start_time")) or store.seconds(meta.get("end_time")) or time.time()
