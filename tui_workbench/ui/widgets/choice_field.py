"""A field that shows a value and opens a searchable list of choices over the screen.

The list closes when it loses the focus. A choice is reported to the owner of the field, which sets the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual import events, on
from textual.geometry import Offset, Size
from textual.widget import Widget

from tui_workbench.ui.commands.main_commands import CHOICES, FIELD
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, Row, width_of
from tui_workbench.ui.widgets.search_list import SearchList

ARROW = " ▾ "
MIN_LIST_WIDTH = 24


class ChoiceField(Line, can_focus=True):
    """A field that shows a value and opens a list of choices."""

    DEFAULT_CSS = "ChoiceField { width: auto; min-width: 6; }"
    BINDINGS = FIELD.bindings

    def __init__(
        self, picked: Callable[[str], None], *, placeholder: str, free: str = "", id: str | None = None
    ) -> None:
        """`picked` is called with the chosen value: the key of an option, or free text.

        It is a callback, not a message, so that the choice is made before the next key. `placeholder` is shown while
        the field has no value. If `free` is not empty, text that matches no option can also be chosen, and is shown
        after the verb `free`.
        """
        super().__init__(id=id)
        self._picked = picked
        self._placeholder = placeholder
        self._free = free
        self._value = ""
        self._wrong = False
        self._options: tuple[Row, ...] = ()
        self._list: ChoiceList | None = None

    @property
    def value(self) -> str:
        return self._value

    @property
    def is_open(self) -> bool:
        return self._list is not None

    def show_value(self, value: str, *, wrong: bool = False) -> None:
        """Show a value. If `wrong`, mark it as invalid."""
        if (value, wrong) != (self._value, self._wrong):
            self._value, self._wrong = value, wrong
            self.refresh(layout=True)

    def show_options(self, options: tuple[Row, ...]) -> None:
        """Set the choices; the key of each row is a value."""
        self._options = options
        if self._list is not None:
            self._list.show_options(options)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return cell_len(safe_text(self._value or self._placeholder)) + len(ARROW) + 1

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        text = truncate_middle(self._value or self._placeholder, width - len(ARROW) - 1)
        role = "error" if self._wrong else "text" if self._value else "muted"
        return [Piece(f" {text}", role, bold=self.has_focus), Piece(ARROW, "text" if self.has_focus else "muted")], ()

    def background_role(self) -> str:
        return "selected" if self.has_focus or self.is_open else "marked"

    @on(events.Click)
    async def _field_clicked(self, event: events.Click) -> None:
        event.stop()
        await self.action_open()

    async def action_open(self) -> None:
        if self._list is not None:
            return
        self._list = ChoiceList(self._options, self._value, self._free, self._close)
        self._list.place_under(self)
        await self.mount(self._list)
        self._list.take_focus()
        self.refresh()

    def _close(self, value: str) -> None:
        """Close the list; an empty value means that nothing was chosen."""
        if self._list is None:
            return
        had_focus = self._list.has_focus_within
        self._list.remove()
        self._list = None
        if had_focus:
            self.screen.set_focus(self)
        self.refresh()
        if value:
            self._picked(value)


class ChoiceList(SearchList):
    """The open list of a field."""

    DEFAULT_CSS = """
    ChoiceList {
        overlay: screen; constrain: inside inside; height: auto;
        border: round $border; background: $background;
    }
    """
    BINDINGS = CHOICES.bindings
    most_rows = 12

    def __init__(self, options: tuple[Row, ...], value: str, free: str, close: Callable[[str], None]) -> None:
        super().__init__(close, "type to filter")
        self._options = options
        self._first = value
        self._free = free

    def on_mount(self) -> None:
        self.show_options(self._options, self._first)

    def place_under(self, field: Widget) -> None:
        """Place the list under the field, wide enough for the field and for the widest choice if there is room."""
        widest = max((width_of((*row.before, row.name, *row.after, *row.right)) for row in self._options), default=0)
        width = max(MIN_LIST_WIDTH, field.region.width, widest + 6)
        self.styles.width = min(width, field.app.size.width)
        self.absolute_offset = Offset(field.region.x, field.region.bottom)

    def show_options(self, options: tuple[Row, ...], current: str | None = None) -> None:
        self.show_choices({row.key: row for row in options}, current)

    def matching_rows(self) -> list[Row]:
        rows = super().matching_rows()
        if self._free and self.typed and not rows:
            rows.append(Row(self.typed, Piece(safe_text(self.typed)), before=(Piece(f"{self._free} ", "muted"),)))
        return rows

    def on_descendant_blur(self) -> None:
        # The list stays open if the focus has moved to another window of the desktop.
        if self.app.app_focus and not self.has_focus_within:
            self.action_leave()
