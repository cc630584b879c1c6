"""Widgets of one line that is drawn from pieces, such as the header, footer and tab row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from textual import events, on
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands.jump import JumpPlace
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import Piece, draw_line, width_of


class Line(Widget, inherit_bindings=False):
    """A widget of one line, drawn from the pieces that `pieces` returns."""

    DEFAULT_CSS = "Line { height: 1; }"
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clickable: list[tuple[int, int, Callable[[], object]]] = []

    def background_role(self) -> str:
        return "raised"

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Return the pieces at the left and at the right edge. The latter are omitted in a narrow line."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        background = getattr(palette, self.background_role())
        width = self.size.width
        left, right = self.pieces(width)
        self._clickable.clear()
        gap = width - width_of(left) - width_of(right)
        pieces = [*left, Piece(" " * gap), *right] if right and gap >= 1 else left
        start = 0
        for piece in pieces:
            end = start + width_of((piece,))
            if piece.action is not None:
                self._clickable.append((start, end, piece.action))
            start = end
        return draw_line(pieces, width, palette, background)

    def click_places(self) -> list[JumpPlace]:
        """Return the first cell and the action of each piece that can be clicked."""
        return [JumpPlace(self.region.x + start, self.region.y, action) for start, _, action in self._clickable]

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    @on(events.Click)
    def _piece_clicked(self, event: events.Click) -> None:
        for start, end, action in self._clickable:
            if start <= event.x < end:
                event.stop()
                action()
                return


MIN_ABOUT_WIDTH = 10


class TitleLine(Line):
    """A bold title followed by muted text, for example `Comparison  of train.py [1], train.py [2]`."""

    def __init__(self, title: str, about: str) -> None:
        """`about` is untrusted text after the title."""
        super().__init__()
        self._title = title
        self.show(about)

    def show(self, about: str, after: Sequence[Piece] = (), right: Sequence[Piece] = ()) -> None:
        """Set the text after the title, the pieces `after` it, and the pieces at the right edge."""
        self._shown = (about, tuple(after), tuple(right))
        self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        about, after, right = self._shown
        title = Piece(f" {self._title}", bold=True)
        room = width - width_of((title, *after, *right)) - 4
        text = Piece(f"  {truncate_middle(safe_text(about), max(MIN_ABOUT_WIDTH, room))}", "muted")
        return (title, text, *after), (*right, Piece(" ")) if right else ()


class TabRow(Line):
    """The tabs of panes: `1 Files  2 Targets  ...`."""

    @dataclass(eq=False)
    class Chosen(Message):
        """Posted when a tab is clicked."""

        name: str

    active: reactive[str] = reactive("")
    """The name of the visible pane."""

    def __init__(self, tabs: tuple[tuple[str, str], ...], *, id: str) -> None:
        """`tabs` are the names and titles of the panes. The keys of the tabs are 1, 2, ..."""
        super().__init__(id=id)
        self._tabs = tabs
        self._keys = [str(number) for number in range(1, len(tabs) + 1)]
        self.active = tabs[0][0]

    def background_role(self) -> str:
        return "background"

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        pieces = []
        for key, (name, title) in zip(self._keys, self._tabs, strict=True):
            role = "accent" if name == self.active else "muted"
            choose = partial(self._choose, name)
            pieces.append(Piece(f" {key} {title} ", role, bold=name == self.active, action=choose))
        return pieces, ()

    def add(self, key: str, name: str, title: str) -> None:
        """Add a tab at the end."""
        self._tabs, self._keys = (*self._tabs, (name, title)), [*self._keys, key]
        self.refresh()

    def _choose(self, name: str) -> None:
        self.post_message(self.Chosen(name))

    def jump_places(self) -> list[JumpPlace]:
        return [place for place, (name, _) in zip(self.click_places(), self._tabs, strict=False) if name != self.active]
