"""Drawing of form rows: label, value and remark, and the help below them.

The invariant: all text of the file passes through `safe_text`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.config.checks.findings import Finding
from tui_workbench.config.checks.suggestions import Suggestion
from tui_workbench.config.schema import field_types
from tui_workbench.ui.form.form_rows import COLLECTIONS, FormRow
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import Palette, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.pieces import draw_typed

INDENT = 2
HELP_LINES = 2
SHORTEST_REMARK = 16  # minimum cells for the text of a remark; with less room, only its mark is shown


class Look(NamedTuple):
    """The style and size of a line."""

    palette: Palette
    ground: str
    label_width: int
    width: int


def label_width(rows: Sequence[FormRow], width: int) -> int:
    """Return the width of the label column: the longest label, limited to leave room for values."""
    longest = max((cell_len(safe_text(row.label)) + INDENT * row.depth for row in rows), default=0)
    return min(longest + 2, max(width * 2 // 5, 12))


def draw_row(row: FormRow, look: Look, finding: Finding | None) -> Strip:
    """Draw a row that is not being edited."""
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
    """Draw the row that is being edited."""
    typed = draw_typed(buffer, look.width - look.label_width - 1, look.palette)
    return _finish([_label(row, look), *typed], look)


def draw_suggestion(option: Suggestion, look: Look, *, chosen: bool, is_set: bool) -> Strip:
    """Draw an option of the row that is being edited; `is_set` marks the current value."""
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


def draw_blank(text: str, line: int, look: Look) -> Strip:
    """Draw a line of an empty form, which shows `text` from its second line on."""
    palette = look.palette
    lines = textwrap.wrap(safe_text(text), max(look.width - 2, 20))
    shown = [Segment(f" {lines[line - 1]}", style(palette.muted, look.ground))] if 1 <= line <= len(lines) else []
    return Strip(shown).adjust_cell_length(look.width, style(palette.text, look.ground))


def error_lines(text: str, width: int, label_width: int) -> list[str]:
    """Wrap an error for the column of values."""
    room = max(width - label_width - 2, SHORTEST_REMARK)
    text = f"✗ {safe_text(text)}" if text else ""
    return textwrap.wrap(text, room, subsequent_indent="  ", break_on_hyphens=False)


def draw_error(line: str, look: Look) -> Strip:
    """Draw one of the `error_lines`."""
    head = Segment(" " * (look.label_width + 1), style(look.palette.text, look.ground))
    return _finish([head, Segment(line, style(look.palette.error, look.ground))], look)


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
    """Return the remark after the value, and the color of the remark."""
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


class FormHelp(Widget):
    """The help for the current row."""

    DEFAULT_CSS = """
    FormHelp { height: 2; padding: 0 1; background: $panel; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._row: FormRow | None = None

    def show(self, row: FormRow | None) -> None:
        if row != self._row:
            self._row = row
            self.refresh()

    def render(self) -> Content:
        if self._row is None:
            return Content("")
        sentence, values = help_of(self._row)
        both = f"{sentence} {values}"
        return Content(both if len(textwrap.wrap(both, max(self.content_size.width, 1))) <= HELP_LINES else sentence)


def help_of(row: FormRow) -> tuple[str, str]:
    """Return a sentence about the row, and the choices, default or example of its field; "" without these."""
    field = row.field
    if row.kind == "add":
        article = "an" if row.noun[:1] in "aeiou" else "a"
        return f"Adds {article} {row.noun}. {field.help}", ""
    if field.type == field_types.CHOICE:
        return field.help, f"One of: {', '.join(field.offered)}."
    if field.type == field_types.BOOLEAN and field.default is not None:
        return field.help, f"Default: {'on' if field.default else 'off'}."
    if field.default not in (None, (), {}):
        return field.help, f"Default: {' '.join(field.default) if isinstance(field.default, tuple) else field.default}"
    return field.help, f"Example: {field.example}" if field.example else ""
