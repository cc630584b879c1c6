"""Runs on their way in: MLflow's file store, a folder an experiment and a folder a run.

Each run that has ended becomes a run directory of the usual form, written whole before it gets its name. It is known by
MLflow's id, so importing again imports only what is new. What cannot be read is told and passed over; nothing in the
source is changed, and nothing lands outside of the new run.
"""

from __future__ import annotations

import json
import os
import re
import time

from tui_workbench.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.model import ComputeTarget, Plan, RunConfiguration, RunSpec, RunState
from tui_workbench.progress import metered
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.downloads import copy_file, files_below
from tui_workbench.runs.exchange import RUN_ID_TAG
from tui_workbench.runs.launch import BUILDING_PREFIX, discard, identifier, next_run_number
from tui_workbench.runs.rundir import EVENTS, OUTPUT, OUTPUTS, ControllerLock, Record, RunDirectory, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.project import Project

ORIGIN = "imported.json"
"""In a run that was imported: where it came from."""

META = "meta.yaml"
LARGEST_META = 1 << 20
LARGEST_TEXT = 1 << 20
_STATES = {3: RunState.COMPLETED, 4: RunState.FAILED, 5: RunState.CANCELED}
_WORDS = {"FINISHED": 3, "FAILED": 4, "KILLED": 5}
_PLACE = re.compile(r"argument \d+")
"""An argument that has no name but its place, as an export calls it."""

_KEPT_TAGS = ("mlflow.parentRunId", "mlflow.runName")


class ImportReport(NamedTuple):
    """The ids of the new runs; how many were here already, and how many were passed over, with the reasons.

    `elsewhere` tells of artifacts of new runs that lie where they could not be copied from.
    """

    imported: list[str]
    known: int
    skipped: int
    notes: list[str]
    elsewhere: list[str]


class _Source(NamedTuple):
    """A run as its folder in the file store tells it."""

    folder: str
    identifier: str
    experiment: str
    meta: dict[str, Any]


def import_mlflow(project: Project, source: str) -> ImportReport:
    """Import every run of an `mlruns` folder. Raises UsageError when it is none, StorageError when the disk is full."""
    found = list(_sources(source))
    if not found:
        raise UsageError(
            f"{source} holds no runs of MLflow", remedy=f"Name the folder that holds <experiment>/<run>/{META}."
        )
    project.prepare_state()
    known = _known(project)
    report = ImportReport([], 0, 0, [], [])
    sources = sorted((each for each in found if isinstance(each, _Source)), key=lambda each: _start(each.meta))
    for each in metered("importing", "runs", sources):
        if each.identifier in known or _text(os.path.join(each.folder, "tags", RUN_ID_TAG)) in known:
            report = report._replace(known=report.known + 1)
            continue
        try:
            report.imported.append(_import(project, each))
            report.elsewhere.extend(_elsewhere(each))
        except (OSError, ValueError, TypeError, WorkbenchError) as error:
            if isinstance(error, StorageError):
                raise
            report.notes.append(f"{each.folder}: {error}")
    report.notes.extend(each for each in found if isinstance(each, str))
    return report._replace(skipped=len(report.notes))


def _sources(root: str) -> Iterator[_Source | str]:
    """The runs below a file store, or of one experiment, or why one of them is none."""
    for experiment, name in _experiments(root):
        for entry in sorted(_folders(experiment)):
            folder = os.path.join(experiment, entry)
            if not os.path.isfile(os.path.join(folder, META)):
                continue
            try:
                meta = _meta(folder)
            except (OSError, ValueError) as error:
                yield f"{folder}: {META} cannot be read: {error}"
                continue
            if "run_id" not in meta and "run_uuid" not in meta:
                continue  # an experiment, or something of a later MLflow
            if meta.get("lifecycle_stage") == "deleted":
                yield f"{folder}: it was deleted in MLflow"
            elif _status(meta) not in _STATES:
                yield f"{folder}: it has not ended"
            else:
                yield _Source(folder, str(meta.get("run_id") or meta["run_uuid"]), name, meta)


def _experiments(root: str) -> list[tuple[str, str]]:
    """Folder and name of each experiment; the folder itself may be one."""
    found = []
    for folder in (root, *(os.path.join(root, name) for name in sorted(_folders(root)))):
        try:
            meta = _meta(folder)
        except (OSError, ValueError):
            continue
        if "experiment_id" in meta and "run_id" not in meta and "run_uuid" not in meta:
            found.append((folder, str(meta.get("name", ""))))
    return found


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []


def _meta(folder: str) -> dict[str, Any]:
    import yaml

    with open(os.path.join(folder, META), "rb") as file:
        data = file.read(LARGEST_META + 1)
    if len(data) > LARGEST_META:
        raise ValueError("it is too large")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise ValueError("it is no mapping")
    return found


def _import(project: Project, source: _Source) -> str:
    """Make a run of it; its id."""
    start = _start(source.meta)
    run_id = _free_id(project, start)
    final = os.path.join(project.runs_directory, run_id)
    building = os.path.join(project.runs_directory, BUILDING_PREFIX + run_id)
    lock: ControllerLock | None = None
    try:
        os.mkdir(building)
        directory = RunDirectory(building)
        lock = ControllerLock.acquire(directory, wait=True)
        record = _record(project, source, run_id, next_run_number(project))
        directory.write_record(record)
        _write(building, EVENTS, _events(source, start))
        _write(building, "metrics.jsonl", _metrics(os.path.join(source.folder, "metrics")))
        _write(building, ORIGIN, json.dumps({"source": source.folder, "run_id": source.identifier}) + "\n")
        _copy_artifacts(os.path.join(source.folder, "artifacts"), building)
        _annotate(source, building)
        os.rename(building, final)
    except OSError as error:
        discard(building)
        raise storage_error("import it into", final, error) from error
    except BaseException:
        discard(building)
        raise
    finally:
        if lock is not None:
            lock.release()
    return run_id


