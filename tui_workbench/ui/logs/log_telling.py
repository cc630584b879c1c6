"""The scroll bar of a log view, and the rate at which the view tells what has changed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.timer import Timer
from textual.widget import Widget

ANNOUNCE_SECONDS = 0.2
"""Counts are told no faster than a person can read them."""


class PositionBar:
    """Shows a position in the scroll bar of a view, which neither scrolls nor is laid out anew for it."""

    def __init__(self, view: ScrollView) -> None:
        self._view = view
        self._thumb = (0, 0, 0)

    def show(self, lines: float, position: float) -> None:
        """Show a position among so many lines; the bar is only drawn when it would look different."""
        view, height = self._view, self._view.size.height
        total = max(1, round(lines))
        position = min(position, max(0, total - height))
        view.set_reactive(Widget.virtual_size, Size(view.size.width, total))
        view.set_reactive(Widget.scroll_y, position)
        view.set_reactive(Widget.scroll_target_y, position)
        steps = height * 8
        thumb = (height, min(steps, steps * height // total), round(steps * position / total))
        if thumb != self._thumb:
            self._thumb = thumb
            bar = view.vertical_scrollbar
            bar.window_virtual_size = total
            bar.window_size = height
            bar.position = position


class Announcer:
    """Calls `tell` at once or, for counts that run, a moment after the last call."""

    def __init__(self, widget: Widget, tell: Callable[[], object]) -> None:
        self._widget = widget
        self._tell = tell
        self._told_at = 0.0
        self._timer: Timer | None = None

    def now(self) -> None:
        """Tell at once."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._told_at = monotonic()
        self._tell()

    def soon(self) -> None:
        """Tell as soon as `ANNOUNCE_SECONDS` have passed since the last time."""
        if self._timer is None:
            wait = self._told_at + ANNOUNCE_SECONDS - monotonic()
            if wait <= 0:
                self.now()
            else:
                self._timer = self._widget.set_timer(wait, self.now)
