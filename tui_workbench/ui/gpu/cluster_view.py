"""The GPUs of clusters by partition and the nodes of the user's jobs, below the GPUs of other machines.

A cluster is asked when the monitor opens, and then every 30 seconds while it is visible. Compute nodes are never
contacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.geometry import Size
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.base.values import ClusterGpus
from tui_workbench.ui.blocking import OneAtATime, in_thread
from tui_workbench.ui.formatting import error_text, run_title
from tui_workbench.ui.gpu.gpu_lines import fitted
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import Piece, draw_line
from tui_workbench.ui.widgets.text_view import Line

ASK_SECONDS = 30.0
MOST_JOBS = 8  # jobs shown per cluster

Answer = ClusterGpus | str  # or the text of an error


class ClusterView(Widget, inherit_bindings=False):
    """Hidden without a target on a cluster."""

    DEFAULT_CSS = "ClusterView { height: auto; max-height: 70%; display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self._targets: tuple[ComputeTarget, ...] = ()
        self._runs: dict[str, Run] = {}
        self._answers: dict[str, Answer] = {}
        self._reader = OneAtATime(self, self._ask)
        self._timer: Timer | None = None

    def show_targets(self, targets: Sequence[ComputeTarget]) -> None:
        """Show the clusters of these targets; targets with the same login are one cluster."""
        found = tuple(one for one in targets if one.problem is None and one.kind.has_scheduler)
        if found != self._targets:
            self._targets = found
            self.display = bool(found)
            self.follow(is_visible=self._timer is not None)

    def show_runs(self, runs: Sequence[Run]) -> None:
        self._runs = {run.run_id: run for run in runs}
        self.refresh()

    def follow(self, *, is_visible: bool) -> None:
        """Ask the clusters now and every 30 seconds, or stop."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if is_visible:
            self._timer = self.set_interval(ASK_SECONDS, self._reader.start)
            if self._targets:
                self._reader.start()

    async def _ask(self) -> None:
        groups: dict[tuple[str, str], ComputeTarget] = {}
        for target in self._targets:
            groups.setdefault((target.username, target.address), target)
        for target in groups.values():
            self._answers[target.name] = await in_thread(partial(_gpus_of, target))
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[Line]:
        return [line for name, found in self._answers.items() for line in cluster_lines(name, found, self._runs, width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, len(self._lines(width)))

    def render_line(self, y: int) -> Strip:
        width, palette = self.size.width, palette_of(self)
        lines = self._lines(width) or [(Piece(" ◌ asking the cluster for its GPUs...", "muted"),)]
        return draw_line(lines[y] if y < len(lines) else (), width, palette, palette.background)


def _gpus_of(target: ComputeTarget) -> Answer:
    """Ask a cluster. Blocks."""
    try:
        implementation = target_for(target)
        try:
            return implementation.cluster_gpus()
        finally:
            implementation.close()
    except WorkbenchError as error:
        return error_text(error)


def cluster_lines(name: str, found: Answer, runs: dict[str, Run], width: int) -> list[Line]:
    """Draw a cluster: its partitions with GPUs, and the jobs of this user."""
    head = (Piece(f" {truncate_middle(safe_text(name), max(12, width // 3))}", "accent", bold=True),)
    if isinstance(found, str):
        return [head, (Piece(f" ✗ {truncate_middle(safe_text(found), width - 4)}", "error"),)]
    if not found.partitions:
        return [head, (Piece(" · no partition with GPUs", "muted"),)]
    cells = min(24, max(16, *(len(each.name) for each in found.partitions)))
    lines: list[Line] = [head, (Piece(f" {fitted('partition', cells)}   GPUs   used   free  yours", "muted"),)]
    for each in found.partitions:
        counts = (
            Piece(f" {fitted(safe_text(each.name), cells)}"),
            Piece(f"{each.total:>7}{each.used:>7}"),
            Piece(f"{each.free:>7}", "success" if each.free else "muted"),
            Piece(f"{each.yours:>7}", "running" if each.yours else "muted"),
        )
        lines.append(counts)
    for job in found.jobs[:MOST_JOBS]:
        run = runs.get(job.run_id)
        title = run_title(run) if run is not None else f"job {job.job_id}"
        text = f"  {job.nodes}  {job.gpus} GPU{'' if job.gpus == 1 else 's'}  {job.left} left"
        lines.append((Piece(" ○ ", "success"), Piece(fitted(safe_text(title), cells)), Piece(safe_text(text), "muted")))
    if len(found.jobs) > MOST_JOBS:
        lines.append((Piece(f"   and {len(found.jobs) - MOST_JOBS} more jobs", "muted"),))
    return lines
