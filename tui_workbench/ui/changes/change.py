"""The screen that shows a change to configuration files: fields, diff, and a key that applies it.

The invariants: only a change that was shown is applied, as one undo step. Plans are made from the files on
disk. Before a change is applied, the unsaved edits of its files are saved; if that changes the plan, the new plan is
shown instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Protocol

from tui_workbench.config.changes.change_set import ChangeHistory, ChangeSet
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.ui.changes.change_plans import Change, Plan
from tui_workbench.ui.commands.screen_commands import CHANGE_VIEW
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.formatting import error_text, file_names
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.dialog import DialogField, DialogLine, DialogScreen, DialogView, box_of
from tui_workbench.ui.widgets.pieces import Piece, hanging


class ChangeScreen(DialogScreen[ChangeSet | None], inherit_bindings=False):
    """The screen that shows and applies a change. Its result is the applied change set, or None."""

    def __init__(self, change: Change, history: ChangeHistory, editor: EditorPane, source: str = "") -> None:
        """`source` is the path of another file that the change reads, or ""."""
        self._view = ChangeView(change.asked, self)
        super().__init__(box_of(change.title, self._view))
        self._change = change
        self._history = history
        self._editor = editor
        self._source = source
        self._planned: dict[str, str] | None = None
        self._pending: dict[str, str] | None = None
        self._planning = asyncio.Lock()

    def on_mount(self) -> None:
        self.set_focus(self._view)
        self.plan_again()

    @property
    def is_planning(self) -> bool:
        return self._pending is not None

    def plan_again(self) -> None:
        """Plan the change with the current values, in a thread. If a plan is being made, plan once more after it."""
        idle = not self.is_planning
        self._pending = self._view.values
        if idle:
            self.run_worker(self._plan_until_fresh())

    async def _plan_until_fresh(self) -> None:
        async with self._planning:
            while (values := self._pending) is not None and values != self._planned:
                try:
                    self._view.show_plan(await self._plan(values))
                except WorkbenchError as error:
                    self._view.show_error(error)
                self._planned = values
            self._pending = None
        self.refresh_bindings()

    async def _plan(self, values: dict[str, str]) -> Plan:
        """Plan the change from the files on disk, and add a note if these files have unsaved edits."""
        plan = await asyncio.to_thread(self._change.plan, values)
        if unsaved := await self._unsaved(plan):
            then = "Save them and try again." if plan.done else "Applying the change saves them first."
            plan = plan._replace(notes=(*plan.notes, f"Unsaved edits in {file_names(unsaved)}. {then}"))
        return plan

    async def _unsaved(self, plan: Plan) -> frozenset[str]:
        change_set = await asyncio.to_thread(plan.change_set, self._view.left_out)
        return self._editor.dirty_paths() & {self._source, *(change.path for change in change_set.changes)}

    def apply(self) -> None:
        """Apply the change that is shown. The view is frozen while this runs."""
        self._view.is_frozen = True
        self.run_worker(self._apply(), group="apply", exclusive=True)

    async def _apply(self) -> None:
        # The last input must be planned first.
        self.plan_again()
        await self._plan_until_fresh()
        try:
            if (plan := await self._plan_to_apply()) is not None:
                change_set = await asyncio.to_thread(plan.change_set, self._view.left_out)
                await asyncio.to_thread(self._history.apply, change_set)
                self.dismiss(change_set)
                return
        except WorkbenchError as error:
            self._planned = None
            self._view.show_error(error)
        self._view.is_frozen = False

    async def _plan_to_apply(self) -> Plan | None:
        """Save the edited files of the plan, and return the plan.

        Return None if there is nothing to apply, or if saving the files changed the plan. Raises UsageError when a
        file cannot be saved.
        """
        shown = self._view.plan
        if shown is None or shown.done:
            return None
        unsaved = await self._unsaved(shown)
        if not unsaved:
            return shown
        if failed := await self._editor.save(unsaved):
            raise UsageError(
                f"not changed: cannot save {file_names(failed)}",
                remedy="Answer the question or fix the error that the editor shows.",
            )
        plan = await self._plan(self._view.values)
        if plan.hunks == shown.hunks and not plan.done:
            return plan
        note = "The saved edits changed the plan. Check it before you apply it."
        self._view.show_plan(plan._replace(notes=(*plan.notes, note)))
        return None


class ChangeOwner(Protocol):
    """The owner of the view of a change, which plans and applies the change."""

    @property
    def is_planning(self) -> bool:
        """True while the change is planned again."""

    def plan_again(self) -> None:
        """Plan the change with the current values."""

    def apply(self) -> None:
        """Apply the change that is shown."""

    def dismiss(self, result: None) -> object:
        """Close the view without a change."""


class ChangeView(DialogView, inherit_bindings=False):
    """The fields of a change, its hunks with check boxes, and notes."""

    BINDINGS = CHANGE_VIEW.bindings

    label_width = 20

    def __init__(self, asked: Collection[DialogField], owner: ChangeOwner) -> None:
        super().__init__(asked)
        self.plan: Plan | None = None
        self.left_out: set[str] = set()
        self._asked = list(asked)
        self._owner = owner
        self._error = ""

    def show_plan(self, plan: Plan) -> None:
        self.plan, self._error = plan, ""
        for index, field in enumerate(self._asked):
            # Only the first plan sets the choices, because later plans put the chosen value first.
            if not field.choices and (choices := plan.choices.get(field.key)):
                self._asked[index] = field._replace(choices={choice: choice for choice in choices})
                if not self.buffer(field.key).text:
                    self.buffer(field.key).replace(choices[0])
        self.rebuild()

    def show_error(self, error: WorkbenchError) -> None:
        self.plan = None
        self._error = error_text(error)
        self.rebuild()

    @property
    def fields(self) -> list[DialogField]:
        return self._asked

    @property
    def stops(self) -> int:
        return len(self._asked) + len(self._hunk_ids)

    def value_changed(self) -> None:
        self.rebuild()
        self._owner.plan_again()

    def why_not(self, action: str) -> str:
        if action == "tick" and (self.current is not None or not self._hunk_ids):
            return "No optional change under the cursor."
        if action == "apply" and self._empty_label:
            return f"Enter {self._empty_label} first."
        if action == "apply" and not self._owner.is_planning and (self.plan is None or self.plan.done):
            return "No change to apply."
        if action == "choose" and not (self.current is not None and len(self.current.choices) > 1):
            return "No choices in this row."
        return ""

    @property
    def _empty_label(self) -> str:
        """The label of the name field with an article (`a name`) if the field is empty, else "".

        A change cannot be planned without a name.
        """
        names = (field for field in self._asked if field.key == "name" and not self.buffer(field.key).text)
        return next((f"a {field.label.lower()}" for field in names), "")

    @property
    def _hunk_ids(self) -> list[str]:
        return [hunk.id for hunk in self.plan.hunks if hunk.id] if self.plan else []

    def action_apply(self) -> None:
        self._owner.apply()

    def action_leave(self) -> None:
        self._owner.dismiss(None)

    def action_tick(self) -> None:
        self.left_out ^= {self._hunk_ids[self._cursor - len(self._asked)]}
        self.rebuild()

    def press_line(self) -> None:
        super().press_line()
        if not self.why_not("tick"):
            self.action_tick()

    def lines(self, width: int) -> Iterator[DialogLine]:
        yield DialogLine()
        for index, field in enumerate(self._asked):
            yield DialogLine(field=field, stop=index)
        if self._asked:
            yield DialogLine()
        if empty := self._empty_label:
            yield from _wrapped(" ", f"Enter {empty}.", "muted", width)
        elif self._error:
            yield from _wrapped(" ✗ ", self._error, "error", width)
        elif self.plan is not None and self.plan.done:
            yield from _wrapped(" ✓ ", self.plan.done, "success", width)
        if self.plan is not None and not self._error:
            yield from self._hunk_lines(self.plan, width)
            for note in self.plan.notes:
                yield from _wrapped(" · ", note, "muted", width)
        yield DialogLine()

    def _hunk_lines(self, plan: Plan, width: int) -> Iterator[DialogLine]:
        path, stop = "", len(self._asked)
        for hunk in plan.hunks:
            if hunk.path != path:
                path = hunk.path
                yield DialogLine([Piece(f" {safe_text(path)}", "accent")])
            left_out = hunk.id in self.left_out
            if hunk.id:
                box = Piece(" [ ] ", "muted") if left_out else Piece(" [✓] ", "success")
                yield DialogLine([box, Piece(safe_text(hunk.title), "muted" if left_out else "text")], stop=stop)
                stop += 1
                yield from _wrapped("     ", hunk.reason, "muted", width)
            for kind, text in hunk.lines:
                role = "muted" if left_out or kind == " " else "success" if kind == "+" else "error"
                indent = " " * (5 if hunk.id else 1)
                yield DialogLine([Piece(f"{indent}{kind} {safe_text(text)}", role)])
            yield DialogLine()


def _wrapped(mark: str, text: str, role: str, width: int) -> Iterator[DialogLine]:
    return (DialogLine(pieces) for pieces in hanging([Piece(mark, role)], text, width, role))
