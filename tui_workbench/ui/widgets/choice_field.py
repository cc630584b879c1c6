"""A field whose value is one of a list: it shows the value, and opens the list over the screen when it is asked to.

The list is there only while it is open; it is narrowed by typing, and closes when it loses the focus. What the value
is, is the owner's to say: choosing tells it, and changes nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Input

from tui_workbench.ui.commands import CHOICES, FIELD, bindings
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, Row, width_of
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size

ARROW = " ▾ "
MIN_LIST_WIDTH = 24
MOST_SHOWN = 500
"""Choices that are listed: nobody reads more, and each costs at every key."""


class ChoiceField(Line, can_focus=True):
    """Shows a value, and opens the list of those that can be chosen."""

    DEFAULT_CSS = "ChoiceField { width: auto; min-width: 6; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(FIELD)

    def __init__(
        self, picked: Callable[[str], None], *, placeholder: str, free: str = "", id: str | None = None
    ) -> None:
        """`picked` is called with the value that was chosen: the key of an option, or free text.

        It is a call and not a message, because the next key that was typed ahead must find the choice made.
        `placeholder` stands for no value; with `free`, a verb, text that no option matches can be chosen.
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
        """The value that is shown."""
        return self._value

    @property
    def is_open(self) -> bool:
        """True while the list is on the screen."""
        return self._list is not None

    def show_value(self, value: str, *, wrong: bool = False) -> None:
        """Show a value; `wrong` marks one that cannot be used."""
        if (value, wrong) != (self._value, self._wrong):
            self._value, self._wrong = value, wrong
            self.refresh(layout=True)

    def show_options(self, options: tuple[Row, ...]) -> None:
        """What can be chosen: the key of each row is a value."""
        self._options = options
        if self._list is not None:
            self._list.show_options(options)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Wide enough for the value."""
        return cell_len(safe_text(self._value or self._placeholder)) + len(ARROW) + 1

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """The value and an arrow."""
        text = truncate_middle(self._value or self._placeholder, width - len(ARROW) - 1)
        role = "error" if self._wrong else "text" if self._value else "muted"
        return [Piece(f" {text}", role, bold=self.has_focus), Piece(ARROW, "text" if self.has_focus else "muted")], ()

    def choose_ground(self) -> str:
        """Loud where the focus is."""
        return "selected" if self.has_focus or self.is_open else "marked"

    @on(events.Click)
    async def _field_clicked(self, event: events.Click) -> None:
        event.stop()
        await self.action_open()

    async def action_open(self) -> None:
        """Open the list under the field."""
        if self._list is not None:
            return
        self._list = ChoiceList(self._options, self._value, self._free, self._close)
        self._list.place_under(self)
        await self.mount(self._list)
        self._list.take_focus()
        self.refresh()

    def _close(self, value: str) -> None:
        """The list is done with; an empty value means that nothing was chosen."""
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


class ChoiceSearch(SearchField):
    """The field over the choices: enter chooses at once."""

    def __init__(self, choose: Callable[[], None]) -> None:
        super().__init__(placeholder="type to narrow")
        self._choose = choose

    async def action_submit(self) -> None:
        """Enter."""
        self._choose()


class ChoiceList(Widget):
    """The open list of a field: a search field over the choices that match."""

    DEFAULT_CSS = """
    ChoiceList {
        overlay: screen; constrain: inside inside; height: auto;
        border: round $border; background: $background;
    }
    ChoiceList > RowList { height: auto; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(CHOICES)

    def __init__(self, options: tuple[Row, ...], value: str, free: str, close: Callable[[str], None]) -> None:
        super().__init__()
        self._options = options
        self._first = value
        self._free = free
        self._close = close
        self._search = ChoiceSearch(self._choose_current)
        self._shown_for = ""
        self._list = RowList()

    def action_leave(self) -> None:
        """Escape, where the list itself has the focus."""
        self._close("")

    def action_choose(self) -> None:
        """Enter, where the list itself has the focus."""
        self._choose_current()

    def compose(self) -> ComposeResult:
        """What is typed, and what matches it."""
        yield self._search
        yield self._list

    def on_mount(self) -> None:
        """The cursor starts at the value of the field."""
        self._show(current=self._first)

    def place_under(self, field: Widget) -> None:
        """Stand right under the field, at least as wide as it and as the widest choice, as far as the screen goes."""
        widest = max((width_of((*row.before, row.name, *row.after, *row.right)) for row in self._options), default=0)
        width = max(MIN_LIST_WIDTH, field.region.width, widest + 6)
        self.styles.width = min(width, field.app.size.width)
        self.absolute_offset = Offset(field.region.x, field.region.bottom)

    def take_focus(self) -> None:
        """Type to narrow."""
        self.screen.set_focus(self._search)

    def show_options(self, options: tuple[Row, ...]) -> None:
        """The choices have changed."""
        self._options = options
        self._show()

    def _show(self, current: str | None = None) -> None:
        typed = self._shown_for = self._search.value.strip()
        by_name = {row.key: row for row in self._options}
        rows = [by_name[key] for key in matches(typed, by_name)[:MOST_SHOWN]]
        if self._free and typed and not rows:
            rows.append(Row(typed, Piece(safe_text(typed)), before=(Piece(f"{self._free} ", "muted"),)))
        self._list.show_rows(rows, empty=("Nothing matches.",), current=current)
        self._list.styles.height = max(1, len(rows))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow()

    def _narrow(self) -> None:
        """Show what matches, the best under the cursor."""
        if self._search.value.strip() != self._shown_for:
            self._show()
            self._list.move_to(0)

    def _choose_current(self) -> None:
        # The message that the text changed may not have come yet.
        self._narrow()
        self._close(self._list.current)

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._list.step(event.rows)

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        self._close(event.key)

    @on(SearchField.Left)
    def _left(self, event: SearchField.Left) -> None:
        event.stop()
        self._close("")

    def on_descendant_blur(self) -> None:
        """Whoever goes elsewhere has chosen nothing."""
        if not self.has_focus_within:
            self._close("")
