"""Making an environment without a run, in view: its log as it comes, the step that is at work, how it ended.

The invariants: what is printed goes into a file, and the view reads that, so a build may print what it likes; leaving
the screen ends nothing; a preparation that is stopped leaves no half of an environment that anybody would take.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tui_workbench.errors import WorkbenchError
from tui_workbench.progress import listening
from tui_workbench.targets.protocol import Interrupted
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import PREPARING
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.log_view import LogView
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.progress_line import PATIENCE, progress_pieces
from tui_workbench.ui.words import STEP_WORDS, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.progress import Progress
    from tui_workbench.project import Project


TICK_SECONDS = 0.5

WORKING, DONE, FAILED, STOPPED = "working", "done", "failed", "stopped"

_LOOKS = {WORKING: ("◌", "running"), DONE: ("✓", "success"), FAILED: ("✗", "error"), STOPPED: ("⊘", "muted")}


class Preparation:
    """Makes the environment of a run configuration, in a thread; it is the report that the target tells."""

    def __init__(self, project: Project, configuration: str) -> None:
        self.configuration = configuration
        self.path = os.path.join(project.state_directory, f"prepare-{configuration}.log")
        self.state = WORKING
        self.step = ""
        self.said = ""
        self.progress: Progress | None = None  # how far the step is, where that is known
        self.begun = time.monotonic()
        self.seconds = 0.0
        self._project = project
        self.interrupted, self._stop = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def has_ended(self) -> bool:
        """True once it is done, failed or stopped."""
        return self.state != WORKING

    async def work(self, tell: Callable[..., None]) -> None:
        """Make it. `tell` says how it ended, for who has left the view."""
        try:
            name = await in_thread(self._prepare)
            self._end(DONE, name)
        except Interrupted:
            self._end(STOPPED, "stopped")
        except WorkbenchError as error:
            # In the line below the log it is cut, there it is whole.
            self.line(str(error))
            self._end(FAILED, str(error))
        title = {DONE: "is prepared", STOPPED: "was not prepared: stopped"}.get(self.state, "could not be prepared")
        tell(f"{safe_text(self.configuration)} {title}.", timeout=5.0, markup=False)

    def stop(self) -> None:
        """Let it end soon, with nothing made."""
        if not self.has_ended:
            os.write(self._stop, b"x")

    def _prepare(self) -> str:
        from tui_workbench.runs.environments import prepare_environment

        self._project.prepare_state()
        with open(self.path, "wb"):
            pass
        with listening(self._take):
            return prepare_environment(self._project, self.configuration, "", self)

    def _take(self, progress: Progress | None) -> None:
        self.progress = progress

    def _end(self, state: str, said: str) -> None:
        self.state, self.said = state, said
        self.seconds = time.monotonic() - self.begun
        os.close(self.interrupted)
        os.close(self._stop)

    # --- The report

    def begin(self, step: str, title: str) -> None:
        """A step begins."""
        self.step = step
        self.line(title)

    def done(self, step: str, **facts: object) -> None:
        """It is over."""
        self.step = ""

    def line(self, text: str) -> None:
        """What is printed."""
        with open(self.path, "ab") as file:
            file.write(text.encode("utf-8", "surrogateescape") + b"\n")

    def lost(self, reason: str) -> None:
        """The target is out of reach."""
        self.line(f"out of reach: {reason}")

    def regained(self) -> None:
        """It answers again."""
        self.line("reached again")


class PreparationLine(Line):
    """`◌ building  0:41`."""

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self._preparation = preparation

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """The state, and how long it has taken."""
        preparation = self._preparation
        glyph, role = _LOOKS[preparation.state]
        spent = preparation.seconds if preparation.has_ended else time.monotonic() - preparation.begun
        said = preparation.said or STEP_WORDS.get(preparation.step, "looking")
        known = preparation.progress
        if not preparation.has_ended and known is not None and known.seconds >= PATIENCE:
            return progress_pieces(known, width)
        if preparation.state == DONE:
            said = f"prepared: {said}"
        return [Piece(f" {glyph} {truncate_middle(safe_text(said), width - 14)}", role)], [
            Piece(f"{duration(spent)} ", "muted")
        ]


class PrepareScreen(ModalScreen[bool], inherit_bindings=False):
    """Shows a preparation. Its result is whether the environment is there."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PREPARING)
    DEFAULT_CSS = """
    PrepareScreen { align: center middle; background: $background 60%; }
    PrepareScreen > Vertical {
        width: 110; max-width: 96%; height: 80%;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    """

    def __init__(self, preparation: Preparation, *, goes_on: bool = False) -> None:
        """With `goes_on` the screen goes away by itself when the environment is there: something waits for it."""
        super().__init__()
        self._preparation = preparation
        self._goes_on = goes_on
        self._view = LogView()
        self._line = PreparationLine(preparation)

    def compose(self) -> ComposeResult:
        """The log, how it stands, and the keys."""
        box = Vertical(self._view, self._line, KeyFooter())
        box.border_title = Content(f"Prepare {safe_text(self._preparation.configuration)}")
        yield box

    def on_mount(self) -> None:
        """Follow."""
        self._view.set_placeholder(("Nothing printed yet.",))
        self._view.set_log(self._preparation.path, True)
        self._view.action_toggle_wrap()
        self.set_focus(self._view)
        self._timer = self.set_interval(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._line.refresh()
        if self._preparation.has_ended:
            self._timer.stop()
            self._view.set_active(False)
            self.refresh_bindings()
            if self._preparation.state == DONE and self._goes_on:
                self.dismiss(True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What has ended cannot be stopped."""
        return action != "stop" or not self._preparation.has_ended

    def action_stop(self) -> None:
        """Stop it."""
        self._preparation.stop()

    def action_leave(self) -> None:
        """Back; it goes on by itself."""
        self.dismiss(self._preparation.state == DONE)
