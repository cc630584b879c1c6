"""A view for rows that are painted often, such as those of a growing log.

Rows are cached and drawn without the box model. A `QuickStrip` behaves like a `Strip`, but creates its caches on demand
and knows where it will be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

CACHE_SIZE = 4

MAX_STYLES = 4096  # limit of cached styles, because a log with color gradients has many


class QuickStrip(Strip):
    """A row whose last segment, of `beside` cells, is under the scroll bar."""

    __slots__ = ("_beside",)

    def __init__(self, segments: list[Segment], cell_length: int, beside: int = 0) -> None:
        """`cell_length` is the width of all segments."""
        # `super().__init__` is not called: it makes seven caches for each row, which takes half of the time of a frame.
        self._segments = segments
        self._cell_length = cell_length
        self._beside = beside
        self._render_cache = None
        self._link_ids = None
        self._cell_count = None

    def __getattr__(self, name: str) -> Any:
        """Create a cache on demand."""
        if not name.endswith("_cache"):
            raise AttributeError(name)
        cache: FIFOCache[Any, Any] = FIFOCache(CACHE_SIZE)
        setattr(self, name, cache)
        return cache

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        # The usual cut, between text and scroll bar, is fast.
        cuts = list(cuts)
        length, beside = self.cell_length, self._beside
        if beside and cuts == [length - beside, length]:
            return [QuickStrip(self._segments[:-1], length - beside), QuickStrip(self._segments[-1:], beside)]
        return super().divide(cuts)


class QuickRows(ScrollView, inherit_bindings=False):
    """A view without border and padding; the last cell of each row is the scroll bar."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: dict[int, Strip] = {}
        self._filtered: dict[Style, Style] = {}

    def draw_rows(self, rows: Sequence[int]) -> Iterable[list[Segment]]:
        """Return the segments of rows of the screen. The last segment of a row is the cell under the scroll bar."""
        raise NotImplementedError

    def _set_dirty(self, *regions: Region) -> None:
        # Textual also calls this after a resize, without `refresh`.
        for row in (y for region in regions for y in region.line_range):
            self._drawn.pop(row, None)
        if not regions:
            self._drawn.clear()
        super()._set_dirty(*regions)

    def notify_style_update(self) -> None:
        self._drawn.clear()
        self._filtered.clear()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        width, drawn = self.size.width, self._drawn
        missing = [y for y in crop.line_range if y not in drawn]
        if missing:
            for y, segments in zip(missing, self.draw_rows(missing), strict=True):
                filtered = [Segment(text, self._filter(style)) for text, style, _ in segments]
                drawn[y] = QuickStrip(filtered, width, 1)
        strips = [drawn[y] for y in crop.line_range]
        return strips if crop.column_span == (0, width) else [strip.crop(*crop.column_span) for strip in strips]

    def _filter(self, style: Style | None) -> Style:
        """Apply the line filters to a style."""
        style = style or Style.null()
        filtered = self._filtered.get(style)
        if filtered is None:
            if len(self._filtered) >= MAX_STYLES:
                self._filtered.clear()
            segments = [Segment(" ", style)]
            for line_filter in self.get_line_filters():
                segments = line_filter.apply(segments, self.background_colors[1])
            filtered = self._filtered[style] = segments[0].style or Style.null()
        return filtered
