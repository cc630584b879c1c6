"""Dialogs: a box over another screen, and a view of lines of text and of fields that are edited in place.

In the view, one widget handles all keys, in order. A secret is drawn as dots and leaves the view only through `values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.terminal.key_queue import run_binding
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.terminal.textual_internals import install_compositor
from tui_workbench.ui.themes.themes import Palette, palette_of, style
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.pieces import Piece, draw_pieces, draw_typed

Result = TypeVar("Result")

AROUND = 3
"""Lines of the box around the view: two borders and the keys."""

_COMMAND_KEYS = frozenset({"up", "down", "tab", "shift+tab", "enter", "escape"})
"""Keys that never edit a field."""


class DialogScreen(ModalScreen[Result], inherit_bindings=False):
    """A screen that shows a box over another screen."""

    DEFAULT_CSS = """
    DialogScreen { align: center middle; background: $background 60%; }
    DialogScreen > Vertical, DialogScreen > TextView {
        width: 100; max-width: 96%; height: auto; max-height: 90%; background: $background; border: round $border;
        border-title-color: $border; border-title-style: bold; border-subtitle-color: $text-muted;
    }
    """

    def __init__(self, box: Widget) -> None:
        super().__init__()
        install_compositor(self)
        self.box = box

    def compose(self) -> ComposeResult:
        yield self.box


def box_of(title: str, *children: Widget) -> Vertical:
    """Return a box with an untrusted title, the widgets, and a key footer."""
    box = Vertical(*children, KeyFooter())
    box.border_title = Content(safe_text(title))
    return box


class DialogField(NamedTuple):
    """A field for a text, a secret, or one of `choices` (labels keyed by value)."""

    key: str
    label: str
    value: str = ""  # initial value
    hint: str = ""  # text shown in the empty field
    choices: Mapping[str, str] = MappingProxyType({})
    is_secret: bool = False


class DialogLine(NamedTuple):
    """A line of text or a field. `stop` is its index among the lines that the cursor can reach, or -1."""

    pieces: Sequence[Piece] = ()
    field: DialogField | None = None
    stop: int = -1


class DialogView(ExplainsUnavailable, ScrollView, can_focus=True, inherit_bindings=False):
    """A view of the lines that `lines` returns. Subclasses define the lines and the fields."""

    DEFAULT_CSS = "DialogView { overflow-x: hidden; scrollbar-size: 1 1; }"

    label_width: ClassVar[int] = 16

    def __init__(self, fields: Iterable[DialogField] = ()) -> None:
        super().__init__()
        self.is_frozen = False
        """While true, keys are ignored."""
        self._buffers = {field.key: LineBuffer(field.value) for field in fields}
        self._cursor = 0
        self._lines: list[DialogLine] = []

    # --- For subclasses

    @property
    def fields(self) -> Sequence[DialogField]:
        """The fields that can be edited now. The cursor reaches them before other lines."""
        raise NotImplementedError

    @property
    def stops(self) -> int:
        """The number of lines that the cursor can reach."""
        return len(self.fields)

    @property
    def resting_line(self) -> int:
        """The line that is kept visible if the cursor cannot reach any line."""
        return 0

    def lines(self, width: int) -> Iterable[DialogLine]:
        raise NotImplementedError

    def value_changed(self) -> None:
        """Update the view after an edit."""
        self.rebuild()

    def why_not(self, action: str) -> str:
        raise NotImplementedError

    # --- Values

    @property
    def values(self) -> dict[str, str]:
        return {key: buffer.text for key, buffer in self._buffers.items()}

    @property
    def current(self) -> DialogField | None:
        fields = self.fields
        return fields[self._cursor] if self._cursor < len(fields) else None

    def buffer(self, key: str) -> LineBuffer:
        return self._buffers.setdefault(key, LineBuffer())

    @property
    def _typed_into(self) -> LineBuffer | None:
        field = self.current
        return self.buffer(field.key) if field is not None and not field.choices else None

    # --- Keys and the mouse

    async def _on_key(self, event: events.Key) -> None:
        buffer = self._typed_into
        if self.is_frozen:
            handled = True
        elif buffer is not None and event.key not in _COMMAND_KEYS and buffer.press(event.key, event.character):
            self.value_changed()
            handled = True
        else:
            handled = await run_binding(self, event.key)
        if handled:
            event.stop()
            event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:
        if (buffer := self._typed_into) is not None:
            event.stop()
            buffer.insert(event.text.rstrip("\r\n"))
            self.value_changed()

    def action_step(self, by: int) -> None:
        if 0 <= self._cursor + by < self.stops:
            self._cursor += by
            self.rebuild()
        else:
            self.scroll_relative(y=by, animate=False)

    def action_choose(self, by: int) -> None:
        if (field := self.current) is not None:
            values, buffer = list(field.choices), self.buffer(field.key)
            position = values.index(buffer.text) if buffer.text in values else 0
            buffer.replace(values[(position + by) % len(values)])
            self.value_changed()

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        stop = self._lines[row].stop if 0 <= row < len(self._lines) else -1
        if stop >= 0:
            self._cursor = stop
            self.press_line()
            self.rebuild()

    def press_line(self) -> None:
        """Handle a click on the line under the cursor."""
        if not self.why_not("choose"):
            self.action_choose(1)

    # --- Drawing

    def on_resize(self) -> None:
        self.rebuild()

    def rebuild(self) -> None:
        if not self.is_attached:  # the screen has been closed meanwhile
            return
        if stops := self.stops:
            self._cursor = min(self._cursor, stops - 1)
        self._lines = list(self.lines(self.scrollable_content_region.width))
        self.virtual_size = Size(0, len(self._lines))
        self.styles.height = min(len(self._lines), max(self.screen.size.height * 9 // 10 - AROUND, 3))
        at = next((row for row, line in enumerate(self._lines) if line.stop == self._cursor), self.resting_line)
        self.scroll_to_region(Region(0, at, 1, 3), animate=False)
        self.refresh(layout=True)
        self.refresh_bindings()

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.scrollable_content_region.width
        row = y + self.scroll_offset.y
        line = self._lines[row] if row < len(self._lines) else DialogLine()
        is_current = line.stop == self._cursor
        background = palette.selected if is_current else palette.background
        if line.field is not None:
            segments = self._draw_field(line.field, width, palette, background, is_current=is_current)
        else:
            segments = draw_pieces(line.pieces, palette, background)
        return Strip(segments).adjust_cell_length(width, style(palette.text, background))

    def _draw_field(
        self, field: DialogField, width: int, palette: Palette, background: str, *, is_current: bool
    ) -> list[Segment]:
        buffer, text = self.buffer(field.key), style(palette.text, background)
        label = Segment(set_cell_size(f" {field.label}", self.label_width), style(palette.function, background))
        if field.choices:
            chosen = safe_text(field.choices.get(buffer.text) or next(iter(field.choices.values())))
            shown = f"‹ {chosen} ›" if len(field.choices) > 1 else chosen
            return [label, Segment(shown, style(palette.text, background, bold=is_current))]
        if field.is_secret:
            dots = LineBuffer("•" * len(buffer.text))
            dots.cursor, dots.is_fresh = buffer.cursor, buffer.is_fresh
            buffer = dots
        if is_current and (buffer.text or not field.hint):
            return [label, *draw_typed(buffer, width - self.label_width, palette)]
        if buffer.text:
            return [label, Segment(safe_text(buffer.text), text)]
        cursor = [Segment(" ", style(palette.background, palette.accent)), Segment(" ", text)] if is_current else []
        hint = style(palette.muted if is_current else palette.comment, background)
        return [label, *cursor, Segment(safe_text(field.hint), hint)]
