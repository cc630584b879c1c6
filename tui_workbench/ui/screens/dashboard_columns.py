"""The columns of the dashboard's table: which there are, which a person has chosen, and what a run shows in each.

The invariant: names and values of metrics, arguments, tags and notes come from scripts and people; they become pieces
only by way of `safe_text`, cut to what a cell can hold before anything else is done with them.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from typing import TYPE_CHECKING

from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.verdicts import verdict_label, verdict_look
from tui_workbench.ui.widgets.chart_scale import number
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.run_table import TableColumn, TableRow
from tui_workbench.ui.words import duration, elapsed, moment, run_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui_workbench.project import Project
    from tui_workbench.runs.history import Facts
    from tui_workbench.runs.table import RunRow

METRIC = "metric "
"""Before the name of a metric in the key of its column, so that no metric is taken for a column of ours."""

SPARK_CELLS = 6
VALUE_CELLS = 8

WITH_SPARKS = 100
"""Cells of the table from which on courses count more than further columns."""

LONGEST_CELL = 200
"""Characters of a text that a cell looks at: a script's arguments may be megabytes."""

CHOSEN_FILE = "dashboard.json"
"""In the state directory of the project: which columns were chosen."""

FIXED = (
    TableColumn("number", "#", 4, right=True),
    TableColumn("script", "script", 18, least=10),
    TableColumn("target", "target", 12, least=7),
    TableColumn("state", "state", 12),
    TableColumn("started", "started", 7, right=True),
    TableColumn("duration", "duration", 8, right=True),
)
OPTIONAL = (
    TableColumn("gpu", "GPU", 13, least=8, drops=True),
    TableColumn("gpu_seconds", "GPU time", 8, right=True),
    TableColumn("energy", "energy", 9, right=True),
    TableColumn("arguments", "arguments", 24, least=12, stretches=True),
    TableColumn("tags", "tags", 16, least=8),
    TableColumn("note", "note", 20, least=8, stretches=True),
    TableColumn("configuration", "configuration", 14, least=8),
    TableColumn("user", "user", 10, least=6),
    TableColumn("sweep", "sweep", 12, least=6),
)
PLAIN = {column.key: column for column in (*FIXED, *OPTIONAL)}
"""The columns that are no metrics, by key."""

USUAL_METRICS = 3


def metric_column(name: str, width: int) -> TableColumn:
    """The column of a metric in a table of a width: its last value, and where there is room its course."""
    whole = VALUE_CELLS + 1 + SPARK_CELLS
    least = whole if width >= WITH_SPARKS else VALUE_CELLS
    title = safe_text(name[:LONGEST_CELL])
    # The title stands over the value, not over its course.
    return TableColumn(METRIC + name, f"{title:>{VALUE_CELLS}}", whole, least=least, drops=True)


def usual(metrics: Sequence[str], *, has_gpus: bool = False) -> list[str]:
    """The keys of the columns of somebody who has chosen none: what matters first, first."""
    first = ["number", "script", "state", "started", "duration", *(("gpu",) if has_gpus else ())]
    return [*first, *(METRIC + name for name in metrics[:USUAL_METRICS]), "target", "arguments", "tags"]


def column_of(key: str, *, width: int = 0, runs: int = 0) -> TableColumn | None:
    """The column with this key in a table of a width and so many runs; None for one that this version has not."""
    if key.startswith(METRIC):
        return metric_column(key.removeprefix(METRIC), width)
    column = PLAIN.get(key)
    if column is not None and key == "number":
        return column._replace(width=max(column.width, len(str(runs))))
    return column


def sort_name(key: str) -> str:
    """What the index calls a column, "" for one that cannot be sorted by."""
    if key == "number":
        return "created"  # runs are numbered as they are made
    return key.removeprefix(METRIC) if key != "arguments" else ""


def load_chosen(project: Project) -> list[str] | None:
    """The keys of the columns that were chosen in this project; None when none were, or nobody can read which."""
    try:
        with open(os.path.join(project.state_directory, CHOSEN_FILE), encoding="utf-8") as file:
            found = json.load(file)["columns"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(key, str) for key in found):
        return None
    return [key for key in dict.fromkeys(found) if column_of(key) is not None] or None


def save_chosen(project: Project, keys: Sequence[str]) -> None:
    """Keep the choice for this project. Raises StorageError."""
    from tui_workbench.files import write_atomically

    data = json.dumps({"columns": list(keys)}, indent=1).encode() + b"\n"
    write_atomically(os.path.join(project.state_directory, CHOSEN_FILE), data)


class RowMaker:
    """Makes rows of the table; `sparks` are the courses of metrics that are known, by run id and metric."""

    def __init__(self, keys: Sequence[str], sparks: Mapping[tuple[str, str], str], now: float) -> None:
        self._keys = keys
        self._sparks = sparks
        self._now = now

    def row(self, row: RunRow) -> TableRow:
        """The row of a run."""
        return TableRow(row.run.run_id, tuple(self._cell(key, row) for key in self._keys))

    def _cell(self, key: str, row: RunRow) -> tuple[Piece, ...]:
        if key.startswith(METRIC):
            return self._metric(key.removeprefix(METRIC), row)
        return _CELLS[key](row, self._now)

    def _metric(self, name: str, row: RunRow) -> tuple[Piece, ...]:
        value = row.facts.metrics.get(name)
        if value is None:
            return ()
        spark = self._sparks.get((row.run.run_id, name), "")
        if isinstance(value, str):
            return (Piece(safe_text(value[:LONGEST_CELL]), "muted"),)
        shown = number(value)
        role = "text" if math.isfinite(value) else "warning"
        return (Piece(f"{shown:>{VALUE_CELLS}}", role), *((Piece(f" {spark}", "muted"),) if spark else ()))


