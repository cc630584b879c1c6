"""Read a project for the dashboard: rows of the table, values for charts, metrics, states, and news.

Everything here blocks and is called in threads. The invariant: a part of the table costs the same wherever it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.projects.project import Project
from tui_workbench.runs.store.annotations import JOURNAL
from tui_workbench.runs.store.index import RunIndex
from tui_workbench.runs.store.table import RunQuery, RunRow
from tui_workbench.ui.charts.chart_data import read_metrics
from tui_workbench.ui.charts.chart_scale import sparkline
from tui_workbench.ui.dashboard.dashboard_columns import Heading, load_chosen
from tui_workbench.ui.session_state import Values

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
    with RunIndex(project) as index:
        metrics = tuple(index.metric_names())
        states = {group.value: group.total for group in index.groups(query._replace(group="state"))}
        chosen = tuple(load_chosen(project) or ())
        has_gpus = not chosen and bool(index.column(RunQuery(filter="has:gpu"), "gpu", 1))
    return Overview(metrics, states, chosen, has_gpus)


def look(project: Project, active: tuple[str, ...]) -> Look:
    """The times of change now: of the folder of runs, of what people said, and of what the active runs write."""
    paths = [project.runs_directory, os.path.join(project.state_directory, JOURNAL)]
    for directory in active:
        paths += [f"{directory}/events.jsonl", f"{directory}/metrics.jsonl", f"{directory}/output.log"]
    return Look(tuple(map(_of_file, paths)), bool(active))


def query_of(saved: Values) -> RunQuery | None:
    """Which runs were shown when the program was left; None when nothing is remembered of that."""
    if not saved.text("sort"):
        return None
    group = saved.text("group")
    return RunQuery(
        saved.text("filter"),
        saved.text("sort"),
        saved.flag("descending"),
        group if group in GROUPS else "",
        saved.flag("archived"),
    )


def _of_file(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


class Part(NamedTuple):
    """Part of the table: the lines from `first` on. `runs` counts the runs, `total` the lines, headings among them."""

    runs: int
    total: int
    first: int
    lines: list[RunRow | Heading]


def part(project: Project, query: RunQuery, folded: frozenset[str], first: int, number: int) -> Part:
    """The lines `first` to `first + number - 1`. Raises WorkbenchError."""
    with RunIndex(project) as index:
        if not query.group:
            page = index.page(query, first, number)
            return Part(page.total, page.total, first, list(page.rows))
        lines: list[RunRow | Heading] = []
        line = offset = 0
        for group in list(index.groups(query)):
            is_folded = group.value in folded
            shown = 0 if is_folded else group.total
            if first <= line < first + number:
                lines.append(Heading(group, is_folded))
            skipped = max(0, first - line - 1)
            wanted = min(shown - skipped, first + number - line - 1 - skipped)
            if wanted > 0:
                lines += index.page(query, offset + skipped, wanted).rows
            line += 1 + shown
            offset += group.total
        return Part(offset, line, first, lines)


class Sparks:
    """The courses of metrics as sparks. Those of runs that have ended are read once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.known: dict[tuple[str, str], str] = {}

    def missing(self, rows: Iterable[RunRow], metrics: Sequence[str]) -> list[tuple[RunRow, list[str]]]:
        """The rows of which some of the metrics are not known yet, or may be others by now."""
        found = []
        for row in rows:
            names = [name for name in metrics if name in row.facts.metrics]
            wanted = [name for name in names if row.run.is_active or (row.run.run_id, name) not in self.known]
            if wanted:
                found.append((row, wanted))
        return found

    def read(self, missing: Iterable[tuple[RunRow, list[str]]]) -> dict[tuple[str, str], str]:
        """Read the courses. Blocks."""
        found = {}
        for row, names in missing:
            metrics = read_metrics(row.run)
            for name in names:
                values = metrics.series(name).values
                # One value has no course.
                found[row.run.run_id, name] = sparkline(values, self.width) if len(values) > 1 else ""
        return found
