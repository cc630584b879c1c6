"""A queue that dispatches each key after the previous key has taken effect.

Textual sends a key to the focused widget and immediately continues with the next key. The binding of the first key runs
later, after the key has bubbled up to the app. When keys arrive together, as over a slow connection, the later keys
reach the old focus: the text of a search would be taken for commands. Here, a key waits until all widgets have handled
the previous key. It waits for at most `PATIENCE` seconds, so that a widget that hangs does not block the keyboard.
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
"""Maximum time that a key waits for the previous key, in seconds."""

MAX_HOLD = 10.0
"""Maximum time that keys are held for a widget that is not mounted yet, in seconds."""


async def run_binding(widget: Widget, key: str) -> bool:
    """Run the widget's own binding of the key immediately. Return False if no binding is available.

    Textual runs bindings after the key has bubbled up to the app. In a widget that also takes text, later letters would
    be inserted first, at the old cursor.
    """
    for binding in widget._bindings.key_to_bindings.get(key, ()):
        if await widget.app.run_action(binding.action, widget):
            return True
    return False


class KeyQueue:
    """A queue that passes keys and pastes to `dispatch` one at a time."""

    def __init__(self, app: App[Any], dispatch: Callable[[events.Key | events.Paste], Awaitable[None]]) -> None:
        self._app = app
        self._dispatch = dispatch
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._number = 0
        self._at_work_since: float | None = None

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def is_at_work(self) -> bool:
        """True while a key is being handled or keys are held."""
        return self._at_work_since is not None

    def hold(self) -> None:
        """Hold keys until `release`, at most for `MAX_HOLD` seconds."""
        # `take` releases keys `PATIENCE` seconds after this time.
        self._at_work_since = time.monotonic() + MAX_HOLD - PATIENCE

    async def take(self, event: events.Key | events.Paste) -> None:
        """Dispatch a key or paste now, or after the previous key or paste."""
        if isinstance(event, events.Key) and event.key.startswith("alt+"):
            event.character = None  # Textual sets the character of these keys, and text fields would insert it
        self._waiting.append(event)
        if self._at_work_since is None or time.monotonic() - self._at_work_since > PATIENCE:
            await self.release()

    async def release(self) -> None:
        self._at_work_since = None
        if self._waiting and self._app.screen_stack:  # no screen is left while the app is closing
            self._number += 1
            self._at_work_since = time.monotonic()
            target = self._app.focused or self._app.screen
            await self._dispatch(self._waiting.popleft())
            self._follow(target, self._number)

    def _follow(self, node: MessagePump | None, number: int) -> None:
        # The key passes through the queues of these widgets.
        while node is not None and node is not self._app:
            parent = node._parent
            if node.call_later(self._follow, parent, number):
                return
            node = parent
        # Two calls are needed, because the effect of the key queues a change of focus.
        self._app.call_later(self._app.call_later, self._done, number)

    async def _done(self, number: int) -> None:
        if number == self._number:
            await self.release()
