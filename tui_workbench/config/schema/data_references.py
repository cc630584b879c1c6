"""Check and resolve `DataReferences` of a run configuration: a map from the path that a script opens to the data.

An absolute path of data is a path on the target. A relative path is a path on this machine, relative to the project.
The value can also be a list of paths: scripts then open the data by these paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tui_workbench.config.schema.field_types import REFERENCES, Field
from tui_workbench.core.files import leads_through_folders

KEY = "DataReferences"
NO_DATA: Mapping[str, str] = MappingProxyType({})

DATA_FIELD = Field(
    KEY,
    "Data that runs read in place, without copies: paths that scripts open, or a map from such paths to the data.",
    REFERENCES,
    default={},
    completion="file",
    example="{../data: /srv/datasets/imagenet}",
    source="workbench",
)

IGNORE_FILE = ".amlignore"
"""Name of the file with patterns of files to exclude from runs."""

RESERVED = frozenset(("outputs", ".workbench", ".git", "aml_config"))
"""Folders of a project in which `DataReferences` must not declare paths."""

RESERVED_BESIDE = frozenset((
    "accepted", "annotations.json", "annotations.lock", "attempt", "attempted", "attempts", "batch", "begin", "begun",
    "boot", "cache", "cancel", "canceled", "controller.lock", "copy", "dependents", "driver", "driver.err",
    "driver.lock", "driver.log", "driver.new", "driver.start", "earlier", "engine-log", "environment.json",
    "events.jsonl", "exit", "followed", "git.diff", "gpu", "gpu.json", "gpu.jsonl", "gpus", "imported.json", "job",
    "job.json", "jupyter", "launch", "live", "made", "metrics.cache", "metrics.json", "metrics.jsonl",
    "metrics.jsonl.gz", "notifications", "output.log", "outputs", "packages", "packages.json", "passwd", "pid",
    "placed", "placed.copy", "placed.json", "placed.tree", "preparation.log", "progress.json", "project",
    "provenance.json", "queue.json", "ranks", "removed", "run", "run.json", "said", "sampler", "sdk", "sdk.zip",
    "share", "shell", "slurm.json", "slurm.log", "spark", "stacks", "start.log", "started", "step", "submit.lock",
    "task", "tools", "trace.jsonl", "unchanged", "unfinished", "waiting", "wheels", "work",
))  # fmt: skip
"""Names of the workbench's own files beside the working copy. A reference `../NAME` must not use such a name.

