"""The plan of a run before there is one: the steps, what would be sent and built and why, and the commands.

The invariants: what the files tell is shown at once, what only the target can tell when it has answered, and what is
shown of it is what it said; looking changes nothing, here or there.
"""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tui_workbench.errors import NotPrepared, WorkbenchError
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.clipboard import copy
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import PLAN
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.lines_view import LinesView
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Plan, RunRequest, Step
    from tui_workbench.project import Project


INDENT = 6

AROUND = 3
"""Lines of the box that are not the plan's: its borders, and the keys."""


class PlanScreen(ModalScreen[str], inherit_bindings=False):
    """Shows the plan of a request. Its result is what is to be done: RUN, PREPARE, LOG_IN (and show it again) or ""."""

    RUN, PREPARE, LOG_IN = "run", "prepare", "log in"

    BINDINGS: ClassVar[list[BindingType]] = bindings(PLAN)
    DEFAULT_CSS = """
    PlanScreen { align: center middle; background: $background 60%; }
    PlanScreen > Vertical {
        width: 110; max-width: 96%; height: auto; max-height: 90%;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    """

    def __init__(self, project: Project, request: RunRequest, needs_person: Callable[[], Awaitable[bool]]) -> None:
        """`needs_person` tells whether the target can only be asked after a person has given something."""
        super().__init__()
        self._project = project
        self._request = request
        self._needs_person = needs_person
        self._plan: Plan | None = None
        self._said: tuple[str, str] = ("Looking...", "muted")
        self._lines = LinesView(lambda width: list(self._draw(width)))

    def compose(self) -> ComposeResult:
        """A box with the lines in it, and the keys."""
        box = Vertical(self._lines, KeyFooter())
        box.border_title = Content(f"Plan: {safe_text(self._request.script)}")
        yield box

    def on_mount(self) -> None:
        """Show what is known, and ask the target for the rest."""
        self.set_focus(self._lines)
        self.run_worker(self._look(), group="plan")

    def on_resize(self) -> None:
        """The keys stay in view, however long the plan is."""
        self._lines.styles.max_height = max(self.size.height * 9 // 10 - AROUND, 3)

    async def _look(self) -> None:
        from tui_workbench.runs import Runs

        runs = Runs(self._project)
        try:
            self._plan = await in_thread(lambda: runs.plan(self._request))
            self._say(f"Asking {self._plan.target}...", "muted")
            if await self._needs_person():
                self.dismiss(self.LOG_IN)
                return
            self._plan, unknown = await in_thread(lambda: runs.survey(self._request))
        except NotPrepared as error:
            self._say(f"{error.message}. P prepares it.", "warning")
        except WorkbenchError as error:
            self._say(str(error), "error")
        else:
            if unknown:
                self._say(f"The target could not be asked: {unknown}", "warning")
            else:
                self._say("This is what would be done now; enter does it.", "success")

    def _say(self, text: str, role: str) -> None:
        self._said = (text[:1].upper() + text[1:], role)
        if self.is_mounted:
            self._lines.rebuild()

    # --- Drawing

    def _draw(self, width: int) -> Iterator[Sequence[Piece]]:
        yield ()
        if self._plan is not None:
            yield from self._head(self._plan, width)
        text, role = self._said
        yield from _wrapped(text, role, width)
        yield ()
        if self._plan is not None:
            for number, step in enumerate(self._plan.steps, 1):
                yield from _step(number, step, width)
            yield ()

    def _head(self, plan: Plan, width: int) -> Iterator[Sequence[Piece]]:
        facts = (
            ("Target", f"{plan.target} ({plan.target_type})"),
            ("Script", shlex.join([self._request.script, *self._request.arguments])),
            ("Takes", plan.interpreter),
        )
        for label, value in facts:
            first, *rest = _wrap(value, width - 10)
            yield (Piece(f" {label:<8}", "muted"), Piece(first))
            for part in rest:
                yield (Piece(f"{'':9}{part}"),)
        yield ()

    # --- Commands

    def action_run(self) -> None:
        """Start it."""
        self.dismiss(self.RUN)

    def action_prepare(self) -> None:
        """Make the environment alone."""
        self.dismiss(self.PREPARE)

    def action_leave(self) -> None:
        """Back."""
        self.dismiss("")

    def action_copy(self) -> None:
        """Copy what is shown."""
        lines = ["".join(piece.text for piece in line).rstrip() for line in self._draw(120)]
        if copy(self.app, "\n".join(lines).strip() + "\n"):
            self.app.notify("The plan is copied.", timeout=3.0, markup=False)


def _step(number: int, step: Step, width: int) -> Iterator[Sequence[Piece]]:
    first, *rest = _wrap(step.title, width - INDENT - 12)
    yield (Piece(f" {number:>2}  ", "muted"), Piece(f"{step.name:<11} ", "function"), Piece(first))
    for part in rest:
        yield (Piece(f"{'':{INDENT + 11}}{part}"),)
    if step.command:
        for part in _wrap(shlex.join(step.command), width - INDENT - 12):
            yield (Piece(f"{'':{INDENT + 11}}{part}", "muted"),)


def _wrapped(text: str, role: str, width: int) -> Iterator[Sequence[Piece]]:
    for part in _wrap(text, width - 2):
        yield (Piece(f" {part}", role),)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(safe_text(text), max(width, 20), break_on_hyphens=False) or [""]
