"""A row of the log as it is painted: quick to make, because a log that runs makes a thousand of them a second.

The invariant: a `LogStrip` is a `Strip` in everything; what is quicker is only when its caches are made, and that it
knows where it will be cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.cache import FIFOCache
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.segment import Segment

CACHE_SIZE = 4


class LogStrip(Strip):
    """A row whose last segment, of `beside` cells, lies under the scroll bar."""

    __slots__ = ("_beside",)

    def __init__(self, segments: list[Segment], cell_length: int, beside: int = 0) -> None:
        """`segments` take `cell_length` cells in all."""
        # Not Textual's own: it makes seven caches for each row, a tenth of the time of a frame.
        self._segments = segments
        self._cell_length = cell_length
        self._beside = beside
        self._render_cache = None
        self._link_ids = None
        self._cell_count = None

    def __getattr__(self, name: str) -> Any:
        """A cache that was not made yet."""
        if not name.endswith("_cache"):
            raise AttributeError(name)
        cache: FIFOCache[Any, Any] = FIFOCache(CACHE_SIZE)
        setattr(self, name, cache)
        return cache

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """The parts between the cuts. Between text and scroll bar, where a log is cut in most frames, at no cost."""
        cuts = list(cuts)
        length, beside = self.cell_length, self._beside
        if beside and cuts == [length - beside, length]:
            return [LogStrip(self._segments[:-1], length - beside), LogStrip(self._segments[-1:], beside)]
        return super().divide(cuts)
