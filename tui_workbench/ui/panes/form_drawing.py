"""How the rows of a form look: name, value, and at the right what is to be known about it.

The invariant: whatever stands in the file passes `safe_text` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.panes.form_rows import COLLECTIONS
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.config.findings import Finding
    from tui_workbench.config.suggestions import Suggestion
    from tui_workbench.ui.panes.form_rows import FormRow
    from tui_workbench.ui.themes import Palette
    from tui_workbench.ui.widgets.line_buffer import LineBuffer

INDENT = 2
SHORTEST_REMARK = 16
"""Cells that a remark must have to be worth its first words; else only its mark is shown."""


class Look(NamedTuple):
    """Where and how a line is drawn."""

    palette: Palette
    ground: str
    label_width: int
    width: int


def label_width(rows: Sequence[FormRow], width: int) -> int:
    """Cells of the first column: as wide as the longest name, as long as that leaves room for values."""
    longest = max((cell_len(safe_text(row.label)) + INDENT * row.depth for row in rows), default=0)
    return min(longest + 2, max(width * 2 // 5, 12))


def draw_row(row: FormRow, look: Look, finding: Finding | None) -> Strip:
    """A row that is not being edited."""
    palette, ground = look.palette, look.ground
    segments = [_label(row, look)]
    room = look.width - look.label_width - 2
    if row.kind == "add":
        text = truncate_middle(f"+ {row.noun}", room)
        return _finish([*segments, Segment(text, style(palette.muted, ground))], look)
    remark, role = _remark(row, finding)
    value = safe_text(row.value)
    value_room = room
    if remark:
        left = room - cell_len(value) - 2
        remark = _cut(remark, left) if left >= min(SHORTEST_REMARK, cell_len(remark)) else remark[:1]
        value_room = room - cell_len(remark) - 2
    value = truncate_middle(value, max(value_room, 1))
    segments.append(Segment(value, style(getattr(palette, _role_of_value(row)), ground)))
    if remark:
        gap = 2 if role != "muted" else room - cell_len(value) - cell_len(remark)
        segments += [
            Segment(" " * gap, style(palette.text, ground)),
            Segment(remark, style(getattr(palette, role), ground)),
        ]
    return _finish(segments, look)


def draw_edited(row: FormRow, look: Look, buffer: LineBuffer) -> Strip:
    """The row whose value is being typed."""
    palette = look.palette
    room = look.width - look.label_width - 1
    window = buffer.window(room)
    text = style(palette.text, palette.selection if buffer.is_fresh else palette.raised)
    segments = [
        _label(row, look),
        Segment(window.before, text),
        Segment(window.under, style(palette.background, palette.accent)),
        Segment(window.after, text),
    ]
    used = cell_len(window.before + window.under + window.after)
    segments.append(Segment(" " * max(room - used, 0), style(palette.text, palette.raised)))
    return _finish(segments, look)


def draw_suggestion(option: Suggestion, look: Look, *, chosen: bool, is_set: bool) -> Strip:
    """A value that could be taken, under the row that is being edited; `is_set` marks the one that holds now."""
    palette = look.palette
    ground = palette.selected if chosen else palette.raised
    room = look.width - look.label_width - 1
    value = truncate_middle(option.value, max(room - 4, 1))
    remark = f"  {safe_text(option.help)}" if option.help else ""
    remark = _cut(remark, max(room - 4 - cell_len(value), 0))
    text = style(palette.text, ground, bold=chosen)
    segments = [
        Segment(" " * (look.label_width + 1), style(palette.text, palette.background)),
        Segment("● " if is_set else "  ", style(palette.success, ground)),
        Segment(value, text),
        Segment(remark, style(palette.muted, ground)),
    ]
    segments.append(Segment(" " * max(room - 2 - cell_len(value + remark), 0), text))
    return _finish(segments, look._replace(ground=palette.background))


def draw_complaint(text: str, look: Look) -> Strip:
    """Why what was typed is not taken."""
    head = Segment(" " * (look.label_width + 1), style(look.palette.text, look.ground))
    shown = _cut(f"✗ {safe_text(text)}", look.width - look.label_width - 2)
    return _finish([head, Segment(shown, style(look.palette.error, look.ground))], look)


def _label(row: FormRow, look: Look) -> Segment:
    text = truncate_middle(row.label, max(look.label_width - 2 - INDENT * row.depth, 1))
    text = " " * (1 + INDENT * row.depth) + text
    role = "muted" if not row.is_set or row.depth else "function"
    return Segment(set_cell_size(text, look.label_width + 1), style(getattr(look.palette, role), look.ground))


def _role_of_value(row: FormRow) -> str:
    if not row.is_set:
        return "muted"
    if not row.is_editable:
        return "comment"
    if row.value.startswith("● on"):
        return "success"
    return "text"


def _remark(row: FormRow, finding: Finding | None) -> tuple[str, str]:
    """What stands behind the value, and its colour."""
    if finding is not None:
        role = finding.severity if finding.severity in ("error", "warning") else "muted"
        return f"▲ {safe_text(finding.message)}", role
    if not row.is_set and (row.value or row.field.type in COLLECTIONS):
        return ("default" if row.value else "not set"), "muted"
    return ("" if row.is_set else "not set"), "muted"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def _finish(segments: list[Segment], look: Look) -> Strip:
    return Strip(segments).adjust_cell_length(look.width, style(look.palette.text, look.ground))
