"""The inside of the change screen: lines for what is asked, the hunks with their boxes, the notes.

The invariant: one widget takes all keys, in the order they were pressed; it plans nothing and applies nothing.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import CHANGE_VIEW
from tui_workbench.ui.key_order import obey
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events

    from tui_workbench.errors import WorkbenchError
    from tui_workbench.ui.screens.change_plans import Asked, Plan


LABEL_WIDTH = 20

AROUND = 3
"""Lines of the box that are not the view's: its borders, and the keys."""


class _Line(NamedTuple):
    """One line: what it is about (`asked`, `hunk`, or nothing to stand on), and which."""

    kind: str
    number: int
    pieces: tuple[tuple[str, str], ...] = ()  # text and colour


class ChangeOwner(Protocol):
    """Who plans and applies. Called directly, so that keys that were typed ahead mean what they meant."""

    def values_changed(self) -> None:
        """Something else was said."""

    def apply(self) -> None:
        """The change should be made; the view is frozen until it is, or is not."""

    def leave(self) -> None:
        """Everything should stay as it is."""


class ChangeView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows a plan and what is asked about it."""

    DEFAULT_CSS = "ChangeView { overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS = bindings(CHANGE_VIEW)

    def __init__(self, asked: Sequence[Asked], owner: ChangeOwner) -> None:
        super().__init__()
        self.is_frozen = False
        self.plan: Plan | None = None
        self.left_out: set[str] = set()
        self._asked = list(asked)
        self._buffers = [LineBuffer(question.value) for question in asked]
        self._owner = owner
        self._error = ""
        self._cursor = 0
        self._lines: list[_Line] = []

    # --- What others ask of it

    @property
    def values(self) -> dict[str, str]:
        """What was said, by the key of what was asked."""
        return {question.key: buffer.text for question, buffer in zip(self._asked, self._buffers, strict=True)}

    def show_plan(self, plan: Plan) -> None:
        """Show what would be done."""
        self.plan, self._error = plan, ""
        for index, question in enumerate(self._asked):
            # The first plan's order stays: a later one puts what was chosen first.
            if not question.choices and (choices := plan.choices.get(question.key)):
                self._asked[index] = question._replace(choices=choices)
                if not self._buffers[index].text:
                    self._buffers[index].replace(choices[0])
        self._rebuild()

    def show_error(self, error: WorkbenchError) -> None:
        """Say why it cannot be done."""
        self.plan = None
        self._error = f"{error.message[:1].upper()}{error.message[1:]}. {error.remedy}"
        self._rebuild()

    # --- Keys

    async def _on_key(self, event: events.Key) -> None:
        if self.is_frozen:
            event.stop()
            event.prevent_default()
            return
        buffer = self._typed_into
        if buffer is not None and event.key not in _LEADING_AWAY and buffer.press(event.key, event.character):
            self._say()
            handled = True
        else:
            handled = await obey(self, event.key)
        if handled:
            event.stop()
            event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:
        if self._typed_into is not None:
            event.stop()
            self._typed_into.insert(event.text)
            self._say()

    @property
    def _typed_into(self) -> LineBuffer | None:
        """The line that letters go to, when the cursor is on one without choices."""
        if self._cursor < len(self._asked) and not self._asked[self._cursor].choices:
            return self._buffers[self._cursor]
        return None

    def _say(self) -> None:
        self._rebuild()
        self._owner.values_changed()

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        is_asked = self._cursor < len(self._asked)
        if action == "tick" and (is_asked or not self._hunk_ids):
            return "There is nothing to leave out."
        if action == "apply" and (self.plan is None or self.plan.done):
            return "There is nothing to apply."
        if action == "choose" and not (is_asked and len(self._asked[self._cursor].choices) > 1):
            return "There is nothing to choose from."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)

    @property
    def _hunk_ids(self) -> list[str]:
        return [hunk.id for hunk in self.plan.hunks if hunk.id] if self.plan else []

    def action_step(self, by: int) -> None:
        """To the next or previous row that one can stand on; without one the view scrolls."""
        last = len(self._asked) + len(self._hunk_ids) - 1
        if 0 <= self._cursor + by <= last:
            self._cursor += by
            self._rebuild()
        else:
            self.scroll_relative(y=by, animate=False)

    def action_apply(self) -> None:
        """Make the change that is shown."""
        self.is_frozen = True
        self._owner.apply()

    def action_leave(self) -> None:
        """Leave everything as it is."""
        self._owner.leave()

    def action_tick(self) -> None:
        """Leave a hunk out, or take it in again."""
        identity = self._hunk_ids[self._cursor - len(self._asked)]
        self.left_out ^= {identity}
        self._rebuild()

    def action_choose(self, by: int) -> None:
        """Take the next of the choices, around the end."""
        choices, buffer = self._asked[self._cursor].choices, self._buffers[self._cursor]
        position = choices.index(buffer.text) if buffer.text in choices else 0
        buffer.replace(choices[(position + by) % len(choices)])
        self._say()

    def on_click(self, event: events.Click) -> None:
        """A click goes to a row; on a hunk it ticks it, on a choice it takes the next."""
        row = event.y + self.scroll_offset.y
        if not 0 <= row < len(self._lines) or self._lines[row].kind not in ("asked", "hunk"):
            return
        line = self._lines[row]
        self._cursor = line.number + (len(self._asked) if line.kind == "hunk" else 0)
        if line.kind == "hunk":
            self.action_tick()
        elif not self.why_not("choose"):
            self.action_choose(1)
        self._rebuild()

    # --- Drawing

    def _rebuild(self) -> None:
        count = len(self._asked) + len(self._hunk_ids)
        self._cursor = max(0, min(self._cursor, count - 1))
        self._lines = list(self._all_lines(max(self.scrollable_content_region.width - 2, 20)))
        self.virtual_size = Size(0, len(self._lines))
        if self.is_mounted:
            self.styles.height = min(len(self._lines), max(self.screen.size.height * 9 // 10 - AROUND, 3))
            at = next((row for row, line in enumerate(self._lines) if self._is_current(line)), 0)
            self.scroll_to_region(Region(0, at, 1, 3), animate=False)
        self.refresh(layout=True)
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Wrap anew."""
        self._rebuild()

    def _is_current(self, line: _Line) -> bool:
        if line.kind == "asked":
            return line.number == self._cursor
        return line.kind == "hunk" and line.number == self._cursor - len(self._asked)

    def _all_lines(self, width: int) -> Iterator[_Line]:
        yield _Line("", 0)
        for index in range(len(self._asked)):
            yield _Line("asked", index)
        if self._asked:
            yield _Line("", 0)
        if self._error:
            yield from _wrapped(f"✗ {self._error}", "error", width)
        elif self.plan is not None and self.plan.done:
            yield from _wrapped(f"✓ {self.plan.done}", "success", width)
        if self.plan is not None and not self._error:
            yield from self._hunk_lines(self.plan, width)
            for note in self.plan.notes:
                yield from _wrapped(f"· {note}", "muted", width)
        yield _Line("", 0)

    def _hunk_lines(self, plan: Plan, width: int) -> Iterator[_Line]:
        path, ticked = "", 0
        for hunk in plan.hunks:
            if hunk.path != path:
                path = hunk.path
                yield _Line("", 0, ((safe_text(path), "accent"),))
            left_out = hunk.id in self.left_out
            if hunk.id:
                box = ("[ ] ", "muted") if left_out else ("[✓] ", "success")
                yield _Line("hunk", ticked, (box, (safe_text(hunk.title), "muted" if left_out else "text")))
                ticked += 1
                yield from _wrapped(hunk.reason, "muted", width, indent=4)
            for kind, text in hunk.lines:
                role = "muted" if left_out or kind == " " else "success" if kind == "+" else "error"
                indent = " " * (4 if hunk.id else 0)
                yield _Line("", 0, ((f"{indent}{kind} {safe_text(text)}", role),))
            yield _Line("", 0)

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        width = self.scrollable_content_region.width
        row = y + self.scroll_offset.y
        if row >= len(self._lines):
            return Strip.blank(width, style(palette.text, palette.background))
        line = self._lines[row]
        ground = palette.selected if self._is_current(line) else palette.background
        if line.kind == "asked":
            segments = self._draw_asked(line.number, width, ground)
        else:
            segments = [Segment(" ", style(palette.text, ground))]
            segments += [Segment(text, style(getattr(palette, role), ground)) for text, role in line.pieces]
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))

    def _draw_asked(self, index: int, width: int, ground: str) -> list[Segment]:
        palette = palette_of(self)
        question, buffer = self._asked[index], self._buffers[index]
        label = Segment(set_cell_size(f" {question.label}", LABEL_WIDTH), style(palette.function, ground))
        room = width - LABEL_WIDTH - 1
        if question.choices:
            arrows = f"‹ {safe_text(buffer.text)} ›" if len(question.choices) > 1 else safe_text(buffer.text)
            return [label, Segment(arrows, style(palette.text, ground, bold=index == self._cursor))]
        if index != self._cursor:
            return [label, Segment(safe_text(buffer.text), style(palette.text, ground))]
        window = buffer.window(room)
        text = style(palette.text, palette.selection if buffer.is_fresh else palette.raised)
        rest = room - cell_len(window.before + window.under + window.after)
        return [
            label,
            Segment(window.before, text),
            Segment(window.under, style(palette.background, palette.accent)),
            Segment(window.after, text),
            Segment(" " * max(rest, 0), style(palette.text, palette.raised)),
        ]


_LEADING_AWAY = frozenset({"up", "down", "tab", "shift+tab", "enter", "escape"})
"""Keys that never mean the text of a line."""


def _wrapped(text: str, role: str, width: int, *, indent: int = 0) -> Iterator[_Line]:
    prefix = " " * indent
    for part in textwrap.wrap(safe_text(text), max(width - indent, 20), subsequent_indent="  "):
        yield _Line("", 0, ((prefix + part, role),))
