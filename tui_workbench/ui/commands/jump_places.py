"""Places that jump mode labels besides the widgets that can take the focus. The screen of labels is in `jump`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class JumpPlace(NamedTuple):
    """A place to go to: the cell of its label on the screen, and the function that goes there."""

    x: int
    y: int
    go: Callable[[], object]


@runtime_checkable
class HasJumpPlaces(Protocol):
    """A widget with places that cannot take the focus, such as tabs. `jump_places` returns the visible ones."""

    def jump_places(self) -> Sequence[JumpPlace]: ...
