"""A compositor that repaints moved widgets even if their regions were read before the layout.

Textual compares a new layout with `full_map`. Reading a region rebuilds an outdated `full_map` from the current rules.
If that happens between a change of the rules and the layout, the comparison finds no difference: nothing is repainted,
and widgets get no `Resize`.
"""

from __future__ import annotations

from typing import Any

from textual._compositor import Compositor, CompositorMap, ReflowResult
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget


class RepaintingCompositor(Compositor):
    """A compositor that compares each layout with the previous layout instead of `full_map`."""

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
