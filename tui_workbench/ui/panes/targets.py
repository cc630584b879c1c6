"""The Compute targets pane: each `.compute` file with where it runs and its state; a broken one with its error.

It shows what it is handed. State is a glyph and a word; the error of the target under the cursor stands below the
list, whole.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui_workbench.ui.commands import CHANGES, TARGETS, bindings
from tui_workbench.ui.messages import AttachWanted, ChangeWanted, CheckWanted, EditorWanted, FileChosen, TargetChosen
from tui_workbench.ui.panes.config_changes import OffersChanges
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.filter_list import FilterList
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.words import BROKEN, READY, UNCHECKED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.errors import WorkbenchError
    from tui_workbench.model import ComputeTarget
    from tui_workbench.ui.words import StateLook

LOCAL = "local"
TYPE_WORDS = {"localdocker": "Docker", "remotedocker": "Docker on", "remote": "SSH", "cluster": "Spark on"}
"""How a type is shown, before the image or the address that tells one of them from another."""


class ShownTarget:
    """A compute target with what is known about it: `version` of a local interpreter, and `error`, what is wrong.

    `is_good` is true when all of it was checked.
    """

    def __init__(
        self, target: ComputeTarget, version: str = "", error: WorkbenchError | None = None, *, is_good: bool = False
    ) -> None:
        self.target = target
        self.version = version
        self.is_good = is_good
        self.problem = _problem_line(target, error)
        self.line = target.problem.line if target.problem else 0

    @property
    def state(self) -> StateLook:
        """Ready only where somebody looked."""
        if self.problem:
            return BROKEN
        return READY if self.version or self.is_good else UNCHECKED

    @property
    def detail(self) -> str:
        """Where it runs, in a few words."""
        target = self.target
        if target.type == LOCAL:
            return f"Python {self.version}" if self.version else safe_text(target.python_location)
        return safe_text(target.address or target.base_docker_image)

    @property
    def kind(self) -> str:
        """The type in a word or two, with a blank behind; empty for a local one, where the interpreter says it."""
        kind = self.target.type
        return "" if kind == LOCAL else f"{TYPE_WORDS.get(kind, safe_text(kind))} "


class TargetsPane(OffersChanges, Pane):
    """Posts `FileChosen`, `TargetChosen`, `AttachWanted`, `CheckWanted` and `ChangeWanted`."""

    number = 2
    title = "Compute targets"
    about = (
        "Each machine or engine that runs scripts is one .compute file in aml_config; `a` attaches another. `ready` "
        "means that its interpreter was found, or that its check (`t`) went well; `problem` that its file or what it "
        "names is wrong: the reason stands below the list."
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(TARGETS, CHANGES)
    DEFAULT_CSS = """
    TargetsPane > .problem { height: auto; max-height: 4; color: $error; padding: 0 1; display: none; }
    """

    class HeightWanted(Message):
        """The pane has another number of lines to show than before."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._list = FilterList()
        self._problem = Static(classes="problem", markup=False)
        self._targets: dict[str, ShownTarget] = {}

    def compose(self) -> ComposeResult:
        """The list, and below it what is wrong."""
        yield self._list
        yield self._problem

    def take_focus(self) -> None:
        """To the list."""
        self.screen.set_focus(self._list)

    def why_not(self, action: str) -> str:
        """Commands are about the target under the cursor."""
        shown = self._targets.get(self._list.current)
        if action in ("new_target", "new_configuration", "attach"):
            return ""
        if shown is None:
            return "No compute target is under the cursor."
        if action == "use" and shown.problem:
            return "The target has a problem."
        return ""

    def show_targets(
        self,
        targets: Sequence[ComputeTarget],
        versions: Mapping[str, str],
        errors: Mapping[str, WorkbenchError],
        good: frozenset[str] = frozenset(),
    ) -> tuple[tuple[str, StateLook], ...]:
        """Show the targets, those named in `good` as checked; returns names and states, as the header shows them."""
        self._targets = {
            target.name: ShownTarget(
                target, versions.get(target.name, ""), errors.get(target.name), is_good=target.name in good
            )
            for target in targets
        }
        name_width = max((len(name) for name in self._targets), default=0)
        self._list.show_rows(
            [_row(shown, min(name_width, 16)) for shown in self._targets.values()],
            empty=("No compute target yet.", "a attaches a machine over SSH."),
        )
        self._show_problem()
        return tuple((name, shown.state) for name, shown in self._targets.items())

    def point_at(self, name: str) -> None:
        """Put the cursor on the target of this name; nothing happens when none is shown."""
        for index, row in enumerate(self._list.rows):
            if row.key == name:
                self._list.move_to(index)

    def _show_problem(self) -> None:
        shown = self._targets.get(self._list.current)
        problem = shown.problem if shown else ""
        self._problem.update(Content(problem))
        self._problem.display = bool(problem)
        self.post_message(self.HeightWanted(max(1, len(self._targets)) + (2 if problem else 0)))
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
        """The file of the target under the cursor."""
        shown = self._targets.get(self._list.current)
        return shown.target.path if shown else ""

    def action_open(self) -> None:
        """Open the file, at its error if it has one."""
        shown = self._targets.get(self._list.current)
        if shown is not None:
            self.post_message(FileChosen(shown.target.path, shown.line))

    def action_edit(self) -> None:
        """Open the file in the user's own editor, at its error if it has one."""
        shown = self._targets.get(self._list.current)
        if shown is not None:
            self.post_message(EditorWanted(shown.target.path, shown.line))

    def action_attach(self) -> None:
        """Ask for a machine."""
        self.post_message(AttachWanted())

    def action_check(self) -> None:
        """Look whether the target can be used."""
        if self._list.current:
            self.post_message(CheckWanted(self._list.current))

    def action_detach(self) -> None:
        """Take the target and its secrets out of the project."""
        if self._list.current:
            self.post_message(ChangeWanted("detach", self.changeable_file()))

    def action_use(self) -> None:
        """The run bar chooses a run configuration of this target."""
        if self._list.current:
            self.post_message(TargetChosen(self._list.current))


def _row(shown: ShownTarget, name_width: int) -> Row:
    state = shown.state
    name = safe_text(shown.target.name)
    return Row(
        shown.target.name,
        Piece(shown.problem, "error") if shown.problem else Piece(shown.detail, "muted"),
        before=(
            Piece(f"{state.glyph} ", state.role),
            Piece(f"{name:<{name_width}}  "),
            Piece("" if shown.problem else shown.kind, "muted"),
        ),
        right=(Piece(state.word, state.role),),
    )


def _problem_line(target: ComputeTarget, error: WorkbenchError | None) -> str:
    if target.problem is not None:
        place = os.path.basename(target.path) + (f":{target.problem.line}" if target.problem.line else "")
        return safe_text(
            " ".join(part for part in (f"{place}: {target.problem.message}.", target.problem.remedy) if part)
        )
    if error is not None:
        return safe_text(" ".join(part for part in (f"{error.message}.", error.remedy) if part))
    return ""
