"""The main screen: where everything stands, what has the focus, and the keys that work everywhere.

The first frame is drawn before any file is read and before the parts are imported that it does not need: slots stand
for them, which look like the parts do when they are empty.
"""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.layout import DockArrangeResult
from textual.message import Message
from textual.widget import Widget

from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import EVERYWHERE, bindings
from tui_workbench.ui.offers import is_listed, is_ours, offers
from tui_workbench.ui.panes.files import FilesPane
from tui_workbench.ui.screens.asking import Asking
from tui_workbench.ui.screens.borders import MovableBorders
from tui_workbench.ui.screens.main_layout import (
    PANES,
    RIGHT_PANES,
    RIGHT_WIDTH,
    MainLayout,
    View,
    is_wide,
    regions,
    view_of,
)
from tui_workbench.ui.screens.project_runs import ProjectRuns
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.header import Header
from tui_workbench.ui.widgets.tab_row import TabRow
from tui_workbench.ui.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.geometry import Size
    from textual.layout import Layout

    from tui_workbench.errors import WorkbenchError
    from tui_workbench.project import Project
    from tui_workbench.ui.file_tree import FileTree
    from tui_workbench.ui.offers import Offer
    from tui_workbench.ui.panes.monitor import MonitorPane
    from tui_workbench.ui.panes.pane import Pane
    from tui_workbench.ui.panes.recent import RecentPane
    from tui_workbench.ui.panes.targets import TargetsPane
    from tui_workbench.ui.remembered import Values
    from tui_workbench.ui.screens.remembering import Remembering
    from tui_workbench.ui.widgets.notice import Notice
    from tui_workbench.ui.widgets.question_row import QuestionRow
    from tui_workbench.ui.widgets.secret_row import SecretRow

TABS = (("files", "Files"), ("targets", "Targets"), ("editor", "Editor"), ("log", "Log"), ("jobs", "Jobs"))
"""The panes and what they are called where there is little room."""

SAVE, DISCARD = "save", "discard"


class Slot(Widget):
    """Keeps the place of a part that comes after the first frame, and looks like it when it is empty."""


