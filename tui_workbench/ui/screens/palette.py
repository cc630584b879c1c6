"""The palette: a list over the screen that is narrowed by typing. All commands are found by it, and all themes.

It shows what it is handed and gives back the key of the row that was chosen; what a row means is known to whoever
opened it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import PALETTE
from tui_workbench.ui.key_names import key_label
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App, ComposeResult
    from textual.binding import BindingType

    from tui_workbench.ui.offers import Offer

NAME_WIDTH = 22


class PaletteScreen(ModalScreen[str], inherit_bindings=False):
    """Gives back the key of the chosen row, or an empty string when none was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PALETTE)
    DEFAULT_CSS = """
    PaletteScreen { align: center top; background: $background 60%; }
    PaletteScreen > Vertical {
        width: 96; max-width: 96%; height: auto; max-height: 80%; margin-top: 2;
        background: $background; border: round $border; border-title-color: $border; border-subtitle-color: $text-muted;
    }
    PaletteScreen RowList { height: auto; max-height: 100%; }
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[Row],
        *,
        found_by: dict[str, str] | None = None,
        last: frozenset[str] = frozenset(),
        current: str = "",
        preview: Callable[[str], None] | None = None,
    ) -> None:
        """`found_by` says, by the key of a row, which text a search looks at, where that is not the row's name.

        Rows with the keys in `last` come behind all others.

        The cursor starts on the row `current`. `preview` is called with the key of each row that the cursor comes to.
        """
        super().__init__()
        self._title = title
        self._rows = {row.key: row for row in rows}
        self._found_by = found_by or {row.key: row.name.text for row in rows}
        self._last = last
        self._current = current
        self._preview = preview
        self._search = SearchField(placeholder="type to find")
        self._list = RowList()
        self._list.can_focus = False

    def compose(self) -> ComposeResult:
        """What is typed, and what matches it."""
        box = Vertical()
        box.border_title = Content(self._title)
        box.border_subtitle = Content("enter does it, esc closes")
        with box:
            yield self._search
            yield self._list

    def on_mount(self) -> None:
        """Type at once."""
        self._show(self._current)
        self.set_focus(self._search)

    def _show(self, current: str | None = None) -> None:
        by_text = {text: key for key, text in self._found_by.items()}
        rows = [self._rows[by_text[text]] for text in matches(self._search.value, by_text)]
        rows.sort(key=lambda row: row.key in self._last)
        self._list.show_rows(rows, empty=("Nothing matches.",), current=current)
        self._list.styles.height = max(1, min(len(rows), self.app.size.height * 8 // 10 - 5))

    @property
    def current(self) -> str:
        """The key of the row under the cursor."""
        return self._list.current

    def replace_rows(self, rows: Sequence[Row], found_by: dict[str, str]) -> None:
        """Show these rows instead, as far as they match what was typed."""
        self._rows = {row.key: row for row in rows}
        self._found_by = found_by
        self._show()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()
        self._list.move_to(0)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(self._list.current)

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._list.step(event.rows)

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        if self._preview is not None and event.key:
            self._preview(event.key)

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        self.dismiss(event.key)

    @on(SearchField.Left)
    def _left(self, event: SearchField.Left) -> None:
        event.stop()
        self.action_close()

    def action_close(self) -> None:
        """Choose nothing."""
        self.dismiss("")


async def choose_command(app: App[object], offered: Sequence[Offer], say: Callable[[str], None]) -> None:
    """Have a command chosen and do it, or say why it is not available.

    Returns as soon as the palette takes keys: those that are typed ahead are meant for it.
    """

    async def do(chosen: str | None) -> None:
        if not chosen:
            return
        offer = offered[int(chosen)]
        if offer.reason:
            say(f"{offer.command.name}: {offer.reason}")
        else:
            await app.run_action(offer.command.action, offer.node)

    rows, found_by = command_rows(offered)
    unavailable = frozenset(str(place) for place, offer in enumerate(offered) if offer.reason)
    await app.push_screen(PaletteScreen("Commands", rows, found_by=found_by, last=unavailable), do)


def command_rows(offers: Sequence[Offer]) -> tuple[list[Row], dict[str, str]]:
    """The rows for commands, keyed by their place in `offers`, and the text that each is found by.

    A command that is not available is listed with the reason, so that nobody looks for it in vain.
    """
    rows, found_by = [], {}
    for place, offer in enumerate(offers):
        command = offer.command
        ink = "muted" if offer.reason else "text"
        keys = (Piece(f" {key_label(command.keys)}", "accent", bold=True),) if command.keys else ()
        help_text = f"Not now: {offer.reason}" if offer.reason else command.help
        rows.append(
            Row(
                str(place),
                Piece(help_text, "muted"),
                before=(Piece(f"{_scope(offer) + command.name:<{NAME_WIDTH}} ", ink),),
                right=keys,
            )
        )
        found_by[str(place)] = f"{_scope(offer)}{command.name} {command.help} {command.id}"
    return rows, found_by


def _scope(offer: Offer) -> str:
    title = offer.node.title if isinstance(offer.node, Pane) else ""
    return f"{title}: " if title else ""
