"""A hand that presses each command of the registry once, and looks what that did.

`proves(IDS)` marks a test as the proof of these commands: it must press each of them with `Hand.does` or its like,
which take a key of the command, make sure that the command is what that key means here and now, and wait for its
effect. An effect that is there before the key was pressed proves nothing and fails the test.
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

PROOFS: dict[str, str] = {}
"""The name of the test that proves a command, by the command's id."""


def proves(ids: str) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Mark a test as the proof of these commands; it fails when it leaves one of them out."""
    names = frozenset(ids.split())
    unknown = names - COMMANDS.keys()
    assert not unknown, unknown

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        for name in names:
            assert name not in PROOFS, f"{name} is proved by {PROOFS[name]} already"
            PROOFS[name] = test.__name__

        @functools.wraps(test)
        async def checked(*arguments: Any, **named: Any) -> None:
            Hand.pressed = set()
            await test(*arguments, **named)
            assert Hand.pressed == names

        return checked

    return decorate


class Hand:
    """Presses keys of an app that runs."""

    pressed: ClassVar[set[str]] = set()

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

    async def does(self, command_id: str, effect: Callable[[], object]) -> None:
        """Give a command and wait for what it does."""
        assert not effect(), f"{command_id}: its effect is there before it is given"
        await self._press(command_id)
        try:
            await until(effect)
        except AssertionError as error:
            raise AssertionError(f"{command_id} has no effect") from error

    async def becomes(self, command_id: str, value: Callable[[], Value], expected: Value) -> None:
        """Give a command and wait until a value is another."""
        before = value()
        assert before != expected, f"{command_id}: {before!r} before it is given"
        await self._press(command_id)
        try:
            await until(lambda: value() == expected)
        except AssertionError as error:
            raise AssertionError(f"{command_id}: {before!r} became {value()!r} and not {expected!r}") from error

    async def changes(self, command_id: str, value: Callable[[], Value]) -> Value:
        """Give a command and wait until a value is another; gives it."""
        before = value()
        await self.does(command_id, lambda: value() != before)
        return value()

    async def _press(self, command_id: str) -> None:
        Hand.pressed.add(command_id)
        key = COMMANDS[command_id].keys.partition(",")[0]

        def meant() -> str | None:
            active = self.pilot.app.screen.active_bindings.get(key)
            return active.binding.id if active is not None and active.enabled else None

        try:
            await until(lambda: meant() == command_id)
        except AssertionError as error:
            raise AssertionError(f"{key} means {meant()} here, and not {command_id}") from error
        await self.pilot.press(key)