class MainScreen(MovableBorders, ProjectRuns, inherit_bindings=False):
    """The project on one screen."""

    OFFERED = EVERYWHERE
    BINDINGS: ClassVar[list[BindingType]] = bindings(EVERYWHERE)
    AUTO_FOCUS = ""

    class Completed(Message):
        """All parts are there, and as they were left: keys have something to act on."""

    def __init__(
        self,
        project: Project,
        tree: FileTree,
        trouble: WorkbenchError | None = None,
        remembered: Values | None = None,
    ) -> None:
        """`trouble` is what went wrong before the screen was there.

        `remembered` is what it looked like when it was left; None for a screen that remembers nothing.
        """
        super().__init__(project, tree)
        self._trouble = trouble
        self._remembered = remembered
        self._remembering: Remembering | None = None
        self.header = Header(project.name, id="header")
        self.files = FilesPane(tree, id="files")
        self._main_layout = MainLayout(view_of(remembered) if remembered else View())
        self._tabs = TabRow(TABS, id="tabs")
        self.asking = Asking(self, self)
        self._came_from = self._main_layout.view.active

    # --- The first frame, and what comes after it

    def compose(self) -> ComposeResult:
        """What the first frame needs; slots stand for the rest."""
        yield self.header
        yield Slot(id="run-bar")
        yield self._tabs
        self.files.add_class("pane")
        yield self.files
        for number, (pane, title) in enumerate(TABS[1:], 2):
            slot = Slot(id=pane, classes="pane")
            slot.border_title = f"{number} {'Compute targets' if pane == 'targets' else title}"
            yield slot
        if self.app.size.width >= RIGHT_WIDTH:
            yield from self._right_slots()
        yield Slot(id="latest")
        yield KeyFooter(id="footer")

    def _right_slots(self) -> Iterator[Slot]:
        self._main_layout.view = self._main_layout.view._replace(has_right=True)
        for pane, title in (("history", "6 All runs"), ("gpus", "7 GPUs")):
            slot = Slot(id=pane, classes="pane")
            slot.border_title = title
            yield slot

    def on_mount(self) -> None:
        """Everything else waits for the first frame; so does the focus, unless it was left in the files."""
        self._tabs.show_active(self._main_layout.view.active)
        if self._main_layout.view.active == self.files.id:
            self.files.take_focus()
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        from tui_workbench.ui.screens.main_parts import Parts

        parts = Parts.build()
        slots = [(self.children.index(slot), slot) for slot in self.query_children(Slot)]
        sides = {str(slot.id): self._right_pane(str(slot.id)) for _, slot in slots if slot.id in RIGHT_PANES}
        made = {**{str(part.id): part for part in parts}, **sides}
        with self.app.batch_update():
            await self.remove_children(Slot)
            # In their order, so that each finds those before it in their places.
            mounts = [self.mount(made[str(slot.id)], before=place) for place, slot in slots]
            for (_, slot), mount in zip(slots, mounts, strict=True):
                made[str(slot.id)].set_class(slot.has_class("pane"), "pane")
                await mount
        if self._remembered is not None:
            parts.run_bar.recall(self._remembered.part("bar"))
            self.recall_runs(self._remembered)
        self.begin(parts)
        self.action_focus_pane(self._main_layout.view.active)
        # What the screens are made of stays; only what comes from now on is looked through for garbage.
        gc.freeze()
        gc.enable()
        if self._trouble is not None:
            # Below what is said of the run, which comes a moment later and would take its place.
            said = " ".join(part for part in (self.project.notice, str(self._trouble)) if part)
            self.parts.run_bar.notice.stand(said)
        if self._remembered is not None:
            self._remember(self._remembered)
        else:
            self.post_message(self.Completed())

    @work
    async def _remember(self, remembered: Values) -> None:
        from tui_workbench.ui.screens.remembering import Remembering

        await self.files.recall(remembered.part("files"))
        self._remembering = Remembering(self, self.project.root, self.parts.editor)
        await self._remembering.begin(remembered)
        self.post_message(self.Completed())

    def memory(self) -> dict[str, object]:
        """What is to be as it is now when the program is started again; the editor keeps its own."""
        view = self._main_layout.view
        screen = {"active": view.active, "zoomed": view.zoomed, **view.sizes._asdict()}
        parts = self.parts
        return {
            "screen": screen,
            "files": self.files.memory,
            "bar": parts.run_bar.memory,
            "log": parts.log.memory,
            "runs": self.runs_query._asdict() if self.runs_query is not None else {},
        }

    def leave(self, return_code: int = 0) -> None:
        """End the program without a question; what is not saved comes back with the next start."""
        if self._remembering is not None:
            self._remembering.end(keep_texts=True)
        # Who sends a signal reads no farewell, and the terminal may be gone.
        self.app.exit(None, return_code)

    # --- Places

    @property
    def layout(self) -> Layout:
        """The rules of `main_layout`."""
        return self._main_layout

    def arrange(self, size: Size, _optimal: bool = False) -> DockArrangeResult:
        """Give each part its place; what has none at this size counts as hidden, and is told so."""
        arranged = super().arrange(size, _optimal)
        placed = {placement.widget for placement in arranged.placements}
        return DockArrangeResult(arranged.placements, placed, arranged.scroll_spacing)

    def _show_view(self, **changes: Any) -> None:
        view = self._main_layout.view._replace(**changes)
        if view == self._main_layout.view:
            return
        moved = regions(self.size, view) != regions(self.size, self._main_layout.view)
        self._main_layout.view = view
        self._tabs.show_active(view.active)
        if moved:
            self._clear_arrangement_cache()
            self.refresh(layout=True)

    def on_resize(self, event: events.Resize) -> None:
        """Boxes have no room for side borders where only one fits; where there is much room, two more come."""
        self.set_class(not is_wide(event.size), "-narrow")
        self.asking.fit()
        if event.size.width >= RIGHT_WIDTH and self.is_complete and not self._main_layout.view.has_right:
            self._add_right_panes()

    @work(exclusive=True, group="right")
    async def _add_right_panes(self) -> None:
        for name in RIGHT_PANES:
            pane = self._right_pane(name)
            pane.add_class("pane")
            await self.mount(pane, before="#latest")
        self._show_view(has_right=True)
        self.show_at_the_side()

    def _right_pane(self, name: str) -> Pane:
        from tui_workbench.ui.panes.monitor import MonitorPane
        from tui_workbench.ui.panes.recent import RecentPane

        return RecentPane(self.project, id=name) if name == "history" else MonitorPane(id=name)

    def show_at_the_side(self) -> None:
        """Hand them what they show, where they are."""
        if not self._main_layout.view.has_right:
            return
        from tui_workbench.ui.panes.monitor import MonitorPane
        from tui_workbench.ui.panes.recent import RecentPane

        for pane in self.query_children(MonitorPane):
            pane.show_targets(self._targets)
            pane.show_runs(self._runs, self._selected)
        for recent in self.query_children(RecentPane):
            recent.look()

    def on_recent_pane_chosen(self, event: RecentPane.Chosen) -> None:
        """Everything about a run is to be shown."""
        from tui_workbench.ui.screens.run_details import RunDetailsScreen

        self.app.push_screen(RunDetailsScreen(self.project, event.run))

    def on_monitor_pane_run_wanted(self, event: MonitorPane.RunWanted) -> None:
        """The run on a GPU is to be looked at."""
        self._show_runs(self._runs, select=event.run_id)
        self.action_focus_pane("log")

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        return self.why_not_border() if action == "move_border" else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action) and super().check_action(action, parameters)

    def action_redraw(self) -> None:
        """Write everything again."""
        from tui_workbench.ui.lean_display import LeanDisplay

        if isinstance(self.app, LeanDisplay):
            self.app.forget_display()

    def on_targets_pane_height_wanted(self, event: TargetsPane.HeightWanted) -> None:
        """The targets need more room, or less."""
        self._show_view(target_lines=event.lines)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        """What is wrong is shown whole."""
        lines = event.notice.lines(self.size.width)
        self._show_view(notice_lines=len(lines), has_error=event.notice.must_be_read)

    # --- Focus

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the one that is shown where only one fits."""
        pane = next((node for node in event.widget.ancestors_with_self if node.id in PANES), None)
        if pane is not None:
            if pane.id != self._main_layout.view.active:
                self._came_from = self._main_layout.view.active
            self._show_view(active=str(pane.id))
        elif self._main_layout.view.zoomed:
            self._show_view(zoomed=False)

    def action_focus_pane(self, name: str) -> None:
        """Put the focus into a pane."""
        if self.is_complete:
            self.parts.focusable(name, self.files).take_focus()

    def action_focus_arguments(self) -> None:
        """Put the focus into the arguments of the run bar."""
        if self.is_complete:
            self.parts.run_bar.focus_arguments()

    def on_tab_row_chosen(self, event: TabRow.Chosen) -> None:
        """A tab was clicked."""
        self.action_focus_pane(event.name)

    def on_editor_pane_left(self) -> None:
        """Back to where one came from: in a text no other key leads out."""
        self.action_focus_pane(self._came_from)

    def on_run_bar_left(self) -> None:
        """Back to where one was."""
        self.action_focus_pane(self._main_layout.view.active)

    def action_zoom(self) -> None:
        """Give the active pane the whole screen, or take it back; those at the side have screens of their own."""
        if self._focused_pane() in RIGHT_PANES:
            self.action_history() if self._focused_pane() == "history" else self.action_gpu_monitor()
            return
        self._show_view(zoomed=not self._main_layout.view.zoomed)
        self.action_focus_pane(self._main_layout.view.active)

    # --- Help, and leaving

    def action_help(self) -> None:
        """Explain the pane with the focus."""
        from tui_workbench.ui.screens.help import HelpScreen, sections

        self.app.push_screen(HelpScreen(sections(self)))

    async def action_palette(self) -> None:
        """Find a command by its name."""
        from tui_workbench.ui.screens.palette import choose_command

        await choose_command(self.app, self._all_offers(), self.say)

    def _all_offers(self) -> list[Offer]:
        """What can be done anywhere on the screen: everywhere, then in the active pane, then in the others."""
        active = self._main_layout.view.active
        panes = [self.get_child_by_id(name) for name in sorted(PANES, key=lambda name: name != active)]
        nodes = [node for pane in panes for node in (pane, *pane.walk_children()) if is_ours(node)]
        return [offer for node in (self, self.app, *nodes) for offer in offers(node) if is_listed(offer.command)]

    def action_change_theme(self) -> None:
        """Choose other colours."""
        self._choose_theme()

    @work
    async def _choose_theme(self) -> None:
        from tui_workbench.ui.theme_choice import choose_theme, put_back_theme
        from tui_workbench.ui.undo import steps_of

        before = self.app.theme
        if error := await choose_theme(self.app):
            self.show_error(error)
        if self.app.theme != before:
            steps_of(self.app).add("the choice of a theme", partial(put_back_theme, self.app, before))

    def action_interrupt(self) -> None:
        """ctrl+c ends nothing here; it says what does."""
        if text := self.get_selected_text():
            self.app.copy_to_clipboard(text)
        elif self.is_complete:
            quit_key, cancel_key = shown_key("quit.anywhere", "ctrl+q"), shown_key("jobs.cancel", "x")
            self.say(f"{quit_key} leaves the workbench; {cancel_key} on a run in Jobs cancels it.")

    async def action_quit(self) -> None:
        """Leave; runs go on. Unsaved edits are asked about once."""
        dirty = self.parts.editor.dirty_paths() if self.is_complete else frozenset()
        if not dirty:
            self._exit()
        elif self.asking.is_open:
            self.asking.take_focus()
        else:
            self._ask_about_edits(len(dirty))

    @work
    async def _ask_about_edits(self, files: int) -> None:
        from tui_workbench.ui.widgets.question_row import Choice

        choices = (Choice("s", "save and leave", SAVE), Choice("d", "discard the edits", DISCARD))
        answer = await self.asking.choose(f"{count(files, 'file')} with unsaved edits.", *choices, is_awaited=True)
        if answer == DISCARD or (answer == SAVE and not await self.parts.editor.save_all()):
            self._exit()

    def _exit(self) -> None:
        if self._remembering is not None:
            self._remembering.end(keep_texts=False)
        self.app.exit(self.active_runs())

    # --- The place of questions

    def make_room(self, lines: int) -> None:
        """A question stands above the keys."""
        self._show_view(question_lines=lines)

    def is_typing(self) -> bool:
        """Whether keys go into a text now."""
        from textual.widgets import Input, TextArea

        from tui_workbench.ui.panes.form_view import FormView

        focused = self.focused
        return isinstance(focused, Input | TextArea) or (isinstance(focused, FormView) and focused.is_typing)

    def give_back_focus(self) -> None:
        """To the pane that had it."""
        self.action_focus_pane(self._main_layout.view.active)

    def on_question_row_answered(self, event: QuestionRow.Answered) -> None:
        """A question was answered."""
        if self.asking.answered(event.row, event.answer):
            event.stop()

    def on_secret_row_answered(self, event: SecretRow.Answered) -> None:
        """A secret was given, or none."""
        if self.asking.answered(event.row, event.answer):
            event.stop()
