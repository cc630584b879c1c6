"""An app that sends its terminal only what changed, takes keys in their order, and shows no local variables.

Textual writes each part of the screen that was painted, with all of its colours set and reset for each word, whether or
not the terminal shows the same already. Here what was painted is drawn into a `LeanFrame`, and only the difference is
written: over a slow line every byte of it is waited for.

The invariant: the frame knows what the terminal shows, or knows that it does not: after a change of its size, and after
another program had it, all is written again.
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

from tui_workbench.ui.terminal.key_order import KeyQueue
from tui_workbench.ui.terminal.lean_driver import LeanDriver
from tui_workbench.ui.terminal.screen_diff import LeanFrame, Look, look_of

Result = TypeVar("Result")

ERASING = ("xterm", "rxvt", "alacritty", "kitty", "foot", "wezterm", "ghostty", "contour", "konsole", "vte", "linux")
"""How the TERM of terminals begins that erase to the background that is set."""

MOST_STYLES = 4_000
"""Styles whose looks are remembered; a style holds what it was made from."""


class FramePainter:
    """Draws the updates of an app's screens into `frame`."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._looks: dict[Style | None, Look] = {}
        # GNU screen does not erase to the background that is set, whatever TERM says inside.
        erases = os.environ.get("TERM", "").startswith(ERASING) and not {"STY", "TMUX"} & os.environ.keys()
        self.frame = LeanFrame(erases=erases)

    def draw(self, update: LayoutUpdate | ChopsUpdate) -> None:
        """Draw what a compositor has rendered."""
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

    def _pieces(self, strips: Iterable[Strip]) -> list[tuple[str, Look]]:
        return [(text, self._look(style)) for strip in strips for text, style, _ in strip._segments]

    def _look(self, style: Style | None) -> Look:
        look = self._looks.get(style)
        if look is None:
            system = self._app.console._color_system or ColorSystem.TRUECOLOR
            codes, link = ("", "") if style is None else (Strip.render_ansi(style, system), style._link or "")
            if len(self._looks) >= MOST_STYLES:
                self._looks.clear()
            look = self._looks[style] = look_of(codes, link)
        return look


class TerminalApp(App[Result], inherit_bindings=False):
    """The base of the workbench's app. `refused` tells why the last key did nothing; an empty string takes it back."""

    def __init__(self) -> None:
        super().__init__()
        self.painter = FramePainter(self)
        self.keys = KeyQueue(self, self._dispatch)
        self.refused: Signal[str] = Signal(self, "key refused")
        self._told_why = False

    # --- For subclasses

    def why_refused(self, key: str) -> str:
        """Why a key that something is bound to does nothing now; empty when nothing is, or when it does something."""
        return ""

    def crashed(self, error: Exception) -> None:
        """An error of ours ends the app."""

    # --- Keys

    async def on_event(self, event: events.Event) -> None:
        """Hold keys and pastes back while one is at work."""
        if isinstance(event, events.Resize):
            self.painter.frame.forget()  # the terminal has moved what it showed, each in its own way
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
            return
        await self.keys.take(event)

    async def _dispatch(self, event: events.Key | events.Paste) -> None:
        if self._told_why:
            self.tell_why("")
        await super().on_event(event)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Do what the key is bound to; say why, when that cannot be done now."""
        done = await super()._check_bindings(key, priority)
        if not done and not priority and (reason := self.why_refused(key)):
            self.tell_why(reason)
        return done

    def tell_why(self, reason: str) -> None:
        """Say why a key did nothing, until the next one; an empty string takes that back."""
        self._told_why = bool(reason)
        self.refused.publish(reason)

    # --- Errors

    def _handle_exception(self, error: Exception) -> None:
        # Textual would print all local variables, a project's secrets among them.
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.crashed(error)
        self._close_messages_no_wait()

    def fail_later(self, error: BaseException) -> None:
        """End because of an exception in a thread, from which this is called."""
        self.call_later(self._handle_exception, error)

    # --- The terminal

    def get_driver_class(self) -> type[Driver]:
        """Ours in place of Textual's for terminals; others (no terminal, a browser) stay."""
        usual = super().get_driver_class()
        return LeanDriver if usual is LinuxDriver else usual

    def forget_display(self) -> None:
        """Write everything again: something else may have written to the terminal."""
        self.painter.frame.forget()
        self.screen.refresh()

    def restore_terminal(self) -> None:
        """Give the terminal back at once, from any thread, when the event loop cannot do it any more."""
        if isinstance(self._driver, LeanDriver):
            self._driver.restore_now()

    def _resume_signal(self) -> None:
        self.painter.frame.forget()  # another program had the terminal
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
        if driver is None or self._closed or (isinstance(driver, LeanDriver) and not driver.is_free(self._write_frame)):
            return
        if text := self.painter.frame.take(self._previous_cursor_position):
            marks = (SYNC_START, SYNC_END) if self._sync_available else ("", "")
            driver.write(f"{marks[0]}{text}{marks[1]}")
            driver.flush()
