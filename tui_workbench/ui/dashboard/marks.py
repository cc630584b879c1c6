"""The marked rows of the dashboard: runs and families."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tui_workbench.core.model import Run
from tui_workbench.runs.families import Family
from tui_workbench.runs.index.table import RunRow
from tui_workbench.ui.charts.chart_drawing import look_of
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.dashboard.dashboard_columns import Heading, heading_key

MOST_BANDS = 4  # maximum number of families with curves if none is marked
PARTLY = ("◌", "muted")  # the glyph and color of a family of which only some runs are marked


class Marks:
    """The marked runs and families, by row key. A row keeps the index of its glyph and color until it is unmarked."""

    def __init__(self) -> None:
        self._marked: dict[str, tuple[Run | Family, int]] = {}

    def __len__(self) -> int:
        return len(self._marked)

    def toggle(self, value: Run | Family) -> None:
        """Mark or unmark a run or a family.

        If a run of a marked family is unmarked, the other runs of the family stay marked.
        """
        name = value.family if isinstance(value, Run) else None
        family = next((family for family, _ in self.families if family.name == name), None)
        if family is not None:
            del self._marked[key_of(family)]
            for run in family.runs:
                if key_of(run) != key_of(value):
                    self._add(run)
        elif self._marked.pop(key_of(value), None) is None:
            for run in value.runs if isinstance(value, Family) else ():
                self._marked.pop(run.run_id, None)  # the family marks its runs
            self._add(value)

    def _add(self, value: Run | Family) -> None:
        taken = {index for _, index in self._marked.values()}
        self._marked[key_of(value)] = (value, next(n for n in range(len(taken) + 1) if n not in taken))

    def clear(self) -> None:
        self._marked.clear()

    def update(self, values: Mapping[str, Run | Family | None]) -> bool:
        """Set values of marked rows, by row key, and unmark rows whose value is None. Return True if a mark changed."""
        before = dict(self._marked)
        for key, (_, index) in before.items():
            value = values.get(key)
            if value is not None:
                self._marked[key] = value, index
            elif key in values:
                del self._marked[key]
        return self._marked != before

    @property
    def runs(self) -> tuple[tuple[Run, int], ...]:
        """The marked runs without those of marked families, each with the index of its glyph and color (`look_of`)."""
        return tuple((value, index) for value, index in self._marked.values() if isinstance(value, Run))

    @property
    def families(self) -> tuple[tuple[Family, int], ...]:
        """The marked families, each with the index of its glyph and color."""
        return tuple((value, index) for value, index in self._marked.values() if isinstance(value, Family))

    @property
    def values(self) -> list[Run | Family]:
        """The marked runs and families in the order of their glyphs."""
        return [value for value, _ in sorted(self._marked.values(), key=lambda marked: marked[1])]

    @property
    def all_runs(self) -> list[Run]:
        """The marked runs, and the runs of the marked families."""
        runs = [run for run, _ in self.runs] + [run for family, _ in self.families for run in family.runs]
        return list({run.run_id: run for run in runs}.values())

    @property
    def looks(self) -> dict[str, tuple[str, str]]:
        """The glyph and the color of each marked row, by row key. The runs of a marked family look like the family."""
        looks = {heading_key(run.family): PARTLY for run, _ in self.runs if run.family}
        for key, (value, index) in self._marked.items():
            color, glyph = look_of(index)
            runs = value.runs if isinstance(value, Family) else []
            looks |= dict.fromkeys((key, *(run.run_id for run in runs)), (glyph, color))
        return looks


def key_of(value: Run | Family) -> str:
    """Return the row key of a run or family."""
    return value.run_id if isinstance(value, Run) else heading_key(value.name)


def families_near(selected: Heading, values: Iterable[object]) -> tuple[tuple[Family, int], ...]:
    """Return at most MOST_BANDS families: that of the selected heading, then those of other headings."""
    others = [value.family for value in values if isinstance(value, Heading) and value != selected]
    families = [family for family in (selected.family, *others) if family is not None]
    return tuple((family, index) for index, family in enumerate(families[:MOST_BANDS]))


def to_compare(marks: Marks, selected: object, below: Sequence[object]) -> list[Run | Family]:
    """Return the marked runs and families if there are several, or if neither a run nor a family is selected.

    Otherwise, return the selected row with the marked row or, without a mark, with the run below or the next family, if
    any. `below` holds the values of the rows below the selected row.
    """
    marked, current = marks.values, markable(selected)
    if len(marked) >= 2 or current is None:
        return marked
    following = below[:1] if isinstance(current, Run) else [value for value in below if isinstance(value, Heading)]
    same = [value for value in map(markable, following) if value and type(value) is type(current)]
    return [current, *(value for value in marked or same[:1] if key_of(value) != key_of(current))]


def markable(row: object) -> Run | Family | None:
    """Return the run or the family of a row; None for another row."""
    if isinstance(row, RunRow):
        return row.run
    return row.family if isinstance(row, Heading) else None


def why_not_compare(values: Sequence[Run | Family]) -> str:
    """Return the reason why these runs and families cannot be compared, or ""."""
    families = sum(isinstance(value, Family) for value in values)
    mark = shown_key("dashboard.mark", "space")
    if len(values) < 2:
        return f"Mark at least two runs, or two families, with {mark}."
    if families not in (0, len(values)):
        return f"A family cannot be compared with a run. Unmark one of them with {mark}."
    if families > 2:
        return f"{families} families are marked, but only two can be compared. Unmark all except two with {mark}."
    return ""