The files are in run directories and containers. Temporary files have a suffix, as in `job.4711` and `driver.new`.
"""


REMEDY = (
    "A script can open data by its absolute path, by `../NAME`, or by a path in the project outside `outputs`, "
    "`aml_config`, `.git` and `.workbench`. For other paths, pass the absolute path of the data as an argument."
)


class DataProblem(NamedTuple):
    """The reason why a reference is impossible, as a clause, and the remedy, as a sentence."""

    message: str
    remedy: str = REMEDY


def data_problems(
    root: str, references: Mapping[str, str], *, tracked: bool = True, other_machine: str = ""
) -> dict[str, DataProblem]:
    """Return the problem of each impossible reference, by the path that scripts open.

    The data need not exist. The parents of links are looked up in the project at `root`. `other_machine` is the name of
    the target if runs execute on another machine.
    """
    problems = _invalid(root, references)
    for opened, path in references.items():
        if opened in problems:
            continue
        if tracked and not leads_through_folders(root, inside_project(root, opened)):
            problems[opened] = DataProblem(
                f"{KEY}: a run cannot have a link at {opened!r}, because a parent of this path is a link or a file",
                "Declare the parent as data, or change the path that the script opens.",
            )
        elif not tracked and _absolute(root, path) != _absolute(root, opened):
            problems[opened] = DataProblem(
                f"{KEY}: an untracked run uses the project itself, so {opened!r} cannot lead to {path!r}",
                f"Set `TrackedRun: true`, or remove {opened!r}.",
            )
        elif other_machine and not os.path.isabs(path):
            problems[opened] = DataProblem(
                f"{KEY}: {path!r} is a path on this machine, but {other_machine} is another machine",
                f"Copy the data to {other_machine}, and write `{opened}: PATH`, where PATH is its absolute path there.",
            )
    return problems


def _invalid(root: str, references: Mapping[str, str]) -> dict[str, DataProblem]:
    problems: dict[str, DataProblem] = {}
    declared: dict[str, str] = {}  # valid places in the project
    for opened, path in references.items():
        problem, remedy = _problem(root, opened, path), REMEDY
        relative = "" if problem else inside_project(root, opened)
        for other in declared if relative else ():
            if f"{relative}/".startswith(f"{other}/") or f"{other}/".startswith(f"{relative}/"):
                problem, remedy = f"{declared[other]!r} and {opened!r} overlap", f"Remove {opened!r} or the other path."
        if problem:
            problems[opened] = DataProblem(f"{KEY}: {problem}", remedy)
        elif relative:
            declared[relative] = opened
    return problems


def _absolute(root: str, path: str) -> str:
    return os.path.normpath(os.path.join(root, path))


def _problem(root: str, opened: str, path: str) -> str:
    for text in (opened, path):
        if not text:
            return f"{opened!r} has no path" if opened else "an item is empty"
        if "\0" in text:
            return "an item contains a NUL character"
        if text.startswith("~"):
            return f"{text!r} begins with `~`, which is not expanded"
        if text.startswith("/") and os.path.normpath(text).strip("/") == "":
            return f"{text!r} is the whole file system, not data"
    relative = inside_project(root, opened)
    if relative == os.curdir:
        return f"{opened!r} is the project folder"
    if relative:
        first = relative.split(os.sep)[0]
        return f"{opened!r} refers to the reserved folder {first}/" if first in RESERVED else ""
    if os.path.isabs(opened):
        is_same = os.path.normpath(opened) == os.path.normpath(path)
        return "" if is_same else f"{opened!r} is absolute, so it cannot lead to another path"
    up, _, name = os.path.normpath(opened).partition(os.sep)
    if up != os.pardir or not name or os.sep in name:
        return f"{opened!r} is outside the project, and only `../NAME` is possible there"
    before_dot = name.partition(".")[0]
    if not before_dot or name in RESERVED_BESIDE or before_dot in RESERVED_BESIDE or ".json." in name:
        return f"{opened!r} has a name that the workbench uses for its own files"
    return ""


def inside_project(root: str, opened: str) -> str:
    """Return a path relative to `root`, or "" if the path is outside. Symbolic links are not resolved."""
    relative = os.path.relpath(opened, root) if os.path.isabs(opened) else os.path.normpath(opened)
    return "" if relative == os.pardir or relative.startswith(os.pardir + os.sep) else relative


def data_paths(root: str, references: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute path of the data of each valid reference, by the path that scripts open."""
    wrong = _invalid(root, references)
    return {opened: _absolute(root, path) for opened, path in references.items() if opened not in wrong}


def data_in_project(root: str, references: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute path of the data for each link in the working copy, by the relative path of the link."""
    links = ((inside_project(root, opened), path) for opened, path in data_paths(root, references).items())
    return {relative: path for relative, path in links if relative}


def declared_in_project(root: str, declared: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the absolute path of the data for each path in the project that any of several configurations declares.

    References that are impossible or overlap are included, so that no file that a user declared as data is touched.
    """
    paths: dict[str, str] = {}
    for references in declared:
        for opened, path in references.items():
            if (relative := inside_project(root, opened)) not in ("", os.curdir):
                paths.setdefault(relative, _absolute(root, path))
    return paths


def data_beside(root: str, references: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute path of the data for each link `../NAME`, by NAME."""
    return {
        os.path.basename(os.path.normpath(opened)): path
        for opened, path in data_paths(root, references).items()
        if not os.path.isabs(opened) and not inside_project(root, opened)
    }


def data_elsewhere(root: str, references: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute paths outside the project that scripts open directly, without duplicates."""
    data = data_paths(root, references).items()
    return tuple(
        dict.fromkeys(path for opened, path in data if os.path.isabs(opened) and not inside_project(root, opened))
    )


def with_data(current: list[str] | dict[str, str] | str | None, added: Mapping[str, str]) -> list[str] | dict[str, str]:
    """Return `current`, the value in a file, with more references.

    The result is a list if `current` is not a map and each added path leads to itself; otherwise, it is a map. A string
    counts as a list of one path.
    """
    current = [current] if isinstance(current, str) else current
    if not isinstance(current, dict) and all(opened == path for opened, path in added.items()):
        return list(dict.fromkeys((*(current or ()), *added)))
    return {**(current if isinstance(current, dict) else {path: path for path in current or ()}), **added}
