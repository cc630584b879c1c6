"""The difference between the version on disk and the version in the editor, in one column.

The invariant: a comparison takes less than a second for texts of any length. A difference of too many lines is shown as
one block that replaces another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands.editor_commands import DIFFERENCE
from tui_workbench.ui.editor.languages import common_start
from tui_workbench.ui.terminal.safetext import safe_text

CONTEXT_LINES = 3
MOST_COMPARED_LINES = 3_000  # the time of the comparison can grow with the square of the number of lines
KINDS = {"+": "added", "-": "removed", " ": "same", "@": "gap"}


class DifferenceLine(NamedTuple):
    """A line of a difference. `kind` is a key of `KINDS`."""

    kind: str
    text: str
    number: int = 0  # line number from 1: in the old text for removed lines, else in the new text


def compare(old: str, new: str) -> list[DifferenceLine]:
    """Return the lines removed from `old` and added in `new`, with some lines of context."""
    from difflib import SequenceMatcher

    before, after = old.split("\n"), new.split("\n")
    head = common_start(before, after)
    tail = common_start(before[head:][::-1], after[head:][::-1])
    first, around = max(head - CONTEXT_LINES, 0), max(tail - CONTEXT_LINES, 0)
    before, after = before[first : len(before) - around], after[first : len(after) - around]
    groups: Iterable[list[tuple[str, int, int, int, int]]]
    if max(len(before), len(after)) > MOST_COMPARED_LINES:
        same, end, new_end = head - first, len(before) - tail + around, len(after) - tail + around
        behind = ("equal", end, len(before), new_end, len(after))
        groups = [[("equal", 0, same, 0, same), ("replace", same, end, same, new_end), behind]]
    else:
        groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    lines: list[DifferenceLine] = []
    for group in groups:
        if gap := first + group[0][3]:
            lines.append(DifferenceLine("@", "", gap + 1))
        for kind, start, stop, new_start, new_stop in group:
            if kind != "equal":
                lines += [DifferenceLine("-", before[row], first + row + 1) for row in range(start, stop)]
            mark = " " if kind == "equal" else "+"
            lines += [DifferenceLine(mark, after[row], first + row + 1) for row in range(new_start, new_stop)]
    return lines


class DifferenceView(ScrollView, can_focus=True, inherit_bindings=False):
    """A scrollable view of a difference."""

    DEFAULT_CSS = """
    DifferenceView {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        background: transparent;
        & .difference--added { color: $success; background: $success 10%; }
        & .difference--removed { color: $error; background: $error 10%; }
        & .difference--same { color: $foreground 70%; }
        & .difference--gap { color: $foreground 35%; }
    }
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"difference--{name}" for name in KINDS.values()}

    BINDINGS = DIFFERENCE.bindings

    class Closed(Message):
        """Posted when the user closes the difference."""

    def __init__(self, lines: list[DifferenceLine], *, removed: str, added: str) -> None:
        """`removed` and `added` explain the `-` and `+` lines in the legend."""
        super().__init__()
        legend = [DifferenceLine("-", removed), DifferenceLine("+", added), DifferenceLine("@", "")]
        self.lines = legend + [line._replace(text=safe_text(line.text)) for line in lines]

    def on_mount(self) -> None:
        width = max((Segment(line.text).cell_length for line in self.lines), default=0) + 9
        self.virtual_size = Size(width, len(self.lines))

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        if top + y >= len(self.lines):
            return Strip.blank(self.size.width, self.rich_style)
        kind, text, number = self.lines[top + y]
        style = self.get_component_rich_style(f"difference--{KINDS[kind]}")
        shown = f"{number or '':>5} {kind} {text}" if kind != "@" else f"{'':>5} ⋯" if number else ""
        strip = Strip([Segment(shown, style)])
        return strip.extend_cell_length(left + self.size.width, style).crop(left, left + self.size.width)

    def action_close(self) -> None:
        self.post_message(self.Closed())
