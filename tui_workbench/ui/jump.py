"""The places that jump mode can go to: what can have the focus and is in sight, tabs, and links to files.

The invariant: going to a place never starts or changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.screen import Screen

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""Those under the fingers first."""


class Place(NamedTuple):
    """Somewhere to go: where its label stands, in cells of the screen, and what goes there."""

    x: int
    y: int
    go: Callable[[], object]


@runtime_checkable
class HasPlaces(Protocol):
    """A widget with places in it that cannot have the focus, as tabs."""

    def jump_places(self) -> Sequence[Place]:
        """The places that are in sight."""


def places_on(screen: Screen[Any]) -> list[Place]:
    """Every place of a screen but the one where the focus is, in reading order; one place at a cell."""
    places: dict[tuple[int, int], Place] = {}
    for widget in screen.walk_children(Widget):
        if not _is_in_sight(widget):
            continue
        if widget.focusable and widget is not screen.focused:
            place = _place_of(widget)
            places.setdefault((place.x, place.y), place)
        if isinstance(widget, HasPlaces):
            for place in widget.jump_places():
                places.setdefault((place.x, place.y), place)
    return sorted(places.values(), key=lambda place: (place.y, place.x))


def labels_for(count: int) -> list[str]:
    """As many labels as there are places: single letters, or pairs of them where those do not suffice."""
    if count <= len(LETTERS):
        return list(LETTERS[:count])
    return [first + second for first in LETTERS for second in LETTERS][:count]


def _is_in_sight(widget: Widget) -> bool:
    # What has no place in the layout has no region on the screen, whatever `display` says.
    if not widget.is_attached or widget not in widget.screen._compositor.visible_widgets:
        return False
    region = widget.region
    return bool(region.width and region.height and widget.screen.region.contains(region.x, region.y))


def _place_of(widget: Widget) -> Place:
    """At the widget's first cell; of what fills a pane, at the pane's corner, where it covers nothing."""
    region = widget.region
    pane = next((node for node in widget.ancestors if node.has_class("pane")), None)
    if pane is not None and region.y <= pane.region.y + 1:  # type: ignore[attr-defined]
        region = pane.region  # type: ignore[attr-defined]
    return Place(region.x, region.y, lambda: widget.screen.set_focus(widget))