def _record(project: Project, source: _Source, run_id: str, number: int) -> Record:
    tags = os.path.join(source.folder, "tags")
    name = _text(os.path.join(tags, "mlflow.source.name")) or str(source.meta.get("source_name") or "")
    script = os.path.basename(name) or str(source.meta.get("run_name") or "") or "imported"
    parameters = sorted(_values(os.path.join(source.folder, "params")).items())
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
    user = str(source.meta.get("user_id") or _text(os.path.join(tags, "mlflow.user")))
    plan = Plan("mlflow", "local", "", ())
    return Record(run_id, number, _start(source.meta), user, spec, plan, "", "none")


def _events(source: _Source, start: float) -> str:
    state = _STATES[_status(source.meta)]
    end = _seconds(source.meta.get("end_time")) or start
    reason = "it failed; MLflow does not tell why" if state == RunState.FAILED else ""
    events: tuple[dict[str, Any], ...] = (
        {"time": start, "event": "state", "state": RunState.QUEUED},
        {"time": start, "event": "state", "state": RunState.RUNNING},
        {"time": end, "event": "state", "state": state, "reason": reason, "final": True, "end": end},
    )
    return "".join(json.dumps(event) + "\n" for event in events)


def _metrics(folder: str) -> str:
    """Every point, in the order of the file of each metric."""
    lines = []
    for name, path in _files(folder):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                point = _point(name, line.split())
                if point:
                    lines.append(json.dumps(point) + "\n")
    return "".join(lines)


def _point(name: str, words: list[str]) -> dict[str, Any] | None:
    """`timestamp value [step]`; values that are no numbers are words, as in every metrics.jsonl."""
    try:
        value = float(words[1])
        step = int(words[2]) if len(words) > 2 else 0
        moment = int(words[0]) / 1000
    except (ValueError, IndexError, OverflowError):
        return None
    shown = value if value - value == 0 else "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return {"name": name, "step": step, "value": shown, "time": moment}


def _annotate(source: _Source, directory: str) -> None:
    from tui_workbench.runs.annotations import FILE, LONGEST_NAME, LONGEST_TEXT, SCHEMA

    every = _values(os.path.join(source.folder, "tags"))
    tags = {
        name: value[:LONGEST_TEXT]
        for name, value in every.items()
        if (name in _KEPT_TAGS or not name.startswith(("mlflow.", "workbench.")))
        and name.isprintable()
        and len(name) <= LONGEST_NAME
    }
    if source.experiment:
        tags["mlflow.experiment"] = source.experiment
    note = every.get("mlflow.note.content", "")[:LONGEST_TEXT]
    _write(directory, FILE, json.dumps({"schema": SCHEMA, "tags": tags, "note": note}) + "\n")


def _copy_artifacts(source: str, directory: str) -> None:
    outputs = os.path.join(directory, OUTPUTS)
    os.makedirs(outputs)
    for path in files_below(source, "."):
        # An export of ours has the log among them.
        name = os.path.normpath(path)
        target = os.path.join(directory, OUTPUT) if name == OUTPUT else os.path.join(outputs, name)
        copy_file(os.path.join(source, path), target)


def _elsewhere(source: _Source) -> list[str]:
    """That its artifacts are in a store of another kind, where they are."""
    from tui_workbench.runs.provenance import masked_address

    place = str(source.meta.get("artifact_uri") or "")
    if os.path.isdir(os.path.join(source.folder, "artifacts")) or not place or place.startswith(("file:", "/", ".")):
        return []
    return [f"{source.folder}: its artifacts are in {masked_address(place)}, and were not copied"]


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """Name and path of each value below a folder; a name may have parts."""
    for path in sorted(files_below(folder, ".")):
        name = os.path.normpath(path)
        yield name, os.path.join(folder, name)


def _values(folder: str) -> dict[str, str]:
    return {name: _text(path) for name, path in _files(folder)}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST_TEXT).strip("\n")
    except OSError:
        return ""


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def _known(project: Project) -> set[str]:
    """The ids by which runs are known here: their own, and MLflow's of those that were imported."""
    found = set(_folders(project.runs_directory))
    for name in list(found):
        try:
            with open(os.path.join(project.runs_directory, name, ORIGIN), encoding="utf-8") as file:
                found.add(str(json.load(file)["run_id"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _free_id(project: Project, start: float) -> str:
    """A run id with the time at which the run was started, as all have it, or a millisecond that is free after it."""
    milliseconds = int(start * 1000)
    while True:
        run_id = f"{identifier(project.name)}_{milliseconds}"
        if not os.path.lexists(os.path.join(project.runs_directory, run_id)):
            return run_id
        milliseconds += 1


def _start(meta: dict[str, Any]) -> float:
    return _seconds(meta.get("start_time")) or _seconds(meta.get("end_time")) or time.time()


def _seconds(milliseconds: object) -> float:
    return milliseconds / 1000 if isinstance(milliseconds, int) and 0 < milliseconds < 1 << 53 else 0.0


def _status(meta: dict[str, Any]) -> int:
    status = meta.get("status")
    return status if isinstance(status, int) else _WORDS.get(str(status), 0)
