"""Jump mode: a label on each visible focusable widget, each tab and each link to a file.

Typing a label focuses the widget, shows the tab or opens the file. It never starts a run or changes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from tui_workbench.ui.commands.screen_commands import JUMP
from tui_workbench.ui.terminal.textual_internals import install_compositor, is_in_layout

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""Letters of labels, the home row first."""


class JumpPlace(NamedTuple):
    """A place to go to: the cell of its label on the screen, and the function that goes there."""

    x: int
    y: int
    go: Callable[[], object]


@runtime_checkable
class HasJumpPlaces(Protocol):
    """A widget with places that are not focusable widgets, such as tabs. `jump_places` returns the visible places."""

    def jump_places(self) -> Sequence[JumpPlace]: ...


def places_on(screen: Screen[Any]) -> list[JumpPlace]:
    """Return the places on a screen that jump mode labels, in reading order, at most one for each cell.

    The focused widget has no label.
    """
    places: dict[tuple[int, int], JumpPlace] = {}
    for widget in screen.walk_children(Widget):
        if not (is_in_layout(widget) and widget.region.area and screen.region.contains(*widget.region.offset)):
            continue
        if widget.focusable and widget is not screen.focused:
            place = _place_of(widget)
            places.setdefault((place.x, place.y), place)
        if isinstance(widget, HasJumpPlaces):
            for place in widget.jump_places():
                places.setdefault((place.x, place.y), place)
    return sorted(places.values(), key=lambda place: (place.y, place.x))


def labels_for(count: int) -> list[str]:
    """Return labels of one letter, or of two letters if there are more places than letters."""
    if count <= len(LETTERS):
        return list(LETTERS[:count])
    return [first + second for first in LETTERS for second in LETTERS][:count]


def _place_of(widget: Widget) -> JumpPlace:
    """Return the place of a widget: its first cell, or the corner of the pane that it fills."""
    region = widget.region
    pane = next((node for node in widget.ancestors if isinstance(node, Widget) and node.has_class("pane")), None)
    if pane is not None and region.y <= pane.region.y + 1:
        region = pane.region
    return JumpPlace(region.x, region.y, lambda: widget.screen.set_focus(widget))


class JumpScreen(ModalScreen["JumpPlace | None"], inherit_bindings=False):
    """A transparent screen with the labels. Its result is the chosen place, or None."""

    BINDINGS = JUMP.bindings
    # Only the labels are painted; dimming would send the whole screen over a slow connection.
    DEFAULT_CSS = """
    JumpScreen { background: transparent; }
    JumpScreen > Static {
        position: absolute; width: auto; height: 1; padding: 0 1;
        background: $warning; color: $background; text-style: bold;
    }
    """

    def __init__(self, places: Sequence[JumpPlace]) -> None:
        super().__init__()
        install_compositor(self)
        self._places = dict(zip(labels_for(len(places)), places, strict=True))
        self._typed = ""
        self._laid_out_for: Size | None = None

    def compose(self) -> ComposeResult:
        for label, place in self._places.items():
            static = Static(label, markup=False)
            static.styles.offset = (place.x, place.y)
            yield static

    def on_key(self, event: events.Key) -> None:
        if any(event.key in command.keys.split(",") for command in JUMP):
            return
        event.stop()
        self._typed += event.character or "?"
        if self._typed in self._places:
            self.dismiss(self._places[self._typed])
        elif not any(label.startswith(self._typed) for label in self._places):
            self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        # After a resize, the labels would be in the wrong places.
        if self._laid_out_for not in (None, event.size):
            self.dismiss(None)
        self._laid_out_for = event.size

    def action_leave(self) -> None:
        self.dismiss(None)


async def jump(app: App[Any]) -> bool:
    """Enter or leave jump mode. Return False if the screen has nothing to label."""
    if isinstance(app.screen, JumpScreen):
        app.screen.action_leave()
        return True
    places = places_on(app.screen)
    if places:
        await app.push_screen(JumpScreen(places), lambda place: place.go() if place else None)
    return bool(places)
