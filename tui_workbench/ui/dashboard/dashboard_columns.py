"""The columns of the table of runs: their definitions, their cells, and the screen to choose them.

Names and values of metrics, arguments, tags and notes are not trusted: they are cut and pass through `safe_text`.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import load_json, write_below
from tui_workbench.core.model import RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.estimates import estimate_text
from tui_workbench.runs.families import Family
from tui_workbench.runs.index.table import ARGUMENT, Group, RunRow
from tui_workbench.runs.store.arguments import arguments_by_name, column_name
from tui_workbench.ui.charts.chart_scale import short_number
from tui_workbench.ui.commands.screen_commands import COLUMN_CHOICE
from tui_workbench.ui.formatting import duration, elapsed, moment, run_state, verdict_label, verdict_look
from tui_workbench.ui.runs.run_table import TableColumn, TableRow
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.units import watt_hours
from tui_workbench.ui.widgets.dialog import DialogScreen, box_of
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.search_list import SearchList

METRIC = "metric "  # prefix of the column key of a metric, so that metrics cannot collide with other columns
SPARK_CELLS = 6
ARGUMENT_CELLS = 7
VALUE_CELLS, WIDEST_VALUE = 9, 14  # cells of a value, and their maximum below a long title
WITH_SPARKS = 100  # minimum width of a table that prefers sparklines to more columns
LONGEST_CELL = 200  # maximum number of characters of a cell; the arguments of a script can be megabytes long
COLUMNS_FILE = "dashboard.json"  # holds the chosen columns, in the state directory of the project
USUAL_METRICS = USUAL_ARGUMENTS = 3


def value_cells(metric: str) -> int:
    """Return the width of a metric's values, in cells. The values are aligned with the title of the column."""
    return max(VALUE_CELLS, min(len(metric), WIDEST_VALUE))


def default_columns(
    metrics: Sequence[str], arguments: Sequence[str] = (), *, seeds: Sequence[str] = (), has_gpus: bool = False
) -> list[str]:
    """Return the keys of the default columns.

    `arguments` are those that differ between the runs. `seeds` are those whose cells are empty in rows of families;
    they follow the metrics and the names of the families.
    """
    keys = [ARGUMENT + name for name in arguments if name not in seeds][:USUAL_ARGUMENTS]
    first = ["number", "script", "state", *keys]
    gpu = ("gpu",) if has_gpus else ()
    values = (METRIC + name for name in metrics[:USUAL_METRICS])
    last = [*(["family"] if seeds else []), *(ARGUMENT + name for name in arguments if name in seeds)]
    return [*first, *gpu, *values, *last, "started", "duration", "target", "arguments", "tags"]


def column_of(key: str, *, width: int = 0, runs: int = 0) -> TableColumn | None:
    """Return the column with this key, for a table of this width and number of runs; None for an unknown key."""
    if key.startswith(METRIC):
        name = key.removeprefix(METRIC)
        cells = value_cells(name)
        whole = cells + 1 + SPARK_CELLS
        # The title is aligned with the value, not with the sparkline, which only a wide table shows.
        title = truncate_middle(name, cells) if len(name) > cells else name
        least = whole if width >= WITH_SPARKS else cells
        return TableColumn(key, f"{title:>{cells}}", whole, least=least, drops=True)
    if key.startswith(ARGUMENT):
        title = safe_text(column_name(key.removeprefix(ARGUMENT))[:LONGEST_CELL])
        return TableColumn(key, title, max(ARGUMENT_CELLS, min(len(title), WIDEST_VALUE)), least=ARGUMENT_CELLS)
    column = PLAIN.get(key)
    if column is not None and key == "number":
        return column._replace(width=max(column.width, len(str(runs))))
    return column


def sort_name(key: str) -> str:
    """Return the name of a column in the index, or "" if runs cannot be sorted by it."""
    if key == "number":
        return "created"  # runs are numbered in the order of their creation
    return key.removeprefix(METRIC) if key != "arguments" else ""


