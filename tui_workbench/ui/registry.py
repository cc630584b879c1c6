"""The one registry of commands: every scope with all that can be done in it.

The invariants: an id names one command, a key means one thing in a scope, and every binding of a widget of ours is of a
command here. It is put together only for who needs the whole of it: the screens take the scopes that they offer from
the parts.
"""

from __future__ import annotations

from tui_workbench.ui.command import Command
from tui_workbench.ui.commands import MAIN_SCOPES
from tui_workbench.ui.dialog_commands import DIALOG_SCOPES
from tui_workbench.ui.editor_commands import EDITOR_SCOPES
from tui_workbench.ui.gpu_commands import GPU_SCOPES
from tui_workbench.ui.history_commands import HISTORY_SCOPES
from tui_workbench.ui.trace_commands import TRACE_SCOPES
from tui_workbench.ui.view_commands import VIEW_SCOPES

SCOPES: dict[str, tuple[Command, ...]] = {
    **MAIN_SCOPES, **EDITOR_SCOPES, **DIALOG_SCOPES, **HISTORY_SCOPES, **GPU_SCOPES, **TRACE_SCOPES, **VIEW_SCOPES
}  # fmt: skip
"""The commands by the name of their scope."""

COMMANDS: dict[str, Command] = {command.id: command for scope in SCOPES.values() for command in scope}
"""The commands by their ids."""

TYPED_SCOPES = frozenset({"text", "text field", "search field", "log search", "find in file", "form value", "secret"})
"""The scopes of what takes letters as text: a letter cannot be a key there."""

SCOPE_OF: dict[str, str] = {command.id: scope for scope, commands in SCOPES.items() for command in commands}
"""The name of each command's scope."""
