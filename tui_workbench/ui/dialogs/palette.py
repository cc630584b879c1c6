"""The palette: a searchable list in front of the screen, for commands and for themes.

Its result is the `key` of the chosen `Row`, which only the caller interprets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual.app import App
from textual.content import Content

from tui_workbench.ui.commands.available_commands import CommandState
from tui_workbench.ui.commands.command import key_label, shown_key
from tui_workbench.ui.commands.screen_commands import PALETTE
from tui_workbench.ui.widgets.dialog import DialogScreen
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.search_list import SearchList


class PaletteScreen(DialogScreen[str], inherit_bindings=False):
    """A list with a search field. Its result is the key of the chosen row, or ""."""

    BINDINGS = PALETTE.bindings
    DEFAULT_CSS = """
    PaletteScreen { align: center top; }
    PaletteScreen > Vertical { width: 96; max-height: 80%; margin-top: 2; }
    """

    def __init__(
        self, title: str, rows: Mapping[str, Row], *, current: str = "", preview: Callable[[str], object] | None = None
    ) -> None:
        """`rows` maps the texts that are searched to their rows. The cursor starts on the row with the key `current`.

        `preview` is called with the key of each row that the cursor moves to.
        """
        self.choices = SearchList(self.dismiss, "type to search", preview=preview)
        super().__init__(self.choices)
        self._rows = rows
        self._current = current
        self.choices.list.can_focus = False
        self.choices.border_title = Content(title)
        choose, close = shown_key("palette.choose", "enter"), shown_key("palette.close", "esc")
        self.choices.border_subtitle = Content(f"{choose} choose, {close} close")

    def on_mount(self) -> None:
        self.choices.show_choices(self._rows, self._current)
        self.choices.take_focus()

    def action_choose(self) -> None:
        self.choices.action_choose()

    def action_close(self) -> None:
        self.dismiss("")


async def choose_command(app: App[object], states: Sequence[CommandState], say: Callable[[str], None]) -> None:
    """Let the user choose a command, and run it or show the reason why it is unavailable.

    Return as soon as the palette accepts keys, so that keys typed ahead reach it.
    """

    async def run(chosen: str | None) -> None:
        if not chosen:
            return
        state = states[int(chosen)]
        if state.reason:
            say(f"{state.command.name}: {state.reason}")
        else:
            await app.run_action(state.command.action, state.node)

    screen = PaletteScreen("Commands", command_rows(states))
    screen.choices.last = frozenset(str(index) for index, state in enumerate(states) if state.reason)
    await app.push_screen(screen, run)


def command_rows(states: Sequence[CommandState]) -> dict[str, Row]:
    """Return a row for each command, keyed by the text that is searched. The `key` of a row is an index in `states`.

    The row of an unavailable command shows the reason.
    """
    rows = {}
    width = max((len(_full_name(state)) for state in states), default=0)
    for index, state in enumerate(states):
        command = state.command
        name = Piece(f"{_full_name(state):<{width}} ", "muted" if state.reason else "text")
        keys = (Piece(f" {key_label(command.keys)}", "accent", bold=True),) if command.keys else ()
        shown = f"Not now: {state.reason}" if state.reason else command.summary
        text = f"{command.name}\n{_full_name(state)} {command.help} {command.id}"
        rows[text] = Row(str(index), Piece(shown, "muted"), before=(name,), right=keys, cut_at_end=True)
    return rows


def _full_name(state: CommandState) -> str:
    if isinstance(state.node, Pane):
        return f"{state.node.short_title or state.node.title}: {state.command.name}"
    return state.command.name
