"""The title of the terminal's window, and so the name of tmux's pane: what runs, and in which project.

The invariant: whoever gets the terminal from us, for a while or for good, finds the title that was there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui_workbench.model import RunState
from tui_workbench.ui import outer_terminal
from tui_workbench.ui.words import RUN_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import App

_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED, RunState.UNKNOWN)


def title_of(project: str, active: Sequence[str], ended: str = "") -> str:
    """`● 1 running · project`; what has `ended` meanwhile comes first. `active` are the states of active runs."""
    counted = [
        f"{RUN_STATES[state].glyph} {active.count(state)} {RUN_STATES[state].word}"
        for state in _COUNTED
        if state in active
    ]
    return " · ".join([*([ended] if ended else []), *counted, project])


class WindowTitle:
    """Keeps the title while the screens are shown."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._text = ""
        self._is_shown = False

    def begin(self) -> None:
        """Remember the title that is there. To be called once, on the app's own thread."""
        main = self._app.screen_stack[0]  # what opens over it may not be there yet, and goes away again
        self._app.app_suspend_signal.subscribe(main, self._give_back)
        self._app.app_resume_signal.subscribe(main, self._take)
        self._take()

    def show(self, text: str) -> None:
        """Have this title, of any origin."""
        if text != self._text:
            self._text = text
            if self._is_shown:
                self._write()

    def end(self) -> None:
        """Have the title again that was there."""
        self._give_back()

    def _take(self, _app: object = None) -> None:
        if not self._is_shown and outer_terminal.understands(outer_terminal.environment()):
            self._is_shown = True
            outer_terminal.write(self._app, outer_terminal.SAVE_TITLE)
            if self._text:
                self._write()

    def _give_back(self, _app: object = None) -> None:
        if self._is_shown:
            self._is_shown = False
            outer_terminal.write(self._app, outer_terminal.RESTORE_TITLE)

    def _write(self) -> None:
        outer_terminal.write(self._app, outer_terminal.title(self._text, outer_terminal.environment()))
