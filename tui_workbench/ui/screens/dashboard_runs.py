"""What the dashboard asks of the run index: rows of the table with the headings of groups, and the values for charts.

Everything here blocks and is called in threads; nothing of a screen is known. The invariant: a part of the table costs
the same wherever in it it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.widgets.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tui_workbench.project import Project
    from tui_workbench.runs.table import Group, RunQuery, RunRow


class Heading(NamedTuple):
    """The line over a group."""

    group: Group
    folded: bool


class Stretch(NamedTuple):
    """Runs of one group in the table: the line of their heading, the place of the first among all runs, how many."""

    line: int
    offset: int
    group: Group
    shown: int


class Part(NamedTuple):
    """Part of the table: the lines from `first` on. `runs` counts the runs, `total` the lines, headings among them."""

    query: RunQuery
    runs: int
    total: int
    first: int
    lines: list[RunRow | Heading]


def part(project: Project, query: RunQuery, folded: frozenset[str], first: int, number: int) -> Part:
    """The lines `first` to `first + number - 1`. Raises WorkbenchError."""
    from tui_workbench.runs.index import RunIndex

    with RunIndex(project) as index:
        if not query.group:
            page = index.page(query, first, number)
            return Part(query, page.total, page.total, first, list(page.rows))
        stretches = _stretches(index.groups(query), folded)
        lines: list[RunRow | Heading] = []
        for stretch in stretches:
            start, end = stretch.line, stretch.line + 1 + stretch.shown
            if end <= first or start >= first + number:
                continue
            if start >= first:
                lines.append(Heading(stretch.group, stretch.group.value in folded))
            skipped = max(0, first - start - 1)
            wanted = min(stretch.shown - skipped, first + number - start - 1 - skipped)
            if wanted > 0:
                lines += index.page(query, stretch.offset + skipped, wanted).rows
        runs = sum(stretch.group.total for stretch in stretches)
        total = stretches[-1].line + 1 + stretches[-1].shown if stretches else 0
        return Part(query, runs, total, first, lines)


def _stretches(groups: Iterable[Group], folded: frozenset[str]) -> list[Stretch]:
    found, line, offset = [], 0, 0
    for group in groups:
        shown = 0 if group.value in folded else group.total
        found.append(Stretch(line, offset, group, shown))
        line += 1 + shown
        offset += group.total
    return found


def metric_names(project: Project) -> list[tuple[str, int]]:
    """The metrics of the project's runs, and how many runs have each; the most common first."""
    from tui_workbench.runs.index import RunIndex

    with RunIndex(project) as index:
        return index.metric_names()


def by_run(project: Project, query: RunQuery, name: str, limit: int) -> list[tuple[str, int, float]]:
    """Id, number and value of a metric or column for the newest runs that the query finds, oldest first.

    Values that are texts are left out: a chart has no place for them.
    """
    from tui_workbench.runs.index import RunIndex

    with RunIndex(project) as index:
        found = index.column(query, name, limit)
    return [(run_id, number, float(value)) for run_id, number, value in found if isinstance(value, int | float)]


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
        from tui_workbench.runs.metrics import RunMetrics

        found = {}
        for row, names in missing:
            metrics = RunMetrics(row.run.directory)
            metrics.refresh()
            for name in names:
                values = metrics.series(name).values
                # One value has no course.
                found[row.run.run_id, name] = sparkline(values, self.width) if len(values) > 1 else ""
        return found