def heading(value: str, total: int, active: int, group: str, *, folded: bool) -> TableRow:
    """The line over the runs of a group."""
    words = f"{total:,} run{'s' if total != 1 else ''}" + (f", {active:,} active" if active else "")
    pieces = (
        Piece("▸ " if folded else "▾ ", "muted"),
        Piece(safe_text(value[:LONGEST_CELL]) or f"no {group}", "text", bold=True),
        Piece(f"   {words}", "muted"),
    )
    return TableRow(f"group {value}", (pieces,), is_heading=True)


def _number(row: RunRow, now: float) -> tuple[Piece, ...]:
    return (Piece(str(row.run.run_number) if row.run.run_number else "?", "muted"),)


def _script(row: RunRow, now: float) -> tuple[Piece, ...]:
    said = row.facts.annotations
    name = safe_text((row.run.script_name or row.run.run_id)[:LONGEST_CELL])
    pin = (Piece(" ★", "warning"),) if said.pinned else ()
    archived = (Piece(" ⊟", "warning"),) if said.archived else ()
    return (Piece(name, "muted" if said.archived else "text"), *pin, *archived)


def _state(row: RunRow, now: float) -> tuple[Piece, ...]:
    look = run_state(row.run)
    return (Piece(f"{look.glyph} {look.word}", look.role),)


def _arguments(row: RunRow, now: float) -> tuple[Piece, ...]:
    if not row.run.script_name and row.run.reason:
        return (Piece(safe_text(row.run.reason[:LONGEST_CELL]), "warning"),)
    text = ""
    for argument in row.run.arguments:
        text += f"{shlex.quote(argument[:LONGEST_CELL])} "
        if len(text) > LONGEST_CELL:
            break
    return (Piece(safe_text(text[:LONGEST_CELL].rstrip()), "muted"),)


def _tags(row: RunRow, now: float) -> tuple[Piece, ...]:
    return (Piece(safe_text(tags_text(row.facts)[:LONGEST_CELL]), "string"),)


def _note(row: RunRow, now: float) -> tuple[Piece, ...]:
    if row.facts.annotations.problem:
        return (Piece(safe_text(row.facts.annotations.problem[:LONGEST_CELL]), "warning"),)
    return (Piece(safe_text(row.facts.annotations.note[:LONGEST_CELL]), "muted"),)


def _gpu(row: RunRow, now: float) -> tuple[Piece, ...]:
    word = str(row.facts.gpu.get("verdict", ""))
    if not word:
        return ()
    # Where there is no room the word behind the sign goes.
    look, label = verdict_look(word), verdict_label(word)
    sign, gpu, rest = label.partition("GPU")
    return (Piece(sign + gpu, look.role), *((Piece(rest, look.role),) if rest else ()))


def _gpu_seconds(row: RunRow, now: float) -> tuple[Piece, ...]:
    seconds = row.facts.gpu.get("gpu_seconds")
    return (Piece(duration(seconds), "muted"),) if isinstance(seconds, int | float) and seconds else ()


def _energy(row: RunRow, now: float) -> tuple[Piece, ...]:
    hours = row.facts.gpu.get("energy_wh")
    if not isinstance(hours, int | float) or not hours:
        return ()
    return (Piece(f"{hours:.3g} Wh" if hours < 1000 else f"{hours / 1000:.3g} kWh", "muted"),)


def tags_text(facts: Facts) -> str:
    """The tags as a person types them: `best, lr=0.1`."""
    return ", ".join(f"{name}={value}" if value else name for name, value in facts.annotations.tags.items())


_CELLS: dict[str, Callable[[RunRow, float], tuple[Piece, ...]]] = {
    "number": _number,
    "script": _script,
    "target": lambda row, now: (Piece(safe_text(row.run.target[:LONGEST_CELL]), "muted"),),
    "state": _state,
    "started": lambda row, now: (Piece(moment(row.run.start or row.run.created, now), "muted"),),
    "duration": lambda row, now: (Piece(elapsed(row.run, now), "text" if row.run.is_active else "muted"),),
    "arguments": _arguments,
    "tags": _tags,
    "note": _note,
    "configuration": lambda row, now: (Piece(safe_text(row.run.run_configuration[:LONGEST_CELL]), "muted"),),
    "user": lambda row, now: (Piece(safe_text(row.run.user_id[:LONGEST_CELL]), "muted"),),
    "gpu": _gpu,
    "gpu_seconds": _gpu_seconds,
    "energy": _energy,
    "sweep": lambda row, now: (Piece(safe_text(getattr(row.run, "group", "")[:LONGEST_CELL]), "muted"),),
}
