"""The programs of the log benchmarks: the workbench on a small project, and Textual's `Log` on the same file."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Log, Static

from benchmarks.harness import python
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

CTRL_R = "\x12"

COMPUTE = 'type: "local"\npythonLocation: "{python}"\n'
RUNCONFIG = 'Target: "local"\nArgumentVector: [{vector}]\nFramework: "Python"\nTrackedRun: false\n'


def write_project(root: str, script: str, arguments: Sequence[str] = ()) -> Runs:
    """Create a project with one untracked script, and return its runs."""
    os.makedirs(os.path.join(root, "aml_config"))
    vector = ", ".join(f'"{argument}"' for argument in ("script.py", *arguments))
    for name, text in (
        ("aml_config/local.compute", COMPUTE.format(python=python())),
        ("aml_config/local.runconfig", RUNCONFIG.format(vector=vector)),
        ("script.py", script),
    ):
        with open(os.path.join(root, name), "w", encoding="utf-8") as file:
            file.write(text)
    return Runs(Project.find(root))


def workbench(project: str) -> list[str]:
    """Return the command that opens the workbench."""
    return [python(), "-m", "tui_workbench", project]


def stock(log: str) -> list[str]:
    """Return the command that shows a log in Textual's `Log`."""
    return [sys.executable, "-c", f"from benchmarks import log_programs; log_programs.StockLog({log!r}).run()"]


class StockLog(App[None]):
    """Textual's `Log` with the fastest possible input: a thread adds all new lines with one call per frame.

    The key `x` shows `key N` in the last row when it is pressed for the Nth time.
    """

    CSS = """
    Log { border: round gray; }
    #row { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "count", "Count")]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.log_widget = Log(max_lines=10_000)
        self.row = Static("ready", id="row")
        self.keys = 0

    def compose(self) -> ComposeResult:
        yield self.log_widget
        yield self.row

    def on_mount(self) -> None:
        self.log_widget.focus()
        threading.Thread(target=self._follow, daemon=True).start()

    def action_count(self) -> None:
        self.keys += 1
        self.row.update(f"key {self.keys}", layout=False)

    def _follow(self) -> None:
        rest = b""
        waiting = threading.Event()
        with open(self.path, "rb") as file:
            while True:
                if data := file.read():
                    *lines, rest = (rest + data).split(b"\n")
                    text = [line.decode("utf-8", "replace") for line in lines]
                    self.call_from_thread(self.log_widget.write_lines, text)
                waiting.wait(1 / 60)
