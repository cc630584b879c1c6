"""A change of configuration files on one screen: what is asked about it, what it would do, and a key that does it.

The invariants: nothing is written before it was shown, and what is written is what was shown; a change is one step of
the history it is applied through; leaving the screen leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tui_workbench.errors import WorkbenchError
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.change_view import ChangeView
from tui_workbench.ui.widgets.footer import KeyFooter

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.config.changes import ChangeHistory, ChangeSet  # noqa: F401  the type of the result
    from tui_workbench.ui.screens.change_plans import Change


class ChangeScreen(ModalScreen["ChangeSet | None"], inherit_bindings=False):
    """Asks, shows, applies. Its result is what was applied, None when nothing was."""

    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    ChangeScreen { align: center middle; background: $background 60%; }
    ChangeScreen > Vertical {
        width: 100; max-width: 96%; height: auto; max-height: 90%;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    """

    def __init__(self, change: Change, history: ChangeHistory) -> None:
        super().__init__()
        self._change = change
        self._history = history
        self._view = ChangeView(change.asked, self)
        self._planned: dict[str, str] | None = None
        self._wanted: dict[str, str] | None = None

    def compose(self) -> ComposeResult:
        """A box with the change in it, and the keys."""
        box = Vertical(self._view, KeyFooter())
        box.border_title = Content(safe_text(self._change.title))
        yield box

    def on_mount(self) -> None:
        """Plan with what is suggested."""
        self.set_focus(self._view)
        self.values_changed()

    # --- The owner of the view

    def values_changed(self) -> None:
        """Plan anew, in a thread: one plan at a time, the newest last."""
        idle = self._wanted is None
        self._wanted = self._view.values
        if idle:
            self.run_worker(self._plan_until_fresh())

    async def _plan_until_fresh(self) -> None:
        while (values := self._wanted) is not None and values != self._planned:
            try:
                self._view.show_plan(await asyncio.to_thread(self._change.plan, values))
            except WorkbenchError as error:
                self._view.show_error(error)
            self._planned = values
        self._wanted = None
        self.refresh_bindings()

    def leave(self) -> None:
        """Leave everything as it is."""
        self.dismiss(None)

    def apply(self) -> None:
        """Make the change that is shown."""
        self.run_worker(self._apply(), group="apply", exclusive=True)

    async def _apply(self) -> None:
        # What was typed last must have been planned first.
        self.values_changed()
        await self._plan_until_fresh()
        plan = self._view.plan
        if plan is None or plan.done:
            self._view.is_frozen = False
            return
        try:
            change_set = await asyncio.to_thread(plan.change_set, self._view.left_out)
            await asyncio.to_thread(self._history.apply, change_set)
        except WorkbenchError as error:
            self._planned = None
            self._view.show_error(error)
            self._view.is_frozen = False
            return
        self.dismiss(change_set)
