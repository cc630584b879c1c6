"""The Compute targets pane: each `.compute` file with its machine and state, and the error of the selected target."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.masking import mask_text
from tui_workbench.core.model import ComputeTarget
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import CHANGES, TARGETS
from tui_workbench.ui.formatting import BROKEN, READY, UNCHECKED, StateLook
from tui_workbench.ui.messages import ChangeRequested, EditorRequested, FileChosen
from tui_workbench.ui.run_messages import AttachRequested, CheckRequested, PreparationRequested, TargetChosen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList

MOST_PROBLEM_LINES = 6


class ShownTarget(NamedTuple):
    """A compute target and its known state."""

    target: ComputeTarget
    version: str = ""  # the version of a local interpreter
    problem: str = ""  # the problem of the target as safe text
    is_good: bool = False  # True if the check of the target succeeded
    gpus: int = 0

    @property
    def state(self) -> StateLook:
        if self.problem:
            return BROKEN
        return READY if self.version or self.is_good else UNCHECKED

    @property
    def location(self) -> str:
        """The Python of a local target; for other targets, the type with the address, the members or the image."""
        target, kind = self.target, self.target.kind
        if kind.runs_here:
            return f"Python {self.version}" if self.version else target.python_location
        fallback = "this machine" if kind.has_scheduler else mask_text(target.base_docker_image)
        location = target.address or ", ".join(target.members) or fallback
        return f"{kind.label or kind.name} {location}"

    def row(self, name_width: int) -> Row:
        state, name = self.state, safe_text(self.target.name)
        return Row(
            self.target.name,
            Piece(self.problem, "error") if self.problem else Piece(safe_text(self.location), "muted"),
            before=(Piece(f"{state.glyph} ", state.role), Piece(f"{name:<{name_width}}  ")),
            right=(Piece(f"{self.gpus} GPU  " if self.gpus else "", "muted"), Piece(state.word, state.role)),
        )


class TargetsPane(Pane):
    """A list of targets. Its commands post requests to the main screen."""

    number = 2
    title = "Compute targets"
    short_title = "Targets"
    about = (
        "Machines, clusters and Docker engines that run scripts. Each has a .compute file in aml_config. `ready` means "
        "that the interpreter was found or the check succeeded. If the selected target has a `problem`, the reason is "
        "below the list."
    )
    BINDINGS = TARGETS.bindings + CHANGES.bindings
    DEFAULT_CSS = """
    TargetsPane > .problem { height: auto; max-height: 6; color: $error; padding: 0 1; display: none; }
    """

    @dataclass(eq=False)
    class HeightWanted(Message):
        """Posted when the number of lines that the pane needs may have changed."""

        lines: int

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._list = RowList(has_filter=True)
        self._problem = Static(classes="problem", markup=False)
        self._targets: dict[str, ShownTarget] = {}

    def compose(self) -> ComposeResult:
        yield self._list
        yield self._problem

    def take_focus(self) -> None:
        self.screen.set_focus(self._list)

    @property
    def _shown(self) -> ShownTarget | None:
        return self._targets.get(self._list.current)

    def why_not(self, action: str) -> str:
        if action in ("new_file", "attach"):
            return ""
        if self._shown is None:
            return "No compute target selected."
        return "The target has a problem. See below the list." if action == "use" and self._shown.problem else ""

    def show_targets(
        self,
        targets: Sequence[ComputeTarget],
        versions: Mapping[str, str],
        errors: Mapping[str, WorkbenchError],
        good: frozenset[str] = frozenset(),
        gpus: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[tuple[str, StateLook], ...]:
        """Show the targets, and return their names and states for the header.

        `good` names the targets whose check succeeded; `gpus` holds known numbers of GPUs by target name.
        """
        self._targets = {}
        for target in targets:
            name, problem = target.name, _problem_line(target, errors.get(target.name))
            shown = ShownTarget(target, versions.get(name, ""), problem, name in good, gpus.get(name, 0))
            self._targets[name] = shown
        name_width = min(max((len(name) for name in self._targets), default=0), 16)
        self._list.show_rows(
            [shown.row(name_width) for shown in self._targets.values()],
            empty=("No compute targets yet.", f"Press {shown_key('targets.attach', 'a')} to attach a machine."),
        )
        self._show_problem()
        return tuple((name, shown.state) for name, shown in self._targets.items())

    def point_at(self, name: str) -> bool:
        """Move the cursor to the target with this name. Return False if it is not listed."""
        if name in self._targets:
            self._list.move_to(list(self._targets).index(name))
        return name in self._targets

    def _show_problem(self) -> None:
        problem = self._shown.problem if self._shown else ""
        self._problem.update(Content(problem))
        self._problem.display = bool(problem)
        lines = textwrap.wrap(problem, max(self.content_size.width - 2, 20))
        self.post_message(self.HeightWanted(max(1, len(self._targets)) + min(len(lines), MOST_PROBLEM_LINES)))
        self.refresh_bindings()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._show_problem()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        if event.count > 1:
            self.action_open()

    def changeable_file(self) -> str:
        return self._shown.target.path if self._shown else ""

    @property
    def _line(self) -> int:
        return self._shown.target.problem.line if self._shown and self._shown.target.problem else 0

    def action_open(self) -> None:
        if self._shown:
            self.post_message(FileChosen(self.changeable_file(), self._line))

    def action_edit(self) -> None:
        if self._shown:
            self.post_message(EditorRequested(self.changeable_file(), self._line))

    def action_change_file(self, kind: str) -> None:
        self.post_message(ChangeRequested(kind, self.changeable_file()))

    action_new_file = action_change_file

    def action_attach(self) -> None:
        self.post_message(AttachRequested())

    def action_check(self) -> None:
        if self._list.current:
            self.post_message(CheckRequested(self._list.current))

    def action_prepare_machine(self) -> None:
        if self._list.current:
            self.post_message(PreparationRequested(self._list.current))

    def action_detach(self) -> None:
        if self._list.current:
            self.post_message(ChangeRequested("detach", self.changeable_file()))

    def action_use(self) -> None:
        if self._list.current:
            self.post_message(TargetChosen(self._list.current))


def _problem_line(target: ComputeTarget, error: WorkbenchError | None) -> str:
    if target.problem is not None:
        position = os.path.basename(target.path) + (f":{target.problem.line}" if target.problem.line else "")
        return safe_text(f"{position}: {target.problem.message}. {target.problem.remedy}".rstrip())
    return safe_text(f"{error.message}. {error.remedy}".rstrip()) if error is not None else ""
