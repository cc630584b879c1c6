"""The base class of the app. It writes only changed cells, handles keys in order, and hides local variables in errors.

Textual writes each repainted region in full, with the colors set and reset for each word. `TerminalApp` draws into a
`ScreenBuffer` instead and writes the difference. After a resize, and after another program used the terminal,
everything is written again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

from rich.color import ColorSystem
from rich.console import RenderableType
from rich.style import Style
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.signal import Signal
from textual.strip import Strip

from tui_workbench.ui.terminal.key_queue import KeyQueue
from tui_workbench.ui.terminal.screen_diff import CellStyle, ScreenBuffer, cell_style
from tui_workbench.ui.terminal.terminal_driver import TerminalDriver

Result = TypeVar("Result")

ERASING = ("xterm", "rxvt", "alacritty", "kitty", "foot", "wezterm", "ghostty", "contour", "konsole", "vte", "linux")
"""Prefixes of TERM for terminals that erase with the current background color."""

MAX_STYLES = 4_000


class FramePainter:
    """A painter that draws the updates of an app's screens into `frame`."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._styles: dict[Style | None, CellStyle] = {}
        # GNU screen erases with the default background, whatever TERM says.
        erases = os.environ.get("TERM", "").startswith(ERASING) and not {"STY", "TMUX"} & os.environ.keys()
        self.frame = ScreenBuffer(erases=erases)

    def draw(self, update: LayoutUpdate | ChopsUpdate) -> None:
        size = self._app.size
        if (size.width, size.height) != (self.frame.width, self.frame.height):
            self.frame.resize(size.width, size.height)
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                self.frame.put(update.region.x, y, self._pieces(strips))
            return
        for y, left, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is not None and x <= right and end > left:
                    is_whole = left <= x < right and end <= right
                    whole = strip if is_whole else strip.crop(0, min(end, right) - x)
                    self.frame.put(x, y, self._pieces([whole]))

    def _pieces(self, strips: Iterable[Strip]) -> list[tuple[str, CellStyle]]:
        return [(text, self._cell_style(style)) for strip in strips for text, style, _ in strip._segments]

    def _cell_style(self, style: Style | None) -> CellStyle:
        cell = self._styles.get(style)
        if cell is None:
            system = self._app.console._color_system or ColorSystem.TRUECOLOR
            codes, link = ("", "") if style is None else (Strip.render_ansi(style, system), style._link or "")
            if len(self._styles) >= MAX_STYLES:
                self._styles.clear()
            cell = self._styles[style] = cell_style(codes, link)
        return cell


class TerminalApp(App[Result], inherit_bindings=False):
    """The base class of the app. `refused` publishes the reason why a key had no effect, and "" at the next key."""

    def __init__(self) -> None:
        super().__init__()
        self.painter = FramePainter(self)
        self.keys = KeyQueue(self, self._dispatch)
        self.refused: Signal[str] = Signal(self, "key refused")
        self._shows_refusal = False

    # --- For subclasses

    def why_refused(self, key: str) -> str:
        """Return the name of a key's command and the reason why it is unavailable now, or ""."""
        return ""

    def crashed(self, error: Exception) -> None:
        """Handle an unexpected error that ends the app."""

    # --- Keys

    async def on_event(self, event: events.Event) -> None:
        if not self.screen_stack and isinstance(event, events.InputEvent | events.AppFocus | events.AppBlur):
            return  # the app is closing; Textual would raise an error
        # Keys and pastes are queued, so that each reaches the widget that the previous key focused.
        if isinstance(event, events.Resize):
            self.painter.frame.forget()  # terminals differ in how they move the text on a resize
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
            return
        await self.keys.take(event)

    async def _dispatch(self, event: events.Key | events.Paste) -> None:
        if self._shows_refusal:
            self.show_refusal("")
        await super().on_event(event)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        done = await super()._check_bindings(key, priority)
        if not done and not priority and (reason := self.why_refused(key)):
            self.show_refusal(reason)
        return done

    def show_refusal(self, reason: str) -> None:
        """Show the reason why a key had no effect, until the next key. "" hides it."""
        self._shows_refusal = bool(reason)
        self.refused.publish(reason)

    # --- Errors

    def _handle_exception(self, error: Exception) -> None:
        # Textual would print all local variables, which may contain secrets.
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.crashed(error)
        self._close_messages_no_wait()

    def fail_later(self, error: BaseException) -> None:
        """End the app because of an exception. Call this in the thread that raised it."""
        self.call_later(self._handle_exception, error)

    # --- The terminal

    def get_driver_class(self) -> type[Driver]:
        default = super().get_driver_class()
        return TerminalDriver if default is LinuxDriver else default

    def action_redraw(self) -> None:
        """Write the whole screen again, because another program may have written to the terminal."""
        self.painter.frame.forget()
        self.screen.refresh()

    def restore_terminal(self) -> None:
        """Restore the terminal without the event loop. May be called in any thread."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.restore_now()

    def _resume_signal(self) -> None:
        self.painter.frame.forget()  # another program used the terminal
        super()._resume_signal()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        driver = self._driver
        is_ours = self._running and not self._batch_count and not self._closed and not self.is_headless
        if not is_ours or driver is None or not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, renderable)
            return
        try:
            cursor = screen.outer_size.clamp_offset(self.cursor_position)
            self.painter.draw(renderable)
            self._previous_cursor_position = cursor
            self._write_frame()
        finally:
            self.post_display_hook()

    def _write_frame(self) -> None:
        driver = self._driver
        if driver is None or self._closed:
            return
        if isinstance(driver, TerminalDriver) and not driver.is_free(self._write_frame):
            return
        if text := self.painter.frame.take(self._previous_cursor_position):
            marks = (SYNC_START, SYNC_END) if self._sync_available else ("", "")
            driver.write(f"{marks[0]}{text}{marks[1]}")
            driver.flush()
