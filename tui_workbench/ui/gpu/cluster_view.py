"""A view of clusters: the GPUs of each partition, and the user's jobs with their nodes.

It is shown below the GPUs of other machines. A cluster is queried when the monitor opens, and every 30 seconds while
the monitor is visible, if the user has contacted it before. Compute nodes are never contacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.timer import Timer

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.hosts.contacts import NOT_CONTACTED, NotContacted
from tui_workbench.targets.registry import target_to_look_at
from tui_workbench.targets.values import ClusterGpus, ClusterPartition
from tui_workbench.ui.blocking import OneAtATime, in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import LINES
from tui_workbench.ui.formatting import error_text, run_title
from tui_workbench.ui.gpu.gpu_lines import fitted
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.terminal.textual_internals import set_bindings
from tui_workbench.ui.widgets.pieces import Piece, hanging
from tui_workbench.ui.widgets.text_view import Line, TextView

ASK_SECONDS = 30.0
Answer = ClusterGpus | NotContacted | str  # the state of a cluster, or the text of an error


class ClusterView(Vertical):
    """A view of clusters, hidden if no target is on a cluster. The monitor's filter applies to partitions and jobs."""

    DEFAULT_CSS = """
    ClusterView { height: auto; max-height: 70%; display: none; }
    ClusterView > TextView { max-height: 100%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = TextView(make=self._lines)
        set_bindings(self.text, LINES.bindings)
        self._targets: tuple[ComputeTarget, ...] = ()
        self._runs: dict[str, Run] = {}
        self._answers: dict[str, Answer] = {}
        self._words: tuple[str, ...] = ()
        self._reader = OneAtATime(self, self._ask)
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.text

    def show_targets(self, targets: Sequence[ComputeTarget]) -> None:
        """Show the clusters of these targets; targets with the same login are one cluster."""
        clusters = tuple(target for target in targets if target.problem is None and target.kind.has_scheduler)
        if clusters != self._targets:
            self._targets = clusters
            self.display = bool(clusters)
            self.follow(is_visible=self._timer is not None)

    def show_runs(self, runs: Sequence[Run]) -> None:
        # The last answer may contain the job of a run that has ended since.
        self._runs |= {run.run_id: run for run in runs}
        self.text.rebuild()

    def filter(self, text: str) -> None:
        """Show only partitions and jobs that match every word of the text."""
        self._words = tuple(text.casefold().split())
        self.text.rebuild()

    def follow(self, *, is_visible: bool) -> None:
        """Query the clusters now and every 30 seconds if `is_visible`, else stop."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if is_visible:
            self._timer = self.set_interval(ASK_SECONDS, self._reader.start)
            if self._targets:
                self._reader.start()

    async def _ask(self) -> None:
        groups: dict[tuple[str, str], list[ComputeTarget]] = {}
        for target in self._targets:
            groups.setdefault((target.username, target.address), []).append(target)
        names = {", ".join(target.name for target in targets): targets[0] for targets in groups.values()}
        self._answers = {name: answer for name, answer in self._answers.items() if name in names}
        for name, target in names.items():
            self._answers[name] = await in_thread(partial(_gpus_of, target))
            self.text.rebuild()

    def _lines(self, width: int) -> list[Line]:
        if not self._answers:
            return [(Piece(" ◌ querying the GPUs of the cluster...", "muted"),)]
        return [
            line
            for name, answer in self._answers.items()
            for line in cluster_lines(name, answer, self._runs, width, self._words)
        ]


_NOT_CONTACTED = (
    f"{NOT_CONTACTED}: {shown_key('targets.check', 't')} in Compute targets ({shown_key('pane.targets', '2')}) "
    "connects to the cluster"
)


def _gpus_of(target: ComputeTarget) -> Answer:
    """Query a cluster that the user has contacted. Return its GPUs, or the error. Blocks."""
    try:
        implementation = target_to_look_at(target)
        try:
            return implementation.cluster_gpus()
        finally:
            implementation.close()
    except NotContacted as error:
        return error
    except WorkbenchError as error:
        return error_text(error)


def cluster_lines(name: str, answer: Answer, runs: dict[str, Run], width: int, words: Sequence[str] = ()) -> list[Line]:
    """Draw the partitions with GPUs and the user's jobs of a cluster, or the error of the query.

    Partitions and jobs that do not match all `words` of the filter are left out; return [] if all are left out.
    """
    head = (Piece(f" {truncate_middle(safe_text(name), max(12, width // 3))}", "accent", bold=True),)
    if isinstance(answer, NotContacted):
        return [head, *hanging((Piece(" · "),), _NOT_CONTACTED, width, "muted")]
    if isinstance(answer, str):
        return [head, (Piece(f" ✗ {truncate_middle(safe_text(answer), width - 4)}", "error"),)]
    cells = min(24, max([16, *(len(partition.name) for partition in answer.partitions)]))
    partitions = []
    for partition in answer.partitions:
        # The words by which the filter finds the partition; one that is used in part is both free and busy.
        state = " ".join(("free idle" if partition.free else "", "busy" if partition.used else ""))
        if _matches(words, name, partition.name, state):
            partitions.append(_partition_line(partition, cells))
    lines: list[Line] = [head]
    if not answer.partitions:
        lines.append((Piece(" · no partition with GPUs", "muted"),))
    if partitions:
        lines.append((Piece(f" {fitted('partition', cells)}   GPUs   used   free  yours", "muted"),))
    lines += partitions
    for job in answer.jobs:
        run = runs.get(job.run_id)
        title = run_title(run) if run is not None else f"job {job.job_id}"
        if _matches(words, name, title, job.run_id, job.nodes, job.partition, "busy"):
            text = f"  {job.nodes}  {counted(job.gpus, 'GPU')}  {job.left} left"
            name_piece = Piece(fitted(safe_text(title), cells))
            lines.append((Piece(" ○ ", "success"), name_piece, Piece(safe_text(text), "muted")))
    return lines if len(lines) > 1 or not words else []


def _matches(words: Sequence[str], *texts: str) -> bool:
    text = " ".join(texts).casefold()
    return all(word in text for word in words)


def _partition_line(partition: ClusterPartition, cells: int) -> Line:
    return (
        Piece(f" {fitted(safe_text(partition.name), cells)}"),
        Piece(f"{partition.total:>7}{partition.used:>7}"),
        Piece(f"{partition.free:>7}", "success" if partition.free else "muted"),
        Piece(f"{partition.yours:>7}", "running" if partition.yours else "muted"),
    )
