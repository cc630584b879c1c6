"""An app that sends its terminal only what changed.

Textual writes each part of the screen that was painted, with all of its colours set and reset for each word, whether or
not the terminal shows the same already. Here what was painted is drawn into a `LeanFrame`, and only the difference is
written: over a slow line every byte of it is waited for.

The invariant: the frame knows what the terminal shows, or knows that it does not: after a change of its size, and after
another program had it, all is written again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

from rich.color import ColorSystem
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._cells import cell_len
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.strip import Strip

from tui_workbench.ui.lean_driver import LeanDriver
from tui_workbench.ui.lean_frame import LeanFrame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType
    from rich.style import Style
    from textual.driver import Driver
    from textual.screen import Screen

Result = TypeVar("Result")

ERASING = ("xterm", "rxvt", "alacritty", "kitty", "foot", "wezterm", "ghostty", "contour", "konsole", "vte", "linux")
"""How the TERM of terminals begins that erase to the background that is set."""


def erases_to_background(variables: Mapping[str, str]) -> bool:
    """Whether the terminal erases to the background that is set. GNU screen does not, whatever TERM says inside."""
    return variables.get("TERM", "").startswith(ERASING) and not {"STY", "TMUX"} & variables.keys()


class LeanDisplay(App[Result], Generic[Result]):
    """Writes the difference between what the terminal shows and what it should show."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = LeanFrame(cell_len, erases=erases_to_background(os.environ))
        self._style_faces: dict[Style | None, str] = {}

    async def on_event(self, event: events.Event) -> None:
        """A terminal that was resized has moved what it showed, each in its own way."""
        if isinstance(event, events.Resize):
            self._frame.forget()
        await super().on_event(event)

    def _resume_signal(self) -> None:
        # Another program had the terminal.
        self._frame.forget()
        super()._resume_signal()

    def get_driver_class(self) -> type[Driver]:
        """Ours in place of Textual's for terminals; others (no terminal, a browser) stay."""
        usual = super().get_driver_class()
        return LeanDriver if usual is LinuxDriver else usual

    def forget_display(self) -> None:
        """Write everything again: something else may have written to the terminal."""
        self._frame.forget()
        self.screen.refresh()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        driver = self._driver
        is_ours = self._running and not self._batch_count and not self._closed and not self.is_headless
        if not is_ours or driver is None or not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, renderable)
            return
        try:
            cursor = screen.outer_size.clamp_offset(self.cursor_position)
            self._draw(screen, renderable)
            self._previous_cursor_position = cursor
            self._write_frame()
        finally:
            self.post_display_hook()

    def _write_frame(self) -> None:
        driver = self._driver
        if driver is None or self._closed or (isinstance(driver, LeanDriver) and not driver.is_free(self._write_frame)):
            return
        if text := self._frame.take(self._previous_cursor_position):
            marks = (SYNC_START, SYNC_END) if self._sync_available else ("", "")
            driver.write(f"{marks[0]}{text}{marks[1]}")
            driver.flush()

    def _draw(self, screen: Screen[object], update: LayoutUpdate | ChopsUpdate) -> None:
        size = self.size
        if (size.width, size.height) != (self._frame.width, self._frame.height):
            self._frame.resize(size.width, size.height)
        if isinstance(update, LayoutUpdate):
            x = update.region.x
            for y, strips in enumerate(update.strips, update.region.y):
                self._frame.put(x, y, self._pieces(strips))
            return
        for y, left, right in update.spans:
            row: list[Strip] = []
            start = reach = 0
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is None or x > right or end <= left:
                    continue
                if row and x != reach:
                    self._frame.put(start, y, self._pieces(row))
                    row = []
                start = start if row else x
                row.append(strip if left <= x < right and end <= right else strip.crop(0, min(end, right) - x))
                reach = x + row[-1].cell_length
            if row:
                self._frame.put(start, y, self._pieces(row))

    def _pieces(self, strips: Iterable[Strip]) -> list[tuple[str, str]]:
        faces = self._style_faces
        pieces = []
        for strip in strips:
            for text, style, _ in strip._segments:
                face = faces.get(style)
                pieces.append((text, face if face is not None else self._face(style)))
        return pieces

    def _face(self, style: Style | None) -> str:
        if style is None:
            codes = link = ""
        else:
            system = self.console._color_system or ColorSystem.TRUECOLOR
            codes, link = Strip.render_ansi(style, system), style._link or ""
        if len(self._style_faces) >= MOST_STYLES:
            self._style_faces.clear()
        face = self._style_faces[style] = self._frame.face(codes, link)
        return face


MOST_STYLES = 4_000
"""Styles whose faces are remembered; a style holds what it was made from."""
