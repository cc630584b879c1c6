"""Places that jump mode labels in addition to focusable widgets. The screen of labels is in `jump`."""

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
    """A widget with places that are not focusable widgets, such as tabs. `jump_places` returns the visible places."""

    def jump_places(self) -> Sequence[JumpPlace]: ...
