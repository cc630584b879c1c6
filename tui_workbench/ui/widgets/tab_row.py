"""The panes as a row of tabs, where the screen has room for one of them only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui_workbench.ui.jump import Place


class TabRow(Line):
    """`1 Files  2 Targets  ...`, the shown one loud."""

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, tabs: tuple[tuple[str, str], ...], *, id: str) -> None:
        """`tabs` are the names and the titles of the panes, in order."""
        super().__init__(id=id)
        self._tabs = tabs
        self._active = tabs[0][0]

    def show_active(self, name: str) -> None:
        """Mark the pane that is shown."""
        if name != self._active:
            self._active = name
            self.refresh()

    def choose_ground(self) -> str:
        """The tabs belong to the pane below them."""
        return "background"

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Every tab, numbered."""
        pieces = []
        for number, (name, title) in enumerate(self._tabs, 1):
            active = name == self._active
            text = f" {number} {title} "
            pieces.append(Piece(text, "accent" if active else "muted", bold=active, action=self._chooser(name)))
        return pieces, ()

    def jump_places(self) -> list[Place]:
        """Each tab but the one that is shown."""
        shown = [name for name, _ in self._tabs].index(self._active)
        return [place for number, place in enumerate(self.click_places()) if number != shown]

    def _chooser(self, name: str) -> Callable[[], None]:
        return lambda: self._choose(name)

    def _choose(self, name: str) -> None:
        self.post_message(self.Chosen(name))
