"""A screen that sends only what changed, and sends it at once: over a slow line every byte and tick is waited for.

Textual paints the whole screen anew whenever the focus moves and whenever a child comes or goes, some 40 kB. Neither is
needed: widgets whose look depends on the focus paint themselves, and the compositor knows what a new layout moved. Its
timer lets one to two periods pass between a frame and the next one; here it is one at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from textual.reactive import Reactive
from textual.screen import UPDATE_PERIOD, Screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from textual.geometry import Region
    from textual.widget import Widget

Result = TypeVar("Result")


class FramePacer:
    """Has frames drawn: the next one at once when the last was begun a period ago, else as soon as that is so."""

    def __init__(self, draw: Callable[[], object]) -> None:
        self._draw = draw
        self._due: asyncio.TimerHandle | None = None
        self._begun = 0.0

    def resume(self) -> None:
        """There is something to be drawn."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._begun + UPDATE_PERIOD), self._begin)

    def pause(self) -> None:
        """It is being drawn."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _begin(self) -> None:
        self._due = None
        self._begun = asyncio.get_running_loop().time()
        self._draw()


class ThriftyScreen(Screen[Result], inherit_bindings=False):
    """A screen that is painted as a whole only when its own look changes."""

    _shown_once = False
    _pacer: FramePacer | None = None

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    @property
    def _update_timer(self) -> FramePacer:  # type: ignore[override]
        """What Textual tells that there is something to be drawn, or that it is drawn."""
        if self._pacer is None:
            self._pacer = FramePacer(lambda: self.call_next(self._on_timer_update))
        return self._pacer

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """A new layout paints what it moved, and no more."""
        if self.stack_updates == 1 and not self._shown_once and not (regions or layout or recompose):
            # Textual asks for this right after it has painted all of a screen for the first time.
            self._shown_once = True
            return self
        return super().refresh(*regions, repaint=repaint and not layout, layout=layout, recompose=recompose)
