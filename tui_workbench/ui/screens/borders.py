"""Moving the borders between the panes of the main screen, with keys and with the mouse.

The invariant: what is remembered are sizes that the panes have; a border that cannot go further forgets how far one
wanted it to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.screen import Screen

from tui_workbench.ui.screens.main_layout import (
    PANES,
    RIGHT_PANES,
    MainLayout,
    Sizes,
    border_at,
    border_of,
    is_wide,
    moved,
)

if TYPE_CHECKING:
    from typing import Any

STEP_X, STEP_Y = 4, 2
"""Cells that a key moves a border."""


class MovableBorders(Screen[None], inherit_bindings=False):
    """A screen laid out by `MainLayout`."""

    _main_layout: MainLayout
    _dragged = ""
    _dragged_from = (0, 0)

    def _show_view(self, **changes: Any) -> None:
        raise NotImplementedError

    def why_not_border(self) -> str:
        """Why no border can be moved now: a sentence, or "" when one can."""
        if self._main_layout.view.zoomed:
            return "One pane has the whole screen; z gives the others theirs."
        if not is_wide(self.size):
            return "The panes stand beside each other in terminals of 100 by 22 and more."
        return ""

    def action_move_border(self, axis: str, direction: int) -> None:
        """Move a border of the column with the focus."""
        if self.why_not_border():
            return
        border = border_of(self._focused_pane(), is_upright=axis == "x")
        self._move(border, direction * (STEP_X if axis == "x" else STEP_Y))

    def action_borders_back(self) -> None:
        """All panes as at first."""
        self._show_view(sizes=Sizes())

    def _focused_pane(self) -> str:
        for node in self.focused.ancestors_with_self if self.focused is not None else ():
            if node.id in (*PANES, *RIGHT_PANES):
                return str(node.id)
        return self._main_layout.view.active

    def _move(self, border: str, cells: int) -> None:
        self._show_view(sizes=moved(self.size, self._main_layout.view, border, cells))

    # --- Mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the border under the mouse."""
        place = event.screen_x, event.screen_y
        self._dragged = border_at(self.size, self._main_layout.view, *place) if event.button == 1 else ""
        self._dragged_from = place

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Let the border that is held follow the mouse."""
        if not self._dragged or event.button != 1:
            self._dragged = ""
            return
        if self.app.mouse_captured is None:
            self.capture_mouse()
        axis = 0 if self._dragged in ("lists", "right") else 1
        place = event.screen_x, event.screen_y
        if cells := place[axis] - self._dragged_from[axis]:
            self._move(self._dragged, cells)
            self._dragged_from = place

    def on_mouse_up(self) -> None:
        """Let it go."""
        if self._dragged:
            self._dragged = ""
            self.release_mouse()
            self.clear_selection()
