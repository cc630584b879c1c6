"""Functions for private parts of Textual: bindings, visible widgets, layout caches and the first screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingsMap, BindingType
from textual.dom import DOMNode
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
