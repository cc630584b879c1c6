"""The registry of all commands, by scope.

IDs are unique, a key has one meaning within a scope, and widgets have only these bindings.
"""

from __future__ import annotations

from tui_workbench.ui.commands import editor_commands as editor
from tui_workbench.ui.commands import main_commands as main
from tui_workbench.ui.commands import screen_commands as screens
from tui_workbench.ui.commands.command import Command, Scope

SCOPES: dict[str, Scope] = {
    scope.name: scope for table in (main, editor, screens) for scope in vars(table).values() if isinstance(scope, Scope)
}

COMMANDS: dict[str, Command] = {command.id: command for scope in SCOPES.values() for command in scope}

SCOPE_OF: dict[str, str] = {command.id: name for name, scope in SCOPES.items() for command in scope}
"""The name of the scope of each command, by command ID."""

TYPED_SCOPES = frozenset(
    ("text", "text field", "search field", "log search", "find in file", "form value", "secret", "channel")
)
"""Scopes in which letters are text and cannot be keys."""
