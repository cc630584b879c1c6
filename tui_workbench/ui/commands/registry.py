"""The one registry of commands: every scope with all that can be done in it.

The invariants: an id names one command, a key means one thing in a scope, and every binding of a widget of ours is of a
command here.
"""

from __future__ import annotations

from tui_workbench.ui.commands import editor_commands as editor
from tui_workbench.ui.commands import main_commands as main
from tui_workbench.ui.commands import screen_commands as screens
from tui_workbench.ui.commands.command import Command, Scope

SCOPES: dict[str, Scope] = {
    scope.name: scope for table in (main, editor, screens) for scope in vars(table).values() if isinstance(scope, Scope)
}
"""The scopes by their names."""

COMMANDS: dict[str, Command] = {command.id: command for scope in SCOPES.values() for command in scope}
"""The commands by their ids."""

SCOPE_OF: dict[str, str] = {command.id: name for name, scope in SCOPES.items() for command in scope}
"""The name of each command's scope."""

TYPED_SCOPES = frozenset({"text", "text field", "search field", "log search", "find in file", "form value", "secret"})
"""The scopes of what takes letters as text: a letter cannot be a key there."""
