"""Everything about one run: what it logged and made and wrote, its plan, its files, what it was made with, its GPU.

The invariants: a tab is read when it is first shown and, while the run goes on, again once a second; nothing here ever
writes into the run but what a person says of it.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.containers import Vertical
from textual.widgets import Input

from tui_workbench.errors import WorkbenchError
from tui_workbench.runs.history import NO_FACTS
from tui_workbench.runs.table import RunRow
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY, ONE_RUN, RUN_DETAILS
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens import run_details_read as reading
from tui_workbench.ui.screens.run_actions import RunActions
from tui_workbench.ui.screens.run_details_gpu import GpuPanel
from tui_workbench.ui.screens.run_details_head import RunHead
from tui_workbench.ui.screens.run_details_metrics import MetricsPanel
from tui_workbench.ui.widgets.file_panel import FilePanel
from tui_workbench.ui.widgets.log_view import LogView
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.tab_row import TabRow
from tui_workbench.ui.widgets.text_field import SearchField
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.ui.widgets.text_view import Line

TABS = (
    ("metrics", "Metrics"),
    ("outputs", "Outputs"),
    ("log", "Log"),
    ("plan", "Plan"),
    ("snapshot", "Snapshot"),
    ("environment", "Environment"),
    ("gpu", "GPU"),
)
LOOK_SECONDS = 1.0
FETCH, PROMOTE = "fetch", "promote"

NO_OUTPUTS = ("The run has made nothing in outputs/.",)
NO_SNAPSHOT = ("There is no snapshot of this run.", "Runs with TrackedRun: true have one.")


class RunDetailsScreen(RunActions, inherit_bindings=False):
    """Shows a run."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(RUN_DETAILS, ONE_RUN, HISTORY)
    OFFERED = (*RUN_DETAILS, *ONE_RUN, *HISTORY)
    AUTO_FOCUS = "MetricsPanel RowList"
    heading = "Run"
    about = "One run as its directory tells it. The digits choose a tab."
    DEFAULT_CSS = """
    RunDetailsScreen > Vertical { height: 1fr; }
    RunDetailsScreen > Vertical > * { display: none; }
    RunDetailsScreen > Vertical > .-shown { display: block; }
    """

    def __init__(self, project: Project, run: Run) -> None:
        super().__init__(project)
        self._row = RunRow(run, NO_FACTS)
        self.head = RunHead()
        self.tabs = TabRow(TABS, id="tabs")
        self.metrics = MetricsPanel(id="metrics")
        self.outputs = FilePanel(id="outputs")
        self.log_view = LogView(id="log")
        self.plan = TextView(id="plan")
        self.snapshot = FilePanel(id="snapshot")
        self.environment = TextView(id="environment")
        self.gpu = GpuPanel(id="gpu")
        self.shown_tab = ""
        self._read: set[str] = set()

    def compose_content(self) -> ComposeResult:
        """The run, the tabs, and what is in them."""
        yield self.head
        yield self.tabs
        yield Vertical(*self._panels.values())
        yield self.edit_row

    @property
    def _panels(self) -> dict[str, Widget]:
        panels: tuple[Widget, ...] = (
            self.metrics, self.outputs, self.log_view, self.plan, self.snapshot, self.environment, self.gpu
        )  # fmt: skip
        return {str(panel.id): panel for panel in panels}

    def on_mount(self) -> None:
        """Show what a run is looked at for, and look for news while it goes on."""
        self.head.show(self._row)
        self.action_show_tab("metrics")
        self._look()
        self.set_interval(LOOK_SECONDS, self._tick)

    # --- The run

    @property
    def run_shown(self) -> Run:
        """The run as it was when it was last looked at."""
        return self._row.run

    def current_run(self) -> RunRow | None:
        """The run that is shown."""
        return self._row

    def annotated(self) -> None:
        """Something else is said of the run."""
        self._look()

    def _tick(self) -> None:
        if self.is_current and self.run_shown.is_active:
            self._look()

    def _look(self) -> None:
        self.ask("run", partial(_read_run, self.project, self._row.run), self._looked)

    def _looked(self, found: RunRow) -> None:
        before, self._row = self._row, found
        self.head.show(found)
        self.refresh_bindings()
        if before.run.is_active:
            self._read = {self.shown_tab} & {"log"}
            self._read_tab()
        self.log_view.set_active(found.run.is_active)

    # --- Tabs

    def action_calls(self) -> None:
        """Show what was called for the run."""
        from tui_workbench.ui.screens.trace import TraceScreen

        self.app.push_screen(TraceScreen(self.project, self._row.run, of_run=True))

    def action_show_tab(self, name: str) -> None:
        """Show a tab."""
        if name == self.shown_tab:
            return
        had_focus = bool(self.shown_tab)
        self.shown_tab = name
        self.tabs.show_active(name)
        for panel in self._panels.values():
            panel.set_class(panel.id == name, "-shown")
        self._read_tab()
        if had_focus:
            self.give_back_focus()

    def action_tab(self, by: int) -> None:
        """Show a neighbouring tab, around the end."""
        names = [name for name, _ in TABS]
        self.action_show_tab(names[(names.index(self.shown_tab) + by) % len(names)])

    @on(TabRow.Chosen)
    def _tab_chosen(self, event: TabRow.Chosen) -> None:
        event.stop()
        self.action_show_tab(event.name)

    def give_back_focus(self) -> None:
        """To what the tab is looked at for."""
        panel = self._panels[self.shown_tab]
        if isinstance(panel, FilePanel | MetricsPanel):
            self.set_focus(panel.query_one(RowList))
        else:
            self.set_focus(panel.text if isinstance(panel, GpuPanel) else panel)

    def _read_tab(self) -> None:
        name, run = self.shown_tab, self.run_shown
        if name in self._read:
            return
        self._read.add(name)
        if name == "metrics":
            self.metrics.show_run(run.directory)
        elif name == "outputs":
            self.ask(name, partial(reading.outputs_of, run), partial(self._show_files, self.outputs, NO_OUTPUTS))
        elif name == "log":
            self.log_view.set_placeholder(("Nothing written.",))
            self.log_view.set_log(run.log_path, run.is_active)
        elif name == "snapshot":
            call = partial(reading.snapshot_of, self.project.state_directory, run)
            self.ask(name, call, partial(self._show_files, self.snapshot, NO_SNAPSHOT))
        elif name == "plan":
            self.ask(name, partial(reading.plan_of, run, time.time()), partial(self.plan.show, keep_place=True))
        elif name == "environment":
            self.ask(name, partial(reading.environment_of, run), partial(self.environment.show, keep_place=True))
        else:
            self.gpu.show_run(run)

    def _show_files(self, panel: FilePanel, empty: tuple[str, ...], files: list[reading.FileEntry]) -> None:
        words = [(file.path, file.note or reading.size_words(file.size)) for file in files]
        panel.show_files(words, empty=empty)

    @on(FilePanel.FileWanted)
    def _file_wanted(self, event: FilePanel.FileWanted) -> None:
        event.stop()
        if event.panel is self.outputs:
            call = partial(reading.output_preview, self.run_shown, event.path)
        else:
            call = partial(reading.snapshot_preview, self.project.state_directory, self.run_shown, event.path)
        self.ask("file", partial(_or_complaint, call), partial(event.panel.show_content, event.path))

    # --- Outputs

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action in ("fetch", "promote"):
            if self.shown_tab != "outputs":
                return "It is about outputs: 2 shows them."
            if not self.outputs.current:
                return "Nothing is under the cursor."
        return super().why_not(action)

    def action_fetch(self) -> None:
        """Ask for the folder to copy the file into."""
        if not self.why_not("fetch"):
            label = f"Copy {safe_text(self.outputs.current[:40])} into"
            self.edit_row.open(os.path.join(self.project.root, ""), label=label, about=FETCH)

    def action_promote(self) -> None:
        """Ask for the name of the asset."""
        if not self.why_not("promote"):
            name = self.outputs.current.rstrip("/")
            label = f"Promote {safe_text(name[:40])} as asset"
            self.edit_row.open(name.rpartition("/")[2], label=label, about=PROMOTE)

    def edited(self, text: str) -> None:
        """What was typed into the row."""
        what = self.edit_row.about_what
        if what not in (FETCH, PROMOTE):
            super().edited(text)
            return
        self.end_edit()
        name = self.outputs.current.rstrip("/")
        if what == PROMOTE:
            self.ask("promote", partial(_promote, self.project, self.run_shown, name, text.strip()), self.say)
            return
        folder = os.path.join(self.project.root, os.path.expanduser(text.strip()))
        call = partial(_fetch, self.run_shown.directory, folder, name)
        self.ask("fetch", call, lambda paths: self.say(f"Copied to {', '.join(paths[:3])}{'…' if paths[3:] else ''}"))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.edited(event.value)

    @on(SearchField.Left)
    def _field_left(self, event: SearchField.Left) -> None:
        event.stop()
        self.end_edit()


def _read_run(project: Project, run: Run) -> RunRow:
    """The run as it is now; as it was when its directory has gone or holds none any more."""
    from tui_workbench.runs import Runs

    runs = Runs(project)
    try:
        return RunRow(runs.get(run.run_id), runs.facts(run.run_id))
    except WorkbenchError as error:
        return RunRow(run._replace(reason=error.message), NO_FACTS)


def _or_complaint(call: partial[list[Line]]) -> list[Line]:
    try:
        return call()
    except WorkbenchError as error:
        return reading.complaint(error)


def _promote(project: Project, run: Run, artifact: str, name: str) -> str:
    """Make the artifact a version of an asset, and say so."""
    from tui_workbench.runs.promotion import promote

    asset = promote(project, run.directory, artifact, name)
    return (
        f"{artifact} is version {asset.version} of the asset {asset.name}: {os.path.relpath(asset.link, project.root)}"
    )


def _fetch(directory: str, destination: str, name: str) -> list[str]:
    from tui_workbench.runs.downloads import download

    return download(directory, destination, [name])
