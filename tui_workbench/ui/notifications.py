"""Notifications about ended and stalled runs: a toast, a notification of the terminal, and the window title.

The invariants: the end of a run is reported once, unless the user is watching the run or it ended before the screens
were opened; a toast does not cover the cursor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Literal

from textual.app import App
from textual.geometry import Spacing

from tui_workbench.config.settings import Settings
from tui_workbench.core.model import Run, RunState
from tui_workbench.ui.formatting import elapsed, reason_of, run_state, run_title
from tui_workbench.ui.terminal import terminal_sequences
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.terminal.terminal_sequences import WindowTitle, window_title
from tui_workbench.ui.terminal.textual_internals import ToastRack

TOAST_SECONDS = 8.0
LONGEST_TITLE = 40

Severity = Literal["information", "warning", "error"]


def end_message(run: Run, now: float) -> tuple[str, str]:
    """Return a short and a long message about a run that has ended, as safe text."""
    look = run_state(run)
    took = elapsed(run, now)
    head = f"{look.glyph} {truncate_middle(safe_text(run_title(run)), LONGEST_TITLE)} {look.word}"
    whole = f"{head} after {took}" if took else head
    reason = safe_text(reason_of(run))
    return head, f"{whole}. {reason}" if reason else f"{whole}."


def place_toasts(app: App[Any]) -> None:
    """Put toasts into the half of the screen that does not contain the cursor."""
    on_top = app.cursor_position.y * 2 > app.size.height
    for rack in app.screen.query(ToastRack):
        rack.styles.dock = "top" if on_top else "bottom"
        rack.styles.align_vertical = "top" if on_top else "bottom"
        rack.styles.margin = Spacing(1, 0, 1, 0)


class RunNotifier:
    """The notifications about ended and stalled runs, and the window title."""

    def __init__(self, app: App[Any], project: str) -> None:
        self._app = app
        self._project = project
        self._settings = Settings()
        self._active: frozenset[str] | None = None
        self._states: Sequence[str] = ()
        self._ended = ""
        self._title = WindowTitle(app)

    def begin(self, settings: Settings) -> None:
        """Apply the settings and show the window title. Call this after the screens are drawn."""
        self._settings = settings
        if settings.window_title == "on":
            self._title.begin()
        self._show_title()

    def end(self) -> None:
        self._title.end()

    def focus_changed(self, is_here: bool) -> None:
        """Remove the ended run from the title when the terminal gets the focus."""
        if is_here:
            self._ended = ""
            self._show_title()

    def update_runs(self, runs: Sequence[Run], watched: str) -> None:
        """Report the runs that have ended since the last call.

        `watched` is the ID of the run that the user sees, or "".
        """
        before, self._active = self._active, frozenset(run.run_id for run in runs if run.is_active)
        self._states = [run.state for run in runs if run.is_active]
        for run in reversed(runs):
            if before is not None and run.run_id in before and not run.is_active:
                head, whole = end_message(run, time.time())
                if not self._app.app_focus:
                    self._ended = head
                if run.run_id != watched or not self._app.app_focus:
                    self._notify(whole, "error" if run.state == RunState.FAILED else "information")
        self._show_title()

    def report_stalled(self, run: Run, text: str) -> None:
        """Report that a run has stalled, even if the user is watching it, because its log shows nothing new.

        `text` is the GPU verdict of the run.
        """
        sentence = safe_text(text.partition(": GPU")[0])
        title = truncate_middle(safe_text(run_title(run)), LONGEST_TITLE)
        self._notify(f"■ {title} stalled: {sentence}.", "warning")

    def _notify(self, whole: str, severity: Severity) -> None:
        if self._settings.notifications == "off":
            return
        place_toasts(self._app)
        self._app.notify(whole, severity=severity, timeout=TOAST_SECONDS, markup=False)
        if self._settings.notifications == "terminal" and not self._app.app_focus:
            sequence = terminal_sequences.notification(
                self._project, whole, os.environ, self._settings.notification_sequence
            )
            terminal_sequences.write(self._app, sequence)

    def _show_title(self) -> None:
        self._title.show(window_title(self._project, self._states, self._ended))
