"""Private parts of Textual that tests need. `painted` uses more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual._context import visible_screen_stack
from textual.css.stylesheet import Stylesheet
from textual.keys import _character_to_key
from textual.strip import Strip

if TYPE_CHECKING:
    from typing import Any

    import pytest
    from textual import events
    from textual.app import App
    from textual.binding import BindingsMap
    from textual.css.model import RuleSet
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.widget import Widget


def share_parsed_styles(patch: pytest.MonkeyPatch) -> None:
    """Parse each style sheet once for all apps. An app parses about 25, which is a quarter of the time of a test."""
    parse_rules = Stylesheet._parse_rules
    parsed: dict[tuple[Any, ...], list[RuleSet]] = {}

    def parse_once(sheet: Stylesheet, css: str, **named: Any) -> list[RuleSet]:
        key = (css, *named.items(), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse_rules(sheet, css, **named)
        return parsed[key]

    patch.setattr(Stylesheet, "_parse_rules", parse_once)


def strips_of(screen: Screen[Any]) -> list[Strip]:
    """Return the drawn lines of a screen with their styles."""
    return screen._compositor.render_strips()


def whole_strips(app: App[Any]) -> list[Strip]:
    """Return the drawn lines of the top screen and of the screens that a dialog leaves visible."""
    visible_screen_stack.set(app._background_screens)
    return [Strip.join(pieces) for pieces in app.screen._compositor.render_full_update().strips]


def has_running_timer(widget: Widget) -> bool:
    """Return True if a timer of the widget is running, as opposed to paused or stopped."""
    return any(timer._active.is_set() for timer in widget._timers)


def merged_bindings(kind: type[DOMNode]) -> BindingsMap:
    """Return the bindings of a class with the inherited ones."""
    return kind._merge_bindings()


def name_of_character(character: str) -> str:
    """Return the name of the key that types the character, such as `full_stop`."""
    return _character_to_key(character)


def outdate_regions(screen: Screen[Any], widget: Widget) -> None:
    """Make the next read of a region rebuild the map of all regions, because of `widget`."""
    screen._compositor.update_widgets({widget})


def forget_arrangement(widget: Widget) -> None:
    """Arrange the children again at the next layout."""
    widget._clear_arrangement_cache()


def forwarded(key: events.Key) -> events.Key:
    """Mark a key as one that bubbles up from a widget to the app."""
    key._set_forwarded()
    return key
