"""The application: a project, a theme and the main screen, and nothing else. Logic lives in screens and panes."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App

from tui_workbench.ui import themes
from tui_workbench.ui.commands import APP, bindings
from tui_workbench.ui.key_order import KeysInOrder
from tui_workbench.ui.lean_display import LeanDisplay
from tui_workbench.ui.screens.main import MainScreen
from tui_workbench.ui.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.filter import LineFilter
    from textual.screen import Screen
    from textual.theme import Theme

    from tui_workbench.errors import WorkbenchError
    from tui_workbench.model import Run  # noqa: F401  the type of the result
    from tui_workbench.project import Project
    from tui_workbench.ui.file_tree import FileTree
    from tui_workbench.ui.remembered import Values


FULL = Terminal()
BUG_NOTE = (
    "This is a mistake in workbench-tui, not in your project. Runs go on; unsaved edits are back at the next start."
)


class WorkbenchApp(LeanDisplay["list[Run]"], KeysInOrder["list[Run]"], inherit_bindings=False):
    """The workbench on one project. Its result is the list of runs that go on when it is left."""

    TITLE = "workbench-tui"
    ENABLE_COMMAND_PALETTE = False  # ours shows the registry of commands
    BINDINGS: ClassVar[list[BindingType]] = bindings(APP)
    CSS = """
    .pane { border: round $border-blurred; border-title-color: $text-muted; border-subtitle-color: $text-muted; }
    .pane:focus-within, .pane:focus {
        border: round $border; border-title-color: $border; border-title-style: bold;
    }
    #run-bar { background: $panel; }
    #log { padding: 0 0 0 1; }
    .-narrow .pane { border: none; }
    .-narrow #editor, .-narrow #log { border-top: solid $border-blurred; }
    .-narrow #log { border-bottom: solid $border-blurred; }
    .-narrow #editor:focus-within, .-narrow #editor:focus { border: none; border-top: solid $border; }
    .-narrow #log:focus-within, .-narrow #log:focus {
        border: none; border-top: solid $border; border-bottom: solid $border;
    }
    """

    def __init__(
        self,
        project: Project,
        tree: FileTree,
        theme: themes.WorkbenchTheme,
        trouble: WorkbenchError | None = None,
        terminal: Terminal = FULL,
        remembered: Values | None = None,
    ) -> None:
        """`trouble` is told to the user once the screen stands; `terminal` is what the screens are drawn for.

        `remembered` is what the project looked like when it was left; with None nothing is remembered.
        """
        # Textual makes its style sheet in its constructor: the theme must be known by then, or it is made twice.
        self._themes: dict[str, Theme] = {theme.name: theme}
        self.set_reactive(App.theme, theme.name)
        self.terminal = terminal
        super().__init__()
        self._project = project
        self._tree = tree
        self._trouble = trouble
        self._remembered = remembered
        self.hold_keys()

    async def on_main_screen_completed(self) -> None:
        """What was typed ahead is done now, in its order."""
        await self.release_keys()

    @property
    def available_themes(self) -> dict[str, Theme]:
        """Ours, as far as they were loaded; Textual's own are not offered."""
        return self._themes

    def get_default_screen(self) -> Screen[None]:
        """The only screen that is always there."""
        return MainScreen(self._project, self._tree, self._trouble, self._remembered)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every line passes through on its way to the terminal."""
        usual = super().get_line_filters()
        if self.terminal == FULL:
            return usual
        from tui_workbench.ui.colors import line_filters

        return line_filters(self.current_theme, self.terminal, usual)

    def copy_to_clipboard(self, text: str) -> None:
        """Bring a text to the user's clipboard; Textual's own widgets call this, ours `clipboard.copy`."""
        from tui_workbench.ui.clipboard import copy

        copy(self, text)

    def show_theme(self, theme: themes.WorkbenchTheme) -> None:
        """Show everything in these colours."""
        if theme is self.current_theme:
            return
        self._themes[theme.name] = theme
        if self.theme == theme.name:
            # Its file has changed, and its name has not.
            self.set_reactive(App.theme, "")
        self.theme = theme.name

    def _fatal_error(self) -> None:
        """Leave after a mistake of ours. Textual would print all local variables, a project's secrets among them."""
        self._exit_renderables.append(Text(f"{traceback.format_exc()}\n{BUG_NOTE}"))
        self._close_messages_no_wait()

    async def action_jump(self) -> None:
        """Go somewhere by its letter."""
        from tui_workbench.ui.screens.jump import jump

        if not await jump(self):
            self.tell_why("There is nowhere else to go to.")

    async def action_quit(self) -> None:
        """Leave by way of the main screen, which asks what must be asked."""
        while not isinstance(self.screen, MainScreen):
            await self.pop_screen()
        await self.screen.action_quit()
