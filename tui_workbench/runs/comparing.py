"""Compare runs: their metrics, arguments, configuration, code, packages and machine.

Rows with different values are first, in the order of the sections; equal rows follow. A missing value is None, which
counts as different from every other value. The notes name the values that could not be compared.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tui_workbench.core.errors import RunNotFound, StorageError, UsageError
from tui_workbench.core.files import load_json
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted, number_ranges
from tui_workbench.runs.history import History
from tui_workbench.runs.index.damages import damage_notes
from tui_workbench.runs.index.history_record import Facts, facts_of
from tui_workbench.runs.metrics.stored import read_summary
from tui_workbench.runs.snapshots.snapshot_view import snapshot_files
from tui_workbench.runs.store.arguments import arguments_by_name
from tui_workbench.runs.store.rundir import PROVENANCE, RunDirectory
from tui_workbench.targets.hosts.data import describe_data

MOST_ROWS = 5_000  # of a section; the arguments of a run can be megabytes long

VERDICT = "verdict"  # the row of section `gpu` that shows whether a run used a GPU

SECTIONS = (
    "metrics", "arguments", "configuration", "code", "git", "data", "packages", "python", "image", "gpu", "host", "run",
)  # fmt: skip

_Column: TypeAlias = Mapping[str, Any]  # the values of one run in a section, by row name

_NOTHING = (None, "", ())
_CONFIGURATION = (
    "framework", "argument_vector", "conda_dependencies_file", "spark_dependencies_file", "prepare_environment",
    "tracked_run", "require_gpu", "stop_if_idle_minutes", "stop_if_stalled_minutes", "max_duration_minutes",
    "signal_before_end_minutes", "nodes",
)  # fmt: skip
_TARGET = (
    "type", "address", "username", "python_location", "base_docker_image", "nvidia_docker", "gpus", "shared_volumes",
    "native_shared_directory",
)  # fmt: skip


class ComparedRow(NamedTuple):
    """A row of a comparison, with one value per run."""

    section: str
    name: str
    values: tuple[str | float | None, ...]
    differs: bool


class Comparison(NamedTuple):
    """The runs in the requested order, the rows, and notes on values that could not be compared."""

    runs: tuple[Run, ...]
    rows: tuple[ComparedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def differences(self) -> tuple[ComparedRow, ...]:
        return tuple(row for row in self.rows if row.differs)


def compare(history: History, run_ids: Sequence[str]) -> Comparison:
    """Compare runs, given by ID or number. Raises UsageError for fewer than two different runs, and RunNotFound."""
    runs = list({run.run_id: run for run in map(history.get, run_ids)}.values())
    if len(runs) < 2:
        raise UsageError("cannot compare a single run", remedy="Give two or more different runs.")
    notes: list[tuple[Run, str]] = []
    all_facts = [facts_of(run.directory) for run in runs]
    origins = [_provenance(run.directory) for run in runs]
    columns: dict[str, Sequence[_Column]] = {
        "run": [_of_run(run, facts) for run, facts in zip(runs, all_facts, strict=True)],
        "metrics": [facts.metrics for facts in all_facts],
        "arguments": [{"script": run.script_name, **arguments_by_name(run.words)} for run in runs],
        "configuration": [_of_configuration(run) for run in runs],
        "code": _of_code(history.project.state_directory, runs, notes),
        "git": [_of_git(_mapping(origin.get("git"))) for origin in origins],
        "data": [describe_data(origin.get("data")) for origin in origins],
        "gpu": [_of_gpu(facts.gpu, origin.get("gpus")) for facts, origin in zip(all_facts, origins, strict=True)],
    }
    for section in ("packages", "python", "image", "host"):
        columns[section] = [_mapping(origin.get(section)) for origin in origins]
    for run, facts in zip(runs, all_facts, strict=True):
        notes += [(run, note) for note in damage_notes(facts.damages)]
    for run, facts, origin in zip(runs, all_facts, origins, strict=True):
        if not origin and PROVENANCE not in facts.damages:
            missing = "packages, interpreter and machine were not recorded"
            notes.append((run, missing if run.tracked else f"untracked, so {missing}"))
        incomplete = (read_summary(run.directory) or {}).get("notes")
        if isinstance(incomplete, list):
            notes += [(run, note) for note in incomplete if isinstance(note, str)]
    rows: list[ComparedRow] = []
    left_out = []
    for section in SECTIONS:
        section_rows = _rows(section, columns[section])
        rows += itertools.islice(section_rows, MOST_ROWS)
        if more := sum(1 for _ in section_rows):
            left_out.append(f"{section}: {counted(more, 'row')} after the first {MOST_ROWS:,} are not compared")
    rows.sort(key=lambda row: not row.differs)
    return Comparison(tuple(runs), tuple(rows), (*_sentences(notes, len(runs)), *left_out))


def _sentences(notes: Iterable[tuple[Run, str]], count: int) -> tuple[str, ...]:
    """Return each note once, after the runs that it is about, such as `runs 1-3, 5: ...`."""
    about: dict[str, dict[str, Run]] = {}
    for run, note in notes:
        about.setdefault(note, {})[run.run_id] = run
    sentences = []
    for note, runs in about.items():
        numbers = number_ranges(run.run_number for run in runs.values())
        several = f"all {count} runs" if len(runs) == count else f"runs {numbers}"
        sentences.append(f"{several if len(runs) > 1 else next(iter(runs))}: {note}")
    return tuple(sentences)


def _rows(section: str, columns: Iterable[_Column]) -> Iterator[ComparedRow]:
    """Yield the rows in which at least one run has a value."""
    shown = [{name: _shown(value) for name, value in column.items() if value not in _NOTHING} for column in columns]
    for name in dict.fromkeys(name for column in shown for name in column):
        values = tuple(column.get(name) for column in shown)
        # NaN differs from itself, but runs with the same value NaN do not differ.
        differs = len({"NaN" if value != value else value for value in values}) > 1
        yield ComparedRow(section, name, values, differs)


def _shown(value: Any) -> str | float:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return value
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _of_run(run: Run, facts: Facts) -> _Column:
    tags = sorted(facts.annotations.tags.items())
    return {
        "state": run.state,
        "exit code": run.exit_code,
        "duration": round(run.duration, 3) if run.duration else None,
        "user": run.user_id,
        "agent": run.agent,
        "note": facts.annotations.note,
        "tags": ", ".join(f"{name}={value}" if value else name for name, value in tags),
    }


def _of_configuration(run: Run) -> _Column:
    values: dict[str, Any] = {"runconfig": run.run_configuration, "target": run.target}
    try:
        spec = RunDirectory(run.directory).read_record().spec
    except RunNotFound:
        return values
    configuration, target = spec.run_configuration, spec.target
    for field in _CONFIGURATION:
        values["".join(word.capitalize() for word in field.split("_"))] = getattr(configuration, field)
    for field in _TARGET:
        first, *words = field.split("_")
        values[f"target {first}{''.join(map(str.capitalize, words))}"] = getattr(target, field)
    variables = sorted(configuration.environment_variables.items())
    return values | {f"EnvironmentVariables {name}": value for name, value in variables}


def _of_code(state_directory: str, runs: Sequence[Run], notes: list[tuple[Run, str]]) -> list[_Column]:
    """Return a column for each run: its commit, the files that differ between the runs, and the number of equal files.

    If a snapshot is missing or cannot be read, a note is added to `notes`.
    """
    trees: dict[str, dict[str, str]] = {}
    for run in runs:
        if not run.commit_id:
            notes.append((run, "no git snapshot, so the code is not compared"))
        elif run.commit_id not in trees:
            try:
                files = snapshot_files(state_directory, run.commit_id)
                trees[run.commit_id] = {file.path: file.name[:12] for file in files}
            except StorageError as error:
                notes.append((run, str(error)))
    paths = sorted({path for tree in trees.values() for path in tree})
    changed = [path for path in paths if len({tree.get(path) for tree in trees.values()}) > 1]
    columns: list[_Column] = []
    for run in runs:
        column: dict[str, Any] = {"commit": run.commit_id[:12]}
        if (tree := trees.get(run.commit_id)) is not None:
            column |= {path: tree.get(path) for path in changed}
            column["unchanged files"] = len(paths) - len(changed)
        columns.append(column)
    return columns


def _of_git(git: _Column) -> _Column:
    changed = git.get("changed")
    count = len(changed) if git.get("commit") and isinstance(changed, list) else None
    return {**{name: git.get(name) for name in ("commit", "branch", "remote")}, "changed files": count}


def _of_gpu(verdict: _Column, gpus: Any) -> _Column:
    """Return the values of section `gpu`: the GPU use of a run, and the GPUs of its machine."""
    names = {VERDICT: "verdict", "GPU seconds": "gpu_seconds", "energy Wh": "energy_wh"}
    values = {name: verdict.get(key) for name, key in names.items()}
    for number, gpu in enumerate(gpus if isinstance(gpus, list) else ()):
        values |= {f"GPU {number} {name}": _mapping(gpu).get(name) for name in ("name", "driver", "memory")}
    return values


def _provenance(directory: str) -> _Column:
    try:
        return _mapping(load_json(os.path.join(directory, PROVENANCE)))
    except (OSError, ValueError):
        return {}


def _mapping(value: Any) -> _Column:
    return value if isinstance(value, dict) else {}
