"""The details of a run in tabs: metrics, outputs, log, plan, snapshot, environment, GPU and Spark.

The content of a tab is read when the tab is first shown. While the run is active, the content of the shown tab is read
again once a second.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial

from rich.cells import cell_len
from textual import on
from textual.containers import Vertical
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.gpu.verdict import STALLED
from tui_workbench.runs.index.history_record import NO_FACTS
from tui_workbench.runs.index.table import RunRow
from tui_workbench.runs.store.cluster_job import job_words
from tui_workbench.runs.transfer.assets import promote
from tui_workbench.runs.transfer.downloads import download
from tui_workbench.runs.transfer.into_project import copy_artifacts
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.screen_commands import RUN_DETAILS
from tui_workbench.ui.details import run_details_read as reading
from tui_workbench.ui.details.run_details_panels import GpuPanel, MetricsPanel
from tui_workbench.ui.details.spark_panel import SparkPanel
from tui_workbench.ui.formatting import elapsed, moment, run_state, run_title, verdict_look
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.logs.reason_lines import reason_lines
from tui_workbench.ui.messages import StatusPosted
from tui_workbench.ui.runs.run_commands import RunCommands, RunContainer
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.trace.trace import TraceScreen
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.file_panel import FilePanel
from tui_workbench.ui.widgets.line import TabRow
from tui_workbench.ui.widgets.pieces import Piece, draw_line, width_of
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

TABS = [(title.lower(), title) for title in ("Metrics", "Outputs", "Log", "Plan", "Snapshot", "Environment", "GPU")]
POLL_SECONDS = 1.0

NO_OUTPUTS = ("This run has no output files.",)
NO_SNAPSHOT = (
    "This run has no snapshot.",
    "Only tracked runs that were submitted from a machine with git have a snapshot.",
)


class RunView(RunContainer, inherit_bindings=False):
    """The details of a run in tabs."""

    BINDINGS = RUN_DETAILS.bindings
    DECLARED_COMMANDS = RUN_DETAILS
    DEFAULT_CSS = """
    RunView { height: 1fr; }
    RunView > Vertical { height: 1fr; }
    RunView > Vertical > * { display: none; }
    RunView > Vertical > .-shown { display: block; }
    RunView LogView { margin: 0 0 0 1; }
    """
    heading = "Run details"
    about = "Metrics, files and other details of a run."

    def __init__(self, project: Project, run: Run) -> None:
        self._row = RunRow(run, NO_FACTS)
        self.head = RunHead()
        self.tabs = TabRow(tuple(TABS), id="tabs")
        self.metrics = MetricsPanel(id="metrics")
        self.outputs = FilePanel(id="outputs")
        self.log_view = LogView(id="log")
        self.plan = TextView(id="plan", wraps=True)
        self.snapshot = FilePanel(id="snapshot")
        self.environment = TextView(id="environment", wraps=True)
        self.gpu = GpuPanel(id="gpu")
        self.spark = SparkPanel(id="spark")
        panels = (self.metrics, self.outputs, self.log_view, self.plan, self.snapshot, self.environment, self.gpu)
        self._panels: dict[str, Widget] = {str(panel.id): panel for panel in panels}
        self.edit_row = PromptRow()
        super().__init__(project, self.head, self.tabs, Vertical(*panels, self.spark), self.edit_row)
        self.shown_tab = ""
        self._read: set[str] = set()

    def on_mount(self) -> None:
        self.head.show(self._row)
        self.action_show_tab("metrics")
        self.reload()
        ask(self, "spark", partial(reading.uses_spark, self.run_shown), self._add_spark)
        self.set_interval(POLL_SECONDS, self._tick)

    def _add_spark(self, uses_spark: bool) -> None:
        if uses_spark:
            self._panels["spark"] = self.spark
            self.tabs.add("9", "spark", "Spark")

    @property
    def run_shown(self) -> Run:
        return self._row.run

    def current_run(self) -> RunRow:
        return self._row

    def runs_deleted(self, run_ids: Sequence[str]) -> None:
        if self.run_shown.run_id in run_ids:
            self.screen.dismiss()

    def _tick(self) -> None:
        if self.screen.is_current and self.run_shown.is_active:
            self.reload()

    def reload(self) -> None:
        ask(self, "run", partial(_read_run, self.project, self.run_shown), self._show_row)

    def _show_row(self, row: RunRow) -> None:
        before, self._row = self._row, row
        self.head.show(row)
        self.refresh_bindings()
        if before.run.is_active:
            self._read = {self.shown_tab} & {"log"}
            self._read_tab()
        self.log_view.set_active(row.run.is_active)

    def action_calls(self) -> None:
        self.app.push_screen(TraceScreen(self.project, self.run_shown, of_run=True))

    # --- Tabs

    def action_show_tab(self, name: str) -> None:
        if name == self.shown_tab or name not in self._panels:
            return
        had_focus = bool(self.shown_tab)
        self.shown_tab = name
        self.tabs.active = name
        for panel in self._panels.values():
            panel.set_class(panel.id == name, "-shown")
        self._read_tab()
        if had_focus:
            panel = self._panels[name]
            if isinstance(panel, FilePanel | MetricsPanel):
                self.screen.set_focus(panel.query_one(RowList))
            else:
                self.screen.set_focus(panel.text if isinstance(panel, GpuPanel) else panel)

    def action_tab(self, by: int) -> None:
        names = list(self._panels)
        self.action_show_tab(names[(names.index(self.shown_tab) + by) % len(names)])

    @on(TabRow.Chosen)
    def _tab_chosen(self, event: TabRow.Chosen) -> None:
        self.action_show_tab(event.name)

    def _read_tab(self) -> None:
        name, run = self.shown_tab, self.run_shown
        if name in self._read:
            return
        self._read.add(name)
        if name == "metrics":
            self.metrics.show_run(run.directory)
        elif name == "outputs":
            ask(self, name, partial(reading.outputs_of, run), partial(self.outputs.show_files, empty=NO_OUTPUTS))
        elif name == "log":
            self.log_view.set_placeholder(("No output.",))
            self.log_view.set_log(run.log_path, run.is_active)
        elif name == "snapshot":
            call = partial(reading.snapshot_of, self.project.state_directory, run)
            ask(self, name, call, partial(self.snapshot.show_files, empty=NO_SNAPSHOT))
        elif name == "gpu":
            self.gpu.show_run(run)
        elif name == "spark":
            self.spark.show_run(run)
        elif name == "plan":
            ask(self, name, partial(reading.plan_of, run, time.time()), partial(self.plan.show, keep_place=True))
        else:
            ask(self, name, partial(reading.environment_of, run), partial(self.environment.show, keep_place=True))

    @on(FilePanel.FileWanted)
    def _file_wanted(self, event: FilePanel.FileWanted) -> None:
        width = event.cells_width
        preview = partial(reading.output_preview, self.run_shown, event.path, width)
        if event.panel is self.snapshot:
            preview = partial(reading.snapshot_preview, self.project.state_directory, self.run_shown, event.path, width)
        ask(self, "file", partial(reading.lines_or_error, preview), partial(event.panel.show_content, event.path))

    # --- Outputs

    def why_not(self, action: str) -> str:
        if action in ("fetch", "promote", "bring"):
            if self.shown_tab != "outputs":
                return "Only available in the Outputs tab."
            if not self.outputs.current:
                return "No file selected."
        return ""

    @property
    def _output(self) -> str:
        return self.outputs.current.rstrip("/")

    def action_fetch(self) -> None:
        if not self.why_not("fetch"):
            label = f"Copy {safe_text(self.outputs.current[:40])} into"
            fetch = partial(self._fetch, self._output)
            self.edit_row.ask(label, os.path.join(self.project.root, ""), fetch, is_suggestion=True)

    def _fetch(self, name: str, text: str) -> None:
        folder = os.path.join(self.project.root, os.path.expanduser(text.strip()))

        def fetch() -> str:
            paths = download(self.run_shown.directory, folder, [name])
            return f"Copied to {', '.join(paths[:3])}{'…' if paths[3:] else ''}"

        self._run_and_report("fetch", fetch)

    def action_bring(self) -> None:
        if self.why_not("bring"):
            return
        project, run, name = self.project, self.run_shown, self._output

        def bring() -> str:
            text = copy_artifacts(run.directory, project.root, project.state_directory, [name], overwrite=True).text
            return f"{text[:1].upper()}{text[1:]}."

        self._run_and_report("bring", bring)

    def action_promote(self) -> None:
        if not self.why_not("promote"):
            name = self._output
            label = f"Save {safe_text(name[:40])} as asset"
            self.edit_row.ask(label, name.rpartition("/")[2], partial(self._promote, name), is_suggestion=True)

    def _promote(self, name: str, text: str) -> None:
        def save() -> str:
            asset = promote(self.project, self.run_shown.directory, name, text.strip())
            link = os.path.relpath(asset.link, self.project.root)
            return f"Saved {name} as version {asset.version} of the asset {asset.name}: {link}"

        self._run_and_report("promote", save)

    def _run_and_report(self, subject: str, call: Callable[[], str]) -> None:
        """Run a call in a thread and show the sentence that it returns."""
        ask(self, subject, call, lambda text: self.post_message(StatusPosted(text)))


class RunDetailsScreen(HistoryScreen):
    """The full screen with the details of a run."""

    AUTO_FOCUS = "MetricsPanel RowList"

    def __init__(self, project: Project, run: Run) -> None:
        super().__init__(project)
        self.view = RunView(project, run)
        self.content = (RunCommands(self, self.view),)


def _read_run(project: Project, run: Run) -> RunRow:
    """Read a run again. On an error, return the old run with the error as its reason."""
    runs = Runs(project)
    try:
        return RunRow(runs.get(run.run_id), runs.facts(run.run_id))
    except WorkbenchError as error:
        return RunRow(run._replace(reason=error.message), NO_FACTS)


LONGEST = 1_000
_FIGURES = ": GPU"  # separates the conclusion from the figures in the text of a verdict


class RunHead(Widget, inherit_bindings=False):
    """The summary of a run above the tabs."""

    DEFAULT_CSS = "RunHead { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._row: RunRow | None = None

    def show(self, row: RunRow) -> None:
        self._row = row
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(len(head_lines(self._row, width)), 2)

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.size.width
        lines = head_lines(self._row, width)
        return draw_line(lines[y] if y < len(lines) else (), width, palette, palette.raised)


def head_lines(row: RunRow | None, width: int) -> list[list[Piece]]:
    """Summarize a run in lines of this width."""
    if row is None:
        return []
    role = run_state(row.run).role
    reason = reason_lines(safe_text(row.run.reason[:LONGEST]), max(width - 2, 20))
    second = [[Piece(f" {line}", role)] for line in reason] or [_arguments(row, width)]
    job = job_words(row.run, time.time())
    second += [[Piece(f" {truncate_middle(safe_text(job), width - 2)}", "muted")]] if job else []
    return [_first(row, width), *second, *(_verdict(row, width) if row.facts.gpu else [])]


def _first(row: RunRow, width: int) -> list[Piece]:
    run, annotations, now = row.run, row.facts.annotations, time.time()
    look = run_state(run)
    # The pieces are in order of importance, because those that do not fit are dropped from the end.
    rest = [Piece(f"  {look.glyph} {look.word}", look.role)]
    for text in (elapsed(run, now), moment(run.start or run.created, now), f"on {safe_text(run.target[:60])}"):
        rest.append(Piece(f"  {text}" if text else "", "muted"))
    rest.append(Piece(f"  commit {run.commit_id[:8]}" if run.commit_id else "  no snapshot", "muted"))
    rest += [Piece("  ★ pinned", "warning")] if annotations.pinned else []
    rest += [Piece("  archived", "warning")] if annotations.archived else []
    rest += [Piece(f"  {safe_text(annotations.tags_text[:200])}", "string")] if annotations.tags else []
    name = truncate_middle(run_title(run) if run.script_name else run.run_id, max(16, width // 3))
    pieces = [Piece(f" {name}", bold=True)]
    for piece in rest:
        if width_of(pieces) + width_of((piece,)) > width:
            break
        pieces.append(piece)
    return pieces


def _arguments(row: RunRow, width: int) -> list[Piece]:
    note = row.facts.annotations.note
    arguments = safe_text(shlex.join(row.run.arguments)[:LONGEST]) or "no arguments"
    pieces = [Piece(f" {truncate_middle(arguments, width - 2)}", "muted")]
    if note and width_of(pieces) + 12 < width:
        room = width - width_of(pieces) - 4
        pieces.append(Piece(f"   {truncate_middle(note.replace(chr(10), ' ')[:LONGEST], room)}", "text"))
    return pieces


def _verdict(row: RunRow, width: int) -> list[list[Piece]]:
    word = str(row.facts.gpu.get("verdict", ""))
    look = verdict_look(word)
    pieces = [Piece(f" {look.glyph} GPU {safe_text(word)}", look.role)]
    room = width - width_of(pieces) - 3
    text = safe_text(str(row.facts.gpu.get("text", ""))[:LONGEST])
    if word == STALLED:
        sentence = text.partition(_FIGURES)[0]
        text = sentence if cell_len(sentence) <= room else sentence.partition(";")[0]
    elif _FIGURES in text and (word == "proven" or cell_len(text) > room):
        # Only the figures are shown, because the GPU tab shows the whole text.
        text = text[text.rfind(_FIGURES) + 2 :]
    first, *rest = reason_lines(text, max(room, 20)) or [""]
    indent = " " * width_of(pieces)
    return [[*pieces, Piece(f"  {first}", "text")], *([Piece(f"{indent}  {line}", "text")] for line in rest)]
