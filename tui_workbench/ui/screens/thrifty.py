"""A screen that sends only what changed: over a slow line every byte of it is waited for.

Textual paints the whole screen anew whenever the focus moves and whenever a child comes or goes, some 40 kB. Neither is
needed: widgets whose look depends on the focus paint themselves, and the compositor knows what a new layout moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from textual.reactive import Reactive
from textual.screen import Screen

if TYPE_CHECKING:
    from typing import Self

    from textual.geometry import Region
    from textual.widget import Widget

Result = TypeVar("Result")


class ThriftyScreen(Screen[Result], inherit_bindings=False):
    """A screen that is painted as a whole only when its own look changes."""

    _shown_once = False

    @property
    def is_current(self) -> bool:
        """Whether anything of it can be seen.

        Textual takes the screen below the top one for visible, whatever the top one looks like, and paints all of both
        whenever anything moves down there.
        """
        if not super().is_current:
            return False
        stack = self.app.screen_stack
        return all(screen.styles.background.a < 1 for screen in stack[stack.index(self) + 1 :])

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """A new layout paints what it moved, and no more."""
        if self.stack_updates == 1 and not self._shown_once and not (regions or layout or recompose):
            # Textual asks for this right after it has painted all of a screen for the first time.
            self._shown_once = True
            return self
        return super().refresh(*regions, repaint=repaint and not layout, layout=layout, recompose=recompose)
