"""Keys in the order they were pressed.

Textual hands each key to the widget with the focus and goes on to the next one at once; what a key is bound to is done
only after it has bubbled up to the app. Of keys that arrive together, as they do over a slow line or from a script, the
later ones then reach the widget that had the focus before, and mean something else there: the text of a search is taken
for commands. Here the next key begins when all of the one before is done.

The invariant: a key is dispatched only when every widget that the last one could reach has finished with it, or has not
within `PATIENCE`, so that nothing that hangs can lock a person out.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from textual import events
from textual.app import App
from textual.signal import Signal

from tui_workbench.ui.offers import why_refused

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.widget import Widget

Result = TypeVar("Result")

PATIENCE = 1.0
"""Seconds after which a key that is still at work holds back no further one."""

LONGEST_HOLD = 10.0
"""Seconds after which keys are no longer kept for something that has not come."""


async def obey(widget: Widget, key: str) -> bool:
    """Do at once what the key is bound to on the widget itself; False when that is nothing, or not available.

    Textual runs a binding only after its key has bubbled up to the app. For a widget that also takes text, that is too
    late: in a burst of keys the letters behind it would be inserted first, where the cursor was before.
    """
    for binding in widget._bindings.key_to_bindings.get(key, ()):
        if await widget.app.run_action(binding.action, widget):
            return True
    return False


class KeysInOrder(App[Result], Generic[Result]):
    """An app that does what one key asks for before it looks at the next.

    `refused` tells why the last key did nothing, and an empty string as soon as that is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: deque[events.Key | events.Paste] = deque()
        self._key_number = 0
        self._at_work_since: float | None = None
        self.refused: Signal[str] = Signal(self, "key refused")
        self._told_why = False

    def hold_keys(self) -> None:
        """Keep keys until `release_keys`, or `LONGEST_HOLD` at most: what they are for is not there yet."""
        self._at_work_since = time.monotonic() + LONGEST_HOLD - PATIENCE

    async def release_keys(self) -> None:
        """Let keys do what they are for; those that were kept come first."""
        await self._next_key()

    async def on_event(self, event: events.Event) -> None:
        """Hold keys and pastes back while one is at work."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
            return
        self._keys.append(event)
        if self._at_work_since is None or time.monotonic() - self._at_work_since > PATIENCE:
            await self._next_key()

    async def _next_key(self) -> None:
        self._at_work_since = None
        if self._keys:
            self._key_number += 1
            self._at_work_since = time.monotonic()
            if self._told_why:
                self.tell_why("")
            target = self.focused or self.screen
            await super().on_event(self._keys.popleft())
            self._follow(target, self._key_number)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Do what the key is bound to; say why, when that cannot be done now."""
        done = await super()._check_bindings(key, priority)
        if not done and not priority and (reason := why_refused(self.screen, key)):
            self.tell_why(reason)
        return done

    def tell_why(self, reason: str) -> None:
        """Say why a key did nothing, until the next one; an empty string takes that back."""
        self._told_why = bool(reason)
        self.refused.publish(reason)

    def _follow(self, node: MessagePump | None, number: int) -> None:
        # Goes the way of the key, behind it in each queue: where this arrives, the key was before.
        while node is not None and node is not self:
            parent = node._parent
            if node.call_later(self._follow, parent, number):
                return
            node = parent
        # The focus is moved by a call of its own that what the key did has put into this queue: go behind that, too.
        self.call_later(self.call_later, self._key_done, number)

    async def _key_done(self, number: int) -> None:
        if number == self._key_number:
            await self._next_key()
