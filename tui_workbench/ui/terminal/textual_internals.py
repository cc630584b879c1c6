"""Functions for private parts of Textual: bindings, visible widgets, layouts, the compositor and the first screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.app import App
from textual.binding import Binding, BindingsMap, BindingType
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets._toast import ToastRack as ToastRack


def bindings_of(node: DOMNode) -> Mapping[str, list[Binding]]:
    """Return the bindings of the node itself, by key."""
    return node._bindings.key_to_bindings


def set_bindings(node: DOMNode, bindings: Iterable[BindingType]) -> None:
    """Replace the bindings of a node. Textual's public API sets bindings only for classes."""
    node._bindings = BindingsMap(bindings)


def binding_chain(screen: Screen[Any]) -> Iterable[tuple[DOMNode, BindingsMap]]:
    """Return the nodes that a key reaches, from the focus outwards, with their bindings."""
    return screen._modal_binding_chain


def is_in_layout(widget: Widget) -> bool:
    """Return True if the layout places the widget on the screen. `display` alone is not enough to know this."""
    return widget.is_attached and widget in widget.screen._compositor.visible_widgets


def clear_arrangement(widget: Widget) -> None:
    """Discard the cached layout of a widget, because it depends on state that Textual does not know."""
    widget._clear_arrangement_cache()


async def replace_first_screen(app: App[Any], screen: Screen[Any]) -> None:
    """Replace the only screen of an app. `App.switch_screen` fails for a screen from `App.get_default_screen`."""
    if not app.screen._result_callbacks:
        app.screen._push_result_callback(app.screen, None)
    await app.switch_screen(screen)


class RepaintingCompositor(Compositor):
    """A compositor that compares each layout with the previous layout instead of `full_map`.

    Reading the region of a widget rebuilds an outdated `full_map` from the current rules. If that happens between a
    change of the rules and the layout, Textual's comparison finds no difference: no moved widget is repainted, and
    widgets get no `Resize`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result

    def reflow_visible(self, parent: Widget, size: Size) -> set[Widget]:
        exposed = super().reflow_visible(parent, size)
        self._laid_out = {**self._laid_out, **(self._visible_map or {})}
        return exposed


def install_compositor(screen: Screen[Any]) -> None:
    """Use `RepaintingCompositor` in a new screen."""
    screen._compositor = RepaintingCompositor()
