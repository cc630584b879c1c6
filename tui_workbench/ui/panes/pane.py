"""What every pane has in common: a number, a title in its border, and an answer to why a command is not available.

Panes are handed what they show and post what happened in them; none of them asks another for anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

if TYPE_CHECKING:
    from typing import Self

    from textual.strip import Strip


class Pane(Widget, inherit_bindings=False):
    """A box of the main screen. `about` is what `?` says about it."""

    DEFAULT_CSS = "Pane { layout: vertical; }"

    number: ClassVar[int]
    title: ClassVar[str]
    about: ClassVar[str]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._titled_row: int | None = None
        self._frame: tuple[Region, list[Strip]] | None = None
        self.set_title()

    def set_title(self, detail: str = "") -> None:
        """Show the pane's number and title in the border, and `detail`, which must be safe text, behind them."""
        self._titled_row = 0
        self.border_title = Content(f"{self.number} {self.title}{'  ' + detail if detail else ''}")
        self._titled_row = None

    def set_subtitle(self, content: Content) -> None:
        """Show this in the lower border."""
        self._titled_row = max(0, self.outer_size.height - 1)
        self.border_subtitle = content
        self._titled_row = None

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw anew. A title is one row: Textual draws the whole pane for it, log and all."""
        self._frame = None
        if self._titled_row is not None:
            left, top = self.content_offset
            regions = (Region(-left, self._titled_row - top, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """The border may have another colour."""
        self._frame = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The border around what is in the pane, which Textual asks for with each frame of that."""
        if self._frame is None or self._frame[0] != crop or self._dirty_regions:
            self._frame = (crop, super().render_lines(crop))
        return self._frame[1]

    def why_not(self, action: str) -> str:
        """Why the action is not available now: a sentence, or an empty string when it is."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)

    def take_focus(self) -> None:
        """Put the focus where a person would want it in this pane.

        With `screen.set_focus`, not with `Widget.focus`, which does it later: keys typed ahead would go elsewhere.
        """
        raise NotImplementedError
