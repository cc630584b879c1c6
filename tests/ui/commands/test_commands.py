"""The registry of commands, which feeds footer, help, palette and keymap."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pkgutil import walk_packages
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.widget import Widget

import tui_workbench.ui
from tests.ui.textual_internals import merged_bindings
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable, command_states
from tui_workbench.ui.commands.command import Command, all_key_labels, bindings, key_label
from tui_workbench.ui.commands.registry import COMMANDS, SCOPES

ALL = [command for scope in SCOPES.values() for command in scope]


def test_ids_are_unique() -> None:
    # A command may be in several scopes.
    assert [name for name, times in Counter(command.id for command in set(ALL)).items() if times > 1] == []


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_scope_has_no_duplicate_keys(scope: str) -> None:
    keys = [key for command in SCOPES[scope] for key in command.keys.split(",") if key]
    assert [key for key, times in Counter(keys).items() if times > 1] == []


def classes_below(base: type[DOMNode]) -> set[type[DOMNode]]:
    return {base}.union(*(classes_below(child) for child in base.__subclasses__()))


def test_widgets_bind_only_keys_of_the_registry() -> None:
    for module in walk_packages(tui_workbench.ui.__path__, "tui_workbench.ui."):
        import_module(module.name)
    ours = [kind for kind in classes_below(DOMNode) if kind.__module__.startswith("tui_workbench.")]
    strays = {
        f"{kind.__name__}: {binding.key} {binding.action}"
        for kind in ours
        for binding in Binding.make_bindings(kind.__dict__.get("BINDINGS", ()))
        if binding.key not in COMMANDS.get(binding.id or "", NO_COMMAND).keys.split(",")
    }
    inherited = {
        f"{kind.__name__}: {key} of {parent.__name__}"
        for kind in ours
        for parent in kind.__mro__[1:]
        if issubclass(parent, DOMNode) and not parent.__module__.startswith("tui_workbench.")
        for key, _ in merged_bindings(kind)
        if key in {binding.key for binding in Binding.make_bindings(parent.__dict__.get("BINDINGS", ()))}
        and not any(binding.id for binding in merged_bindings(kind).key_to_bindings[key])
    }
    assert (strays, inherited) == (set(), set())
    assert len(ours) > 50


NO_COMMAND = Command("", "", "", "", "")


def test_every_command_has_a_short_name_and_imperative_help() -> None:
    for command in ALL:
        assert 0 < len(command.name.split()) <= 3, command.id
        assert command.help.endswith("."), command.id
        assert not command.help.split()[0].endswith("s"), f"{command.id}: use the imperative"


def test_letters_are_never_priority_keys() -> None:
    for command in ALL:
        if command.priority:
            assert all(len(key) > 1 for key in command.keys.split(",")), command.id


def test_labels_of_keys() -> None:
    assert key_label("question_mark,f1") == "?"
    assert key_label("ctrl+r") == "ctrl+r"
    assert all_key_labels("up,k") == "↑ k"
    assert key_label("pagedown") == "pgdn"


class Lamp(ExplainsUnavailable, Widget):
    """A widget with an available, an unavailable and a keyless command."""

    DECLARED_COMMANDS = (
        Command("lamp.on", "o,enter", "on", "On", "Switches it on."),
        Command("lamp.off", "f", "off", "Off", "Switches it off."),
        Command("lamp.dim", "", "dim", "Dim", "Makes it darker."),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(DECLARED_COMMANDS)

    def why_not(self, action: str) -> str:
        return "It is off already." if action == "off" else ""


class Plain(Widget):
    """A widget with bindings only: one with two keys, one without a name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "go", "Go", tooltip="Goes."),
        Binding("b", "go", "Go", tooltip="Goes."),
        Binding("c", "hidden"),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False


class LampApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Lamp()
        yield Plain()


async def test_command_states_give_the_reason() -> None:
    app = LampApp()
    async with app.run_test():
        reasons = {state.command.id: state.reason for state in command_states(app.query_one(Lamp))}
    assert reasons == {"lamp.on": "", "lamp.off": "It is off already.", "lamp.dim": ""}


async def test_command_states_include_named_bindings() -> None:
    app = LampApp()
    async with app.run_test():
        found = [state for state in command_states(app.query_one(Plain)) if state.command.action == "go"]
    assert [(state.command.keys, state.reason) for state in found] == [("a,b", "Not available here now.")]
