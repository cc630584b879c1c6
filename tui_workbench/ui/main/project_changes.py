"""Changes to a project's configuration files: preview, apply, update the editor, undo.

The invariant: a preview writes nothing. Applying a change saves unsaved edits of its files first (`ChangeScreen`);
undo refuses to touch files with unsaved edits.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial

from tui_workbench.config.changes.change_set import ChangeHistory, ChangeSet
from tui_workbench.core.errors import UsageError
from tui_workbench.targets.attaching.detach import RemovedSecrets, forget_orphans, remove_secrets
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.changes import change_plans
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.changes.change_plans import Change
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.formatting import file_names
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.messages import ChangeRequested
from tui_workbench.ui.undo import undo_steps

RESULT_SECONDS = 4.0
NEW = frozenset({"new-target", "new-configuration"})
OPENED = NEW | {"duplicate", "rename"}  # kinds of changes whose new file is opened


class ProjectChanges:
    """The changes to a project's configuration files. Each is a step of `history`. Methods may raise WorkbenchError."""

    def __init__(self, context: MainContext) -> None:
        self._context = context
        self.history = ChangeHistory()
        undo_steps(context.app).count_changes = self.history.__len__
        self._removed_secrets: dict[ChangeSet, RemovedSecrets] = {}  # undo restores them
        self._keyring = asyncio.Lock()  # an undo waits until the secrets are removed, and then stores them again

    async def make(self, request: ChangeRequested) -> None:
        """Show a change, and make it if the user agrees."""
        change = await asyncio.to_thread(self._change, request.kind, request.path)
        # A new file does not depend on the file under the cursor.
        source = request.path if request.kind not in NEW else ""
        screen = ChangeScreen(change, self.history, self._context.panes.editor, source)
        change_set = await self._context.app.push_screen_wait(screen)
        if change_set is not None:
            async with self._keyring:
                await self._was_made(change_set, opened=request.kind in OPENED)
                if change.detachment is not None:
                    # This may take long, because the keyring may ask for a password.
                    self._removed_secrets[change_set] = await in_thread(partial(remove_secrets, change.detachment))

    async def apply(self, change_set: ChangeSet) -> None:
        """Apply a change that the user has agreed to. Raises UsageError if one of its files has unsaved edits."""
        if unsaved := self._unsaved(change_set):
            raise UsageError(f"not changed: unsaved edits in {unsaved}", remedy="Save or undo the edits first.")
        await asyncio.to_thread(self.history.apply, change_set)
        await self._was_made(change_set, opened=False)

    async def undo(self) -> None:
        """Undo the last change, if any. Raises UsageError if one of its files has unsaved edits."""
        if self.history.newest is not None and (unsaved := self._unsaved(self.history.newest)):
            raise UsageError(f"not undone: unsaved edits in {unsaved}", remedy="Save or undo the edits first.")
        undone = await asyncio.to_thread(self.history.undo)
        if undone is None:
            self._say("Nothing to undo.")
            return
        await self._update_editor(undone.inverse, opened=False)
        self._say(f"Undone: {undone.title}.")
        async with self._keyring:
            # This may take long, because the keyring may ask for a password.
            await in_thread(partial(forget_orphans, undone.inverse))
            await in_thread(self._removed_secrets.pop(undone, RemovedSecrets()).restore)

    def end(self) -> None:
        """Forget the secrets of detached targets, which can no longer be restored."""
        for removed in self._removed_secrets.values():
            removed.forget()

    def _unsaved(self, change_set: ChangeSet) -> str:
        return file_names({change.path for change in change_set.changes} & self._context.panes.editor.dirty_paths())

    async def _was_made(self, change_set: ChangeSet, *, opened: bool) -> None:
        await self._update_editor(change_set, opened=opened)
        self._say(f"Done: {change_set.title}. {shown_key('changes.undo', 'ctrl+z')} undoes it.")

    def _say(self, text: str) -> None:
        # This is a toast, because reading the changed files replaces the status line.
        self._context.notify(text, RESULT_SECONDS)

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

    async def _update_editor(self, change_set: ChangeSet, *, opened: bool) -> None:
        editor = self._context.panes.editor
        made = [change.path for change in change_set.changes if change.before is None]
        gone = [change.path for change in change_set.changes if change.after is None]
        for path in gone:
            await editor.drop_file(path)
        editor.check_disk()
        if opened and made:
            await editor.open_file(made[0])
        self._context.watcher.poll_now()
