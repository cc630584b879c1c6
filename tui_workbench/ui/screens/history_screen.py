"""What the screens of the run history have in common: a notice, help, the palette, and leaving.

The invariant: whatever blocks is done in a thread that nobody waits for, and what it brings after the screen has gone,
or after something newer was asked for, is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from tui_workbench.errors import WorkbenchError
from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY
from tui_workbench.ui.offers import is_listed, is_ours, offers
from tui_workbench.ui.screens.thrifty import ThriftyScreen
from tui_workbench.ui.undo import steps_of
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.notice import Notice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from tui_workbench.project import Project
    from tui_workbench.ui.offers import Offer

Answer = TypeVar("Answer")


class HistoryScreen(ThriftyScreen[str], inherit_bindings=False):
    """A full screen over the main one. Its result is the id of a run that something should happen with, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HISTORY)
    DEFAULT_CSS = """
    HistoryScreen { layout: vertical; background: $background; }
    HistoryScreen > Notice { height: auto; max-height: 4; display: none; }
    HistoryScreen > Notice.-said { display: block; }
    """
    heading = ""
    about = ""

    def __init__(self, project: Project) -> None:
        super().__init__()
        self.project = project
        self.notice = Notice(id="said")
        self._asked: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        """What is particular, then what is said, then the keys."""
        yield from self.compose_content()
        yield self.notice
        yield KeyFooter()

    def compose_content(self) -> ComposeResult:
        """What is particular to the screen."""
        raise NotImplementedError

    # --- Saying something

    def say(self, text: str) -> None:
        """Say something in passing."""
        self.notice.say(text)

    def show_error(self, error: WorkbenchError) -> None:
        """Say what is wrong, and what to do about it."""
        place = f" ({error.file})" if error.file and error.file not in error.message else ""
        self.notice.say(f"{error.message}{place}. {error.remedy}".rstrip().replace("..", "."), wrong=True)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        """Take the room that it takes to say it."""
        event.stop()
        said = bool(self.notice.text)
        self.notice.set_class(said, "-said")
        self.notice.styles.height = len(self.notice.lines(self.size.width)) if said else 0

    # --- Asking the backend

    def ask(self, what: str, call: Callable[[], Answer], then: Callable[[Answer], Awaitable[None] | None]) -> None:
        """Make a call in a thread and hand its answer on; of calls for the same thing only the last one's.

        A WorkbenchError is shown.
        """
        number = self._asked[what] = self._asked.get(what, 0) + 1
        self.run_worker(Unbegun(self._asking, what, number, call, then), group=f"ask {what}", exclusive=True)

    async def _asking(
        self,
        what: str,
        number: int,
        call: Callable[[], Answer],
        then: Callable[[Answer], Awaitable[None] | None],
    ) -> None:
        try:
            answer = await in_thread(call)
        except WorkbenchError as error:
            if self._asked[what] == number and self.is_attached:
                self.show_error(error)
            return
        if self._asked[what] == number and self.is_attached:
            done = then(answer)
            if done is not None:
                await done

    # --- Help, the palette, leaving

    def action_help(self) -> None:
        """Explain what has the focus."""
        from tui_workbench.ui.screens.help import HelpScreen, sections

        self.app.push_screen(HelpScreen(sections(self)))

    async def action_palette(self) -> None:
        """Find a command by its name."""
        from tui_workbench.ui.screens.palette import choose_command

        await choose_command(self.app, self._all_offers(), self.say)

    def _all_offers(self) -> list[Offer]:
        nodes: list[Widget] = [node for node in self.walk_children() if is_ours(node) and node.display]  # type: ignore[misc]
        return [offer for node in (self, self.app, *nodes) for offer in offers(node) if is_listed(offer.command)]

    def action_undo_step(self) -> None:
        """Take back what was done last."""
        self.run_worker(Unbegun(self._undo_step), group="undo")

    async def _undo_step(self) -> None:
        try:
            self.say(f"Taken back: {await steps_of(self.app).take_back()}.")
        except WorkbenchError as error:
            self.show_error(error)

    def action_interrupt(self) -> None:
        """Copy what is selected; ctrl+c ends nothing here."""
        if text := self.get_selected_text():
            self.app.copy_to_clipboard(text)
        else:
            self.say(f"{shown_key('quit.anywhere', 'ctrl+q')} leaves the workbench; esc goes back.")

    def action_gpu_monitor(self) -> None:
        """Show the GPUs of all targets; the run that one looks at is told from others."""
        from tui_workbench.ui.screens.monitor import MonitorScreen

        self.app.push_screen(MonitorScreen(self.project, self.selected_run_id))

    @property
    def selected_run_id(self) -> str:
        """The id of the run that one looks at, "" for none."""
        return ""

    def action_leave(self) -> None:
        """Back to where one was."""
        self.dismiss("")

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action == "undo_step" and not steps_of(self.app).title:
            return "Nothing was done that could be taken back."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)
