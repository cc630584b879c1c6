"""The cloud-init file that prepares a new machine at its first boot."""

from __future__ import annotations

import os

from tui_workbench.projects.project import Project
from tui_workbench.targets.preparing.cloud_init import cloud_init, read_public_key
from tui_workbench.ui.commands.screen_commands import CLOUD_INIT, HISTORY
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import TextView

DEFAULT_KEY = "~/.ssh/id_ed25519.pub"


class CloudInitScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the file. A key adds the user's public key."""

    BINDINGS = CLOUD_INIT.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*CLOUD_INIT, *HISTORY)
    AUTO_FOCUS = "TextView"
    heading = "cloud-init"
    about = (
        "A file that prepares a new GPU machine with Ubuntu or Debian at its first boot. Paste it as the user data "
        "of the machine in the portal of your cloud. `workbench-tui computetarget cloud-init` writes it to a file."
    )
    DEFAULT_CSS = "CloudInitScreen > TextView { height: 1fr; }"

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._text = cloud_init()
        self.view = TextView(wraps=True)
        self.prompt = PromptRow()
        self.content = (self.view, self.prompt)

    @property
    def subject(self) -> str:
        return "for a new machine"

    def on_mount(self) -> None:
        self._show(self._text)

    def _show(self, text: str) -> None:
        self._text = text
        self.view.show([(Piece(safe_text(line)),) for line in text.splitlines()])

    def action_add_key(self) -> None:
        self.prompt.ask("File with your public key", DEFAULT_KEY, self._key_given, is_suggestion=True)

    def _key_given(self, text: str) -> None:
        path = os.path.expanduser(text.strip())
        self.ask("key", lambda: cloud_init(public_key=read_public_key(path)), self._show)

    def action_copy_text(self) -> None:
        if copy(self.app, self._text):
            self.say("Copied the file.")