def load_columns(project: Project) -> list[str] | None:
    """Return the keys of the columns chosen in this project; None without a readable choice."""
    try:
        keys = load_json(os.path.join(project.state_directory, COLUMNS_FILE))["columns"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return None
    return [key for key in dict.fromkeys(keys) if column_of(key) is not None] or None


def save_columns(project: Project, keys: Sequence[str]) -> None:
    """Save the chosen columns of this project. Raises StorageError."""
    data = json.dumps({"columns": list(keys)}, indent=1).encode() + b"\n"
    with storage_errors("write", os.path.join(project.state_directory, COLUMNS_FILE)):
        write_below(project.state_directory, COLUMNS_FILE, data)


class Heading(NamedTuple):
    """The heading of a group of runs."""

    group: Group
    folded: bool
    family: Family | None = None


def heading_key(group: str) -> str:
    """Return the row key of the heading of a group."""
    return f"group {group}"


class RowMaker:
    """A factory of table rows. `sparks` holds sparklines, keyed by run ID and metric."""

    def __init__(
        self,
        keys: Sequence[str],
        sparks: Mapping[tuple[str, str], str],
        group: str = "",
        best: tuple[str, float | None] = ("", None),
    ) -> None:
        """`best` is a metric and its best value, which is marked."""
        self._keys = keys
        self._sparks = sparks
        self._group = group
        self._best = best
        self._now = time.time()

    def row(self, line: RunRow | Heading) -> TableRow:
        if isinstance(line, RunRow):
            return TableRow(line.run.run_id, tuple(self._cell(key, line) for key in self._keys), value=line)
        if line.family is not None:
            cells = tuple(self._family_cell(key, line.family, line.folded) for key in self._keys)
            return TableRow(heading_key(line.group.value), cells, value=line)
        value, total, active = line.group.value, line.group.total, line.group.active
        text = counted(total, "run") + (f", {active:,} active" if active else "")
        pieces = (
            Piece("▸ " if line.folded else "▾ ", "muted"),
            Piece(safe_text(value[:LONGEST_CELL]) or f"no {self._group}", "text", bold=True),
            Piece(f"   {text}", "muted"),
        )
        return TableRow(heading_key(value), (pieces,), is_heading=True, value=line)

    def _cell(self, key: str, row: RunRow) -> tuple[Piece, ...]:
        if key.startswith(METRIC):
            return self._metric(key.removeprefix(METRIC), row)
        if key.startswith(ARGUMENT):
            value = arguments_by_name(row.run.words).get(key.removeprefix(ARGUMENT), "")
            return (Piece(safe_text(value[:LONGEST_CELL])),)
        return _CELLS[key](row, self._now)

    def _family_cell(self, key: str, family: Family, folded: bool) -> tuple[Piece, ...]:
        runs, first = family.runs, family.rows[0]
        completed = sum(run.state == RunState.COMPLETED for run in runs)
        if key.startswith(ARGUMENT):
            return (Piece(safe_text(family.arguments.get(key.removeprefix(ARGUMENT), "")[:LONGEST_CELL])),)
        if key.startswith(METRIC):
            return self._mean(key.removeprefix(METRIC), family)
        if key == "number":
            return (Piece(f"×{len(runs)}", "accent"),)
        if key == "script":
            sign = "▸ " if folded else "▾ "
            return (Piece(sign + safe_text(first.run.script_name[:LONGEST_CELL]), bold=True),)
        if key == "state":
            return (Piece(f"{completed} completed", "muted" if completed == len(runs) else "warning"),)
        return _CELLS[key](first, self._now) if key in SHARED else ()

    def _mean(self, name: str, family: Family) -> tuple[Piece, ...]:
        """Return the mean ± the standard deviation, in the color of warnings if runs are left out."""
        estimate, left_out = family.sample(name)
        if estimate is None:
            return ()
        mean, sign, spread = estimate_text(estimate).partition(" ± ")
        role = "warning" if left_out else "text"
        return (Piece(f"{mean:>{value_cells(name)}}", role), *((Piece(f" ±{spread}", "muted"),) if sign else ()))

    def _metric(self, name: str, row: RunRow) -> tuple[Piece, ...]:
        value = row.facts.metrics.get(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (Piece(safe_text(value[:LONGEST_CELL]), "muted"),)
        spark = self._sparks.get((row.run.run_id, name), "")
        cells = value_cells(name)
        if (name, value) == self._best and row.run.state == RunState.COMPLETED:
            shown = Piece(f"{'*' + short_number(value, cells - 1):>{cells}}", "success", bold=True)
        else:
            role = "text" if math.isfinite(value) else "warning"
            shown = Piece(f"{short_number(value, cells):>{cells}}", role)
        return (shown, Piece(f" {spark}", "muted")) if spark else (shown,)


# --- Columns other than metrics

Cell = Callable[[RunRow, float], tuple[Piece, ...]]  # returns the pieces of a cell for a run and the current time


def _text(text: Callable[[RunRow], str], role: str = "muted") -> Cell:
    return lambda row, now: (Piece(safe_text(text(row)[:LONGEST_CELL]), role),)


def _script(row: RunRow, now: float) -> tuple[Piece, ...]:
    annotations = row.facts.annotations
    name = safe_text((row.run.script_name or row.run.run_id)[:LONGEST_CELL])
    pin = (Piece(" ★", "warning"),) if annotations.pinned else ()
    archived = (Piece(" ⊟", "warning"),) if annotations.archived else ()
    return (Piece(name, "muted" if annotations.archived else "text"), *pin, *archived)


def _state(row: RunRow, now: float) -> tuple[Piece, ...]:
    look = run_state(row.run)
    return (Piece(f"{look.glyph} {look.word}", look.role),)


def _arguments(row: RunRow, now: float) -> tuple[Piece, ...]:
    if not row.run.script_name and row.run.reason:
        return (Piece(safe_text(row.run.reason[:LONGEST_CELL]), "warning"),)
    text = ""
    for argument in row.run.words:
        text += f"{shlex.quote(argument[:LONGEST_CELL])} "
        if len(text) > LONGEST_CELL:
            break
    return (Piece(safe_text(text[:LONGEST_CELL].rstrip()), "muted"),)


def _note(row: RunRow, now: float) -> tuple[Piece, ...]:
    if row.facts.annotations.problem:
        return (Piece(safe_text(row.facts.annotations.problem[:LONGEST_CELL]), "warning"),)
    return (Piece(safe_text(row.facts.annotations.note[:LONGEST_CELL]), "muted"),)


def _gpu(row: RunRow, now: float) -> tuple[Piece, ...]:
    word = str(row.facts.gpu.get("verdict", ""))
    if not word:
        return ()
    # A narrow column drops the second piece.
    look, label = verdict_look(word), verdict_label(word)
    sign, gpu, rest = label.partition("GPU")
    return (Piece(sign + gpu, look.role), *((Piece(rest, look.role),) if rest else ()))


def _figure(name: str, write: Callable[[float], str]) -> Cell:
    """Return a function that makes the cell for a figure of the GPU verdict, formatted by `write`."""

    def cell(row: RunRow, now: float) -> tuple[Piece, ...]:
        value = row.facts.gpu.get(name)
        return (Piece(write(value), "muted"),) if isinstance(value, int | float) and value else ()

    return cell


COLUMNS: tuple[tuple[TableColumn, Cell], ...] = (
    (TableColumn("number", "#", 4, right=True), _text(lambda row: str(row.run.run_number or "?"))),
    (TableColumn("script", "script", 18, least=10), _script),
    (TableColumn("target", "target", 12, least=7), _text(lambda row: row.run.target)),
    (TableColumn("state", "state", 12), _state),
    (
        TableColumn("started", "started", 10, right=True),
        lambda row, now: (Piece(moment(row.run.start, now), "muted"),),
    ),
    (
        TableColumn("duration", "duration", 8, right=True),
        lambda row, now: (
            (Piece(elapsed(row.run, now), "text" if row.run.is_active else "muted"),) if row.run.start else ()
        ),
    ),
    (TableColumn("gpu", "GPU", 13, least=8, drops=True), _gpu),
    (TableColumn("gpu_seconds", "GPU time", 8, right=True), _figure("gpu_seconds", duration)),
    (TableColumn("energy", "energy", 9, right=True), _figure("energy_wh", watt_hours)),
    (TableColumn("arguments", "arguments", 24, least=12, stretches=True), _arguments),
    (TableColumn("tags", "tags", 16, least=8), _text(lambda row: row.facts.annotations.tags_text, "string")),
    (TableColumn("note", "note", 20, least=8, stretches=True), _note),
    (TableColumn("configuration", "configuration", 14, least=8), _text(lambda row: row.run.run_configuration)),
    (TableColumn("user", "user", 10, least=6), _text(lambda row: row.run.user_id)),
    (TableColumn("agent", "agent", 10, least=6), _text(lambda row: row.run.agent)),
    (TableColumn("sweep", "sweep", 12, least=6), _text(lambda row: row.run.group)),
    (TableColumn("family", "family", 12, least=11), _text(lambda row: row.run.family)),
)
"""The columns other than metrics, in the order of the column choice, and their cells."""

SHARED = ("target", "configuration", "user", "agent", "sweep", "family")
"""Columns with the same value in all runs of a family."""

PLAIN = {column.key: column for column, _ in COLUMNS}
_CELLS = {column.key: cell for column, cell in COLUMNS}


class ColumnsScreen(DialogScreen["list[str]"], inherit_bindings=False):
    """The screen to choose columns. Its result is the list of the keys of the chosen columns, in order."""

    BINDINGS = COLUMN_CHOICE.bindings
    DECLARED_COMMANDS = COLUMN_CHOICE
    DEFAULT_CSS = """
    ColumnsScreen { align: center top; }
    ColumnsScreen > Vertical { width: 72; margin-top: 2; }
    """

    def __init__(
        self, chosen: Sequence[str], metrics: Sequence[tuple[str, int]], arguments: Sequence[tuple[str, int, bool]] = ()
    ) -> None:
        """Each item of `metrics` and of `arguments` begins with a name and the number of its runs."""
        find = "type to find a metric, argument or column"
        self._list = SearchList(lambda _: self.action_tick(), find, empty="No matching column.")
        self._list.list.can_focus = False
        super().__init__(box_of("Columns", self._list))
        self._chosen = list(chosen)
        self._run_counts = {METRIC + name: runs for name, runs in metrics}
        self._run_counts |= {ARGUMENT + name: runs for name, runs, _ in arguments}

    def on_mount(self) -> None:
        self._show()
        self._list.take_focus()

    def _show(self, current: str | None = None) -> None:
        others = [key for key in (*PLAIN, *self._run_counts) if key not in self._chosen]
        self._list.show_choices({_name(key): self._row(key) for key in (*self._chosen, *others)}, current)

    def _row(self, key: str) -> Row:
        shown = key in self._chosen
        position = f"{self._chosen.index(key) + 1:>3}" if shown else "   "
        runs = (Piece(counted(self._run_counts[key], "run"), "muted"),) if key in self._run_counts else ()
        before = (Piece("☑" if shown else "☐", "accent" if shown else "muted"), Piece(f"{position}  ", "muted"))
        return Row(key, Piece(_name(key), "text" if shown else "muted"), before=before, right=runs)

    def action_tick(self) -> None:
        key = self._list.current
        if not key:
            return
        if key not in self._chosen:
            self._chosen.append(key)
        elif len(self._chosen) > 1:
            self._chosen.remove(key)
        self._show(key)

    def action_shift(self, by: int) -> None:
        key = self._list.current
        if key in self._chosen:
            index = self._chosen.index(key)
            self._chosen.insert(max(0, min(index + by, len(self._chosen) - 1)), self._chosen.pop(index))
            self._show(key)

    def action_done(self) -> None:
        self.dismiss(self._chosen)


def _name(key: str) -> str:
    if key.startswith(ARGUMENT):
        return safe_text(column_name(key.removeprefix(ARGUMENT))[:200])
    return safe_text(key.removeprefix(METRIC)[:200]) if key.startswith(METRIC) else PLAIN[key].title
