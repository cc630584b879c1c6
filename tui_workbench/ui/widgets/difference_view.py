"""Two versions of a text side by side in one column: what the disk has, what the editor has.

The invariant: comparing never takes longer than a moment, whatever the texts are; what is too long to compare line by
line is shown as one block replaced by another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import DIFFERENCE
from tui_workbench.ui.safetext import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

CONTEXT_LINES = 3

MOST_COMPARED_LINES = 3_000
"""Differing lines up to which the comparison, which is quadratic at worst, stays under a second."""


class DifferenceLine(NamedTuple):
    """One line of a difference: `kind` is `+` added, `-` removed, ` ` the same, or `@` for a gap."""

    kind: str
    text: str
    number: int = 0  # in the new text, in the old one for removed lines; from 1


def compare(old: str, new: str) -> list[DifferenceLine]:
    """What was removed from `old` and added to make `new`, with some lines around each change."""
    from difflib import SequenceMatcher

    before, after = old.split("\n"), new.split("\n")
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    middle_before, middle_after = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(middle_before), len(middle_after)) > MOST_COMPARED_LINES:
        opcodes = [("replace", 0, len(middle_before), 0, len(middle_after))]
    else:
        opcodes = list(SequenceMatcher(None, middle_before, middle_after, autojunk=False).get_opcodes())
    changes = [
        (first + head, last + head, new_first + head, new_last + head)
        for kind, first, last, new_first, new_last in opcodes
        if kind != "equal"
    ]
    return _with_context(before, after, changes)


def _with_context(
    before: Sequence[str], after: Sequence[str], changes: list[tuple[int, int, int, int]]
) -> list[DifferenceLine]:
    lines: list[DifferenceLine] = []
    shown = 0  # lines of `after` that stand in the result or were left out
    starts = [change[2] for change in changes] + [len(after)]
    for (first, last, new_first, new_last), start_of_next in zip(changes, starts[1:], strict=True):
        start = max(shown, new_first - CONTEXT_LINES)
        if start > shown:
            lines.append(DifferenceLine("@", "", start + 1))
        lines += [DifferenceLine(" ", after[row], row + 1) for row in range(start, new_first)]
        lines += [DifferenceLine("-", before[row], row + 1) for row in range(first, last)]
        lines += [DifferenceLine("+", after[row], row + 1) for row in range(new_first, new_last)]
        shown = min(new_last + CONTEXT_LINES, start_of_next)
        lines += [DifferenceLine(" ", after[row], row + 1) for row in range(new_last, shown)]
    return lines


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


class DifferenceView(ScrollView, can_focus=True, inherit_bindings=False):
    """A difference to scroll through; escape posts `Closed`."""

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

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "difference--added",
        "difference--removed",
        "difference--same",
        "difference--gap",
    }

    BINDINGS: ClassVar[list[BindingType]] = bindings(DIFFERENCE)

    class Closed(Message):
        """The difference was looked at long enough."""

    _KINDS: ClassVar[dict[str, str]] = {"+": "added", "-": "removed", " ": "same", "@": "gap"}

    def __init__(self, lines: list[DifferenceLine], *, removed: str, added: str) -> None:
        """`removed` and `added` say what the lines marked `-` and `+` are."""
        super().__init__()
        legend = [DifferenceLine("-", removed), DifferenceLine("+", added), DifferenceLine("@", "")]
        self.lines = legend + [line._replace(text=safe_text(line.text)) for line in lines]

    def on_mount(self) -> None:
        """Size the scrolled area."""
        width = max((Segment(line.text).cell_length for line in self.lines), default=0) + 9
        self.virtual_size = Size(width, len(self.lines))

    def render_line(self, y: int) -> Strip:
        """One line of the difference."""
        left, top = self.scroll_offset
        if top + y >= len(self.lines):
            return Strip.blank(self.size.width, self.rich_style)
        kind, text, number = self.lines[top + y]
        style = self.get_component_rich_style(f"difference--{self._KINDS[kind]}")
        shown = f"{number or '':>5} {kind} {text}" if kind != "@" else f"{'':>5} ⋯" if number else ""
        strip = Strip([Segment(shown, style)])
        return strip.extend_cell_length(left + self.size.width, style).crop(left, left + self.size.width)

    def action_close(self) -> None:
        """Post `Closed`."""
        self.post_message(self.Closed())
