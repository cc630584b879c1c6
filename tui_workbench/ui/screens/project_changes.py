"""Changes of a project's configuration files: shown, made, followed by the editor, and taken back.

The invariant: what stands unsaved in the editor is saved before a change of files is planned, so that a plan never
misses what the person sees.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from tui_workbench.config.changes import ChangeHistory
from tui_workbench.errors import UsageError, WorkbenchError
from tui_workbench.targets.detach import forget_orphans
from tui_workbench.targets.secrets import SecretStore
from tui_workbench.targets.ssh import SshHost
from tui_workbench.targets.ssh_wire import login_of
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens import change_plans
from tui_workbench.ui.screens.change import ChangeScreen
from tui_workbench.ui.undo import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.config.changes import ChangeSet
    from tui_workbench.targets.detach import Detachment
    from tui_workbench.ui.messages import ChangeWanted
    from tui_workbench.ui.screens.change_plans import Change
    from tui_workbench.ui.screens.project_screen import ProjectScreen

SAID_FOR = 4.0
"""Seconds that the result of a change is shown."""

OPENED = frozenset({"new-target", "new-configuration", "duplicate", "rename"})
"""The changes after which the file that they made is what a person wants to see."""


class ProjectChanges:
    """Makes changes for a screen, one step of one history each."""

    def __init__(self, screen: ProjectScreen) -> None:
        self._screen = screen
        self._history = ChangeHistory()
        steps_of(screen.app).count_changes = self._history.__len__
        self._withdrawn: dict[ChangeSet, dict[str, str]] = {}  # secrets by reference, for undo

    @property
    def history(self) -> ChangeHistory:
        """The steps, for others whose changes are to be taken back with the same key."""
        return self._history

    @property
    def undo_label(self) -> str:
        """What undo would take back; "" when nothing."""
        return self._history.undo_label

    async def make(self, wanted: ChangeWanted) -> None:
        """Show what is wanted, and make it when the person says so."""
        if not await self._save():
            return
        try:
            change = await asyncio.to_thread(self._change, wanted.kind, wanted.path)
        except WorkbenchError as error:
            self._screen.show_error(error)
            return
        change_set = await self._screen.app.push_screen_wait(ChangeScreen(change, self._history))
        if change_set is not None:
            await self._follow(change_set, opened=wanted.kind in OPENED)
            self._say(f"Done: {change_set.title}. {shown_key('changes.undo', 'ctrl+z')} takes it back.")
            if isinstance(change, change_plans.Detach) and change.detachment is not None:
                # The keyring may wait for a person.
                self._withdrawn[change_set] = await in_thread(partial(_withdraw, change.detachment))

    async def undo(self) -> None:
        """Take the last change back."""
        if not await self._save():
            return
        try:
            undone = await asyncio.to_thread(self._history.undo)
        except WorkbenchError as error:
            self._screen.show_error(error)
            return
        if undone is None:
            self._say("There is nothing to take back.")
        else:
            await self._follow(undone.inverse, opened=False)
            self._say(f"Taken back: {undone.title}.")
            # The keyring may wait for a person.
            await in_thread(lambda: forget_orphans(undone.inverse))
            await in_thread(partial(_put_back, self._withdrawn.pop(undone, {})))

    def _say(self, text: str) -> None:
        # The line under the run bar is written anew as soon as the changed files were read.
        self._screen.notify(safe_text(text), timeout=SAID_FOR, markup=False)

    def _change(self, kind: str, path: str) -> Change:
        root = self._screen.project.root
        name = os.path.splitext(os.path.basename(path))[0]
        if kind == "new-target":
            return change_plans.CreateTarget(root)
        if kind == "new-configuration":
            return change_plans.CreateRunConfiguration(root, name if path.endswith(".compute") else "")
        if kind == "duplicate":
            return change_plans.Duplicate(root, path)
        if kind == "rename":
            return change_plans.Rename(root, path)
        if kind == "detach":
            return change_plans.Detach(self._screen.project, name)
        if kind == "delete":
            return change_plans.Delete(root, path)
        return change_plans.MakeGpuReady(root, name)

    async def _save(self) -> bool:
        failed = await self._screen.parts.editor.save_all()
        if failed:
            names = ", ".join(os.path.basename(path) for path in failed)
            self._screen.show_error(
                UsageError(f"nothing was changed: {names} could not be saved", remedy="The editor says why.")
            )
        return not failed

    async def _follow(self, change_set: ChangeSet, *, opened: bool) -> None:
        """Let the editor have the files as they are now."""
        editor = self._screen.parts.editor
        made = [change.path for change in change_set.changes if change.before is None]
        gone = [change.path for change in change_set.changes if change.after is None]
        for path in gone:
            await editor.drop_file(path)
        editor.check_disk()
        if opened and made:
            await editor.open_file(made[0])
        self._screen.look_now()


def _withdraw(detachment: Detachment) -> dict[str, str]:
    """Take the secrets of a detached target out of the keyring; gives those that were there."""
    store = SecretStore()
    found = {reference: store.get(reference) for reference in detachment.references}
    for reference in detachment.references:
        store.forget(reference)
    if detachment.references and detachment.target is not None:
        SshHost(login_of(detachment.target)).disconnect()
    return {reference: secret for reference, secret in found.items() if secret is not None}


def _put_back(secrets: Mapping[str, str]) -> None:
    for reference, secret in secrets.items():
        SecretStore().put(reference, secret)
