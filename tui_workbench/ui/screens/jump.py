"""Jump mode: a letter on each place that one can go to; the letter goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.screen import ModalScreen
from textual.widgets import Static

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import JUMP
from tui_workbench.ui.jump import labels_for, places_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from textual import events
    from textual.app import App, ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size

    from tui_workbench.ui.jump import Place


class JumpScreen(ModalScreen["Place | None"], inherit_bindings=False):
    """Shows a label on each place over the screen below. Its result is the place that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(JUMP)
    # Only the labels are painted: a dimmed screen would be sent whole, which takes its time over a poor line.
    DEFAULT_CSS = """
    JumpScreen { background: transparent; }
    JumpScreen > Static {
        position: absolute; width: auto; height: 1; padding: 0 1;
        background: $warning; color: $background; text-style: bold;
    }
    """

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__()
        self._places = dict(zip(labels_for(len(places)), places, strict=True))
        self._typed = ""
        self._laid_out_for: Size | None = None

    def compose(self) -> ComposeResult:
        """A label a place."""
        for label, place in self._places.items():
            shown = Static(label, markup=False)
            shown.styles.offset = (place.x, place.y)
            yield shown

    def on_key(self, event: events.Key) -> None:
        """A label is typed; what begins none leaves all as it is."""
        if event.key in self._leaving:
            return
        event.stop()
        self._typed += event.character or "?"
        if self._typed in self._places:
            self.dismiss(self._places[self._typed])
        elif not any(label.startswith(self._typed) for label in self._places):
            self.dismiss(None)

    @property
    def _leaving(self) -> list[str]:
        return [key for command in JUMP for key in command.keys.split(",")]

    def on_click(self) -> None:
        """A click leaves all as it is."""
        self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        """The places are elsewhere then."""
        if self._laid_out_for not in (None, event.size):
            self.dismiss(None)
        self._laid_out_for = event.size

    def action_leave(self) -> None:
        """Go nowhere."""
        self.dismiss(None)


async def jump(app: App[Any]) -> bool:
    """Let the user choose one of the places of the screen on top; False when there is none to go to.

    Asked for a second time it is over.
    """
    if isinstance(app.screen, JumpScreen):
        app.screen.action_leave()
        return True
    places = places_on(app.screen)
    if places:
        await app.push_screen(JumpScreen(places), _go)
    return bool(places)


def _go(place: Place | None) -> None:
    if place is not None:
        place.go()
