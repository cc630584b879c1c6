"""Find the damaged files of a run.

Readers of a run skip unreadable files, so that one file hides no other. This module checks the files as the
readers do, and says which file was skipped, and why. `run.json` is not checked, because without it there is no run;
`annotations` reports its own file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tui_workbench.core.errors import storage_error
from tui_workbench.core.files import load_json, open_regular
from tui_workbench.core.json_values import check_type, read_as
from tui_workbench.core.model import ClusterJob
from tui_workbench.core.trace import FILE as TRACE
from tui_workbench.runs.gpu.verdict import from_json
from tui_workbench.runs.metrics.stored import load_summary
from tui_workbench.runs.store.attempts import FILE as ATTEMPT_FILE
from tui_workbench.runs.store.attempts import FOLDER as ATTEMPTS
from tui_workbench.runs.store.attempts import AttemptRecord
from tui_workbench.runs.store.cluster_job import JOB
from tui_workbench.runs.store.events import EVENTS, read_events
from tui_workbench.runs.store.rundir import (
    DEPENDENTS,
    DIFF,
    ENVIRONMENT,
    GPU_SAMPLES,
    GPU_VERDICT,
    METRICS,
    METRICS_SUMMARY,
    NOTIFICATIONS,
    OUTPUT,
    PROVENANCE,
    QUEUE_ENTRY,
    STACKS,
)

MOST_FILES = 100
"""Maximum number of files that are checked in each folder."""

_Check = Callable[[str], object]


def _opens(path: str) -> None:
    open_regular(path).close()


def _is_object(path: str) -> None:
    check_type(Mapping[str, Any], load_json(path), "")


def _is_json(path: str) -> None:
    load_json(path)  # earlier versions wrote a list


def _attempt(path: str) -> None:
    read_as(AttemptRecord, load_json(path))


def _job(path: str) -> None:
    read_as(ClusterJob, load_json(path))


def _verdict(path: str) -> None:
    from_json(load_json(path))


def _summary(path: str) -> None:
    load_summary(os.path.dirname(path))


_FILES: dict[str, _Check] = {
    METRICS_SUMMARY: _summary, GPU_VERDICT: _verdict, JOB: _job, PROVENANCE: _is_object,
    OUTPUT: _opens, METRICS: _opens, GPU_SAMPLES: _opens, DIFF: _opens, TRACE: _opens,
    QUEUE_ENTRY: _is_json, ENVIRONMENT: _is_object, DEPENDENTS: _opens,
}  # fmt: skip


def damaged_files(directory: str, *, only_top: bool = False) -> dict[str, str]:
    """Return the names of the damaged files of the run at `directory`, each with the reason.

    With `only_top`, folders of the run are not searched.
    """
    reasons = {}
    if problem := read_events(directory).problem:
        reasons[EVENTS] = problem
    files = list(_FILES.items()) if only_top else [*_FILES.items(), *_inner_files(directory)]
    for name, check in files:
        path = f"{directory}/{name}"
        try:
            if os.path.lexists(path):
                check(path)
        except OSError as error:
            reasons[name] = storage_error("read", "", error).message
        except ValueError as error:
            reasons[name] = str(error)
    return reasons


def _inner_files(directory: str) -> Iterator[tuple[str, _Check]]:
    for folder, check in ((STACKS, _is_object), (NOTIFICATIONS, _is_object)):
        for name in _names(f"{directory}/{folder}"):
            if name.endswith(".json"):
                yield f"{folder}/{name}", check
    for number in _names(f"{directory}/{ATTEMPTS}"):
        yield f"{ATTEMPTS}/{number}/{ATTEMPT_FILE}", _attempt
        yield f"{ATTEMPTS}/{number}/{GPU_VERDICT}", _verdict


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:MOST_FILES]
    except OSError:
        return []


def damage_notes(damages: Mapping[str, str]) -> list[str]:
    """Return a sentence for each damaged file, without a final period."""
    return [f"cannot read {name}: {reason}" for name, reason in damages.items()]
