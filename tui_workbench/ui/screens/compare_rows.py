"""Several runs compared, as rows of a table: what differs first, by section, then what is the same, folded.

The invariant: a value that a run does not have looks like nothing that a run can have, and what could not be
compared is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.verdicts import verdict_look
from tui_workbench.ui.widgets.chart_drawing import look_of
from tui_workbench.ui.widgets.chart_scale import number, span_label
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.run_table import TableColumn, TableRow
from tui_workbench.ui.words import RUN_STATES, run_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.runs.comparing import ComparedRow, Comparison
    from tui_workbench.runs.metrics import Series
    from tui_workbench.ui.widgets.text_view import Line

SAME = "same"
"""Key of the heading over what is the same."""

WHAT_CELLS = 26
VALUE_CELLS = 20
LONGEST = 300

SECTION_NAMES = {
    "run": "run", "metrics": "metrics", "arguments": "arguments", "configuration": "configuration", "code": "code",
    "git": "your git", "packages": "packages", "python": "interpreter", "image": "image", "gpu": "GPU",
    "host": "machine",
}  # fmt: skip


class Found(NamedTuple):
    """What was read for the screen: the comparison, and the names of the metrics that have curves, best first."""

    comparison: Comparison
    metrics: tuple[str, ...]


def read_comparison(project: Project, runs: Sequence[Run]) -> Found:
    """Compare the runs. Blocks; raises WorkbenchError."""
    from tui_workbench.runs import Runs
    from tui_workbench.runs.metrics import RunMetrics

    comparison = Runs(project).compare([run.run_id for run in runs])
    counts: dict[str, int] = {}
    for run in runs:
        metrics = RunMetrics(run.directory)
        metrics.refresh()
        for name, summary in metrics.summary().items():
            if summary.kind == "scalar" and summary.count > 1:
                counts[name] = counts.get(name, 0) + 1
    differing = {row.name for row in comparison.rows if row.section == "metrics" and row.differs}
    order = sorted(counts, key=lambda name: (name not in differing, -counts[name]))
    return Found(comparison, tuple(order))


def read_curves(runs: Sequence[Run], metric: str) -> list[Series]:
    """The curve of a metric in each run. Blocks."""
    from tui_workbench.runs.metrics import RunMetrics

    curves = []
    for run in runs:
        metrics = RunMetrics(run.directory)
        metrics.refresh()
        curves.append(metrics.series(metric))
    return curves


def columns_of(runs: Sequence[Run], base: int) -> list[TableColumn]:
    """A column for what is compared, and one for each run, with the mark that its curve has."""
    columns = [TableColumn("what", "", WHAT_CELLS)]
    for place, run in enumerate(runs):
        mark = look_of(place)[1]
        title = f"{mark} {safe_text(run_title(run)[:60])}{' (base)' if place == base else ''}"
        columns.append(TableColumn(run.run_id, title, VALUE_CELLS, least=14, stretches=True))
    return columns


def rows_of(found: Comparison, base: int, *, same_too: bool, words: str = "") -> list[TableRow]:
    """The rows that hold all of the words; each key is that of `key_of`."""
    rows: list[TableRow] = []
    section = ""
    for row in found.differences:
        if not _holds(row, words):
            continue
        if row.section != section:
            section = row.section
            rows.append(_heading(section, SECTION_NAMES.get(section, section), ""))
        rows.append(_row(row, base))
    if not found.differences:
        rows.append(_heading("none", "nothing differs", "in what is known of these runs"))
    same = [row for row in found.rows if not row.differs and _holds(row, words)]
    if same:
        rows.append(_heading(SAME, f"{'▾' if same_too else '▸'} {len(same):,} the same", ""))
    if same_too:
        rows += [_row(row, base) for row in same]
    rows += [
        TableRow(f"note {place}", ((Piece(f"▲ {safe_text(note)}", "warning"),),), is_heading=True)
        for place, note in enumerate(found.notes)
    ]
    return rows


def _holds(row: ComparedRow, words: str) -> bool:
    """Whether all of the words stand in the row: in its section, its name or a value."""
    if not words:
        return True
    section = SECTION_NAMES.get(row.section, row.section)
    text = " ".join([section, row.name, *(str(value) for value in row.values)]).casefold()
    return all(word in text for word in words.casefold().split())


def key_of(row: ComparedRow) -> str:
    """What names a row among the rows."""
    return f"{row.section}\n{row.name}"


def _heading(key: str, title: str, words: str) -> TableRow:
    pieces = (Piece(title, "accent", bold=True), Piece(f"  {words}" if words else "", "muted"))
    return TableRow(key, (pieces,), is_heading=True)


def _row(row: ComparedRow, base: int) -> TableRow:
    cells = [(Piece(f"  {safe_text(row.name[:LONGEST])}", "muted"),)]
    for place, value in enumerate(row.values):
        like_base = place != base and value == row.values[base]
        role = "muted" if not row.differs else "comment" if like_base else "text"
        cells.append((_value(row, value, role),))
    return TableRow(key_of(row), tuple(cells))


def _value(row: ComparedRow, value: str | float | None, role: str) -> Piece:
    if value is None:
        return Piece("—", "faint")
    if row.section == "run" and row.name == "state" and value in RUN_STATES:
        look = RUN_STATES[str(value)]
        return Piece(f"{look.glyph} {look.word}", look.role)
    if row.section == "gpu" and row.name == "verdict":
        word = str(value)
        return Piece(f"{verdict_look(word).glyph} {safe_text(word[:LONGEST])}", verdict_look(word).role)
    if row.section == "run" and row.name == "duration" and not isinstance(value, str):
        return Piece(span_label(value), role)
    shown = safe_text(value[:LONGEST]) if isinstance(value, str) else number(value)
    return Piece(shown, role)


# --- One difference, line by line


def read_difference(project: Project, found: Comparison, row: ComparedRow, base: int, other: int) -> list[Line]:
    """The difference of a row between two runs as lines; of a file its diff. Blocks; raises StorageError."""
    if row.section == "code" and row.name not in ("commit", "files that are the same"):
        return _diff(project, found.runs[base], found.runs[other], (row.name,))
    if row.section == "code":
        return _diff(project, found.runs[base], found.runs[other], ())
    if row.section == "git":
        return _git_lines(found.runs[base], found.runs[other])
    lines: list[Line] = []
    for place, (run, value) in enumerate(zip(found.runs, row.values, strict=True)):
        role, mark = look_of(place)
        lines.append((Piece(f"{mark} ", role), Piece(safe_text(run_title(run)), bold=True)))
        whole = "it has none" if value is None else str(value)
        lines += [
            (Piece(f"    {safe_text(part)}", "muted" if value is None else "text"),) for part in whole.split("\n")
        ]
    return lines


def _diff(project: Project, base: Run, other: Run, paths: Sequence[str]) -> list[Line]:
    from tui_workbench.runs.snapshotview import snapshot_diff

    if not base.commit_id or not other.commit_id:
        return [(Piece("One of the runs has no snapshot in git: its code cannot be compared.", "warning"),)]
    text = snapshot_diff(project.state_directory, base.commit_id, other.commit_id, paths)
    return diff_lines(text) or [(Piece("The code of these two is the same: ← and → choose another run.", "muted"),)]


def _git_lines(base: Run, other: Run) -> list[Line]:
    """What was not committed in the user's git, in both runs."""
    from tui_workbench.runs.provenance import DIFF

    lines: list[Line] = []
    for run in (base, other):
        lines.append((Piece(f"Not committed when {safe_text(run_title(run))} was run", "accent", bold=True),))
        try:
            with open(f"{run.directory}/{DIFF}", "rb") as file:
                lines += diff_lines(file.read(1 << 20).decode("utf-8", "replace"))
        except OSError:
            lines.append((Piece("Nothing, or it was not recorded.", "muted"),))
        lines.append(())
    return lines


_ROLES: Mapping[str, str] = {"+": "success", "-": "error", "@": "accent", "d": "text", "i": "muted"}


def diff_lines(text: str) -> list[Line]:
    """A unified diff in colours; each line keeps its sign."""
    lines: list[Line] = []
    for line in text.splitlines():
        head = line.startswith(("+++", "---", "diff ", "index "))
        role = "muted" if head else _ROLES.get(line[:1], "muted")
        lines.append((Piece(safe_text(line[:2000]), role, bold=line.startswith("diff ")),))
    return lines
