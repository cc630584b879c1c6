"""Textual's private facts about widgets: the bindings of a node, and which part of a screen can be seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.binding import Binding, BindingsMap, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets._toast import ToastRack as ToastRack


def bindings_of(node: DOMNode) -> Mapping[str, list[Binding]]:
    """The bindings of the node itself, by key."""
    return node._bindings.key_to_bindings


def set_bindings(node: DOMNode, bindings: Iterable[BindingType]) -> None:
    """Give a node other bindings than its class has. Textual has bindings of classes only."""
    node._bindings = BindingsMap(bindings)


def binding_chain(screen: Screen[Any]) -> Iterable[tuple[DOMNode, BindingsMap]]:
    """The nodes that a key of the screen reaches, from the focus outwards, with their bindings."""
    return screen._modal_binding_chain


def is_in_layout(widget: Widget) -> bool:
    """Whether the layout gives the widget a place: one without has no region on the screen, whatever `display` says."""
    return widget.is_attached and widget in widget.screen._compositor.visible_widgets


def clear_arrangement(widget: Widget) -> None:
    """Have the widget's layout asked anew where it depends on more than Textual knows."""
    widget._clear_arrangement_cache()
