"""What the dashboard knows of the project besides its rows: metrics, states, chosen columns, and whether there is news.

Everything here blocks and is called in threads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.screens.dashboard_columns import load_chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.project import Project
    from tui_workbench.runs.table import RunQuery
    from tui_workbench.ui.remembered import Values

GROUPS = ("", "script", "target", "state", "sweep")
"""The columns that runs can be grouped by, after none."""


class Overview(NamedTuple):
    """The metrics of the runs with how many have each, how many runs are in each state, and the columns chosen.

    `has_gpus` says whether there is a verdict on the use of a GPU for any of them; it is asked for where nobody has
    chosen columns.
    """

    metrics: tuple[tuple[str, int], ...] = ()
    states: Mapping[str, int] = {}
    chosen: tuple[str, ...] = ()  # empty when nobody has chosen any
    has_gpus: bool = False


class Look(NamedTuple):
    """When the files last changed that tell of runs; `active` is whether any of those looked at goes on."""

    files: tuple[tuple[int, int], ...]
    active: bool


def overview(project: Project, query: RunQuery) -> Overview:
    """What there is now. Raises WorkbenchError."""
    from tui_workbench.runs.index import RunIndex
    from tui_workbench.runs.table import RunQuery

    with RunIndex(project) as index:
        metrics = tuple(index.metric_names())
        states = {group.value: group.total for group in index.groups(query._replace(group="state"))}
        chosen = tuple(load_chosen(project) or ())
        has_gpus = not chosen and bool(index.column(RunQuery(filter="has:gpu"), "gpu", 1))
    return Overview(metrics, states, chosen, has_gpus)


def look(project: Project, active: tuple[str, ...]) -> Look:
    """The times of change now: of the folder of runs, of what people said, and of what the active runs write."""
    from tui_workbench.runs.indexfile import JOURNAL

    paths = [project.runs_directory, os.path.join(project.state_directory, JOURNAL)]
    for directory in active:
        paths += [f"{directory}/events.jsonl", f"{directory}/metrics.jsonl", f"{directory}/output.log"]
    return Look(tuple(map(_of_file, paths)), bool(active))


def query_of(remembered: Values) -> RunQuery | None:
    """Which runs were shown when the program was left; None when nothing is remembered of that."""
    from tui_workbench.runs.table import RunQuery

    if not remembered.text("sort"):
        return None
    group = remembered.text("group")
    return RunQuery(
        remembered.text("filter"),
        remembered.text("sort"),
        remembered.flag("descending"),
        group if group in GROUPS else "",
        remembered.flag("archived"),
    )


def _of_file(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
