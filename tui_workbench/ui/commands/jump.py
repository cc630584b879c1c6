"""Jump mode: a letter on each place that one can go to; the letter goes there.

Places are what can have the focus and is in sight, tabs, and links to files. The invariant: going to a place never
starts or changes anything.
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
from tui_workbench.ui.terminal.compositor import install_compositor
from tui_workbench.ui.terminal.textual_internals import is_in_layout

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""Those under the fingers first."""


class JumpPlace(NamedTuple):
    """Somewhere to go: where its label stands, in cells of the screen, and what goes there."""

    x: int
    y: int
    go: Callable[[], object]


@runtime_checkable
class HasJumpPlaces(Protocol):
    """A widget with places in it that cannot have the focus, as tabs; it gives those that are in sight."""

    def jump_places(self) -> Sequence[JumpPlace]: ...


def places_on(screen: Screen[Any]) -> list[JumpPlace]:
    """Every place of a screen but the one where the focus is, in reading order; one place at a cell."""
    places: dict[tuple[int, int], JumpPlace] = {}
    for widget in screen.walk_children(Widget):
        if not _is_in_sight(widget):
            continue
        if widget.focusable and widget is not screen.focused:
            place = _place_of(widget)
            places.setdefault((place.x, place.y), place)
        if isinstance(widget, HasJumpPlaces):
            for place in widget.jump_places():
                places.setdefault((place.x, place.y), place)
    return sorted(places.values(), key=lambda place: (place.y, place.x))


def labels_for(count: int) -> list[str]:
    """As many labels as there are places: single letters, or pairs of them where those do not suffice."""
    if count <= len(LETTERS):
        return list(LETTERS[:count])
    return [first + second for first in LETTERS for second in LETTERS][:count]


def _is_in_sight(widget: Widget) -> bool:
    return is_in_layout(widget) and bool(widget.region.area) and widget.screen.region.contains(*widget.region.offset)


def _place_of(widget: Widget) -> JumpPlace:
    """At the widget's first cell; of what fills a pane, at the pane's corner, where it covers nothing."""
    region = widget.region
    pane = next((node for node in widget.ancestors if isinstance(node, Widget) and node.has_class("pane")), None)
    if pane is not None and region.y <= pane.region.y + 1:
        region = pane.region
    return JumpPlace(region.x, region.y, lambda: widget.screen.set_focus(widget))


class JumpScreen(ModalScreen["JumpPlace | None"], inherit_bindings=False):
    """Shows a label on each place over the screen below. Its result is the place that was chosen."""

    BINDINGS = JUMP.bindings
    # Only the labels are painted: a dimmed screen would be sent whole, which takes its time over a poor line.
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
            shown = Static(label, markup=False)
            shown.styles.offset = (place.x, place.y)
            yield shown

    def on_key(self, event: events.Key) -> None:
        """Type a label; what begins none leaves all as it is."""
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
        """Leave, because the places are elsewhere then."""
        if self._laid_out_for not in (None, event.size):
            self.dismiss(None)
        self._laid_out_for = event.size

    def action_leave(self) -> None:
        self.dismiss(None)


async def jump(app: App[Any]) -> bool:
    """Let the user choose one of the places of the screen on top; False when there is none to go to.

    Asked for a second time it is over.
    """
    if isinstance(app.screen, JumpScreen):
        app.screen.action_leave()
        return True
    places = places_on(app.screen)
    if places:
        await app.push_screen(JumpScreen(places), lambda place: place.go() if place else None)
    return bool(places)
