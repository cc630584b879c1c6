"""The programs that the log benchmarks look at: our log pane alone, and Textual's own `Log` on the same file.

Both show one log and nothing else, follow it, and show `key N` in their last row when `x` is pressed for the Nth time.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Log, Static

from tui_workbench.model import Run, RunState


class Bench(App[None]):
    """One log, and a row that answers a key."""

    CSS = """
    #log { height: 1fr; border: round gray; }
    #row { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "count", "Count"), Binding("q", "quit", "Quit")]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, path: str, active: bool) -> None:
        super().__init__()
        self.path = path
        self.active = active
        self.row = Static("ready", id="row")
        self.keys = 0

    def action_count(self) -> None:
        """Show that the key came."""
        self.keys += 1
        self.row.update(f"key {self.keys}", layout=False)


class Ours(Bench):
    """The log pane."""

    def compose(self) -> ComposeResult:
        """The pane, as the main screen has it."""
        from tui_workbench.ui.panes.log import LogPane

        self.pane = LogPane(id="log")
        yield self.pane
        yield self.row

    def on_mount(self) -> None:
        """Show the log."""
        state = RunState.RUNNING if self.active else RunState.COMPLETED
        self.pane.show_run(Run("id", 1, os.path.dirname(self.path), "train.py", (), "local", "local", "local", state))
        self.pane.take_focus()


class Stock(Bench):
    """Textual's `Log`, fed as well as can be: by a thread, once a frame, all new lines in one call."""

    def compose(self) -> ComposeResult:
        """The widget, with as many lines as one would keep."""
        self.log_widget = Log(max_lines=10_000, id="log")
        yield self.log_widget
        yield self.row

    def on_mount(self) -> None:
        """Read the log."""
        self.log_widget.focus()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        rest = b""
        waiting = threading.Event()
        with open(self.path, "rb") as file:
            while True:
                data = file.read()
                if data:
                    *lines, rest = (rest + data).split(b"\n")
                    text = [line.decode("utf-8", "replace") for line in lines]
                    self.call_from_thread(self.log_widget.write_lines, text)
                elif not self.active:
                    return
                waiting.wait(1 / 60)


def command(kind: str, log: str, *, active: bool = True) -> list[str]:
    """The command that shows the log: with `ours` or `stock`, as one that may grow, or not."""
    return [sys.executable, "-c", f"from benchmarks import log_apps; log_apps.run({kind!r}, {log!r}, {active!r})"]


def run(kind: str, log: str, active: bool) -> None:
    """Show the log until `q` is pressed."""
    (Ours if kind == "ours" else Stock)(log, active).run()
