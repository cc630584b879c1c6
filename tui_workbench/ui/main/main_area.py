"""The surface of the main screen: where everything stands, which pane has the focus, and how that is changed.

The first frame is drawn before any file is read and before the parts are imported that it does not need: slots stand
for them, which look like the parts do when they are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.layout import DockArrangeResult, Layout
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tui_workbench.core.model import RunState
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
"""The panes and what they are called where there is little room."""


@runtime_checkable
class TakesFocus(Protocol):
    """A part that knows where in it the focus should go."""

    def take_focus(self) -> None: ...


@runtime_checkable
class Typing(Protocol):
    """A widget in which text is typed at times, and keys are text then."""

    @property
    def is_typing(self) -> bool: ...


_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED)


class Header(Line):
    """Project and branch; how many runs are active; each compute target with its state."""

    branch: reactive[str] = reactive("")
    """The git branch; of any origin."""

    changes: reactive[int] = reactive(0)
    """How many files differ from the last commit."""

    states: reactive[Sequence[str]] = reactive(())
    """The states of the runs that are active."""

    targets: reactive[tuple[tuple[str, StateLook], ...]] = reactive(())
    """The name of each compute target, and how it is."""

    def __init__(self, project: str, *, id: str) -> None:
        super().__init__(id=id)
        self._project = safe_text(project)

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Left what is open, then what runs; right the targets, as many as there is room for."""
        left = [Piece(f" {truncate_middle(self._project, max(10, width // 3))}", "text", bold=True)]
        if self.branch:
            left.append(Piece(f"  {truncate_middle(self.branch, 20)}", "muted"))
            if self.changes:
                left.append(Piece(f" ±{self.changes:,}", "warning"))
        for state in _COUNTED:
            if number := self.states.count(state):
                look = RUN_STATES[state]
                left.append(Piece(f"   {look.glyph} {number} {look.word}", look.role))
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
    """Holds the header, the run bar, the panes, the question that waits, and the footer.

    Posts `PaneChanged` when another pane gets the focus, and `Widened` when there is room for the column at the right.
    """

    DEFAULT_CSS = "MainArea { width: 1fr; height: 1fr; }"

    class PaneChanged(Message):
        """Another pane than before has the focus."""

    class Widened(Message):
        """There is room for the panes at the right, which are not there yet."""

    def __init__(self, project: str, tree: FileTree, view: View) -> None:
        super().__init__(id="area")
        self.header = Header(project, id="header")
        self.files = FilesPane(tree, id="files")
        self._layout_rules = MainLayout(view)
        self.borders = Borders(self, self._layout_rules, self._show_sizes)
        self._tabs = TabRow(TABS, id="tabs")
        self._is_filled = False
        # Where escape leads from the editor: a session that ended in it begins in it, and came from no other pane.
        self._came_from = view.active if view.active != "editor" else PANES[0]

    @property
    def view(self) -> View:
        """How the panes share the room now."""
        return self._layout_rules.view

    # --- The first frame, and what comes after it

    def compose(self) -> ComposeResult:
        """What the first frame needs; slots stand for the rest."""
        yield self.header
        yield Slot(id="run-bar")
        yield self._tabs
        self.files.add_class("pane")
        yield self.files
        for number, (pane, title) in enumerate(TABS[1:], 2):
            yield _slot(pane, f"{number} {'Compute targets' if pane == 'targets' else title}")
        if self.app.size.width >= RIGHT_WIDTH:
            yield from self._right_slots()
        yield Slot(id="latest")
        yield KeyFooter(id="footer")

    def _right_slots(self) -> Iterator[Slot]:
        self._layout_rules.view = self.view._replace(has_right=True)
        yield _slot("history", "6 All runs")
        yield _slot("gpus", "7 GPUs")

    def on_mount(self) -> None:
        self._tabs.active = self.view.active
        if self.view.active == self.files.id:
            self.files.take_focus()

    async def fill(self, parts: Mapping[str, Widget]) -> None:
        """Put the parts where slots with their ids stand; those without a slot come last."""
        slots = [(self.children.index(slot), slot) for slot in self.query_children(Slot)]
        with self.app.batch_update():
            await self.remove_children(Slot)
            # In their order, so that each finds those before it in their places.
            mounts = [self.mount(parts[str(slot.id)], before=place) for place, slot in slots]
            for (_, slot), mount in zip(slots, mounts, strict=True):
                parts[str(slot.id)].set_class(slot.has_class("pane"), "pane")
                await mount
            await self.mount_all(part for part in parts.values() if not part.is_attached)
        self._is_filled = True

    async def add_right(self, panes: Mapping[str, Widget]) -> None:
        """Put these panes into the column at the right, which was not there."""
        for pane in panes.values():
            pane.add_class("pane")
            await self.mount(pane, before="#latest")
        self._show_view(has_right=True)

    # --- Places

    @property
    def layout(self) -> Layout:
        return self._layout_rules

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Give each part its place; what has none at this size counts as hidden, and is told so."""
        arranged = super().arrange(size, optimal)
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

    def _show_sizes(self, sizes: Sizes) -> None:
        self._show_view(sizes=sizes)

    def on_resize(self, event: events.Resize) -> None:
        # Boxes have no room for side borders where only one fits; where there is much room, two more come.
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
        # The pane with the focus is the one that is shown where only one fits.
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
        """The id of the pane with the focus; of the one that had it last, when none has."""
        focused = self.screen.focused
        for node in focused.ancestors_with_self if focused is not None else ():
            if node.id in (*PANES, *RIGHT_PANES):
                return str(node.id)
        return self.view.active

    def focus_pane(self, name: str = "") -> None:
        """Put the focus into the part with this id; without one back into the pane that had it."""
        part = self.get_child_by_id(name or self.view.active)
        if isinstance(part, TakesFocus):
            part.take_focus()

    def on_tab_row_chosen(self, event: TabRow.Chosen) -> None:
        self.focus_pane(event.name)

    def on_editor_pane_left(self) -> None:
        # In a text no other key leads out.
        self.focus_pane(self._came_from)

    def on_run_bar_left(self) -> None:
        self.focus_pane()

    def zoom(self) -> None:
        """Give the active pane the whole screen, or take it back."""
        self._show_view(zoomed=not self.view.zoomed)
        self.focus_pane()

    # --- The place of questions

    def make_room(self, lines: int) -> None:
        """A question stands above the keys."""
        self._show_view(question_lines=lines)

    def is_typing(self) -> bool:
        """Whether keys go into a text now."""
        focused = self.screen.focused
        if focused is None:
            return False
        return focused.check_consume_key("x", "x") or (isinstance(focused, Typing) and focused.is_typing)

    # --- Borders

    def reset_borders(self) -> None:
        """All panes as at first."""
        self._show_sizes(Sizes())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.borders.hold(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.borders.drag(event)

    def on_mouse_up(self) -> None:
        self.borders.let_go()


def _slot(pane: str, title: str) -> Slot:
    slot = Slot(id=pane, classes="pane")
    slot.border_title = title
    return slot
