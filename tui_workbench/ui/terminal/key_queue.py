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
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget

PATIENCE = 1.0
"""Seconds after which a key that is still at work holds back no further one."""

LONGEST_HOLD = 10.0
"""Seconds after which keys are no longer kept for something that has not come."""


async def run_binding(widget: Widget, key: str) -> bool:
    """Do at once what the key is bound to on the widget itself; False when that is nothing, or not available.

    Textual runs a binding only after its key has bubbled up to the app. For a widget that also takes text, that is too
    late: in a burst of keys the letters behind it would be inserted first, where the cursor was before.
    """
    for binding in widget._bindings.key_to_bindings.get(key, ()):
        if await widget.app.run_action(binding.action, widget):
            return True
    return False


class KeyQueue:
    """Hands keys and pastes to `dispatch`, each when all that the one before asked for is done."""

    def __init__(self, app: App[Any], dispatch: Callable[[events.Key | events.Paste], Awaitable[None]]) -> None:
        self._app = app
        self._dispatch = dispatch
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._number = 0
        self._at_work_since: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no key waits for another one."""
        return not self._waiting

    @property
    def is_at_work(self) -> bool:
        """Whether something is done for a key, or keys are held."""
        return self._at_work_since is not None

    def hold(self) -> None:
        """Keep keys until `release`, or `LONGEST_HOLD` at most: what they are for is not there yet."""
        self._at_work_since = time.monotonic() + LONGEST_HOLD - PATIENCE

    async def take(self, event: events.Key | events.Paste) -> None:
        """Dispatch a key or paste now, or after the one that is at work."""
        if isinstance(event, events.Key) and event.key.startswith("alt+"):
            event.character = None  # Textual gives the letter, and each field of text would insert it
        self._waiting.append(event)
        if self._at_work_since is None or time.monotonic() - self._at_work_since > PATIENCE:
            await self.release()

    async def release(self) -> None:
        """Dispatch the next key, if one waits."""
        self._at_work_since = None
        if self._waiting:
            self._number += 1
            self._at_work_since = time.monotonic()
            target = self._app.focused or self._app.screen
            await self._dispatch(self._waiting.popleft())
            self._follow(target, self._number)

    def _follow(self, node: MessagePump | None, number: int) -> None:
        # Goes the way of the key, behind it in each queue: where this arrives, the key was before.
        while node is not None and node is not self._app:
            parent = node._parent
            if node.call_later(self._follow, parent, number):
                return
            node = parent
        # The focus is moved by a call of its own that what the key did has put into this queue: go behind that, too.
        self._app.call_later(self._app.call_later, self._done, number)

    async def _done(self, number: int) -> None:
        if number == self._number:
            await self.release()
