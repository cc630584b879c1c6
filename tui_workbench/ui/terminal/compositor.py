"""Screens that repaint what a new layout moved, also when the new places were read before it.

Textual compares a new layout with `full_map` to find what moved. When that map is out of date and a widget is asked for
its place, it is made anew, from the rules as they are by then. Between a change of the rules and the layout, it holds
the new places already: the comparison finds nothing, nothing is painted, and widgets are not told of their new size.
"""

from __future__ import annotations

from typing import Any

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget


class RepaintingCompositor(Compositor):
    """Compares each layout with the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay out everything, and mark what moved since the last layout."""
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result

    def reflow_visible(self, parent: Widget, size: Size) -> set[Widget]:
        """Lay out what is visible after scrolling, and mark what moved since the last layout."""
        exposed = super().reflow_visible(parent, size)
        self._laid_out = {**self._laid_out, **(self._visible_map or {})}
        return exposed


def install_compositor(screen: Screen[Any]) -> None:
    """Let a new screen compare each layout with the one before it."""
    screen._compositor = RepaintingCompositor()
