"""How often the screens are drawn: as often as a key can be felt where the terminal is near, and seldom over SSH.

The environment says whether it is near; but for tmux, which outlives the connection that it was started over and
therefore is asked itself. Nothing here imports Textual before it was told.
"""

from __future__ import annotations

import os
import threading

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from textual.app import App

NEAR, FAR = 120, 30
"""Frames a second. What does not change is not drawn, so many cost nothing; over a line each is sent."""

SSH_VARIABLES = ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT")

TMUX_SECONDS, TMUX_PATIENCE = 0.5, 0.05
"""How long tmux may take to answer at all, and how long the first frame waits for it: then the environment counts."""


def is_far(variables: Mapping[str, str]) -> bool:
    """Whether the terminal is at the other end of an SSH connection, as the environment of the process says it."""
    return any(variables.get(name) for name in SSH_VARIABLES)


def tmux_is_far() -> bool | None:
    """Whether who looks at this tmux came over SSH; None where it does not say. Blocks."""
    import subprocess

    from tui_workbench import trace

    command = ["tmux", "show-environment"]
    try:
        with trace.Call(trace.PROCESS, command) as call:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=TMUX_SECONDS,
                check=False,
            )
            call.end(done.returncode)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    if done.returncode or not names & {b"SSH_CONNECTION", b"-SSH_CONNECTION"}:
        return None
    return b"SSH_CONNECTION" in names


class Pace:
    """How often this program draws. Made first of all, so that tmux answers while Textual is imported."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.far = is_far(variables)
        self._is_chosen = "TEXTUAL_FPS" in variables  # by a person
        self._answers: list[bool | None] = []
        self._asking: threading.Thread | None = None
        if variables.get("TMUX"):
            self._asking = threading.Thread(target=lambda: self._answers.append(tmux_is_far()), daemon=True)
            self._asking.start()

    def tell_textual(self) -> None:
        """Textual asks the environment once, while it is imported; runs must not inherit what we say there."""
        if not self._is_chosen:
            os.environ["TEXTUAL_FPS"] = str(FAR if self.far else NEAR)
            import textual.constants  # noqa: F401

            del os.environ["TEXTUAL_FPS"]

    def settle(self, app: App[Any]) -> None:
        """Take tmux's answer, if there is one by now; over a line, move nothing step by step."""
        import textual.screen

        if self._asking is not None:
            self._asking.join(TMUX_PATIENCE)
        before = self.far
        self.far = next((answer for answer in self._answers if answer is not None), self.far)
        if self.far != before and not self._is_chosen:
            setattr(textual.screen, "UPDATE_PERIOD", 1 / (FAR if self.far else NEAR))  # noqa: B010  final for others
        if self.far:
            app.animation_level = "none"
