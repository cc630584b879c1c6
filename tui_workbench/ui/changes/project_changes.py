"""Changes of a project's configuration files: shown, made, followed by the editor, and taken back.

The invariant: a change that is only looked at writes nothing. Unsaved edits of the files that it concerns are saved
when it is applied (`ChangeScreen`); undo leaves files with unsaved edits alone.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial

from tui_workbench.config.changes.change_set import ChangeHistory, ChangeSet
from tui_workbench.core.errors import UsageError
from tui_workbench.targets.base.detach import forget_orphans, forget_secrets
from tui_workbench.targets.base.secrets import SecretStore
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.changes import change_plans
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.changes.change_plans import Change
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.formatting import file_names
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.messages import ChangeRequested
from tui_workbench.ui.undo import undo_steps

SAID_FOR = 4.0
"""Seconds that the result of a change is shown."""

NEW = frozenset({"new-target", "new-configuration"})

OPENED = NEW | {"duplicate", "rename"}
"""The changes after which the editor opens the file that they made."""


class ProjectChanges:
    """Makes changes for a screen, one step of `history` each. Its calls raise WorkbenchError."""

    def __init__(self, context: MainContext) -> None:
        self._context = context
        self.history = ChangeHistory()
        undo_steps(context.app).count_changes = self.history.__len__
        self._withdrawn: dict[ChangeSet, dict[str, str]] = {}  # secrets by reference, for undo

    async def make(self, wanted: ChangeRequested) -> None:
        """Show what is wanted, and make it when the user says so."""
        change = await asyncio.to_thread(self._change, wanted.kind, wanted.path)
        # A new file does not depend on the one under the cursor.
        source = wanted.path if wanted.kind not in NEW else ""
        screen = ChangeScreen(change, self.history, self._context.panes.editor, source)
        change_set = await self._context.app.push_screen_wait(screen)
        if change_set is not None:
            await self._was_made(change_set, opened=wanted.kind in OPENED)
            if change.detachment is not None:
                # The keyring may wait for the user.
                self._withdrawn[change_set] = await in_thread(partial(forget_secrets, change.detachment))

    async def apply(self, change_set: ChangeSet) -> None:
        """Make changes that were agreed to."""
        if unsaved := self._unsaved(change_set):
            raise UsageError(f"nothing was changed: unsaved edits in {unsaved}", remedy="Save them first.")
        await asyncio.to_thread(self.history.apply, change_set)
        await self._was_made(change_set, opened=False)

    async def undo(self) -> None:
        """Undo the last change, unless one of its files has unsaved edits."""
        if self.history.newest is not None and (unsaved := self._unsaved(self.history.newest)):
            raise UsageError(f"not undone: unsaved edits in {unsaved}", remedy="Save or undo the edits first.")
        undone = await asyncio.to_thread(self.history.undo)
        if undone is None:
            self._say("There is nothing to take back.")
            return
        await self._follow(undone.inverse, opened=False)
        self._say(f"Taken back: {undone.title}.")
        # The keyring may wait for the user.
        await in_thread(partial(forget_orphans, undone.inverse))
        for reference, secret in self._withdrawn.pop(undone, {}).items():
            await in_thread(partial(SecretStore().put, reference, secret))

    def _unsaved(self, change_set: ChangeSet) -> str:
        """The names of its files with unsaved edits."""
        return file_names({change.path for change in change_set.changes} & self._context.panes.editor.dirty_paths())

    async def _was_made(self, change_set: ChangeSet, *, opened: bool) -> None:
        await self._follow(change_set, opened=opened)
        self._say(f"Done: {change_set.title}. {shown_key('changes.undo', 'ctrl+z')} takes it back.")

    def _say(self, text: str) -> None:
        # The line under the run bar is written anew as soon as the changed files were read.
        self._context.notify(text, SAID_FOR)

    def _change(self, kind: str, path: str) -> Change:
        root = self._context.project.root
        name = os.path.splitext(os.path.basename(path))[0]
        match kind:
            case "new-target":
                return change_plans.create_target(root)
            case "new-configuration":
                return change_plans.create_run_configuration(root, name if path.endswith(".compute") else "")
            case "duplicate":
                return change_plans.duplicate(root, path)
            case "rename":
                return change_plans.rename(root, path)
            case "detach":
                return change_plans.detach(self._context.project, name)
            case "delete":
                return change_plans.delete(root, path)
            case _:
                return change_plans.make_gpu_ready(root, name)

    async def _follow(self, change_set: ChangeSet, *, opened: bool) -> None:
        """Let the editor have the files as they are now."""
        editor = self._context.panes.editor
        made = [change.path for change in change_set.changes if change.before is None]
        gone = [change.path for change in change_set.changes if change.after is None]
        for path in gone:
            await editor.drop_file(path)
        editor.check_disk()
        if opened and made:
            await editor.open_file(made[0])
        self._context.watcher.look_now()
