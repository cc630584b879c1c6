"""What a command is; `tui_workbench.ui.commands` is the registry of all of them."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding


class Command(NamedTuple):
    """One thing a person can do. `id` is `scope.verb`, and names the command in a keymap."""

    id: str
    keys: str
    action: str
    name: str
    help: str
    footer: bool = True
    priority: bool = False

    @property
    def binding(self) -> Binding:
        """The command as Textual knows it."""
        return Binding(
            self.keys,
            self.action,
            self.name,
            show=self.footer,
            priority=self.priority,
            tooltip=self.help,
            id=self.id,
        )
