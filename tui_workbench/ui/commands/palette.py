"""The palette: a list over the screen that is narrowed by typing. All commands are found by it, and all themes.

It shows what it is handed and gives back the key of the row that was chosen; what a row means is known to whoever
opened it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual.app import App
from textual.content import Content

from tui_workbench.ui.commands.available_commands import CommandState
from tui_workbench.ui.commands.command import key_label
from tui_workbench.ui.commands.screen_commands import PALETTE
from tui_workbench.ui.widgets.dialog_screen import DialogScreen
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.search_list import SearchList

WIDEST_NAME = 32
"""Cells of the names of commands at most; longer ones push what they do to the right."""


class PaletteScreen(DialogScreen[str], inherit_bindings=False):
    """Gives back the key of the chosen row, or an empty string when none was chosen."""

    BINDINGS = PALETTE.bindings
    DEFAULT_CSS = """
    PaletteScreen { align: center top; }
    PaletteScreen > Vertical { width: 96; max-height: 80%; margin-top: 2; }
    """

    def __init__(
        self, title: str, rows: Mapping[str, Row], *, current: str = "", preview: Callable[[str], object] | None = None
    ) -> None:
        """`rows` are shown by the texts that a search looks at; the cursor starts on the one of the key `current`.

        `preview` is called with the key of each row that the cursor comes to.
        """
        self.choices = SearchList(self.dismiss, "type to find", preview=preview)
        super().__init__(self.choices)
        self._rows = rows
        self._current = current
        self.choices.list.can_focus = False
        self.choices.border_title = Content(title)
        self.choices.border_subtitle = Content("enter does it, esc closes")

    def on_mount(self) -> None:
        self.choices.show_choices(self._rows, self._current)
        self.choices.take_focus()

    def action_close(self) -> None:
        self.dismiss("")


async def choose_command(app: App[object], offered: Sequence[CommandState], say: Callable[[str], None]) -> None:
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

    screen = PaletteScreen("Commands", command_rows(offered))
    screen.choices.last = frozenset(str(place) for place, offer in enumerate(offered) if offer.reason)
    await app.push_screen(screen, do)


def command_rows(offers: Sequence[CommandState]) -> dict[str, Row]:
    """The rows for commands, keyed by their place in `offers`, by the texts that they are found by.

    A command that is not available is listed with the reason, so that nobody looks for it in vain.
    """
    rows = {}
    width = min(max((len(_scope(offer) + offer.command.name) for offer in offers), default=0), WIDEST_NAME)
    for place, offer in enumerate(offers):
        command = offer.command
        name = Piece(f"{_scope(offer) + command.name:<{width}} ", "muted" if offer.reason else "text")
        keys = (Piece(f" {key_label(command.keys)}", "accent", bold=True),) if command.keys else ()
        help_text = f"Not now: {offer.reason}" if offer.reason else command.help
        text = f"{command.name}\n{_scope(offer)}{command.name} {command.help} {command.id}"
        rows[text] = Row(str(place), Piece(help_text, "muted"), before=(name,), right=keys)
    return rows


def _scope(offer: CommandState) -> str:
    return f"{offer.node.title}: " if isinstance(offer.node, Pane) else ""
