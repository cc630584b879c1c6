"""The inside of the screens about a machine: fields, one question, and the rungs of its check as they are answered.

The invariant: one widget takes all keys, in the order they were pressed, and asks its owner to do things; a secret is
drawn as dots and leaves the view only through `values`.
"""

from __future__ import annotations

import textwrap
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.targets.check import BROKEN, OK, UNNEEDED, WARNING
from tui_workbench.ui.clipboard import copy
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import MACHINE, MACHINE_RESULT
from tui_workbench.ui.key_order import obey
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.machine_fields import Field
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from textual import events

    from tui_workbench.targets.check import Rung


LABEL_WIDTH = 14
RUNG_WIDTH = 16

AROUND = 3
"""Lines of the box that are not the view's: its borders, and the keys."""

LOOKS = {OK: ("✓", "success"), WARNING: ("▲", "warning"), UNNEEDED: ("·", "muted"), BROKEN: ("✗", "error")}
"""How the state of a rung is shown; it is told by a glyph, never by a colour alone."""

_LEADING_AWAY = frozenset({"up", "down", "tab", "shift+tab", "enter", "escape"})
"""Keys that never mean the text of a line."""


class Phase(Enum):
    """What the view waits for: the fields, its owner, an answer to the question, or to be left."""

    ASKING = "asking"
    WORKING = "working"
    QUESTION = "question"
    DONE = "done"


class MachineOwner(Protocol):
    """Who does what is asked for."""

    def go(self) -> None:
        """The fields are filled in."""

    def answer(self, yes: bool) -> None:
        """The question was answered."""

    def again(self) -> None:
        """The check should be made once more."""

    def leave(self) -> None:
        """The person wants back."""


class _Line:
    """One line: a field by its number, or text in pieces with their colours."""

    def __init__(self, *pieces: tuple[str, str], field: int = -1) -> None:
        self.pieces = pieces
        self.field = field


class MachineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows what is asked and what was found. `fields_of` gives the fields for what was said so far."""

    DEFAULT_CSS = "MachineView { overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS = bindings(MACHINE, MACHINE_RESULT)

    def __init__(self, owner: MachineOwner, fields_of: Callable[[Mapping[str, str]], Sequence[Field]]) -> None:
        super().__init__()
        self.phase = Phase.ASKING
        self._owner = owner
        self._fields_of = fields_of
        self._buffers: dict[str, LineBuffer] = {}
        self._cursor = 0
        self._said: list[tuple[str, str]] = []  # texts and their colours
        self._rungs: list[Rung] = []
        self._awaited: tuple[str, ...] = ()
        self._place = ""
        self._command = ""
        self._lines: list[_Line] = []
        self._shown: tuple[Field, ...] = ()  # the fields that the lines were made for

    # --- What the owner says

    @property
    def values(self) -> dict[str, str]:
        """What was said, by the field's key."""
        return {key: buffer.text for key, buffer in self._buffers.items()}

    def ask(self, *said: tuple[str, str], at: str = "") -> None:
        """Let the fields be filled in, with the cursor in the field `at`; `said` are texts and their colours."""
        self.phase, self._said = Phase.ASKING, list(said)
        numbers = [number for number, field in enumerate(self._fields) if field.key == at]
        self._cursor = numbers[0] if numbers else self._cursor
        self._rebuild()

    def work(self, *said: tuple[str, str]) -> None:
        """Take no answers while something is done."""
        self.phase, self._said = Phase.WORKING, list(said)
        self._rebuild()

    def question(self, *said: tuple[str, str]) -> None:
        """Ask for yes or no."""
        self.phase, self._said = Phase.QUESTION, list(said)
        self._rebuild()

    def climb(self, awaited: Sequence[str], place: str) -> None:
        """Show an empty ladder; `place` is where the machine is, for commands that are to be typed there."""
        self._rungs, self._awaited, self._place = [], tuple(awaited), place
        self._rebuild()

    def show_rung(self, rung: Rung) -> None:
        """Show one more answer."""
        self._rungs.append(rung)
        self._rebuild()

    def finish(self, *said: tuple[str, str], command: str = "") -> None:
        """Nothing more is to be done here; `command` is for the person to do."""
        self.phase, self._said, self._command = Phase.DONE, list(said), command
        self._rebuild()

    # --- Keys

    async def _on_key(self, event: events.Key) -> None:
        buffer = self._typed_into
        if buffer is not None and event.key not in _LEADING_AWAY and buffer.press(event.key, event.character):
            self._rebuild()
            handled = True
        else:
            handled = await obey(self, event.key)
        if handled:
            event.stop()
            event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:
        if self._typed_into is not None:
            event.stop()
            self._typed_into.insert(event.text.rstrip("\r\n"))
            self._rebuild()

    @property
    def _fields(self) -> Sequence[Field]:
        return self._fields_of(self.values)

    @property
    def _current(self) -> Field | None:
        fields = self._fields
        return fields[self._cursor] if self.phase is Phase.ASKING and self._cursor < len(fields) else None

    @property
    def _typed_into(self) -> LineBuffer | None:
        """The line that letters go to, when the cursor is on one without choices."""
        field = self._current
        return self._buffer(field.key) if field is not None and not field.choices else None

    def _buffer(self, key: str) -> LineBuffer:
        return self._buffers.setdefault(key, LineBuffer())

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        phases = {
            "go": Phase.ASKING,
            "choose": Phase.ASKING,
            "answer": Phase.QUESTION,
            "copy": Phase.DONE,
            "again": Phase.DONE,
            "close": Phase.DONE,
        }
        if phases.get(action, self.phase) is not self.phase:
            return "Not now."
        if action == "copy" and not self.fix:
            return "Nothing is broken that a command would mend."
        if action == "choose" and not (self._current and self._current.choices):
            return "There is nothing to choose from."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)

    @property
    def fix(self) -> str:
        """The command that mends what is broken, or does what is left to do; "" when there is none."""
        broken = self._rungs[-1].command if self._rungs and self._rungs[-1].state == BROKEN else ""
        return self._command or broken

    def action_go(self) -> None:
        """The fields are filled in."""
        self._owner.go()

    def action_answer(self, yes: bool) -> None:
        """Answer the question."""
        self._owner.answer(yes)

    def action_copy(self) -> None:
        """Copy the command."""
        if copy(self.app, self.fix):
            self.app.notify("The command is copied.", timeout=3.0, markup=False)

    def action_again(self) -> None:
        """Check once more."""
        self._owner.again()

    def action_leave(self) -> None:
        """Refuse a question; else go back."""
        if self.phase is Phase.QUESTION:
            self._owner.answer(False)
        else:
            self._owner.leave()

    def action_close(self) -> None:
        """Go back."""
        self._owner.leave()

    def action_step(self, by: int) -> None:
        """To the next or previous field; without one the view scrolls."""
        if self.phase is Phase.ASKING and 0 <= self._cursor + by < len(self._fields):
            self._cursor += by
            self._rebuild()
        else:
            self.scroll_relative(y=by, animate=False)

    def action_choose(self, by: int) -> None:
        """Take the next of the choices, around the end."""
        field = self._current
        assert field is not None
        values = [value for value, _ in field.choices]
        buffer = self._buffer(field.key)
        position = values.index(buffer.text) if buffer.text in values else 0
        buffer.replace(values[(position + by) % len(values)])
        self._rebuild()

    def on_click(self, event: events.Click) -> None:
        """A click goes to a field; on a choice it takes the next."""
        row = event.y + self.scroll_offset.y
        if self.phase is Phase.ASKING and 0 <= row < len(self._lines) and self._lines[row].field >= 0:
            self._cursor = self._lines[row].field
            if not self.why_not("choose"):
                self.action_choose(1)
            self._rebuild()

    # --- Drawing

    def on_resize(self) -> None:
        """Wrap anew."""
        self._rebuild()

    def _rebuild(self) -> None:
        self._shown = tuple(self._fields)
        self._cursor = max(0, min(self._cursor, len(self._shown) - 1))
        self._lines = list(self._all_lines(max(self.scrollable_content_region.width - 3, 20)))
        self.virtual_size = Size(0, len(self._lines))
        if self.is_mounted:
            self.styles.height = min(len(self._lines), max(self.screen.size.height * 9 // 10 - AROUND, 3))
            at = self._cursor + 1 if self.phase is Phase.ASKING else len(self._lines) - 1
            self.scroll_to_region(Region(0, at, 1, 1), animate=False)
        self.refresh(layout=True)
        self.refresh_bindings()

    def _all_lines(self, width: int) -> Iterator[_Line]:
        yield _Line()
        if not self._rungs and not self._awaited:
            for number in range(len(self._shown)):
                yield _Line(field=number)
            if self._shown:
                yield _Line()
        yield from self._ladder_lines(width)
        for text, role in self._said:
            yield from _wrapped(text, role, width)
        if self._said:
            yield _Line()

    def _ladder_lines(self, width: int) -> Iterator[_Line]:
        for rung in self._rungs:
            yield from _rung_lines(rung, width, self._place)
        if not (self._rungs and self._rungs[-1].state == BROKEN):
            for name in self._awaited[len(self._rungs) :]:
                yield _Line((" ○ ", "comment"), (name, "comment"))
        if self._rungs or self._awaited:
            yield _Line()

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        width = self.scrollable_content_region.width
        row = y + self.scroll_offset.y
        if row >= len(self._lines):
            return Strip.blank(width, style(palette.text, palette.background))
        line = self._lines[row]
        is_current = line.field >= 0 and line.field == self._cursor and self.phase is Phase.ASKING
        ground = palette.selected if is_current else palette.background
        if line.field >= 0:
            segments = self._draw_field(self._shown[line.field], width, ground, is_current=is_current)
        else:
            segments = [Segment(text, style(getattr(palette, role), ground)) for text, role in line.pieces]
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))

    def _draw_field(self, field: Field, width: int, ground: str, *, is_current: bool) -> list[Segment]:
        palette = palette_of(self)
        buffer = self._buffer(field.key)
        label = Segment(set_cell_size(f" {field.label}", LABEL_WIDTH), style(palette.function, ground))
        if field.choices:
            words = dict(field.choices).get(buffer.text, field.choices[0][1])
            return [label, Segment(f"‹ {words} ›", style(palette.text, ground, bold=is_current))]
        hint = Segment(field.hint, style(palette.comment if not is_current else palette.muted, ground))
        if not is_current:
            shown = "•" * len(buffer.text) if field.is_secret else safe_text(buffer.text)
            return [label, Segment(shown, style(palette.text, ground))] if shown else [label, hint]
        room = width - LABEL_WIDTH - 1
        if not buffer.text:
            cursor = Segment(" ", style(palette.background, palette.accent))
            return [label, cursor, Segment(" ", style(palette.text, ground)), hint]
        return [label, *_draw_line(_dots(buffer) if field.is_secret else buffer, room, self)]


