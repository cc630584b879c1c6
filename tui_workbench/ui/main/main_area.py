"""The layout of the main screen: panes, focus, zoom and borders.

The first frame is drawn before most parts are imported. Empty slots represent these parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.layout import DockArrangeResult, Layout
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tui_workbench.core.model import RunState
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.files.file_tree import FileTree
from tui_workbench.ui.files.files import FilesPane
from tui_workbench.ui.formatting import RUN_STATES, StateLook
from tui_workbench.ui.main.main_layout import (
    PANES,
    RIGHT_PANES,
    RIGHT_WIDTH,
    Borders,
    MainLayout,
    Sizes,
    View,
    is_wide,
    regions,
)
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.terminal.textual_internals import clear_arrangement
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.line import Line, TabRow
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.pieces import Piece, width_of

if TYPE_CHECKING:
    from tui_workbench.ui.machines.targets import TargetsPane  # loaded after the first frame

TABS = (("files", "Files"), ("targets", "Targets"), ("editor", "Editor"), ("log", "Log"), ("jobs", "Jobs"))


@runtime_checkable
class TakesFocus(Protocol):
    """A widget that can focus itself or one of its children."""

    def take_focus(self) -> None: ...


@runtime_checkable
class Typing(Protocol):
    """A widget whose keys may be text input."""

    @property
    def is_typing(self) -> bool: ...


_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED)


class Header(Line):
    """A line with the project, its git branch, the numbers of active runs and approvals, and the states of targets."""

    branch: reactive[str] = reactive("")  # untrusted text
    changes: reactive[int] = reactive(0)  # number of files that differ from the last commit
    states: reactive[Sequence[str]] = reactive(())  # the states of the active runs
    targets: reactive[tuple[tuple[str, StateLook], ...]] = reactive(())
    approvals: reactive[int] = reactive(0)  # number of runs of agents that wait for an approval

    def __init__(self, project: str, *, id: str) -> None:
        super().__init__(id=id)
        self._project = safe_text(project)

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        left = [Piece(f" {truncate_middle(self._project, max(10, width // 3))}", "text", bold=True)]
        if self.branch:
            left.append(Piece(f"  {truncate_middle(self.branch, 20)}", "muted"))
            if self.changes:
                left.append(Piece(f" ±{self.changes:,}", "warning"))
        for state in _COUNTED:
            if number := self.states.count(state):
                look = RUN_STATES[state]
                left.append(Piece(f"   {look.glyph} {number} {look.word}", look.role))
        if self.approvals:
            left.append(Piece(f"   {self.approvals} to approve: {shown_key('view.approvals', 'A')}", "warning"))
        room = width - width_of(left) - 2
        right: list[Piece] = []
        for name, look in self.targets:
            shown = [Piece(f"  {truncate_middle(name, 16)} ", "muted"), Piece(look.glyph, look.role)]
            if width_of(right) + width_of(shown) > room:
                break
            right.extend(shown)
        return left, [*right, Piece(" ")]


class Slot(Widget):
    """An empty placeholder for a part that is mounted after the first frame."""

    def render(self) -> str:
        return ""


class MainArea(Widget, inherit_bindings=False):
    """The container of the header, the run bar, the panes, the open question and the footer."""

    DEFAULT_CSS = "MainArea { width: 1fr; height: 1fr; }"

    class PaneChanged(Message):
        """Posted when the focus has moved to another pane."""

    class Widened(Message):
        """Posted when there is room for the right column, whose panes are not mounted yet."""

    def __init__(self, project: str, tree: FileTree, view: View) -> None:
        super().__init__(id="area")
        self.header = Header(project, id="header")
        self.files = FilesPane(tree, id="files")
        self._layout_rules = MainLayout(view)
        self.borders = Borders(self, self._layout_rules, lambda sizes: self._show_view(sizes=sizes))
        self._tabs = TabRow(TABS, id="tabs")
        self._is_filled = False
        # The pane that escape in the editor focuses.
        self._came_from = view.active if view.active != "editor" else PANES[0]

    @property
    def view(self) -> View:
        return self._layout_rules.view

    def compose(self) -> ComposeResult:
        yield self.header
        yield Slot(id="run-bar")
        yield self._tabs
        yield self.files
        for number, (pane, title) in enumerate(TABS[1:], 2):
            yield _slot(pane, f"{number} {'Compute targets' if pane == 'targets' else title}")
        if self.app.size.width >= RIGHT_WIDTH:
            self._layout_rules.view = self.view._replace(has_right=True)
            yield _slot("history", "6 All runs")
            yield _slot("gpus", "7 GPUs")
        yield Slot(id="latest")
        yield KeyFooter(id="footer")

    def on_mount(self) -> None:
        self._tabs.active = self.view.active
        if self.view.active == self.files.id:
            self.files.take_focus()

    async def fill(self, parts: Mapping[str, Widget]) -> None:
        """Replace each slot with the part that has its ID; parts without a slot come last."""
        slots = [(self.children.index(slot), slot) for slot in self.query_children(Slot)]
        with self.app.batch_update():
            await self.remove_children(Slot)
            # Parts are mounted in order, because each index is the number of parts before the slot.
            mounts = [self.mount(parts[str(slot.id)], before=index) for index, slot in slots]
            for mount in mounts:
                await mount
            await self.mount_all(part for part in parts.values() if not part.is_attached)
        self._is_filled = True

    async def add_right(self, panes: Mapping[str, Widget]) -> None:
        for pane in panes.values():
            await self.mount(pane, before="#latest")
        self._show_view(has_right=True)

    # --- Layout

    @property
    def layout(self) -> Layout:
        return self._layout_rules

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        # Parts that are not placed get a hide event.
        placed = {placement.widget for placement in arranged.placements}
        return DockArrangeResult(arranged.placements, placed, arranged.scroll_spacing)

    def _show_view(self, **changes: Any) -> None:
        view = self.view._replace(**changes)
        if view == self.view:
            return
        moved = regions(self.size, view) != regions(self.size, self.view)
        self._layout_rules.view = view
        self._tabs.active = view.active
        if moved:
            clear_arrangement(self)
            self.refresh(layout=True)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(not is_wide(event.size), "-narrow")
        if event.size.width >= RIGHT_WIDTH and self._is_filled and not self.view.has_right:
            self.post_message(self.Widened())

    def on_targets_pane_height_wanted(self, event: TargetsPane.HeightWanted) -> None:
        self._show_view(target_lines=event.lines)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        lines = event.notice.lines(self.size.width)
        self._show_view(notice_lines=len(lines), has_error=event.notice.is_important)

    # --- Focus

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # A narrow screen shows only the pane with the focus.
        pane = next((node for node in event.widget.ancestors_with_self if node.id in PANES), None)
        if pane is not None:
            if pane.id != self.view.active:
                self._came_from = self.view.active
                self.post_message(self.PaneChanged())
            self._show_view(active=str(pane.id))
        elif self.view.zoomed:
            self._show_view(zoomed=False)

    @property
    def focused_pane(self) -> str:
        """The ID of the pane that has the focus or had it last."""
        focused = self.screen.focused
        for node in focused.ancestors_with_self if focused is not None else ():
            if node.id in (*PANES, *RIGHT_PANES):
                return str(node.id)
        return self.view.active

    def focus_pane(self, name: str = "") -> None:
        """Focus the part with this ID. Without an ID, focus the pane that had the focus last."""
        part = self.get_child_by_id(name or self.view.active)
        if isinstance(part, TakesFocus):
            part.take_focus()

    def on_tab_row_chosen(self, event: TabRow.Chosen) -> None:
        self.focus_pane(event.name)

    def on_editor_pane_left(self) -> None:
        self.focus_pane(self._came_from)

    def on_run_bar_left(self) -> None:
        self.focus_pane()

    def zoom(self) -> None:
        """Toggle whether the active pane fills the screen."""
        self._show_view(zoomed=not self.view.zoomed)
        self.focus_pane()

    def show_question_lines(self, lines: int) -> None:
        """Make room for a question above the footer."""
        self._show_view(question_lines=lines)

    def is_typing(self) -> bool:
        """Return True if keys are text input now."""
        focused = self.screen.focused
        if focused is None:
            return False
        return focused.check_consume_key("x", "x") or (isinstance(focused, Typing) and focused.is_typing)

    # --- Borders

    def reset_borders(self) -> None:
        self._show_view(sizes=Sizes())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.borders.hold(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.borders.drag(event)

    def on_mouse_up(self) -> None:
        self.borders.release()


def _slot(pane: str, title: str) -> Slot:
    slot = Slot(id=pane, classes="pane")
    slot.border_title = title
    return slot
