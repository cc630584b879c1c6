"""A driver that presses the key of each command of the registry and checks the effect.

`proves(IDS)` marks a test as the proof of these commands: it must press each of them with `CommandDriver.does` or a
similar method, which checks that the key has this command in the current context and waits for the effect. An effect
that exists before the key was pressed fails the test.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tests.ui.waiting import until
from tui_workbench.ui.commands.registry import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot


Value = TypeVar("Value")

PROOFS: dict[str, str] = {}  # name of the test, by command ID


def proves(ids: str) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Mark a test as the proof of these commands. It fails if it does not press all of them."""
    names = frozenset(ids.split())
    unknown = names - COMMANDS.keys()
    assert not unknown, unknown

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        for name in names:
            assert name not in PROOFS, f"{name} is proved by {PROOFS[name]} already"
            PROOFS[name] = test.__name__

        @functools.wraps(test)
        async def checked(*arguments: Any, **named: Any) -> None:
            CommandDriver.pressed = set()
            await test(*arguments, **named)
            assert CommandDriver.pressed == names

        return checked

    return decorate


class CommandDriver:
    """Presses the keys of commands in a running app."""

    pressed: ClassVar[set[str]] = set()

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

    async def does(self, command_id: str, effect: Callable[[], object]) -> None:
        """Press the key of a command and wait for its effect."""
        assert not effect(), f"{command_id}: its effect is there before it is given"
        await self._press(command_id)
        try:
            await until(effect)
        except AssertionError as error:
            raise AssertionError(f"{command_id} has no effect") from error

    async def becomes(self, command_id: str, value: Callable[[], Value], expected: Value) -> None:
        """Press the key of a command and wait until a value is `expected`."""
        before = value()
        assert before != expected, f"{command_id}: {before!r} before it is given"
        await self._press(command_id)
        try:
            await until(lambda: value() == expected)
        except AssertionError as error:
            raise AssertionError(f"{command_id}: {before!r} became {value()!r} and not {expected!r}") from error

    async def changes(self, command_id: str, value: Callable[[], Value]) -> Value:
        """Press the key of a command, wait until a value changes, and return it."""
        before = value()
        await self.does(command_id, lambda: value() != before)
        return value()

    async def finds(self, command_id: str, effect: Callable[[], object]) -> None:
        """Choose a command in the palette and wait for its effect."""
        assert not effect(), f"{command_id}: its effect is there before it is given"
        CommandDriver.pressed.add(command_id)
        await self.pilot.press("ctrl+p", *command_id.replace("_", " "), "enter")
        await until(effect)

    async def _press(self, command_id: str) -> None:
        CommandDriver.pressed.add(command_id)
        key = COMMANDS[command_id].keys.partition(",")[0]

        def meant() -> str | None:
            active = self.pilot.app.screen.active_bindings.get(key)
            return active.binding.id if active is not None and active.enabled else None

        try:
            await until(lambda: meant() == command_id)
        except AssertionError as error:
            raise AssertionError(f"{key} means {meant()} here, and not {command_id}") from error
        await self.pilot.press(key)
