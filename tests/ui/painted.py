"""Compare the frame that a terminal would show with a full repaint, for an app without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._context import visible_screen_stack

from tui_workbench.ui.terminal.screen_diff import CellStyle, Row, ScreenBuffer
from tui_workbench.ui.terminal.terminal_app import Result, TerminalApp

Cell = tuple[str, CellStyle]

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen


class PaintedDisplay(TerminalApp[Result]):
    """An app that draws each update into a frame, as the program does for a terminal."""

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self._running and not self._closed and not self._batch_count:
            if isinstance(renderable, LayoutUpdate | ChopsUpdate):
                self.painter.draw(renderable)
            self.post_display_hook()

    @property
    def is_painted(self) -> bool:
        """True if no part of the screen is waiting to be painted."""
        screen = self.screen
        waiting = (
            screen._dirty_widgets,
            screen._compositor._dirty_regions,
            screen._layout_required,
            screen._scroll_required,
            screen._repaint_required,
            self._batch_count,
        )
        return not any(waiting)

    def torn_rows(self) -> list[str]:
        """Describe the rows that differ from a full repaint."""
        rows = zip(map(_seen, self.painter.frame.rows), map(_seen, self._whole()), strict=True)
        return [_difference(y, row, whole) for y, (row, whole) in enumerate(rows) if row != whole]

    def _whole(self) -> list[Row]:
        """Return the rows of a full repaint, and keep the regions that are waiting to be painted."""
        painted, compositor = self.painter.frame, self.screen._compositor
        waiting = set(compositor._dirty_regions)
        self.painter.frame = ScreenBuffer()
        try:
            visible_screen_stack.set(self._background_screens)
            self.painter.draw(compositor.render_full_update())
            return self.painter.frame.rows
        finally:
            self.painter.frame = painted
            compositor._dirty_regions.update(waiting)


def _seen(row: Row) -> list[Cell]:
    """Return the cells of the row, with blanks reduced to their visible style: the background."""
    cells = zip(row.texts, row.styles, strict=True)
    return [(text, style.of_blanks if text == " " else style) for text, style in cells]


def _difference(y: int, row: list[Cell], whole: list[Cell]) -> str:
    is_text, should = ("".join(text for text, _ in each) for each in (row, whole))
    lines = [f"{y:3} is        {is_text}", f"    should be {should}"]
    columns = [x for x, (cell, wanted) in enumerate(zip(row, whole, strict=True)) if cell[1] is not wanted[1]]
    if columns:
        codes = [each[columns[0]][1].codes for each in (row, whole)]
        lines.append(f"    from column {columns[0]} to {columns[-1]}: {codes[0]!r}, and should be {codes[1]!r}")
    return "\n".join(lines)