def _dots(buffer: LineBuffer) -> LineBuffer:
    """The line as it may be seen by somebody who stands behind."""
    dots = LineBuffer("•" * len(buffer.text))
    dots.cursor, dots.is_fresh = buffer.cursor, buffer.is_fresh
    return dots


def _draw_line(buffer: LineBuffer, room: int, view: MachineView) -> list[Segment]:
    palette = palette_of(view)
    window = buffer.window(room)
    text = style(palette.text, palette.selection if buffer.is_fresh else palette.raised)
    rest = room - cell_len(window.before + window.under + window.after)
    return [
        Segment(window.before, text),
        Segment(window.under, style(palette.background, palette.accent)),
        Segment(window.after, text),
        Segment(" " * max(rest, 0), style(palette.text, palette.raised)),
    ]


def _rung_lines(rung: Rung, width: int, place: str) -> Iterator[_Line]:
    glyph, role = LOOKS[rung.state]
    name = set_cell_size(rung.name, RUNG_WIDTH)
    first, *rest = _wrap(rung.message, width - RUNG_WIDTH - 3)
    text_role = "error" if rung.state == BROKEN else "muted" if rung.state == UNNEEDED else "text"
    yield _Line((f" {glyph} ", role), (name, "text"), (first, text_role))
    indent = " " * (RUNG_WIDTH + 3)
    for part in rest:
        yield _Line((indent + part, text_role))
    for part in _wrap(rung.remedy, width - RUNG_WIDTH - 3) if rung.remedy else ():
        yield _Line((indent + part, "muted"))
    if rung.command:
        yield _Line((f"{indent}{f'On {safe_text(place)}' if rung.there else 'Here'}:", "muted"))
        for part in _wrap(rung.command, width - RUNG_WIDTH - 5):
            yield _Line((f"{indent}  {part}", "accent"))


def _wrapped(text: str, role: str, width: int) -> Iterator[_Line]:
    for part in _wrap(text, width):
        yield _Line((f" {part}", role))


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(safe_text(text), max(width, 20), break_on_hyphens=False) or [""]
