"""Private parts of Textual that tests need. `painted` uses more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from textual import events
    from textual.binding import BindingsMap
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.strip import Strip
    from textual.widget import Widget


def strips_of(screen: Screen[Any]) -> list[Strip]:
    """Return the drawn lines of a screen with their styles."""
    return screen._compositor.render_strips()


def has_running_timer(widget: Widget) -> bool:
    """Return True if a timer of the widget is running, as opposed to paused or stopped."""
    return any(timer._active.is_set() for timer in widget._timers)


def merged_bindings(kind: type[DOMNode]) -> BindingsMap:
    """Return the bindings of a class with the inherited ones."""
    return kind._merge_bindings()


def forwarded(key: events.Key) -> events.Key:
    """Mark a key as one that bubbles up from a widget to the app."""
    key._set_forwarded()
    return key
