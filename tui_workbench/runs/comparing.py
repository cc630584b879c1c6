"""What several runs have in common and what not: metrics, arguments, configuration, code, packages, machine.

Rows that differ come first, in the order of the sections, then those that are the same. A value that a run does not
have is None, which is not the same as any value; what could not be compared at all is told in a note, and never passed
over.
"""

from __future__ import annotations

import os
import re

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from tui_workbench.model import Run
    from tui_workbench.runs.history import Facts
    from tui_workbench.runs.rundir import Record

VERDICT = "verdict"
"""The row of section `gpu` that says whether a run used a GPU."""

SECTIONS = ("metrics", "arguments", "configuration", "code", "git", "packages", "python", "image", "gpu", "host", "run")
"""In the order in which a person asks: what came of it, what was asked for, what ran, what it ran on."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][\w.\-/]*=")

_CONFIGURATION = {
    "framework": "Framework",
    "argument_vector": "ArgumentVector",
    "conda_dependencies_file": "CondaDependenciesFile",
    "spark_dependencies_file": "SparkDependenciesFile",
    "prepare_environment": "PrepareEnvironment",
    "tracked_run": "TrackedRun",
    "require_gpu": "RequireGpu",
    "stop_if_idle_minutes": "StopIfIdleMinutes",
    "max_duration_minutes": "MaxDurationMinutes",
}
_TARGET = {
    "type": "type",
    "address": "address",
    "username": "username",
    "python_location": "pythonLocation",
    "base_docker_image": "baseDockerImage",
    "nvidia_docker": "nvidiaDocker",
    "gpus": "gpus",
    "shared_volumes": "sharedVolumes",
    "native_shared_directory": "nativeSharedDirectory",
}


class ComparedRow(NamedTuple):
    """One thing in all runs: `values` has one for each, None where the run has none."""

    section: str
    name: str
    values: tuple[str | float | None, ...]
    differs: bool


class Comparison(NamedTuple):
    """The runs in the order that was asked for, the rows, and what could not be compared."""

    runs: tuple[Run, ...]
    rows: tuple[ComparedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def differences(self) -> tuple[ComparedRow, ...]:
        """The rows that differ."""
        return tuple(row for row in self.rows if row.differs)


class Compared(NamedTuple):
    """All that is known of one run. `record` and `provenance` are None where they cannot be read."""

    run: Run
    facts: Facts
    record: Record | None
    provenance: Mapping[str, Any] | None


def compare(state_directory: str, runs: Sequence[Compared]) -> Comparison:
    """Compare two runs or more of the project whose state is in `state_directory`. Raises UsageError for fewer."""
    if len(runs) < 2:
        raise UsageError("one run cannot be compared", remedy="Name two or more.")
    notes: list[str] = []
    columns: dict[str, list[Mapping[str, str | float | None]]] = {
        "run": [_of_run(each) for each in runs],
        "metrics": [each.facts.metrics for each in runs],
        "arguments": [_of_arguments(each.run) for each in runs],
        "configuration": [_of_configuration(each) for each in runs],
        "code": _of_code(state_directory, runs, notes),
    }
    for section, chosen in _FROM_PROVENANCE.items():
        columns[section] = [chosen(each.provenance or {}) for each in runs]
    columns["gpu"] = [{**_of_verdict(each.facts), **known} for each, known in zip(runs, columns["gpu"], strict=True)]
    for each in runs:
        if each.provenance is None and each.run.tracked:
            notes.append(f"{each.run.run_id}: packages, interpreter and machine were not recorded")
        elif each.provenance is None:
            notes.append(f"{each.run.run_id}: an untracked run, of which only what was asked is recorded")
    rows = [row for section in SECTIONS for row in _rows(section, columns[section])]
    return Comparison(
        tuple(each.run for each in runs), tuple(sorted(rows, key=lambda row: not row.differs)), tuple(notes)
    )


def arguments_by_name(arguments: Sequence[str]) -> dict[str, str]:
    """The arguments as options with their values (`--lr 0.1`, `lr=0.1`); a word on its own is named by its place.

    An option that comes several times has all its values, with spaces between them.
    """
    found: dict[str, str] = {}
    place = 0
    waiting = ""

    def add(name: str, value: str) -> None:
        found[name] = f"{found[name]} {value}" if name in found else value

    for word in arguments:
        if word.startswith("-") and len(word) > 1 and not _is_number(word):
            if waiting:
                add(waiting, "yes")
            name, equals, value = word.partition("=")
            if equals:
                add(name, value)
            waiting = "" if equals else name
        elif waiting:
            add(waiting, word)
            waiting = ""
        elif _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            add(name, value)
        else:
            place += 1
            found[f"argument {place}"] = word
    if waiting:
        add(waiting, "yes")
    return found


def _rows(section: str, columns: Sequence[Mapping[str, str | float | None]]) -> Iterable[ComparedRow]:
    for name in dict.fromkeys(name for column in columns for name in column):
        values = tuple(column.get(name) for column in columns)
        yield ComparedRow(section, name, values, any(not _same(values[0], each) for each in values[1:]))


def _same(one: str | float | None, other: str | float | None) -> bool:
    # A NaN is the same as another one here: nobody looks for that difference.
    return one == other or (one != one and other != other)


def _of_arguments(run: Run) -> dict[str, str]:
    return {"script": run.script_name, **arguments_by_name(run.arguments)}


def _of_run(each: Compared) -> dict[str, str | float | None]:
    run = each.run
    return {
        "state": run.state,
        "exit code": run.exit_code,
        "duration": round(run.duration, 3) if run.duration else None,
        "user": run.user_id,
        "note": each.facts.annotations.note or None,
        "tags": ", ".join(f"{n}={v}" if v else n for n, v in sorted(each.facts.annotations.tags.items())) or None,
    }


def _of_configuration(each: Compared) -> dict[str, str | float | None]:
    run, record = each.run, each.record
    found: dict[str, str | float | None] = {"runconfig": run.run_configuration, "target": run.target}
    if record is None:
        return found
    configuration, target = record.spec.run_configuration._asdict(), record.spec.target._asdict()
    for field, key in _CONFIGURATION.items():
        found[key] = _shown(configuration.get(field))
    for field, key in _TARGET.items():
        found[f"target {key}"] = _shown(target.get(field))
    for name, value in sorted(record.spec.run_configuration.environment_variables.items()):
        found[f"EnvironmentVariables {name}"] = _shown(value)
    return {name: value for name, value in found.items() if value is not None}


def _of_code(
    state_directory: str, runs: Sequence[Compared], notes: list[str]
) -> list[Mapping[str, str | float | None]]:
    """The files that are not the same in all snapshots, and how many are."""
    from tui_workbench.runs.snapshotview import snapshot_files

    trees: dict[str, dict[str, str]] = {}
    for each in runs:
        commit = each.run.commit_id
        if not commit:
            notes.append(f"{each.run.run_id}: there is no snapshot in git, so its code is not compared")
        elif commit not in trees:
            try:
                trees[commit] = {file.path: file.name for file in snapshot_files(state_directory, commit)}
            except StorageError as error:
                notes.append(f"{each.run.run_id}: {error}")
    known = list(trees.values())
    paths = sorted({path for tree in known for path in tree})
    changed = [path for path in paths if any(tree.get(path) != known[0].get(path) for tree in known)]
    columns: list[Mapping[str, str | float | None]] = []
    for each in runs:
        tree = trees.get(each.run.commit_id)
        column: dict[str, str | float | None] = {"commit": each.run.commit_id[:12] or None}
        if tree is not None:
            column.update((path, tree[path][:12] if path in tree else None) for path in changed)
            column["files that are the same"] = len(paths) - len(changed)
        columns.append(column)
    return columns


def _of_git(provenance: Mapping[str, Any]) -> dict[str, str | float | None]:
    git = _mapping(provenance.get("git"))
    found = {name: _shown(git.get(name)) for name in ("commit", "branch", "remote")}
    if git.get("commit"):
        found["changed files"] = len(git.get("changed") or ()) if isinstance(git.get("changed"), list) else None
    return {name: value for name, value in found.items() if value is not None}


def _of_verdict(facts: Facts) -> dict[str, str | float | None]:
    """Whether it used a GPU, and how much."""
    names = {VERDICT: "verdict", "GPU seconds": "gpu_seconds", "energy Wh": "energy_wh"}
    return {name: _shown(facts.gpu[key]) for name, key in names.items() if facts.gpu.get(key) is not None}


def _of_gpu(provenance: Mapping[str, Any]) -> dict[str, str | float | None]:
    gpus = provenance.get("gpus")
    found: dict[str, str | float | None] = {}
    for number, gpu in enumerate(gpus if isinstance(gpus, list) else ()):
        for name in ("name", "driver", "memory"):
            if _mapping(gpu).get(name) is not None:
                found[f"GPU {number} {name}"] = _shown(_mapping(gpu)[name])
    return found


def _part(name: str) -> Callable[[Mapping[str, Any]], Mapping[str, str | float | None]]:
    def chosen(provenance: Mapping[str, Any]) -> dict[str, str | float | None]:
        return {str(key): _shown(value) for key, value in _mapping(provenance.get(name)).items()}

    return chosen


_FROM_PROVENANCE: dict[str, Callable[[Mapping[str, Any]], Mapping[str, str | float | None]]] = {
    "git": _of_git,
    "packages": _part("packages"),
    "python": _part("python"),
    "image": _part("image"),
    "gpu": _of_gpu,
    "host": _part("host"),
}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str | float | None:
    if value is None or value == "" or value == ():
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return value
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def read_compared(run: Run) -> Compared:
    """What the run's directory tells for a comparison; what cannot be read is None."""
    import json

    from tui_workbench.errors import RunNotFound
    from tui_workbench.runs.history import facts_of
    from tui_workbench.runs.provenance import FILE
    from tui_workbench.runs.regular import open_regular
    from tui_workbench.runs.rundir import RunDirectory

    try:
        record: Record | None = RunDirectory(run.directory).read_record()
    except RunNotFound:
        record = None
    provenance = None
    try:
        with open_regular(os.path.join(run.directory, FILE)) as file:
            stored = json.load(file)
        provenance = stored if isinstance(stored, dict) else None
    except (OSError, ValueError, RecursionError):
        pass
    return Compared(run, facts_of(run.directory), record, provenance)
