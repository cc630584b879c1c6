"""Read a project for the dashboard: pages of the table, sparklines, metrics, states, and modification times.

All functions block; call them in threads. Only the runs of the requested page are decoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.families import Family, family_of
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import ARGUMENT, COLUMNS, LONGEST_FILTER, RunQuery, RunRow
from tui_workbench.runs.metrics.metric_words import goal_of
from tui_workbench.runs.store.annotations import JOURNAL
from tui_workbench.ui.charts.chart_data import read_metrics
from tui_workbench.ui.charts.chart_scale import sparkline
from tui_workbench.ui.dashboard.dashboard_columns import Heading, heading_key, load_columns
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.watcher import FileSignature, file_signature

GROUPS = ("", "script", "target", "state", "sweep", "family")
"""Columns by which runs can be grouped, and "" for no groups."""


class Overview(NamedTuple):
    """A summary of the runs of a project. States and arguments are those of the runs that match the query."""

    metrics: tuple[tuple[str, int], ...] = ()  # names, each with the number of its runs
    states: Mapping[str, int] = {}  # the number of runs in each state
    arguments: tuple[tuple[str, int, bool], ...] = ()  # names, numbers of runs, and True if the values differ
    chosen: tuple[str, ...] = ()  # keys of the columns that the user has chosen
    seeds: tuple[str, ...] = ()  # names of arguments that differ within a family; read only for groups by family
    has_gpus: bool = False  # True if a run has a GPU verdict; read only if no columns were chosen


class FileTimes(NamedTuple):
    """Modification times and sizes of files that change with runs. `active` is True if a run is active."""

    files: tuple[FileSignature, ...]
    active: bool


def read_overview(project: Project, query: RunQuery) -> Overview:
    """Read the metrics, states, arguments and chosen columns. Raises WorkbenchError."""
    with RunIndex(project) as index:
        metrics = tuple(index.metric_names())
        states = {group.value: group.total for group in index.groups(query._replace(group="state"))}
        arguments = tuple(index.arguments(query))
        chosen = tuple(load_columns(project) or ())
        seeds = tuple(index.seed_arguments()) if query.group == "family" else ()
        has_gpus = not chosen and bool(index.column(RunQuery(filter="has:gpu"), "gpu", 1))
    return Overview(metrics, states, arguments, chosen, seeds, has_gpus)


def read_file_times(project: Project, active: tuple[str, ...]) -> FileTimes:
    """Read the times and sizes of the runs folder, the annotations, and files in directories of active runs."""
    paths = [project.runs_directory, os.path.join(project.state_directory, JOURNAL)]
    for directory in active:
        paths += [f"{directory}/events.jsonl", f"{directory}/metrics.jsonl", f"{directory}/output.log"]
    return FileTimes(tuple(map(file_signature, paths)), bool(active))


def saved_query(saved: Values) -> RunQuery | None:
    """Return the query of the previous session, or None if none was saved."""
    if not saved.text("sort"):
        return None
    group = saved.text("group")
    return RunQuery(
        saved.text("filter")[:LONGEST_FILTER],
        saved.text("sort"),
        saved.flag("descending"),
        group if group in GROUPS else "",
        saved.flag("archived"),
    )


class Page(NamedTuple):
    """The lines of the table from `first` on.

    `runs` is the number of runs that match the query, `total` the number of lines of the whole table, headings
    included.
    """

    runs: int
    total: int
    first: int
    lines: list[RunRow | Heading]
    best: tuple[str, float | None] = ("", None)  # a metric and its best value among the runs of the query
    marked: Mapping[str, Run | Family | None] = {}  # marked rows by row key; None for a removed row
    unknown: Sequence[str] = ()  # names in the filter that nothing has; read only if no run matches


def best_of(index: RunIndex, query: RunQuery, metrics: Sequence[str]) -> tuple[str, float | None]:
    """Return the metric by which runs are sorted, or else the first of these metrics, and its best value.

    If the name of a sorted metric does not show which values are better, the best value is the first in the order.
    Without a metric, or if it is unknown which values of the first metric are better, return ("", None).
    """
    is_metric = query.sort not in COLUMNS and not query.sort.startswith(ARGUMENT)
    name = query.sort if is_metric else next(iter(metrics), "")
    goal = goal_of(name) or (("max" if query.descending else "min") if is_metric else "")
    return (name, index.best(query, name, goal)) if goal else ("", None)


def read_page(
    project: Project, query: RunQuery, folded: frozenset[str], first: int, number: int, metrics: Sequence[str] = (),
    run_ids: Sequence[str] = (), families: Sequence[str] = (),
) -> Page:  # fmt: skip
    """Read the lines `first` to `first + number - 1`, and the marked runs and families.

    `metrics` are the metrics with a column. Raises WorkbenchError.
    """
    with RunIndex(project) as index:
        best = best_of(index, query, metrics)
        read_families = _families(index, families)
        marked: dict[str, Run | Family | None] = {heading_key(name): read_families.get(name) for name in families}
        marked |= {run_id: index.find(run_id) for run_id in run_ids}
        if not query.group:
            page = index.page(query, first, number)
            unknown = index.unknown_names(query.filter) if not page.total else []
            return Page(page.total, page.total, first, list(page.rows), best, marked, unknown)
        lines: list[RunRow | Heading] = []
        by_family = query.group == "family"
        line = offset = 0  # lines of the table, headings included, and runs before the group
        for group in list(index.groups(query)):
            # The runs of a family are hidden at first.
            is_folded = (group.value in folded) != (by_family and group.value != "")
            shown = 0 if is_folded else group.total
            if first <= line < first + number:
                lines.append(Heading(group, is_folded))
            skipped = max(0, first - line - 1)
            count = min(shown - skipped, first + number - line - 1 - skipped)
            if count > 0:
                lines += index.page(query, offset + skipped, count).rows
            line += 1 + shown
            offset += group.total
        unknown = index.unknown_names(query.filter) if not offset else []
        return Page(offset, line, first, _with_families(index, lines) if by_family else lines, best, marked, unknown)


def _families(index: RunIndex, names: Sequence[str]) -> dict[str, Family]:
    """Return the families with these names. Names of other groups are ignored."""
    return {name: family_of(name, rows) for name, rows in index.families(names).items()} if names else {}


def _with_families(index: RunIndex, lines: list[RunRow | Heading]) -> list[RunRow | Heading]:
    """Return the lines with the family of each heading."""
    names = [line.group.value for line in lines if isinstance(line, Heading)]
    families = _families(index, names)
    return [
        line._replace(family=families.get(line.group.value)) if isinstance(line, Heading) else line for line in lines
    ]


class Sparklines:
    """The sparklines of metrics. Those of ended runs are read once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.texts: dict[tuple[str, str], str] = {}

    def missing(self, rows: Iterable[RunRow], metrics: Sequence[str]) -> list[tuple[RunRow, list[str]]]:
        """Return the rows and metrics whose sparklines are not known or may have changed."""
        missing = []
        for row in rows:
            names = [name for name in metrics if name in row.facts.metrics]
            unread = [name for name in names if row.run.is_active or (row.run.run_id, name) not in self.texts]
            if unread:
                missing.append((row, unread))
        return missing

    def read(self, missing: Iterable[tuple[RunRow, list[str]]]) -> dict[tuple[str, str], str]:
        """Read the missing sparklines, keyed by run ID and metric; "" for fewer than two values. Blocks."""
        sparks = {}
        for row, names in missing:
            metrics = read_metrics(row.run)
            for name in names:
                values = metrics.series(name).values
                sparks[row.run.run_id, name] = sparkline(values, self.width) if len(values) > 1 else ""
        return sparks
